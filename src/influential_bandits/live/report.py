"""The report of an experiment: decisions by arm and over time, and what the A/B test says.

The database sums events up by arm and by instance, and a report adds what is new to what it knows:
so one costs the same after a million events as after ten. After an erasure, and where spans have
become too many, it begins anew with wider ones.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import (
    CANCELLED,
    CORRECTED,
    DECIDED,
    ERASED,
    EXPIRED,
    EXPOSED,
    OBSERVED,
    SHOWN,
)
from influential_bandits.live.evidence import Evidence, GroupTotals, Stratum, judge
from influential_bandits.live.reading import describe_experiment
from influential_bandits.live.store.sql import Connection, ExperimentRow
from influential_bandits.live.words import describe_evidence, tell_rewards
from influential_bandits.numerics.arrays import Floats

GROUPS = ("policy", "control")
HOUR = 3600.0
LATELY = 300.0  # seconds, at least, for which the present rate of decisions is told
SHORTEST_SPAN = 15.0  # seconds; longer ones are twice as long, and so on
FEWEST_SPANS, MOST_SPANS = 12, 60
EVENTS_OF_A_SPAN = 250  # on average, so that noise does not hide how means move
EVENTS_AT_A_TIME = 50_000

PLACE = "CAST(ROUND(e.at / ? - 0.4999999) AS BIGINT)"  # rounded down, in every database
NEW = "e.experiment = ? AND e.number > ? AND e.number <= ?"
JOINED = (
    "FROM events AS e JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance"
)
BY_ARM = (
    f"SELECT {PLACE}, e.arm, i.served, e.kind, COUNT(*), "
    "SUM(CASE WHEN e.ticket IS NULL THEN 1 ELSE 0 END), COUNT(e.loss), COALESCE(SUM(e.loss), 0), "
    "COUNT(e.proposed), SUM(CASE WHEN e.proposed = e.arm THEN 1 ELSE 0 END), MIN(e.at), MAX(e.at) "
    # What was erased in a fleet stays without the names of its decisions, and does not count.
    f"{JOINED} WHERE {NEW} AND (e.decision IS NOT NULL OR e.kind = 'exposed') GROUP BY 1, 2, 3, 4"
)
BY_INSTANCE = (
    f"SELECT {PLACE}, i.share, i.served, e.instance, "
    "SUM(CASE WHEN e.ticket IS NOT NULL AND e.kind IN ('decided', 'shown') THEN 1 ELSE 0 END), "
    "COUNT(CASE WHEN e.kind <> 'corrected' THEN e.loss END), COALESCE(SUM(e.loss), 0) "
    f"{JOINED} WHERE {NEW} AND e.decision IS NOT NULL "
    # What callers chose in shadow mode says nothing of the two groups.
    "AND e.kind <> 'exposed' AND e.proposed IS NULL GROUP BY 1, 2, 3, 4 ORDER BY 1"
)


class Sums(NamedTuple):
    """What became of the decisions for an arm or several, in a group or both, in a span or all."""

    decisions: int = 0
    feedback: int = 0  # losses told
    losses: int = 0  # that count: those told, and missing ones with a stated loss
    loss: float = 0.0  # their sum
    waiting: int = 0  # shown, and no loss yet
    unshown: int = 0  # to be activated later
    cancelled: int = 0
    expired: int = 0
    exposures: int = 0
    shadowed: int = 0  # served in shadow mode to instances of the policy
    agreed: int = 0  # of these, the policy would have chosen the same arm

    @property
    def mean_loss(self) -> float | None:
        """Mean loss, if any counts."""
        return self.loss / self.losses if self.losses else None


def add_up(parts: Iterable[Sums]) -> Sums:
    """Return several sums together."""
    return Sums(*map(sum, zip(*parts, strict=True)))


def sum_events(
    kind: str, group: str, many: int, later: int, losses: int, loss: float, proposed: int, same: int
) -> Sums:
    """Return what events of a kind add to the sums.

    ``later`` of them were to be activated later, and ``proposed`` were made in shadow mode, of
    which ``same`` are what the policy proposed.
    """
    counted = Sums(losses=0 if kind == CORRECTED else losses, loss=loss)
    if kind == DECIDED:
        in_shadow = {"shadowed": proposed, "agreed": same} if group == "policy" else {}
        return counted._replace(decisions=many, waiting=many - later, unshown=later, **in_shadow)
    changes: dict[str, dict[str, int]] = {
        SHOWN: {"waiting": many, "unshown": -many},
        CANCELLED: {"cancelled": many, "unshown": -many},
        OBSERVED: {"waiting": -many, "feedback": many},
        EXPIRED: {"waiting": -many, "expired": many},
        EXPOSED: {"exposures": many},
        CORRECTED: {},
    }
    return counted._replace(**changes[kind])


class Report:
    """The report of an experiment, over all its time or the last hour.

    Sums and the A/B test are of all events; the span says what is told over time.

    Parameters
    ----------
    experiment : int
    span : {"all", "hour"}
    """

    def __init__(self, experiment: int, span: str = "all") -> None:
        if span not in {"all", "hour"}:
            raise InvalidInput(f"span must be all or hour, got {span!r:.40}")
        self._experiment, self._is_of_hour = experiment, span == "hour"
        self._lock = threading.Lock()  # several may ask for it at once
        self._begin_anew(SHORTEST_SPAN)

    def _begin_anew(self, seconds: float) -> None:
        self._seconds = seconds
        self._applied = 0  # number of the latest event
        self._sums: dict[tuple[int, int, str], Sums] = {}  # by span, arm and group
        self._first = self._latest = self._heard = 0.0  # decision, decision and feedback
        self._test = GroupTest()
        self._looks: dict[int, Evidence] = {}  # what the A/B test said at the end of each span

    def make(self, store: Connection, now: float) -> dict[str, Any]:
        """Return it as JSON data."""
        with self._lock:
            row = store.experiment(self._experiment)
            begin = self._find_beginning(store, now)
            seconds = _choose_seconds(now - begin, row.events)
            if seconds != self._seconds or self._has_erased(store, row):
                self._begin_anew(seconds)
            while self._applied < row.events:
                self._read(store, min(self._applied + EVENTS_AT_A_TIME, row.events))
            self._forget(int(begin // seconds))
            described = describe_experiment(store, self._experiment)  # last: it has all arms
            report = self._describe(described["arms"], begin, now)
        settings = described["settings"]
        report["outcome"] = settings["outcome"]
        if settings["outcome"] == "reward":
            report = tell_rewards(report)
        return report | {"verdict": describe_evidence(report, settings)}

    def _find_beginning(self, store: Connection, now: float) -> float:
        sql = "SELECT at FROM events WHERE experiment = ? AND number = 1"
        first = store.run(sql, (self._experiment,))
        begin = min(first[0][0], now) if first else now
        return max(begin, now - HOUR) if self._is_of_hour else begin

    def _has_erased(self, store: Connection, row: ExperimentRow) -> bool:
        """Tell whether somebody was erased since, who may have been counted."""
        sql = (
            "SELECT COUNT(*) FROM events WHERE experiment = ? AND instance = 0 AND number > ? "
            "AND number <= ? AND kind = ?"
        )
        where = self._experiment, self._applied, row.events, ERASED
        return self._applied > 0 and store.run(sql, where)[0][0] > 0

    def _read(self, store: Connection, until: int) -> None:
        """Add the events up to one of them."""
        where = self._seconds, self._experiment, self._applied, until
        for place, arm, group, kind, *counts, first, latest in store.run(BY_ARM, where):
            sums = sum_events(kind, group, *counts)
            # A corrected loss is one of an earlier span: only sums are told of it.
            key = -1 if kind == CORRECTED else place, arm, group
            self._sums[key] = add_up((self._sums.get(key, Sums()), sums))
            if kind == DECIDED:
                self._first = min(self._first or first, first)
                self._latest = max(self._latest, latest)
            elif kind == OBSERVED:
                self._heard = max(self._heard, latest)
        by_place = defaultdict(list)
        for place, *rest in store.run(BY_INSTANCE, where):
            by_place[place].append(rest)
        for place, rows in by_place.items():
            self._test.add(rows)
            self._looks[place] = self._test.judge()
        self._applied = until

    def _forget(self, first: int) -> None:
        """Put what was before the first span together: only sums are told of it."""
        for place, arm, group in [key for key in self._sums if -1 < key[0] < first]:
            key = -1, arm, group
            earlier = self._sums.get(key, Sums())
            self._sums[key] = add_up((earlier, self._sums.pop((place, arm, group))))
        for place in sorted(place for place in self._looks if -1 < place < first):
            self._looks[-1] = self._looks.pop(place)

    def _describe(self, names: Sequence[str], begin: float, now: float) -> dict[str, Any]:
        evidence = self._test.judge()
        totals = add_up([Sums(), *self._sums.values()])
        over_time = list(self._follow(names, begin, now))
        lately = [span for span in over_time if span["from"] > now - LATELY - self._seconds]
        lasted = max(now - lately[0]["from"], SHORTEST_SPAN)
        return {
            "at": now,
            **asdict(evidence),
            "decisions_a_minute": 60.0 * sum(span["decisions"] for span in lately) / lasted,
            "silent_since": self._find_silence(now),
            "shadow": {"decisions": totals.shadowed, "agreed": totals.agreed},
            "totals": totals._asdict(),
            "arms": list(self._list_arms(names)),
            "over_time": over_time,
        }

    def _list_arms(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what became of the decisions for each arm in each group."""
        gathered = defaultdict(list)
        for (_, arm, group), sums in self._sums.items():
            gathered[arm, group].append(sums)
        for arm, group in sorted(gathered, key=lambda key: (key[0], GROUPS.index(key[1]))):
            sums = add_up(gathered[arm, group])
            row = sums._asdict() | {"mean_loss": sums.mean_loss}
            yield {"arm": names[arm], "group": group, **row}

    def _follow(self, names: Sequence[str], begin: float, now: float) -> Iterator[dict[str, Any]]:
        """Yield what happened in each span of time, and what the A/B test said at its end."""
        first, last = int(begin // self._seconds), int(now // self._seconds)
        gathered: dict[int, dict[Any, list[Sums]]] = defaultdict(lambda: defaultdict(list))
        for (place, arm, group), sums in self._sums.items():
            for line in ("all", group, arm):  # a clock that was ahead left spans still to come
                gathered[min(place, last)][line].append(sums)
        looks = sorted(self._looks)
        for place in range(first, last + 1):
            lines = {line: add_up(parts) for line, parts in gathered[place].items()}
            total = lines.get("all", Sums())
            means = {line: sums.mean_loss for line, sums in lines.items()}
            before = bisect_right(looks, place)
            evidence = self._looks[looks[before - 1]] if before else None
            yield {
                "from": place * self._seconds,
                "seconds": self._seconds,
                "decisions": total.decisions,
                "feedback": total.feedback,
                "mean_loss": {group: means.get(group) for group in GROUPS},
                "by_arm": {
                    name: means[arm] for arm, name in enumerate(names) if means.get(arm) is not None
                },
                **{name: getattr(evidence, name, None) for name in ("difference", "low", "high")},
            }

    def _find_silence(self, now: float) -> float | None:
        """Return since when no feedback has come, if none came for an hour of decisions."""
        since = self._heard or self._first
        is_silent = self._latest > now - HOUR and self._latest - since >= HOUR
        return since if is_silent else None


def _choose_seconds(lasted: float, events: int) -> float:
    """Return how long spans are, so that there are not too many."""
    most = min(max(events // EVENTS_OF_A_SPAN, FEWEST_SPANS), MOST_SPANS)
    seconds = SHORTEST_SPAN
    while lasted / seconds >= most:
        seconds *= 2.0
    return seconds


class GroupTest:
    """The sums of the A/B test: of each instance, and from them of each stratum and group."""

    def __init__(self) -> None:
        self._sums = np.zeros((3, 1024))  # by instance: decisions shown, with a loss, their losses
        self._columns: dict[tuple[float, str], int] = {}  # by share of the control, and group
        self._totals = np.zeros((12, 0))

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add (share, group, instance, shown, heard, lost), one row an instance."""
        for share, group, *_ in rows:
            self._columns.setdefault((share, group), len(self._columns))
        more = len(self._columns) - self._totals.shape[1]
        self._totals = np.pad(self._totals, ((0, 0), (0, more)))
        columns = np.array([self._columns[share, group] for share, group, *_ in rows])
        numbers = np.array([row[2] for row in rows])
        room = int(numbers.max()) + 1 - self._sums.shape[1]
        if room > 0:
            self._sums = np.pad(self._sums, ((0, 0), (0, max(room, self._sums.shape[1]))))
        before = self._sums[:, numbers]
        after = before + np.array([row[3:] for row in rows], float).T
        self._sums[:, numbers] = after
        change = _total_up(after) - _total_up(before)
        for column in set(columns.tolist()):
            self._totals[:, column] += change[:, columns == column].sum(axis=1)

    def judge(self) -> Evidence:
        """Return what the test says now."""
        strata = []
        for share in sorted({share for share, _ in self._columns}):
            columns = [self._columns.get((share, group)) for group in GROUPS]
            totals = [np.zeros(12) if c is None else self._totals[:, c] for c in columns]
            losses, feedback = ([_read_totals(t[half]) for t in totals] for half in HALVES)
            strata.append(Stratum(share, *losses, *feedback))
        return judge(strata)


HALVES = slice(0, 6), slice(6, 12)  # of totals: of losses, and of how many decisions have one


def _total_up(sums: Floats) -> Floats:
    """Return what instances add to the totals of their group, (12, instances)."""
    shown, heard, lost = sums
    pairs = (heard, lost), (shown, heard)
    return np.stack([row for n, x in pairs for row in (n > 0, n, x, x * x, x * n, n * n)])


def _read_totals(sums: Floats) -> GroupTotals:
    instances, decisions, *rest = sums.tolist()
    return GroupTotals(int(instances), int(decisions), *rest)
