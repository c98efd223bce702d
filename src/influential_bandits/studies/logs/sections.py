"""What can be told about any log, part by part: its size, the ladder, the test, the matrix."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidLog, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.influence_test import InfluenceTest
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.selection import Validation, ladder, validate
from influential_bandits.logs.addresses import describe_files
from influential_bandits.logs.log import EventLog
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

MEMORIES = (0.5, 0.8, 0.9, 0.98, 1.0)
HALF_LIVES = (1.0 / 24.0, 1.0, 30.0)  # days
RIDGES = (10.0, 100.0, 1000.0, 10_000.0)
SHOWN_PAIRS = 12
BEYOND_DRIFT = (("drift", "self-fatigue"), ("drift", "full"), ("self-fatigue", "full"))
LADDER_LINES = {
    "stationary": "each arm of each instance has its own constant loss",
    "drift": "and the recent level of the own history carries over",
    "self-fatigue": "and past pulls of an arm change that arm's loss",
    "full": "and past pulls of every arm change every arm's loss",
}


def log_section(log: EventLog) -> Section:
    """Tell what the log holds, and what was done to it."""
    lengths = log.lengths
    edges = np.unique(np.geomspace(1, lengths.max() + 1, 30).astype(int))
    counts, _ = np.histogram(lengths, edges)
    return Section(
        "log",
        "What the log holds",
        {},
        Analysis(
            [
                Finding("events", len(log)),
                Finding("instances", log.n_instances),
                Finding("arms", log.n_arms),
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
                    list(log.arms),
                    mix_of(log),
                    "share of the events",
                    caption="How often each arm was met.",
                ),
            ],
            [f"Where it comes from: {_told(log.about)}."] if log.about else [],
        ),
    )


def _is_short(value: Any) -> bool:
    return isinstance(value, (str, int, float)) or value is None


def _told(about: dict[str, Any]) -> str:
    parts = [
        f"{key}: {value}" for key, value in about.items() if _is_short(value) and key != "files"
    ]
    parts += describe_files(about)
    dropped = about.get("dropped") or {}
    parts += [f"{count} rows dropped ({reason})" for reason, count in dropped.items()]
    return "; ".join(parts)


def mix_of(log: EventLog) -> Floats:
    """Return the share of each arm among the events, (arms,)."""
    table = log.membership
    counts = np.bincount(log.item, minlength=len(table.items)).astype(float)
    weight = np.repeat(counts, np.diff(table.offsets)) * table.weight
    total = np.bincount(table.arm, weight, minlength=log.n_arms)
    return total / total.sum()


def tuned(
    log: EventLog,
    base: InfluenceModel,
    memory: float | None = None,
    execution: Execution | None = None,
    known: MutableMapping[str, float] | None = None,
) -> InfluenceModel:
    """Return the model whose memory, then ridge, predict the log's last part best.

    Memory goes by events or, if the log has a clock, by the clock. The last part is that of the log
    given: leave out what is to be judged afterwards. ``known`` are errors of models, by all that
    they are made of, that need not be found out again; new ones are added as they come.
    """
    clone = optional_module("sklearn.base").clone
    errors: MutableMapping[str, float] = {} if known is None else known

    def error(model: InfluenceModel) -> float:
        name = repr(sorted(model.get_params().items()))
        if name not in errors:
            found = validate(log, {name: model}, progress=False, execution=execution)
            errors[name] = found.mse(name)
        return errors[name]

    def best(model: InfluenceModel, choices: list[dict[str, float]]) -> InfluenceModel:
        models: list[InfluenceModel] = [clone(model).set_params(**choice) for choice in choices]
        return min(models, key=error)

    model = clone(base)
    if memory is not None:
        model.set_params(memory=memory)
    elif base.half_life is None:
        choices = [{"memory": value} for value in MEMORIES]
        if log.time is not None:
            choices += [{"half_life": value} for value in HALF_LIVES]
        model = best(model.set_params(ridge=1000.0, memory=1.0), choices)
    return best(model, [{"ridge": ridge} for ridge in RIDGES])


def some_instances(log: EventLog, most: int, seed: int) -> EventLog:
    """Return a log of at most so many events: of instances drawn at random, if need be."""
    if len(log) <= most:
        return log
    order = np.random.default_rng(seed).permutation(log.n_instances)
    within = np.cumsum(log.lengths[order]) <= most
    return log.take(np.sort(order[within]))


def ladder_section(
    log: EventLog,
    base: InfluenceModel,
    last: float = 0.2,
    name: str = "ladder",
    execution: Execution | None = None,
) -> tuple[Section, Validation, InfluenceModel]:
    """Compare the ladder of models on the last part of each history.

    Memory and ridge are chosen on the first part alone.
    """
    if log.lengths.max(initial=0) < 3:
        raise InvalidLog(
            f"no history is long enough: the longest of {log.n_instances} has "
            f"{log.lengths.max(initial=0)} events, and to fit, choose and judge takes three"
        )
    chosen = tuned(log.without_last(last), base, execution=execution)
    fading: dict[str, Any] = {"memory": chosen.memory}
    if chosen.half_life is not None:
        fading = {"half_life": chosen.half_life}
    models = ladder(ridge=chosen.ridge, pooled=chosen.pooled, **fading)
    found = validate(log, models, last=last, progress=False, execution=execution)
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
    beyond = [found.gain(b, a) for a, b in BEYOND_DRIFT]
    findings += [
        Finding(
            f"error saved by {gain.model} over {gain.against}, in %",
            gain.percent,
            low=gain.low,
            high=gain.high,
            reason=_gain_in_words(gain.low, gain.high),
        )
        for gain in gains
    ]
    settings = {
        "memory": chosen.memory,
        "half_life_days": chosen.half_life,
        "ridge": chosen.ridge,
        "pooled": chosen.pooled,
        "last_part": last,
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
        f"The last {100 * last:.0f} % of each history were predicted one step ahead by models that "
        "were fitted to the rest. Each rung has one thing more than the rung before, so that drift "
        f"is not sold as influence. Memory {_memory(chosen)} and ridge {chosen.ridge:g} were "
        "chosen by predicting the last part of the rest."
    )
    line = "A ladder of models, from constant losses to full influence"
    return Section(name, line, settings, Analysis(findings, [figure], [note])), found, chosen


def _memory(model: InfluenceModel) -> str:
    if model.half_life is not None:
        return f"with a half-life of {model.half_life:g} days"
    return f"{model.memory:g} per event"


def _gain_in_words(low: float, high: float) -> str:
    if low > 0.0:
        return "better, beyond chance"
    return "worse, beyond chance" if high < 0.0 else "no clear difference"


def test_section(found: InfluenceTest) -> Section:
    """Show the test of influence."""
    shown = found.pairs[:SHOWN_PAIRS]
    needed = found.events_needed(0.001)
    findings = [
        Finding("p-value: influence of any arm on any arm", found.overall.p_value),
        Finding(
            "p-value: arms on themselves",
            found.self_influence.p_value,
            reason=f"adjusted for looking three times: {found.self_influence.p_adjusted:.3g}",
        ),
        Finding(
            "p-value: arms on each other",
            found.cross_influence.p_value,
            reason=f"adjusted for looking three times: {found.cross_influence.p_adjusted:.3g}",
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
    return Section(
        "influence-test",
        "Is there influence beyond drift, taste and chance?",
        {
            "permutations": found.permutations,
            "units": found.units,
            "unit_kind": found.unit_kind,
            "memory": found.memory,
            "half_life_days": found.half_life,
            "seed": found.seed,
        },
        Analysis(findings, [figure] if shown else [], [found.summary()]),
    )


def interaction_section(
    log: EventLog,
    model: InfluenceModel,
    name: str = "interaction",
    execution: Execution | None = None,
) -> tuple[Section, Any]:
    """Fit the shared positive semi-definite matrix to the whole log, and show it."""
    clone = optional_module("sklearn.base").clone
    fitted = clone(model).set_params(interaction="psd").fit(log, execution=execution)
    matrix = fitted.interaction_
    low, high = fitted.interval()["interaction"]
    order = np.argsort(-np.diag(matrix), kind="stable")[:5]
    findings = [
        Finding(
            f"fatigue of {log.arms[i]}: A[{log.arms[i]}, {log.arms[i]}]",
            float(matrix[i, i]),
            low=float(low[i, i]),
            high=float(high[i, i]),
        )
        for i in order
    ]
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
        heat_map("matrix", "The shared interaction", log.arms, matrix),
        Bars(
            "eigenvalues",
            "Eigenvalues of the shared interaction",
            [str(n + 1) for n in range(len(eigenvalues))],
            eigenvalues,
            "eigenvalue",
        ),
    ]
    settings = {"memory": model.memory, "half_life_days": model.half_life, "ridge": model.ridge}
    line = "One positive semi-definite matrix for all instances"
    note = (
        "Entry (i, j) is what a pull of arm j adds to the loss of arm i right after it. Arms are "
        "ordered so that similar ones stand together."
    )
    return Section(name, line, settings, Analysis(findings, figures, [note])), fitted


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


def halves_of(
    log: EventLog, model: InfluenceModel, execution: Execution | None = None
) -> list[dict[str, Any]]:
    """Return the population as each half of the instances sees it, to judge plans honestly."""
    if log.n_instances < 4 or model.pooled is False:
        return []
    clone = optional_module("sklearn.base").clone
    out = []
    for half in (0, 1):
        numbers = np.arange(half, log.n_instances, 2)
        fitted = clone(model).fit(log.take(numbers), execution=execution)
        out.append(
            {
                "population": fitted.population_.tolist(),
                "covariance": fitted.population_covariance_.tolist(),
            }
        )
    return out


def or_reason(make: Callable[[], Section], name: str, line: str) -> Section:
    """Return a section, or one that says why there is none."""
    try:
        return make()
    except NotApplicable as reason:
        return Section(name, line, {}, Analysis([], [], [str(reason)]))
