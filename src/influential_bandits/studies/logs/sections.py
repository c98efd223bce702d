"""What can be told about any log, part by part: its size, the ladder, the test, the matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import NotApplicable
from influential_bandits.learning.examination import LAST_PART
from influential_bandits.learning.frequency_caps import CapAdvice
from influential_bandits.learning.impact import Impact
from influential_bandits.learning.influence_test_result import InfluenceTest
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.selection import Validation
from influential_bandits.learning.statistics.pooled_sums import arm_sums
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.remote_folder import describe_files
from influential_bandits.logs.times import format_time
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.studies.report.content import (
    Analysis,
    Bars,
    Figure,
    Finding,
    HeatMap,
    Picture,
    Section,
    Series,
)
from influential_bandits.world.fading import require_fading

SHOWN_PAIRS = 12
SHOWN_ARMS = 40
SHORT = (str, int, float, type(None))
BEYOND_DRIFT = (("drift", "self-fatigue"), ("drift", "full"), ("self-fatigue", "full"))
LADDER_LINES = {
    "stationary": "each arm of each instance has its own constant loss",
    "drift": "and the recent level of the own history carries over",
    "self-fatigue": "and past pulls of an arm change that arm's loss",
    "full": "and past pulls of every arm change every arm's loss",
}


GLOSSARY = (
    "In these pages an instance is whose history it is (a user, a session), an arm is what was "
    "shown, a pull is a showing, and loss is what you would rather avoid (minus the reward, or the "
    "best rating minus the rating)."
)


def impact_section(impact: Impact, headline: str, caps: CapAdvice, seen: bool) -> Section:
    """Say what was found in the log's own units, and show it arm by arm.

    Where the test has not ``seen`` influence, the table does not speak of fatigue either.
    """
    direction = impact.direction
    if not seen:
        direction = f"not shown; by the fitted model alone {direction}"
    arms = sorted(impact.arms.items(), key=lambda pair: -abs(pair[1].value))[:SHOWN_PAIRS]
    findings = [
        Finding("direction", direction),
        *(
            Finding(what, found.value, low=found.low, high=found.high)
            for what, found in (
                ("loss that one more showing adds to the next of the same arm", impact.per_showing),
                ("loss per event that influence adds", impact.lost),
                (
                    f"share of {impact.outcome} that influence takes, in %",
                    impact.share.scale(100.0),
                ),
            )
        ),
    ]
    if seen and caps.doubt:
        findings.append(Finding("what to do", str(caps)))
    elif caps.caps:
        findings += [Finding("what to do", str(cap)) for cap in caps.caps]
        gain = caps.gain
        what = "loss per event that these caps should save"
        findings.append(Finding(what, gain.value, low=gain.low, high=gain.high))
    figure = Bars(
        "arms",
        "What one more showing costs the next of the same arm",
        [name for name, _ in arms],
        [found.value for _, found in arms],
        f"loss, in {impact.outcome}",
        [found.low for _, found in arms],
        [found.high for _, found in arms],
        "Above zero is fatigue, below zero boost; by the fitted model.",
    )
    line = "What influence costs"
    return Section("impact", line, {}, Analysis(findings, [figure], [headline, GLOSSARY]))


def log_section(log: EventLog) -> Section:
    """Tell what the log holds, and what was done to it."""
    lengths = log.lengths
    edges = np.unique(np.geomspace(1, lengths.max() + 1, 30).astype(int))
    counts, _ = np.histogram(lengths, edges)
    shares = arm_sums(log, log.n_arms).shares
    shown = np.arange(log.n_arms)
    caption = "How often each arm was met."
    if log.n_arms > SHOWN_ARMS:
        shown = np.argsort(-shares, kind="stable")[:SHOWN_ARMS]
        caption = f"The {SHOWN_ARMS} of {log.n_arms:,} arms that were met most often."
    return Section(
        "log",
        "What the log holds",
        {},
        Analysis(
            [
                Finding("events", len(log)),
                Finding("instances", log.n_instances),
                Finding("arms", log.n_arms),
                *_date_events(log),
                Finding("median events of an instance", float(np.median(lengths))),
                Finding("mean loss", float(log.loss.mean())),
            ],
            [
                Figure(
                    "lengths",
                    "Lengths of the histories",
                    "events of an instance (left edge of the bin)",
                    "instances",
                    [Series("instances", edges[:-1], counts)],
                    log_y=False,
                ),
                Bars(
                    "arms",
                    "The arms",
                    [log.arm_names[i] for i in shown],
                    shares[shown],
                    "share of the events",
                    caption=caption,
                ),
            ],
            [f"Where it comes from: {_describe(log.about).rstrip('.')}."] if log.about else [],
        ),
    )


def _date_events(log: EventLog) -> list[Finding]:
    """Say when the first and the last event were."""
    if log.time is None or not len(log):
        return []
    ends = {"first event": log.time.min(), "last event": log.time.max()}
    zone = " (UTC)" if log.dated else " (no date)"
    return [Finding(name, format_time(at, log.dated) + zone) for name, at in ends.items()]


def _describe(about: dict[str, Any]) -> str:
    parts = [
        f"{key}: {value}"
        for key, value in about.items()
        if isinstance(value, SHORT) and key != "files"
    ]
    parts += describe_files(about)
    dropped = about.get("dropped") or {}
    parts += [f"{count} rows dropped ({reason})" for reason, count in dropped.items()]
    return "; ".join(parts)


def ladder_section(found: Validation, name: str = "ladder") -> Section:
    """Show how models did on the last part of each history, each with one thing more."""
    chosen = found.models["self-fatigue"]  # memory and ridge are the same for all
    findings = []
    for model in found.names:
        low, high = found.mse_interval(model)
        findings.append(
            Finding(
                f"mean squared error one step ahead: {model}",
                found.mse(model),
                low=low,
                high=high,
                reason=LADDER_LINES[model],
            )
        )
    gains = found.gains()
    beyond = [found.gain(b, a) for a, b in BEYOND_DRIFT if b in found.names]
    findings += [
        Finding(
            f"error saved by {gain.model} over {gain.against}, in %",
            gain.percent,
            low=gain.low,
            high=gain.high,
            reason=describe_gain(gain.low, gain.high),
        )
        for gain in gains
    ]
    settings = {
        **asdict(require_fading(chosen.fading)),
        "ridge": chosen.ridge,
        "pooling": chosen.pooling,
        "last_part": LAST_PART,
    }
    figure = Bars(
        "gains",
        "What influence adds beyond drift",
        [f"{gain.model} over {gain.against}" for gain in beyond],
        [gain.percent for gain in beyond],
        "squared error saved, in %",
        [gain.low for gain in beyond],
        [gain.high for gain in beyond],
        f"95 % intervals, instances drawn anew. For comparison: {gains[0]}.",
    )
    note = (
        f"The last {100 * LAST_PART:.0f} % of each history were predicted one step ahead by models "
        "that were fitted to the rest. Each has one thing more than the one before, so that drift "
        f"is not mistaken for influence. How influence fades ({require_fading(chosen.fading)}) and "
        f"ridge {chosen.ridge:g} were chosen by predicting the last part of the rest."
    )
    line = "A ladder of models, from constant losses to full influence"
    return Section(name, line, settings, Analysis(findings, [figure], [note]))


def describe_gain(low: float, high: float) -> str:
    """Say whether an error saved is better or worse, and whether that is more than chance."""
    if low > 0.0:
        return "better, beyond chance"
    return "worse, beyond chance" if high < 0.0 else "no clear difference"


def test_section(found: InfluenceTest, name: str) -> Section:
    """Show the test of influence."""
    shown = found.pairs[:SHOWN_PAIRS]
    needed = found.events_needed(0.001)
    findings = [
        *(
            Finding(
                f"p-value: {name}",
                test.p_value,
                reason=f"Holm-adjusted for all tests: {test.p_adjusted:.3g}",
            )
            for name, test in found.families.items()
        ),
        *(
            Finding(
                f"placebo: p-value of {check.name}",
                check.p_value,
                reason=check.meaning if check.fires else "says nothing against influence",
            )
            for check in found.placebos
        ),
        Finding(
            "share of the error that influence explains, in %",
            100.0 * found.effect,
            low=100.0 * found.effect_low,
            high=100.0 * found.effect_high,
        ),
        Finding(
            "events needed to see an effect of 0.1 % (80 % power)",
            "more than can be told" if needed is None else needed,
        ),
    ]
    figure = Bars(
        "pairs",
        "The clearest pairs",
        [p.arm if p.arm == p.other else f"{p.arm} – {p.other}" for p in shown],
        [p.estimate for p in shown],
        "change of loss by a recent pull, relative to other pairs",
        [p.low for p in shown],
        [p.high for p in shown],
        "A single name is an arm's influence on itself; above zero is fatigue. Intervals hold for "
        "all pairs at once.",
    )
    controls = "" if found.controls else ", without controls"
    return Section(
        name,
        f"Is there influence beyond drift, taste and chance{controls}?",
        {
            "permutations": found.permutations,
            "units": found.units,
            "unit_kind": found.unit_kind,
            **asdict(found.fading),
            "memories_tried": found.memories_tried,
            "controls": ", ".join(found.controls),
            "seed": found.seed,
        },
        Analysis(findings, [figure] if shown else [], [found.summary()]),
    )


def interaction_section(fitted: InfluenceModel, name: str = "interaction") -> Section:
    """Show the shared interaction, which is positive semi-definite unless it is diagonal."""
    own, arms = fitted.interaction == "diagonal", fitted.arm_names_
    settings = {**asdict(require_fading(fitted.fading)), "ridge": fitted.ridge}
    matrix = fitted.interaction_
    low, high = fitted.interval()["interaction"]
    order = np.argsort(-np.diag(matrix), kind="stable")[: SHOWN_PAIRS if own else 5]
    findings = [
        Finding(
            f"fatigue of {arms[i]}: A[{arms[i]}, {arms[i]}]",
            float(matrix[i, i]),
            low=float(low[i, i]),
            high=float(high[i, i]),
            reason=explain_end(float(matrix[i, i]), float(low[i, i]), float(high[i, i])),
        )
        for i in order
    ]
    if own:
        figure = Bars(
            "matrix",
            "The arms that tire most of themselves",
            [arms[i] for i in order],
            np.diag(matrix)[order],
            "change of the arm's loss right after a pull of it",
            np.diag(low)[order],
            np.diag(high)[order],
        )
        line = "What each arm does to itself, the same for all instances"
        return Section(name, line, settings, Analysis(findings, [figure], []))
    off = matrix[~np.eye(len(matrix), dtype=bool)]
    if len(off):
        share = 100.0 * float((off < 0).mean())
        findings.append(Finding("off-diagonal entries below zero (recovery), in %", share))
    findings.append(
        Finding(
            "duality gap of the fit, relative",
            fitted.gap_,
            reason="no positive semi-definite matrix fits better than by this",
        )
    )
    eigenvalues = np.linalg.eigvalsh(matrix)[::-1]
    figures: list[Picture] = [
        heat_map("matrix", "The shared interaction", arms, matrix),
        Bars(
            "eigenvalues",
            "Eigenvalues of the shared interaction",
            [str(n + 1) for n in range(len(eigenvalues))],
            eigenvalues,
            "eigenvalue",
        ),
    ]
    line = "One positive semi-definite matrix for all instances"
    note = (
        "Entry (i, j) is what a pull of arm j adds to the loss of arm i right after it. Arms are "
        "ordered so that similar ones stand together."
    )
    return Section(name, line, settings, Analysis(findings, figures, [note]))


def explain_end(value: float, low: float, high: float) -> str:
    """Say why an entry of a fitted interaction is an end of its own interval; nothing if it is not.

    Intervals of a positive semi-definite fit are those of the symmetric one, as far as the
    condition allows: the estimate may be the most that it allows.
    """
    if low == high:
        return "no interval"
    if value in (low, high):
        return "held at an end by the condition that the matrix is positive semi-definite"
    return ""


def heat_map(name: str, title: str, arms: tuple[str, ...], matrix: Floats) -> HeatMap:
    """Return a matrix as a picture, arms ordered so that clusters show."""
    order = cluster_order(matrix)
    return HeatMap(name, title, [arms[i] for i in order], matrix[np.ix_(order, order)])


def cluster_order(matrix: Floats) -> Ints:
    """Return the order of arms in which rows that are alike stand together."""
    if len(matrix) < 3 or not matrix.any():
        return np.arange(len(matrix))
    hierarchy = optional_module("scipy.cluster.hierarchy")
    scale = float(np.abs(matrix).max()) or 1.0
    tree = hierarchy.linkage(matrix / scale, "average", optimal_ordering=True)
    return np.asarray(hierarchy.leaves_list(tree))


def try_section(make: Callable[[], Section], name: str, line: str) -> Section:
    """Return a section, or one that says why there is none."""
    try:
        return make()
    except NotApplicable as reason:
        return Section(name, line, {}, Analysis([], [], [str(reason)]))
