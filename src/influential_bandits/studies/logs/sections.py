"""What can be told about any log, part by part: its size, the ladder, the test, the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from influential_bandits.display import Bars
from influential_bandits.learning.examination import LAST_PART
from influential_bandits.learning.frequency_caps import CapAdvice
from influential_bandits.learning.impact import Estimate, Impact
from influential_bandits.learning.influence_test_result import InfluenceTest
from influential_bandits.learning.selection import Validation
from influential_bandits.learning.showing_curves import ShowingCurves
from influential_bandits.learning.statistics.pooled_sums import arm_sums
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.remote_folder import describe_files
from influential_bandits.logs.times import format_time
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.packages import optional_module
from influential_bandits.studies.report.content import (
    Analysis,
    Figure,
    Finding,
    HeatMap,
    Panels,
    Picture,
    Section,
    Series,
    Table,
)
from influential_bandits.world.fading import require_fading

SHOWN_CURVES = 12
SHOWN_ARMS = 40
SHORT = (str, int, float, type(None))
CLEAR = {1: "tires, beyond chance", -1: "gains, beyond chance", 0: "may be nothing"}
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
READING_CURVES = (
    "Dashed: the mean as logged, where users who like an arm are often shown it again. Solid, with "
    "its 95 % interval: the same user compared with other times, with the arm's mean as logged. A "
    "recent showing counts less as it fades: {fading}."
)
NOT_TAKEN_OUT = (
    "The solid lines are free of what users like, of the place in a history or a session, and of "
    "what controls explain. An interest that comes and goes, while showings follow it, is not "
    "taken out: see what else it could be."
)


def curves_section(curves: ShowingCurves) -> Section:
    """Show what each arm brings by how often it was shown lately."""
    title, line = "What each arm brings when it is shown again", NOT_TAKEN_OUT
    if not curves.arms:
        none = f"There is no picture: {curves.missing}."
        return Section(
            "arms", "Outcome against recent showings", {}, Analysis([], [], [none]), title
        )
    name = curves.outcome.unit
    figures = [
        Figure(
            f"showings-{n + 1}",
            curve.arm,
            "recent showings of it",
            name,
            [
                Series("as logged", curve.recent, _values(curve.raw), kind="dashed"),
                *(
                    Series(
                        "the same user, adjusted",
                        curve.recent,
                        _values(curve.adjusted),
                        [estimate.low for estimate in curve.adjusted],
                        [estimate.high for estimate in curve.adjusted],
                    )
                    for _ in curve.adjusted[:1]
                ),
            ],
            log_x=False,
            log_y=False,
        )
        for n, curve in enumerate(curves.arms[:SHOWN_CURVES])
    ]
    panels = Panels(
        "showings",
        f"{name.capitalize()} against recent showings of the same arm",
        figures,
        READING_CURVES.format(fading=curves.fading),
    )
    rows = [
        (curve.arm, f"{recent:g}", *(str(each[n]) if each else "" for each in both))
        for curve in curves.arms
        for both in [(curve.raw, curve.adjusted)]
        for n, recent in enumerate(curve.recent)
    ]
    header = ("arm", "recent showings", "as logged", "the same user, adjusted")
    table = Table("All numbers of the picture", header, rows, folded=True)
    return Section("arms", line, {}, Analysis([], [panels], [], [table]), title)


def _values(estimates: Sequence[Estimate]) -> list[float]:
    return [estimate.value for estimate in estimates]


def cost_section(impact: Impact, caps: CapAdvice, seen: bool) -> Section:
    """Say what influence costs in the log's own units.

    Where the test has not ``seen`` influence, the table does not speak of fatigue either.
    """
    direction = impact.direction
    if not seen:
        direction = f"not shown; by the fitted model alone {direction}"
    findings = [
        Finding("direction", direction),
        *(
            Finding(claim, estimate.value, low=estimate.low, high=estimate.high)
            for claim, estimate in (
                ("loss that one more showing adds to the next of the same arm", impact.per_showing),
                ("loss per event that influence adds", impact.lost),
                (
                    f"share of {impact.outcome} that influence takes, in %",
                    impact.share.scale(100.0),
                ),
            )
        ),
    ]
    notes = [GLOSSARY]
    if caps.caps:
        claim = "loss per event that caps should save"
        findings.append(Finding(claim, caps.gain.value, low=caps.gain.low, high=caps.gain.high))
    if caps.caps or (seen and caps.doubt):
        notes.insert(0, str(caps))
    line = (
        "By one model for all users, which takes choices as they are: where users are shown what "
        "they like, it finds too little"
    )
    return Section("cost", line, {}, Analysis(findings, [], notes), "What does it cost?")


def log_section(log: EventLog, title: str = "") -> Section:
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
        title,
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


def ladder_section(validation: Validation, name: str = "ladder") -> Section:
    """Show how models did on the last part of each history, each with one thing more."""
    findings = []
    for model in validation.names:
        low, high = validation.mse_interval(model)
        findings.append(
            Finding(
                f"mean squared error one step ahead: {model}",
                validation.mse(model),
                low=low,
                high=high,
                reason=LADDER_LINES[model],
            )
        )
    findings += list_gains(validation)
    chosen = validation.models["self-fatigue"]  # fading and ridge are the same for all
    settings = {
        **asdict(require_fading(chosen.fading)),
        "ridge": chosen.ridge,
        "pooling": chosen.pooling,
        "last_part": LAST_PART,
    }
    line = "A ladder of models, from constant losses to full influence"
    analysis = Analysis(findings, [draw_gains(validation)], [explain_validation(validation)])
    return Section(name, line, settings, analysis)


def list_gains(validation: Validation) -> list[Finding]:
    """Return how much error each model saves over the one before it."""
    return [
        Finding(
            f"error saved by {gain.model} over {gain.against}, in %",
            gain.percent,
            low=gain.low,
            high=gain.high,
            reason=describe_gain(gain.low, gain.high),
        )
        for gain in validation.gains()
    ]


def draw_gains(validation: Validation) -> Bars:
    """Return what influence adds beyond drift."""
    beyond = [validation.gain(b, a) for a, b in BEYOND_DRIFT if b in validation.names]
    return Bars(
        "gains",
        "What influence adds beyond drift",
        [f"{gain.model} over {gain.against}" for gain in beyond],
        [gain.percent for gain in beyond],
        "squared error saved, in %",
        [gain.low for gain in beyond],
        [gain.high for gain in beyond],
        f"95 % intervals, instances drawn anew. For comparison: {validation.gains()[0]}.",
    )


def explain_validation(validation: Validation, test: InfluenceTest | None = None) -> str:
    """Say how models were compared; how influence fades, a test may have said."""
    chosen = validation.models["self-fatigue"]
    fading = f"How influence fades ({require_fading(chosen.fading)})"
    ridge = f"ridge {chosen.ridge:g}"
    settings = f"{fading} and {ridge} were chosen"
    if test is not None and test.detected:
        settings = f"{fading} is what the test says, and {ridge} was chosen"
    return (
        f"The last {100 * LAST_PART:.0f} % of each history were predicted one step ahead by models "
        "that were fitted to the rest. Each has one thing more than the one before, so that drift "
        f"is not mistaken for influence. {settings} by predicting the last part of the rest."
    )


def describe_gain(low: float, high: float) -> str:
    """Say whether an error saved is better or worse, and whether that is more than chance."""
    if low > 0.0:
        return "better, beyond chance"
    return "worse, beyond chance" if high < 0.0 else "no clear difference"


def influence_section(test: InfluenceTest | str, name: str, title: str = "") -> Section:
    """Show the test of influence, or say why there is none."""
    line = "Is there influence beyond drift, taste and chance{}?"
    if isinstance(test, str):
        none = Analysis([], [], [f"There is no test of influence: {test}."])
        return Section(name, line.format(""), {}, none, title)
    needed = test.events_needed(0.001)
    findings = [
        *(
            Finding(
                f"p-value: {family}",
                score.p_value,
                reason=f"Holm-adjusted for all tests: {score.p_adjusted:.3g}",
            )
            for family, score in test.families.items()
        ),
        *([] if title else list_placebos(test)),
        Finding(
            "share of the error that influence explains, in %",
            100.0 * test.effect,
            low=100.0 * test.effect_low,
            high=100.0 * test.effect_high,
        ),
        Finding(
            "events needed to see an effect of 0.1 % (80 % power)",
            "more than can be told" if needed is None else needed,
        ),
    ]
    notes = [test.summary()]
    if title:  # the table says the rest
        notes = [
            notes[0].splitlines()[0],
            f"Controlled for: {', '.join(test.controls) or 'nothing'}.",
        ]
    return Section(
        name,
        line.format("" if test.controls else ", without controls"),
        {
            "permutations": test.permutations,
            "units": test.units,
            "unit_kind": test.unit_kind,
            **asdict(test.fading),
            "memories_tried": test.memories_tried,
            "controls": ", ".join(test.controls),
            "seed": test.seed,
        },
        Analysis(findings, [test.picture] if test.pairs else [], notes),
        title,
    )


def list_placebos(test: InfluenceTest) -> list[Finding]:
    """Return what arms that cannot have acted seem to do."""
    return [
        Finding(
            f"placebo: p-value of {check.name}",
            check.p_value,
            reason=check.meaning if check.fires else "says nothing against influence",
        )
        for check in test.placebos
    ]


def doubts_section(test: InfluenceTest | None, validation: Validation) -> Section:
    """Say what else may move losses, and what speaks for and against it."""
    findings, notes = list_gains(validation), [explain_validation(validation, test)]
    if test is not None:
        findings = list_placebos(test) + findings
        notes = [f"This log cannot tell apart {spot}." for spot in test.blind_spots] + notes
    line = (
        "Drift, taste, the calendar and chance can look like influence. Arms that cannot have "
        "acted on a loss are put in the place of those that can (placebo), and models without "
        "influence predict what comes next"
    )
    analysis = Analysis(findings, [draw_gains(validation)], notes)
    return Section("what-else", line, {}, analysis, "What else could it be?")


def effects_section(impact: Impact, seen: bool, name: str, title: str) -> Section:
    """Show what one showing of each arm does to the next ones, as all costs are measured."""
    arms = tuple(impact.arms)
    picture = impact.picture
    findings = [
        Finding(
            f"{arm} on itself",
            impact.arms[arm].value,
            low=impact.arms[arm].low,
            high=impact.arms[arm].high,
            reason=CLEAR[impact.arms[arm].sign],
        )
        for arm in picture.labels
    ]
    figures: list[Picture] = [picture]
    line = "What one showing adds to the loss of the next, the same for all users"
    notes = []
    if impact.pairs:
        figures.append(heat_map("matrix", "Which arm costs which", arms, _as_matrix(impact)))
        notes.append(
            "Entry (i, j) of the matrix is what a showing of arm j adds to the loss of arm i right "
            "after it. Arms are ordered so that similar ones stand together."
        )
    elif seen:
        notes.append(
            "What arms do to each other is left out: the test sees none of it, and an estimate of "
            "nothing would blur the others."
        )
    return Section(name, line, {}, Analysis(findings, figures, notes), title)


def _as_matrix(impact: Impact) -> Floats:
    """Return what each arm does to each other one, (arms, arms)."""
    place = {arm: n for n, arm in enumerate(impact.arms)}
    matrix = np.diag([estimate.value for estimate in impact.arms.values()])
    for (arm, other), estimate in impact.pairs.items():
        matrix[place[arm], place[other]] = matrix[place[other], place[arm]] = estimate.value
    return matrix


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
