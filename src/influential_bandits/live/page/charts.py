"""What is drawn: numbers for the charts of a page, and for the tables beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from influential_bandits.live.page.series import Series, Sums
from influential_bandits.live.page.tally import GROUPS, SECONDS_RECENT, SPANS, Tally

__all__ = ["busiest_arms", "describe_tally", "draw_experiment", "recent_rate"]

MOST_LINES = 7  # that can be told apart
LOSSES_OF_A_MEAN = 30  # on average, so that noise does not hide what is to be seen
FEWEST_POINTS, MOST_POINTS = 12, 120
MINUTE = 60.0
SPANS_TOLD = 60  # by a report
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
    rates = [(at, *_per_minute(at, sums, series, now)) for at, sums in every]
    since = now - SECONDS_RECENT * SPANS if span == "hour" else 0.0
    looks = [look for look in tally.looks if look.at >= since]
    return {
        "rate": {
            "names": ["decisions", "feedback"],
            "columns": [list(column) for column in _columns(rates, 3)],
            "seconds": series.seconds,
        },
        "groups": {"names": list(GROUPS), **_draw_means(series, GROUPS, len(every))},
        "arms": {
            "names": [names[arm] for arm in arms],
            **_draw_means(series, arms, len(every)),
        },
        "evidence": {
            "names": ["difference", "lowest", "highest"],
            "columns": [list(column) for column in _columns(looks, 4)],
        },
    }


def describe_tally(tally: Tally, names: Sequence[str]) -> dict[str, Any]:
    """Return the report: the A/B test, sums by arm and group, shadow mode, and all over time."""
    course = describe_course(tally, names)
    with tally.lock:
        sums = tally.arms.values()
        return {
            **asdict(tally.evidence()),
            "arms": [
                {
                    "arm": names[number],
                    "group": group,
                    "decisions": of.decisions,
                    "losses": of.losses,
                    "mean_loss": of.mean,
                }
                for number, arm in sorted(tally.arms.items())
                for group, of in arm.by_group.items()
                if of.decisions or of.losses
            ],
            "shadow": {
                "decisions": sum(arm.shadowed for arm in sums),
                "agreed": sum(arm.agreed for arm in sums),
            },
            "silent_since": tally.find_silence(),
            "over_time": course,
        }


def describe_course(tally: Tally, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return decisions, feedback and mean losses by group and arm over time.

    Spans are as wide as they must be so that there are not too many.
    """
    with tally.lock:
        series = tally.whole
        together = max(1, -(-sum(1 for _ in series.over_time()) // SPANS_TOLD))
        columns = {of: [s.mean for _, s in series.over_time(of, together)] for of in GROUPS}
        arms = {n: [s.mean for _, s in series.over_time(n, together)] for n in sorted(tally.arms)}
        return [
            {
                "from": at,
                "seconds": series.seconds * together,
                "decisions": sums.decisions,
                "feedback": sums.feedback,
                "mean_loss": {of: means[place] for of, means in columns.items()},
                "by_arm": {names[n]: m[place] for n, m in arms.items() if m[place] is not None},
            }
            for place, (at, sums) in enumerate(series.over_time(together=together))
        ]


def _draw_means(series: Series, lines: Sequence[str | int], spans: int) -> dict[str, Any]:
    """Return mean losses over spans that are wide enough for means to mean something."""
    losses = series.total().losses
    points = losses // (LOSSES_OF_A_MEAN * max(len(lines), 1))
    points = min(max(points, FEWEST_POINTS), MOST_POINTS)
    together = max(1, -(-spans // points))
    times = [at for at, _ in series.over_time(together=together)]
    means = [[sums.mean for _, sums in series.over_time(of, together)] for of in lines]
    return {"columns": [times, *means], "seconds": series.seconds * together}


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


def recent_rate(tally: Tally, now: float, minutes: float = 5.0) -> Sums:
    """Return what happened in the last minutes."""
    return tally.recent.total(now - minutes * MINUTE)
