"""What the page shows of an experiment: sums of its events, kept up to date as they come.

A look reads what is new, at most ``EVENTS_AT_A_TIME`` in one go, by questions that the store
answers from its primary key. So a look costs the same after a million events as after ten. Sums are
made by the database, outside of Python, and do not hold up decisions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from influential_bandits.live.events import (
    CANCELLED,
    DECIDED,
    ERASED,
    EXPIRED,
    EXPOSED,
    OBSERVED,
    SHOWN,
)
from influential_bandits.live.evidence import Evidence, GroupTotals, Stratum, judge
from influential_bandits.live.page.series import Series, Sums
from influential_bandits.live.store.sql import Connection, ExperimentRow
from influential_bandits.numerics.arrays import Floats

__all__ = ["ArmSums", "Look", "Tally"]

EVENTS_AT_A_TIME = 20_000
FEWEST_AT_A_TIME = 200
LOOKS_AT_FIRST = 100  # at the past of an A/B test, when its events are first read
SECONDS_RECENT = 15.0  # of a span of the last hour
SPANS = 240
MOST_LOOKS = 240  # at the A/B test that are drawn
GROUPS = ("policy", "control")

BY_SPAN = (
    # Rounding half a span less gives the span in SQLite and in PostgreSQL alike.
    "SELECT CAST(ROUND(e.at / {seconds} - 0.5) AS BIGINT), e.kind, e.arm, i.served, "
    "CASE WHEN e.ticket IS NULL THEN 1 ELSE 0 END, COUNT(*), COUNT(e.loss), SUM(e.loss) "
    "FROM events AS e JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance "
    # What was erased in a fleet stays without the names of its decisions, and does not count.
    "WHERE e.experiment = ? AND e.number > ? AND e.number <= ? AND "
    "(e.decision IS NOT NULL OR e.kind = 'exposed') GROUP BY 1, 2, 3, 4, 5"
)
BY_INSTANCE = (
    "SELECT e.instance, i.share, i.served, "
    "SUM(CASE WHEN e.ticket IS NOT NULL AND e.kind IN ('decided', 'shown') THEN 1 ELSE 0 END), "
    "COUNT(e.loss), COALESCE(SUM(e.loss), 0) "
    "FROM events AS e JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance "
    "WHERE e.experiment = ? AND e.number > ? AND e.number <= ? AND e.decision IS NOT NULL "
    "AND e.kind <> 'exposed' AND e.proposed IS NULL GROUP BY e.instance, i.share, i.served"
)
BY_PROPOSAL = (
    "SELECT e.arm, COUNT(*), SUM(CASE WHEN e.proposed = e.arm THEN 1 ELSE 0 END) "
    "FROM events AS e JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance "
    "WHERE e.experiment = ? AND e.number > ? AND e.number <= ? AND e.kind = 'decided' AND "
    "e.decision IS NOT NULL AND i.served = 'policy' AND e.proposed IS NOT NULL GROUP BY e.arm"
)


class Look(NamedTuple):
    """What the A/B test said at a moment."""

    at: float
    difference: float
    low: float
    high: float


@dataclass
class ArmSums:
    """What became of the decisions for an arm."""

    decisions: int = 0
    waiting: int = 0  # shown, and no loss yet
    unshown: int = 0  # to be activated later
    cancelled: int = 0
    expired: int = 0
    exposures: int = 0
    shadowed: int = 0  # served in shadow mode to instances of the policy
    agreed: int = 0  # of these, the policy would have chosen the same arm
    by_group: dict[str, Sums] = field(default_factory=lambda: dict.fromkeys(GROUPS, Sums()))

    @property
    def sums(self) -> Sums:
        """Both groups together."""
        return self.by_group["policy"].plus(self.by_group["control"])


class Tally:
    """The sums of an experiment.

    Parameters
    ----------
    row : ExperimentRow
        How the experiment stands now.
    since : float
        Time of its first event.
    now : float
    """

    def __init__(self, row: ExperimentRow, since: float, now: float) -> None:
        self.experiment = row.id
        self.lock = threading.Lock()  # events are added by one thread, and looked at by others
        self.applied = 0
        self.known = row.events  # number of the latest event that there was
        self.began = time.monotonic()
        self._before = row.events  # what was erased up to here has never been counted
        self.is_stale = False  # somebody was erased who has been counted: begin anew
        self.recent = Series(SECONDS_RECENT, SPANS, widen=False)
        seconds = SECONDS_RECENT
        while (now - since) / seconds >= SPANS:
            seconds *= 2.0
        self.whole = Series(seconds, SPANS, widen=True)
        self.arms: dict[int, ArmSums] = {}
        self.looks: list[Look] = []
        self._sums = np.zeros((3, 1024))  # by instance: decisions shown, with a loss, their losses
        self._place = np.zeros(1024, np.int64)  # by instance: of its stratum and group, from 1 on
        self._places: dict[tuple[float, str], int] = {}
        self.latest = since  # time of the latest span with an event

    @property
    def is_complete(self) -> bool:
        """Whether all events that there are have been counted."""
        return self.applied >= self.known

    @property
    def progress(self) -> float:
        """Share of the events that has been counted."""
        return self.applied / self.known if self.known else 1.0

    def read(self, store: Connection, row: ExperimentRow, now: float) -> None:
        """Count some of the events that are new."""
        most = min(max(self._before // LOOKS_AT_FIRST, FEWEST_AT_A_TIME), EVENTS_AT_A_TIME)
        if self.applied >= self._before:
            most = EVENTS_AT_A_TIME
        after, until = self.applied, min(self.applied + most, row.events)
        where = self.experiment, after, until
        ends = store.run("SELECT at FROM events WHERE experiment = ? AND number = ?", where[::2])
        is_recent = not ends or ends[0][0] > now - SECONDS_RECENT * SPANS
        seconds = SECONDS_RECENT if is_recent else self.whole.seconds
        spans = store.run(BY_SPAN.format(seconds=repr(seconds)), where)
        instances = store.run(BY_INSTANCE, where)
        proposals = store.run(BY_PROPOSAL, where)
        erased = store.run(
            "SELECT MAX(number) FROM events WHERE experiment = ? AND instance = 0 AND number > ? "
            "AND number <= ? AND kind = ?",
            (*where, ERASED),
        )[0][0]
        with self.lock:
            self.known = row.events
            for span in spans:
                self._add(*span, seconds=seconds, is_recent=is_recent)
            for arm, many, agreed in proposals:
                of = self.arms.setdefault(arm, ArmSums())
                of.shadowed += many
                of.agreed += int(agreed)
            self.recent.forget_before(now - SECONDS_RECENT * SPANS)
            if instances:
                self._compare(instances, ends[0][0] if ends else self.latest)
            self.is_stale |= erased is not None and erased > self._before
            self.applied = until

    def _add(
        self,
        place: int,
        kind: str,
        arm: int,
        group: str,
        unticketed: int,
        many: int,
        counted: int,
        loss: float | None,
        *,
        seconds: float,
        is_recent: bool,
    ) -> None:
        of = self.arms.setdefault(arm, ArmSums())
        sums = Sums(
            many if kind == DECIDED else 0, many if kind == OBSERVED else 0, counted, loss or 0.0
        )
        changes: dict[str, int] = {}
        if kind == DECIDED:
            changes = {"decisions": many, "unshown" if unticketed else "waiting": many}
        elif kind == SHOWN:
            changes = {"waiting": many, "unshown": -many}
        elif kind == CANCELLED:
            changes = {"cancelled": many, "unshown": -many}
        elif kind == OBSERVED:
            changes = {"waiting": -many}
        elif kind == EXPIRED:
            changes = {"waiting": -many, "expired": many}
        elif kind == EXPOSED:
            changes = {"exposures": many}
        for name, change in changes.items():
            setattr(of, name, getattr(of, name) + change)
        of.by_group[group] = of.by_group[group].plus(sums)
        at = place * seconds
        self.latest = max(self.latest, at)
        self.whole.add(at, group, arm, sums)
        if is_recent:
            self.recent.add(at, group, arm, sums)

    def _compare(self, rows: Sequence[tuple[int, float, str, int, int, float]], at: float) -> None:
        """Add what instances were shown and lost, and note what the A/B test says now."""
        numbers = [row[0] for row in rows]
        missing = max(numbers) + 1 - self._place.size
        if missing > 0:
            room = max(missing, self._place.size)
            self._sums = np.pad(self._sums, ((0, 0), (0, room)))
            self._place = np.pad(self._place, (0, room))
        for number, share, group, *_ in rows:
            place = self._places.setdefault((share, group), len(self._places) + 1)
            self._place[number] = place
        self._sums[:, numbers] += np.array([row[3:] for row in rows], float).T
        evidence = self.evidence()
        if evidence.difference is not None:
            assert evidence.low is not None
            assert evidence.high is not None
            self.looks.append(Look(at, evidence.difference, evidence.low, evidence.high))
        if len(self.looks) > MOST_LOOKS:
            self.looks = [*self.looks[:-1:2], self.looks[-1]]

    def find_silence(self) -> float | None:
        """Return since when no feedback has come, if none came for an hour of decisions."""
        recent = self.recent.total()
        if not recent.decisions or recent.feedback:
            return None
        spans = list(self.whole.over_time())
        heard = [at + self.whole.seconds for at, sums in spans if sums.feedback]
        since = heard[-1] if heard else spans[0][0]
        lasted = self.latest - since
        return since if lasted >= SECONDS_RECENT * SPANS else None

    def evidence(self) -> Evidence:
        """Return what the A/B test says now."""
        shown, heard, lost = self._sums
        losses = self._totals(heard, lost)
        feedback = self._totals(shown, heard)
        none = GroupTotals()
        return judge(
            [
                Stratum(
                    share,
                    losses.get((share, "policy"), none),
                    losses.get((share, "control"), none),
                    feedback.get((share, "policy"), none),
                    feedback.get((share, "control"), none),
                )
                for share in sorted({share for share, _ in self._places})
            ]
        )

    def _totals(self, counts: Floats, values: Floats) -> dict[tuple[float, str], GroupTotals]:
        """Return the totals of some values, and of how many there are, by stratum and group."""
        size = len(self._places) + 1

        def add_up(weights: Floats) -> list[float]:
            return np.bincount(self._place, weights, size).tolist()

        columns = (
            add_up((counts > 0).astype(float)),
            add_up(counts),
            add_up(values),
            add_up(values * values),
            add_up(values * counts),
            add_up(counts * counts),
        )
        rows = list(zip(*columns, strict=True))
        return {
            key: GroupTotals(int(rows[place][0]), int(rows[place][1]), *rows[place][2:])
            for key, place in self._places.items()
        }
