"""What is drawn: numbers for the charts of a page, and for the tables beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from influential_bandits.live.page.series import Series, Sums
from influential_bandits.live.page.tally import SECONDS_RECENT, Tally

__all__ = ["busiest_arms", "draw_experiment", "recent_rate"]

MOST_LINES = 7  # that can be told apart
MINUTE = 60.0
SHORTEST = 5.0  # seconds of a span that has just begun


def busiest_arms(tally: Tally, most: int = MOST_LINES) -> list[int]:
    """Return the arms with the most decisions, in the order of their numbers."""
    ranked = sorted(tally.arms, key=lambda arm: (-tally.arms[arm].decisions, arm))
    return sorted(ranked[:most])


def draw_experiment(
    tally: Tally, names: Sequence[str], span: str, now: float
) -> dict[str, dict[str, Any]]:
    """Return the charts of an experiment: columns of numbers, the first of which is time."""
    series = tally.recent if span == "hour" else tally.whole
    arms = busiest_arms(tally)
    every = list(series.over_time())
    times = [at for at, _ in every]
    rates = [_per_minute(at, sums, series, now) for at, sums in every]
    since = now - SECONDS_RECENT * 240 if span == "hour" else 0.0
    looks = [look for look in tally.looks if look.at >= since]
    return {
        "rate": {
            "names": ["decisions", "feedback"],
            "columns": [times, *(list(column) for column in _columns(rates, 2))],
        },
        "groups": {
            "names": ["policy", "control"],
            "columns": [times, *(_means(series, group=group) for group in ("policy", "control"))],
        },
        "arms": {
            "names": [names[arm] for arm in arms],
            "columns": [times, *(_means(series, arm=arm) for arm in arms)],
            "numbers": arms,
        },
        "evidence": {
            "names": ["difference", "lowest", "highest"],
            "columns": [list(column) for column in _columns(looks, 4)],
        },
    }


def _columns(rows: Sequence[Iterable[Any]], many: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * many


def _per_minute(
    at: float, sums: Sums, series: Series, now: float
) -> tuple[float | None, float | None]:
    """Return decisions and feedback per minute; of the present span, of the part that has been."""
    seconds = min(series.seconds, now - at)
    if seconds < SHORTEST:
        return None, None
    return sums.decisions * MINUTE / seconds, sums.feedback * MINUTE / seconds


def _means(series: Series, group: str | None = None, arm: int | None = None) -> list[float | None]:
    return [sums.mean for _, sums in series.over_time(group, arm)]


def recent_rate(tally: Tally, now: float, minutes: float = 5.0) -> Sums:
    """Return what happened in the last minutes."""
    return tally.recent.total(now - minutes * MINUTE)
