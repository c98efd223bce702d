"""What each page says: from tallies, settings and estimates to what the templates print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from influential_bandits.live.page.charts import MOST_LINES, draw_experiment, recent_rate
from influential_bandits.live.page.pictures import shade_matrix
from influential_bandits.live.page.tally import GROUPS, ArmSums, Tally
from influential_bandits.live.page.timeline import (
    draw_timeline,
    explain_choice,
    order_arms,
    read_timeline,
)
from influential_bandits.live.page.words import (
    count_digits,
    describe_evidence,
    describe_policy,
    describe_silence,
    find_boldness,
    served_policy,
    write_number,
)
from influential_bandits.live.store.sql import Connection, ExperimentRow
from influential_bandits.policies.fleet.estimate import SharedEstimate

__all__ = ["ExperimentView", "HomeView", "InstanceView"]

A_PAGE = 24  # experiments
ROWS = 40  # of a table beside a chart
MOST_CELLS = 16  # arms of a heat map


def _experiment_path(name: str) -> str:
    return f"/experiments/{quote(name, safe='')}"


@dataclass
class HomeView:
    """Experiments at a glance."""

    every: list[ExperimentRow]
    page: str
    now: float
    tallies: list[Tally | None] = field(default_factory=list)
    described: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose the experiments of this page."""
        self.pages = max(1, -(-len(self.every) // A_PAGE))
        wanted = int(self.page) if self.page.isdecimal() and len(self.page) < 6 else 1
        self.number = min(max(wanted, 1), self.pages)
        self.rows = self.every[(self.number - 1) * A_PAGE : self.number * A_PAGE]

    def draw(self) -> dict[str, Any]:
        """Return what the template prints."""
        cards = [
            self._card(row, described, tally)
            for row, described, tally in zip(self.rows, self.described, self.tallies, strict=True)
        ]
        return {
            "cards": cards,
            "number": self.number,
            "pages": self.pages,
            "charts": {},
            "summary": " ".join(
                f"{card['name']}: {write_number(card['decisions'])} decisions." for card in cards
            ),
        }

    def _card(
        self, row: ExperimentRow, described: dict[str, Any], tally: Tally | None
    ) -> dict[str, Any]:
        settings = described["settings"]
        shared = settings["state"] == "shared"
        card = {
            "name": row.name,
            "path": _experiment_path(row.name),
            "mode": settings["mode"],
            "arms": len(described["arms"]) - len(described["retired"]),
            "instances": row.instances,
            "policy": describe_policy(served_policy(described), shared=shared).name,
            "control": describe_policy(settings["control"]).name,
            "decisions": None,
            "rate": None,
            "spark": [],
            "verdict": "Its events are being counted.",
            "tone": "open",
            "progress": 0.0,
        }
        if tally is None:
            return card
        with tally.lock:
            evidence = tally.evidence()
            return card | {
                "decisions": sum(arm.decisions for arm in tally.arms.values()),
                "rate": recent_rate(tally, self.now).decisions / 5.0,
                "spark": [sums.decisions for _, sums in tally.recent.over_time(together=4)],
                "verdict": describe_evidence(evidence, settings),
                "tone": _tone(evidence.low, evidence.high),
                "progress": tally.progress,
            }


def _tone(low: float | None, high: float | None) -> str:
    """Return whether the policy is better, worse, or neither yet."""
    if high is not None and high < 0.0:
        return "better"
    return "worse" if low is not None and low > 0.0 else "open"


@dataclass
class ExperimentView:
    """One experiment."""

    row: ExperimentRow
    described: dict[str, Any]
    tally: Tally | None
    estimate: SharedEstimate | None
    labels: list[tuple[str, str]]
    span: str
    now: float

    def draw(self) -> dict[str, Any]:
        """Return what the template prints."""
        settings, names = self.described["settings"], self.described["arms"]
        values: dict[str, Any] = {
            "name": self.row.name,
            "path": _experiment_path(self.row.name),
            "span": self.span,
            "described": self.described,
            "settings": settings,
            "instances": self.row.instances,
            "labels": self.labels,
            "policy": describe_policy(
                served_policy(self.described), shared=settings["state"] == "shared"
            ),
            "control": describe_policy(settings["control"]),
            "estimate": self.estimate,
            "most_lines": MOST_LINES,
            "is_counted": self.tally is not None,
            "charts": {},
            "summary": "",
        }
        if self.tally is None:
            return values
        with self.tally.lock:
            values |= self._count(self.tally, names)
        values |= self._interaction(values["arms"], names)
        values["summary"] = (
            f"{write_number(values['decisions'])} decisions, {write_number(values['waiting'])} "
            f"waiting for feedback. {values['verdict']}"
        )
        return values

    def _count(self, tally: Tally, names: Sequence[str]) -> dict[str, Any]:
        evidence = tally.evidence()
        recent = recent_rate(tally, self.now)
        charts = draw_experiment(tally, names, self.span, self.now)
        retired = set(self.described["retired"])
        arms = [
            {
                "number": number,
                "name": name,
                "is_retired": name in retired,
                "sums": tally.arms.get(number, ArmSums()),
            }
            for number, name in enumerate(names)
        ]
        totals = [tally.arms.get(number, ArmSums()) for number in range(len(names))]
        decisions = sum(arm.decisions for arm in totals)
        waiting = sum(arm.waiting for arm in totals)
        heard = sum(arm.sums.feedback for arm in totals)
        return {
            "progress": tally.progress,
            "evidence": evidence,
            "verdict": describe_evidence(evidence, self.described["settings"]),
            "tone": _tone(evidence.low, evidence.high),
            "ends": _ends(evidence.low, evidence.high),
            "decisions": decisions,
            "waiting": waiting,
            "unshown": sum(arm.unshown for arm in totals),
            "expired": sum(arm.expired for arm in totals),
            "cancelled": sum(arm.cancelled for arm in totals),
            "exposures": sum(arm.exposures for arm in totals),
            "shadowed": sum(arm.shadowed for arm in totals),
            "agreed": sum(arm.agreed for arm in totals),
            "silent_since": describe_silence(tally.find_silence()),
            "heard": heard,
            "heard_share": heard / decisions if decisions else None,
            "rate": recent.decisions / 5.0,
            "feedback_rate": recent.feedback / 5.0,
            "arms": arms,
            "means": {group: getattr(evidence, group).mean for group in GROUPS},
            "mean_digits": count_digits(
                sums.mean for arm in totals for sums in (arm.sums, *arm.by_group.values())
            ),
            "ab_digits": count_digits((evidence.difference, evidence.low, evidence.high)),
            "charts": charts,
            "tables": {name: _table(chart["columns"]) for name, chart in charts.items()},
            "looks": len(charts["evidence"]["columns"][0]),
        }

    def _interaction(self, arms: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
        if self.estimate is None:
            return {"cells": [], "heat_arms": [], "heat_left_out": 0}
        ranked = sorted(arms, key=lambda arm: (-arm["sums"].decisions, arm["number"]))
        known = len(self.estimate.initial_loss)
        chosen = sorted(arm["number"] for arm in ranked[:MOST_CELLS] if arm["number"] < known)
        rows = self.estimate.interaction[chosen][:, chosen].tolist()
        errors = self.estimate.interaction_errors[chosen][:, chosen].tolist()
        return {
            "cells": shade_matrix(rows, errors),
            "heat_arms": [names[arm] for arm in chosen],
            "heat_left_out": max(len(names) - len(chosen), 0),
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


@dataclass
class InstanceView:
    """One instance."""

    row: ExperimentRow
    described: dict[str, Any]
    explained: dict[str, Any]
    read: Callable[[Callable[[Connection], Any]], Any]

    def draw(self) -> dict[str, Any]:
        """Return what the template prints."""
        names = self.explained["arms"]
        number = self.explained["number"]
        entries = self.read(lambda store: read_timeline(store, self.row.id, number))
        decided = [entry for entry in entries if entry.decision is not None]
        last = decided[-1] if decided else None
        settings = self.described["settings"]
        boldness = find_boldness(
            served_policy(self.described), shared=settings["state"] == "shared"
        )
        expected = order_arms(self.explained, boldness)
        bounds = [bound for row in expected for bound in (row.low, row.high)]
        heard = [entry.loss for entry in decided if entry.loss is not None]
        waiting = sum(entry.status == "pending" for entry in decided)
        retired = set(self.described["retired"])
        return {
            "name": self.row.name,
            "path": _experiment_path(self.row.name),
            "label": self.explained["instance"],
            "group": self.explained["group"],
            "boldness": boldness,
            "names": names,
            "retired": retired,
            "entries": list(reversed(entries)),
            "last": last,
            "why": explain_choice(last, self.described, names) if last else [],
            "expected": expected,
            "digits": count_digits([*bounds, *heard]),
            "ends": (min(bounds, default=0.0), max(bounds, default=1.0)),
            "mean": sum(heard) / len(heard) if heard else None,
            "heard": len(heard),
            "waiting": waiting,
            "decided": len(decided),
            "charts": draw_timeline(entries, names),
            "summary": (
                f"Last shown: {names[last.arm]}, {last.status}." if last else "Nothing shown yet."
            ),
        }
