"""Look at a log in every way: compare models, test influence, measure its cost, advise caps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from influential_bandits.errors import InvalidLog, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.controls import adjust_losses, require_controls
from influential_bandits.learning.frequency_caps import CapAdvice, advise_caps, advise_nothing
from influential_bandits.learning.impact import Impact, measure_impact
from influential_bandits.learning.influence_test import (
    covers_all_pairs,
    influence_test,
    require_few_arms,
)
from influential_bandits.learning.influence_test_result import ON_THEMSELVES, InfluenceTest
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.selection import Validation, choose, ladder, validate
from influential_bandits.learning.showing_curves import ShowingCurves, measure_showings
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.packages import optional_module
from influential_bandits.world.fading import Fades, require_fading, require_one_fading

LAST_PART = 0.2  # of each history, which models predict
STEPS = 7
TIRING = frozenset({"fatigue", "mixed"})


@dataclass(frozen=True, eq=False, repr=False)
class Examination:
    """What a log says about influence, as numbers."""

    log: EventLog  # as it was read
    adjusted: EventLog  # the same, losses free of what controls explain
    test: InfluenceTest | None
    untestable: str  # why there is no test; empty if there is one
    impact: Impact
    caps: CapAdvice
    curves: ShowingCurves
    validation: Validation  # models, each with one thing more than the one before
    model: InfluenceModel  # one interaction for all instances

    @property
    def influence_seen(self) -> bool:
        """Whether the test sees influence, and no placebo check says otherwise."""
        return self.test is not None and self.test.detected and not self.test.doubts


def examine_log(
    log: EventLog,
    *,
    fading: Fades | None = None,
    controls: Iterable[str] | None = None,
    all_pairs: bool | None = None,
    permutations: int = 999,
    seed: int = 0,
    progress: bool | None = None,
    execution: Execution | int | None = None,
) -> Examination:
    """Return what a log says; arguments are those of :func:`influential_bandits.diagnose`."""
    log = require_log(log)
    names = require_controls(log, controls)
    every = covers_all_pairs(log, all_pairs)
    require_few_arms(log, every)
    bar = Progress("diagnosis", STEPS, progress)
    bar.show()
    test, untestable = None, ""
    options: dict[str, Any] = {"permutations": permutations, "seed": seed, "execution": execution}
    try:
        test = influence_test(log, fading=fading, controls=names, all_pairs=every, **options)
    except NotApplicable as reason:
        untestable = str(reason)
    bar.count_one()
    adjusted = adjust_losses(log, controls)
    bar.count_one()
    base = InfluenceModel("symmetric" if every else "diagonal", drift=True, pooling="full")
    choosable = ["fading", "ridge"]
    if test is not None and test.detected:
        fading = test.fading  # one value for the whole report
    if fading is not None:
        base.set_params(fading=require_one_fading(fading))
        choosable.remove("fading")
    validation, chosen = rank_models(adjusted, base, execution, choosable)
    bar.count_one()
    measured = _model_impact(chosen, test).fit(adjusted, execution=execution)
    impact = measure_impact(measured, log)
    bar.count_one()
    caps = advise_nothing(impact, "it shows no fatigue")
    if test is not None and test.detected and not test.doubts and impact.direction in TIRING:
        caps = advise_caps(measured, adjusted, impact, seed=seed, execution=execution)
    bar.count_one()
    curves = measure_showings(log, adjusted, require_fading(measured.fading), controls=names)
    bar.count_one()
    model = fit_definite(adjusted, chosen, execution)
    bar.count_one()
    bar.close()
    return Examination(log, adjusted, test, untestable, impact, caps, curves, validation, model)


def rank_models(
    log: EventLog,
    base: InfluenceModel,
    execution: Execution | int | None = None,
    choosable: Sequence[str] = ("fading", "ridge"),
) -> tuple[Validation, InfluenceModel]:
    """Compare models on the last part of each history, each with one thing more than the last.

    What is ``choosable`` is chosen on the first part alone; the model that has it is returned too.
    """
    longest = int(log.lengths.max(initial=0))
    if longest < 3:
        raise InvalidLog(
            f"no history is long enough: the longest of {log.n_instances} has {longest} events, "
            "and to fit, choose and judge takes three"
        )
    first = log.without_last(LAST_PART)
    chosen, _ = choose(
        first, base, settings=choosable, fit=False, progress=False, execution=execution
    )
    models = ladder(chosen.fading, chosen.ridge, chosen.pooling)
    if base.interaction == "diagonal":
        del models["full"]
    return validate(log, models, last=LAST_PART, progress=False, execution=execution), chosen


def fit_definite(
    log: EventLog, model: InfluenceModel, execution: Execution | int | None = None
) -> InfluenceModel:
    """Fit one positive semi-definite interaction for all instances; a diagonal one stays so."""
    fitted: InfluenceModel = optional_module("sklearn.base").clone(model)
    if model.interaction != "diagonal":
        fitted.set_params(interaction="psd")
    return fitted.fit(log, execution=execution)


def _model_impact(chosen: InfluenceModel, test: InfluenceTest | None) -> InfluenceModel:
    """Return the model that impact is measured by: of what the test sees, and hardly shrunken.

    The ridge that predicts best makes effects too small, and intervals too narrow. Pairs that the
    test does not see take a part of what arms do to themselves.
    """
    kind = chosen.interaction
    if test is not None and test.seen == (ON_THEMSELVES,):
        kind = "diagonal"
    return InfluenceModel(kind, drift=True, pooling="full", fading=chosen.fading)
