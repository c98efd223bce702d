"""Sums in equal spans of time, few enough to draw however long an experiment lasts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Series", "Sums"]


class Sums(NamedTuple):
    """What happened in a span of time, to an arm and a group or to several."""

    decisions: int = 0
    feedback: int = 0  # losses told
    losses: int = 0  # that count: those told, and missing ones with a stated loss
    loss: float = 0.0  # their sum

    def plus(self, other: Sums) -> Sums:
        """Return both together."""
        return Sums(
            self.decisions + other.decisions,
            self.feedback + other.feedback,
            self.losses + other.losses,
            self.loss + other.loss,
        )

    @property
    def mean(self) -> float | None:
        """Mean loss, if any counts."""
        return self.loss / self.losses if self.losses else None


class Series:
    """Sums by group and by arm in spans of time.

    Parameters
    ----------
    seconds : float
        Length of a span.
    most : int
        Spans. If there would be more, they become twice as long, or the oldest are dropped.
    widen : bool

    Examples
    --------
    >>> series = Series(10.0, 2, widen=True)
    >>> for at in (0.0, 10.0, 20.0):
    ...     series.add(at, "policy", 0, Sums(decisions=1))
    >>> series.seconds, [sums.decisions for _, sums in series.over_time()]
    (20.0, [2, 1])
    """

    def __init__(self, seconds: float, most: int, *, widen: bool) -> None:
        self.seconds, self._most, self._widen = seconds, most, widen
        # By group, by arm and all together: what is drawn is looked up, not summed up.
        self._spans: dict[int, dict[str | int | None, Sums]] = {}

    def add(self, at: float, group: str, arm: int, sums: Sums) -> None:
        """Add what happened at a time."""
        place = math.floor(at / self.seconds)
        if place not in self._spans:
            places = (place, *self._spans)
            while self._widen and max(places) - min(places) >= self._most:
                self._double()
                place = math.floor(at / self.seconds)
                places = (place, *self._spans)
            self.forget_before((max(places) - self._most + 1) * self.seconds)
            if place <= max(places) - self._most:
                return
        span = self._spans.setdefault(place, {})
        for key in (group, arm, None):
            span[key] = span.get(key, Sums()).plus(sums)

    def _double(self) -> None:
        spans, self._spans = self._spans, {}
        self.seconds *= 2.0
        for place, span in spans.items():
            wide = self._spans.setdefault(place // 2, {})
            for key, sums in span.items():
                wide[key] = wide.get(key, Sums()).plus(sums)

    def forget_before(self, at: float) -> None:
        """Drop spans that began before a time."""
        first = math.ceil(at / self.seconds)
        for place in [place for place in self._spans if place < first]:
            del self._spans[place]

    def over_time(
        self, of: str | int | None = None, together: int = 1
    ) -> Iterator[tuple[float, Sums]]:
        """Yield when each span began and what happened in it, also where nothing did.

        Parameters
        ----------
        of : str or int, optional
            A group or the number of an arm; by default all together.
        together : int
            So many spans are taken for one.
        """
        if not self._spans:
            return
        first, last = min(self._spans) // together, max(self._spans) // together
        for wide in range(first, last + 1):
            total = Sums()
            for place in range(wide * together, (wide + 1) * together):
                sums = self._spans.get(place, {}).get(of)
                total = total if sums is None else total.plus(sums)
            yield wide * together * self.seconds, total

    def total(self, since: float = -math.inf) -> Sums:
        """Return all that happened in spans that began at a time or later."""
        total = Sums()
        for at, sums in self.over_time():
            if at >= since:
                total = total.plus(sums)
        return total
