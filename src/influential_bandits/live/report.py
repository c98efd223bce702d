"""The report of an experiment: decisions by arm and over time, and what the A/B test says.

All of it is summed up from the events by the database, anew for each report. So it is the same
after an erasure, after a start, and in whichever service it is asked for; and Python, which has
decisions to make, sees a few rows for each arm and span of time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import (
    CANCELLED,
    DECIDED,
    EXPIRED,
    EXPOSED,
    OBSERVED,
    SHOWN,
)
from influential_bandits.live.evidence import Evidence, GroupTotals, Stratum, judge
from influential_bandits.live.reading import describe_experiment
from influential_bandits.live.store.sql import Connection

GROUPS = ("policy", "control")
HOUR = 3600.0
LATELY = 300.0  # seconds for which the present rate of decisions is told
SHORTEST_SPAN = 15.0  # seconds; longer ones are twice as long, and so on
FEWEST_SPANS, MOST_SPANS = 12, 60
EVENTS_OF_A_SPAN = 250  # on average, so that noise does not hide how means move

PLACE = (  # of a span; to round down is another function in SQLite and in PostgreSQL
    "CASE WHEN e.at < ? THEN -1 ELSE CAST(ROUND((e.at - ?) / ? - 0.4999999) AS BIGINT) END"
)
BY_ARM = (
    f"SELECT {PLACE}, e.arm, i.served, e.kind, COUNT(*), "
    "SUM(CASE WHEN e.ticket IS NULL THEN 1 ELSE 0 END), COUNT(e.loss), COALESCE(SUM(e.loss), 0), "
    "COUNT(e.proposed), SUM(CASE WHEN e.proposed = e.arm THEN 1 ELSE 0 END), "
    "SUM(CASE WHEN e.at > ? THEN 1 ELSE 0 END), MIN(e.at), MAX(e.at) "
    "FROM events AS e JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance "
    # What was erased in a fleet stays without the names of its decisions, and does not count.
    "WHERE e.experiment = ? AND (e.decision IS NOT NULL OR e.kind = 'exposed') GROUP BY 1, 2, 3, 4"
)
# Of each instance: decisions shown, those with a loss, and their losses; first in a span, and then
# up to its end. What the square of a sum has grown by is x·(2X − x), and so on.
BY_STRATUM = (
    f"WITH spans AS (SELECT e.instance, {PLACE} AS place, CAST(SUM(CASE WHEN e.ticket IS NOT NULL "
    "AND e.kind IN ('decided', 'shown') THEN 1 ELSE 0 END) AS DOUBLE PRECISION) AS shown, "
    "CAST(COUNT(e.loss) AS DOUBLE PRECISION) AS heard, COALESCE(SUM(e.loss), 0) AS lost "
    "FROM events AS e WHERE e.experiment = ? AND e.decision IS NOT NULL AND e.kind <> 'exposed' "
    # What callers chose in shadow mode says nothing of the two groups.
    "AND e.proposed IS NULL GROUP BY 1, 2), "
    "sums AS (SELECT instance, place, shown, heard, lost, SUM(shown) OVER so_far AS all_shown, "
    "SUM(heard) OVER so_far AS all_heard, SUM(lost) OVER so_far AS all_lost FROM spans "
    "WINDOW so_far AS (PARTITION BY instance ORDER BY place)) "
    "SELECT s.place, i.share, i.served, "
    "SUM(CASE WHEN heard > 0 AND all_heard = heard THEN 1 ELSE 0 END), SUM(heard), SUM(lost), "
    "SUM(lost * (2 * all_lost - lost)), "
    "SUM(all_lost * all_heard - (all_lost - lost) * (all_heard - heard)), "
    "SUM(heard * (2 * all_heard - heard)), "
    "SUM(CASE WHEN shown > 0 AND all_shown = shown THEN 1 ELSE 0 END), SUM(shown), SUM(heard), "
    "SUM(heard * (2 * all_heard - heard)), "
    "SUM(all_heard * all_shown - (all_heard - heard) * (all_shown - shown)), "
    "SUM(shown * (2 * all_shown - shown)) "
    "FROM sums AS s JOIN instances AS i ON i.experiment = ? AND i.number = s.instance "
    "GROUP BY 1, 2, 3 ORDER BY 1"
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


class Part(NamedTuple):
    """The events of a kind, for an arm and a group, in a span of time."""

    place: int  # of the span; −1: before the first
    arm: int
    group: str
    kind: str
    many: int
    later: int  # of these, decisions that are to be activated later
    losses: int
    loss: float
    proposed: int  # in shadow mode
    agreed: int
    lately: int
    first: float  # times
    last: float

    def sums(self) -> Sums:
        """Return what they add to the sums."""
        many, counted = self.many, Sums(losses=self.losses, loss=self.loss)
        if self.kind == DECIDED:
            is_policy = self.group == "policy"
            return counted._replace(
                decisions=many,
                waiting=many - self.later,
                unshown=self.later,
                shadowed=self.proposed * is_policy,
                agreed=self.agreed * is_policy,
            )
        changes: dict[str, dict[str, int]] = {
            SHOWN: {"waiting": many, "unshown": -many},
            CANCELLED: {"cancelled": many, "unshown": -many},
            OBSERVED: {"waiting": -many, "feedback": many},
            EXPIRED: {"waiting": -many, "expired": many},
            EXPOSED: {"exposures": many},
        }
        return counted._replace(**changes[self.kind])


def make_report(
    store: Connection, experiment: int, now: float, span: str = "all"
) -> dict[str, Any]:
    """Return the A/B test, sums by arm and group, and all over time, as JSON data.

    ``over_time`` has all the time, or the last hour; sums and the A/B test are of all events.
    """
    if span not in {"all", "hour"}:
        raise InvalidInput(f"span must be all or hour, got {span!r:.40}")
    (row,) = (row for row in store.experiments() if row.id == experiment)
    first = store.run("SELECT at FROM events WHERE experiment = ? AND number = 1", (experiment,))
    begin = now - HOUR if span == "hour" or not first else min(first[0][0], now)
    most = min(max(row.events // EVENTS_OF_A_SPAN, FEWEST_SPANS), MOST_SPANS)
    seconds = SHORTEST_SPAN
    while (now - begin) / seconds >= most:
        seconds *= 2.0
    since = begin // seconds * seconds
    times = [since + seconds * n for n in range(int((now - since) // seconds) + 1)]
    place = since, since, seconds
    parts = [Part(*part) for part in store.run(BY_ARM, (*place, now - LATELY, experiment))]
    strata = store.run(BY_STRATUM, (*place, experiment, experiment))
    names = describe_experiment(store, experiment)["arms"]  # last: each arm in the sums has one
    evidence = list(_follow_evidence(strata, len(times)))
    totals = add_up([Sums(), *(part.sums() for part in parts)])
    lately = sum(part.lately for part in parts if part.kind == DECIDED)
    return {
        "at": now,
        **asdict(evidence[-1]),
        "decisions_a_minute": lately * 60.0 / LATELY,
        "silent_since": _find_silence(parts, now),
        "shadow": {"decisions": totals.shadowed, "agreed": totals.agreed},
        "totals": totals._asdict(),
        "arms": list(_list_arms(parts, names)),
        "over_time": [
            {
                "from": at,
                "seconds": seconds,
                **sums,
                "difference": then.difference,
                "low": then.low,
                "high": then.high,
            }
            for at, sums, then in zip(
                times, _follow_sums(parts, names, len(times)), evidence, strict=True
            )
        ],
    }


def _list_arms(parts: Sequence[Part], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what became of the decisions for each arm in each group."""
    gathered = defaultdict(list)
    for part in parts:
        gathered[part.arm, part.group].append(part.sums())
    for arm, group in sorted(gathered, key=lambda key: (key[0], GROUPS.index(key[1]))):
        sums = add_up(gathered[arm, group])
        row = sums._asdict() | {"mean_loss": sums.mean_loss}
        yield {"arm": names[arm], "group": group, **row}


