"""What each page says: from what the service tells of an experiment to what templates print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from influential_bandits.live import words
from influential_bandits.live.page.pictures import shade_matrix
from influential_bandits.live.report import GROUPS
from influential_bandits.live.store.sql import ExperimentRow
from influential_bandits.policies.fleet.estimate import SharedEstimate

A_PAGE = 24  # experiments
MOST_LINES = 7  # of a chart, that can be told apart
ROWS = 40  # of a table beside a chart
MOST_CELLS = 16  # arms of a heat map
SHORTEST = 5.0  # seconds of a span that has just begun; less says nothing of a rate

Values = dict[str, Any]


def choose_page(rows: list[ExperimentRow], wanted: str) -> tuple[list[ExperimentRow], int, int]:
    """Return the experiments of a page, its number, and how many pages there are."""
    pages = max(1, -(-len(rows) // A_PAGE))
    number = int(wanted) if wanted.isdecimal() and len(wanted) < 6 else 1
    number = min(max(number, 1), pages)
    return rows[(number - 1) * A_PAGE : number * A_PAGE], number, pages


def draw_home(
    described: Sequence[Values], reports: Sequence[Values | None], number: int, pages: int
) -> Values:
    """Return what the page of all experiments prints."""
    cards = [_draw_card(*pair) for pair in zip(described, reports, strict=True)]
    decisions = (words.write_number(card["decisions"]) for card in cards)
    pairs = zip(cards, decisions, strict=True)
    return {
        "cards": cards,
        "number": number,
        "pages": pages,
        "charts": {},
        "summary": " ".join(f"{card['name']}: {many} decisions." for card, many in pairs),
    }


def _draw_card(described: Values, report: Values | None) -> Values:
    settings = described["settings"]
    card = {
        **_describe_policies(described),
        "name": described["name"],
        "path": _experiment_path(described),
        "mode": settings["mode"],
        "arms": len(described["arms"]) - len(described["retired"]),
        "instances": described["instances"],
        "decisions": None,
        "rate": None,
        "spark": [],
        "verdict": "Its events are being counted.",
        "tone": "open",
    }
    if report is None:
        return card
    return card | {
        "decisions": report["totals"]["decisions"],
        "rate": report["decisions_a_minute"],
        "spark": [span["decisions"] for span in report["over_time"]],
        "verdict": report["verdict"],
        "tone": words.judge_tone(report),
    }


def draw_experiment(
    described: Values,
    report: Values | None,
    estimate: SharedEstimate | None,
    labels: list[tuple[str, str]],
    span: str,
) -> Values:
    """Return what the page of an experiment prints."""
    values = {
        **_describe_policies(described),
        "name": described["name"],
        "path": _experiment_path(described),
        "span": span,
        "described": described,
        "settings": described["settings"],
        "outcome": described["settings"]["outcome"],
        "labels": labels,
        "report": report,
        "estimate": estimate,
        "most_lines": MOST_LINES,
        "charts": {},
        "summary": "",
    }
    if report is None:
        return values
    arms = _list_arms(described, report)
    charts = draw_charts(report, [arm["name"] for arm in _busiest(arms, MOST_LINES)])
    verdict, totals = report["verdict"], report["totals"]
    test = report["difference"], report["low"], report["high"]
    return {
        **values,
        **_draw_interaction(arms, estimate),
        "totals": totals,
        "verdict": verdict,
        "tone": words.judge_tone(report),
        "ends": _ends(report["low"], report["high"]),
        "test_digits": words.count_digits(test),
        "means": {group: _mean(report[group], report["outcome"], "decisions") for group in GROUPS},
        "silence": words.describe_silence(report["silent_since"]),
        "arms": arms,
        "mean_digits": words.count_digits(arm[name] for arm in arms for name in ("mean", *GROUPS)),
        "charts": charts,
        "tables": {name: _table(chart["columns"]) for name, chart in charts.items()},
        "summary": (
            f"{words.write_number(totals['decisions'])} decisions, "
            f"{words.write_number(totals['waiting'])} waiting for feedback. {verdict}"
        ),
    }


def _describe_policies(described: Values) -> Values:
    return {
        "policy": words.describe_policy(described["policy"]),
        "control": words.describe_policy(described["settings"]["control"]),
    }


def _experiment_path(described: Values) -> str:
    return f"/experiments/{quote(described['name'], safe='')}"


def _mean(sums: Values, outcome: str, count: str) -> float | None:
    return sums[outcome] / sums[count] if sums[count] else None


def _list_arms(described: Values, report: Values) -> list[Values]:
    """Return each arm with its sums over both groups, and the means of each."""
    sums_of = {(row["arm"], row["group"]): row for row in report["arms"]}
    arms, outcome = [], report["outcome"]
    for number, name in enumerate(described["arms"]):
        rows = [sums_of[name, group] for group in GROUPS if (name, group) in sums_of]
        sums = {key: sum(row[key] for row in rows) for key in report["totals"]}
        means = {group: sums_of.get((name, group), {}).get(f"mean_{outcome}") for group in GROUPS}
        is_retired = name in described["retired"]
        head = {"number": number, "name": name, "is_retired": is_retired}
        arms.append({**head, **sums, "mean": _mean(sums, outcome, "losses"), **means})
    return arms


def _busiest(arms: Sequence[Values], most: int) -> list[Values]:
    """Return the arms with the most decisions, in the order of their numbers."""
    ranked = sorted(arms, key=lambda arm: (-arm["decisions"], arm["number"]))
    return sorted(ranked[:most], key=lambda arm: int(arm["number"]))


def draw_charts(report: Values, arms: Sequence[str]) -> dict[str, Values]:
    """Return the charts of an experiment: columns of numbers, the first of which is time."""
    spans, now = report["over_time"], report["at"]
    times, seconds = [span["from"] for span in spans], spans[0]["seconds"]
    lasted = [min(seconds, now - at) for at in times]  # of the latest span, what has been of it
    rates = [
        [
            span[name] * 60.0 / past if past >= SHORTEST else None
            for span, past in zip(spans, lasted, strict=True)
        ]
        for name in ("decisions", "feedback")
    ]
    groups = [[span[f"mean_{report['outcome']}"][group] for span in spans] for group in GROUPS]
    by_arm = [[span["by_arm"].get(name) for span in spans] for name in arms]
    looks = [span for span in spans if span["difference"] is not None]
    test = [[look[name] for look in looks] for name in ("difference", "low", "high")]
    ends = [min(look["from"] + seconds, now) for look in looks]
    return {
        "rate": _chart(["decisions", "feedback"], [times, *rates], seconds),
        "groups": _chart(list(GROUPS), [times, *groups], seconds),
        "arms": _chart(list(arms), [times, *by_arm], seconds),
        "evidence": _chart(["difference", "lowest", "highest"], [ends, *test], seconds),
    }


def _chart(names: list[str], columns: list[list[Any]], seconds: float) -> Values:
    return {"names": names, "columns": columns, "seconds": seconds}


def _draw_interaction(arms: Sequence[Values], estimate: SharedEstimate | None) -> Values:
    if estimate is None:
        return {"cells": [], "heat_arms": [], "heat_left_out": 0}
    known = [arm for arm in arms if arm["number"] < len(estimate.initial_loss)]
    shown = _busiest(known, MOST_CELLS)
    chosen = [arm["number"] for arm in shown]
    rows = estimate.interaction[chosen][:, chosen].tolist()
    errors = estimate.interaction_errors[chosen][:, chosen].tolist()
    return {
        "cells": shade_matrix(rows, errors),
        "heat_arms": [arm["name"] for arm in shown],
        "heat_left_out": len(arms) - len(shown),
    }


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    """Return an axis that has an interval and zero on it."""
    if low is None or high is None:
        return -1.0, 1.0
    room = 0.08 * (max(high, 0.0) - min(low, 0.0)) or 1.0
    return min(low, 0.0) - room, max(high, 0.0) + room


def _table(columns: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Return the latest rows of a chart in which there is something."""
    rows = [row for row in zip(*columns, strict=True) if any(row[1:])]
    return rows[: -ROWS - 1 : -1]