def _follow_sums(
    parts: Sequence[Part], names: Sequence[str], n_spans: int
) -> Iterator[dict[str, Any]]:
    """Yield what happened in each span of time."""
    gathered = defaultdict(list)
    for part in parts:  # a clock that was ahead has left events in spans that are to come
        gathered[min(part.place, n_spans - 1)].append(part)
    for place in range(n_spans):
        lines: dict[Any, list[Sums]] = defaultdict(lambda: [Sums()])
        for part in gathered[place]:
            for line in ("all", part.group, part.arm):
                lines[line].append(part.sums())
        sums = {line: add_up(of) for line, of in lines.items()}
        total = sums.get("all", Sums())
        means = {line: of.mean_loss for line, of in sums.items()}
        yield {
            "decisions": total.decisions,
            "feedback": total.feedback,
            "mean_loss": {group: means.get(group) for group in GROUPS},
            "by_arm": {
                names[arm]: mean
                for arm, mean in means.items()
                if isinstance(arm, int) and mean is not None
            },
        }


def _follow_evidence(rows: Sequence[tuple[Any, ...]], n_spans: int) -> Iterator[Evidence]:
    """Yield what the A/B test said at the end of each span."""
    sums: dict[tuple[float, str], list[float]] = {}
    gathered = defaultdict(list)
    for place, share, group, *more in rows:
        gathered[min(max(place, 0), n_spans - 1)].append(((share, group), more))
    for place in range(n_spans):
        for key, more in gathered[place]:
            sums[key] = [x + y for x, y in zip(sums.get(key, [0] * 12), more, strict=True)]
        yield judge(
            [
                Stratum(
                    share,
                    *(_total(sums.get((share, group)), 0) for group in GROUPS),
                    *(_total(sums.get((share, group)), 6) for group in GROUPS),
                )
                for share in sorted({share for share, _ in sums})
            ]
        )


def _total(sums: list[float] | None, start: int) -> GroupTotals:
    if sums is None:
        return GroupTotals()
    instances, decisions, *rest = sums[start : start + 6]
    return GroupTotals(int(instances), int(decisions), *rest)


def _find_silence(parts: Sequence[Part], now: float) -> float | None:
    """Return since when no feedback has come, if none came for an hour of decisions."""
    decided = [part for part in parts if part.kind == DECIDED]
    latest = max((part.last for part in decided), default=0.0)
    if latest <= now - HOUR:
        return None
    since = max(
        (part.last for part in parts if part.kind == OBSERVED),
        default=min(part.first for part in decided),
    )
    return since if latest - since >= HOUR else None
