"""From a learned world to a plan: the best mix of arms, or a spaced schedule when memory fades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module, require_horizon, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import GROUPS
from influential_bandits.learning.logging_policy import LoggedRounds, read_logged, suspect_taste
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_evidence import (
    Comparison,
    ForwardJudge,
    Half,
    ModelJudge,
    Verdict,
    describe_support,
    follows_taste,
    pair_looks,
    read_halves,
    shrink_forward,
)
from influential_bandits.learning.plan_search import Found, Pace, Search, find_pace
from influential_bandits.learning.plans import Plan
from influential_bandits.learning.solvers.psd import is_covariance
from influential_bandits.learning.statistics.design import SYMMETRIC
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats

__all__ = ["Plan", "plan"]

COVERAGE = 0.975  # the upper end of an interval
# How often a plan delivers less than the lower end by chance, which is what it promises: of 200
# plans 0.2 are expected to, and with a probability of 82 % none does. At the end of a 95 % interval
# five of 200 would.
BROKEN = 1.0 / 1000.0
# Standard errors beyond which a regressor of a richer model contradicts the model: of four, one is
# in 93 logs by chance.
CONTRADICTS = 3.0
FAULTS = (
    "influence seems to last longer than the model's memory",
    "influence seems to fade faster than the model's memory",
    "influence seems to be no straight line of exposure",
    "influence seems to be no straight line of exposure",
)

Judge: TypeAlias = ForwardJudge | ModelJudge


def plan(
    model: InfluenceModel,
    horizon: int,
    *,
    log: EventLog | None = None,
    instance: object = None,
    logged_mix: npt.ArrayLike | None = None,
    days_between_rounds: float | None = None,
    rounds_per_session: int | None = None,
    days_between_sessions: float | None = None,
    longest: int = 240,
    execution: Execution | int | None = None,
) -> Plan:
    """Recommend what to play in the world that a model learned.

    One plan for all instances: a mix or a schedule that does not look at who it is for. It is
    compared with the log as it was, whatever its policy knew of the instances.

    Parameters
    ----------
    model : InfluenceModel
        Fitted; "psd" or "symmetric" or "diagonal".
    horizon : int
        Number of rounds.
    log : EventLog, optional
        That the model was fitted to. The plan is compared with what it lost, and the same model is
        fitted to each half of its instances, so that each half judges the plan of the other.
        Models that the commands ``fit`` and ``diagnose`` wrote bring both along.
    instance : label, optional
        For whom; by default the population.
    logged_mix : array (arms,), optional
        Shares of the arms to compare with, drawn at random; by default the log as it was, if it is
        known, or uniform shares.
    days_between_rounds : float, optional
        For memory by the clock, see :meth:`InfluenceModel.instance`.
    rounds_per_session, days_between_sessions : int and float, optional
        For memory by the clock: rounds come in sessions of so many, ``days_between_rounds`` apart,
        and so many days lie between the last round of a session and the first of the next.
    longest : int
        Rounds after which a schedule repeats, at most.
    execution : int, LocalExecution or DaskExecution, optional
        Where to fit the halves, or on how many threads; by default on all cores here.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.5, 0.0], [0.0, 0.2]]
    >>> log = ib.data.synthetic_log(300, 60, 2, interaction=truth, memory=0.8, seed=0)
    >>> model = ib.InfluenceModel(fading=0.8, pooling="full").fit(log)
    >>> found = ib.plan(model, 100, log=log)
    >>> found
    Plan(100 rounds of 2 arms, gain 0.2... (0.1... … 0.2...), cross-fitted)
    >>> found.supported, found.calibrated, found.mix.round(1)
    (True, True, array([0.3, 0.7]))
    """
    if not isinstance(model, InfluenceModel):
        raise NotApplicable(
            f"{type(model).__name__} has no influence to plan for; fit an InfluenceModel"
        )
    horizon, longest = require_horizon(horizon), whole_number("longest", longest, 1)
    world = model.instance(instance, days_between_rounds, without_drift=True)
    pace = find_pace(model, world.memory, rounds_per_session, days_between_sessions)
    known = (
        model.about_ if log is None else describe_support(model, log, execution, instance is None)
    )
    evidence = _gather(model, known, instance)
    logged = evidence.logged
    shares = _mix(known.get("logged_mix") if logged_mix is None else logged_mix, world.n_arms)
    as_it_was = logged is not None and logged_mix is None and instance is None
    search = Search(model.interaction, pace, horizon, longest, shares, as_it_was)
    halves = [search.best(*evidence.world_of(half)) for half in range(len(evidence.halves))]
    found = search.choose([search.best(*evidence.world()), *halves], *evidence.world())
    verdict, low, high, promise = evidence.judge(found, halves)
    baseline = _baseline(found.comparison, *evidence.world(), logged)
    return Plan(
        arm_names=model.arm_names_,
        horizon=horizon,
        mix=found.comparison.mix,
        schedule=found.schedule,
        rounds_per_session=rounds_per_session,
        logged_mix=shares,
        loss=baseline - verdict.gain,
        logged_loss=baseline,
        as_logged=as_it_was,
        mean_loss=None if logged is None else logged.loss,
        modelled_loss=None if logged is None else logged.modelled,
        calibrated=None if logged is None else logged.calibrated,
        gain=verdict.gain,
        low=low,
        high=high,
        gain_from_arms=verdict.gain - verdict.spacing,
        gain_from_spacing=verdict.spacing,
        cross_fitted=bool(evidence.halves),
        promise=promise,
        supported=promise > 0.0 and evidence.trusted,
        warnings=(*_doubts(evidence, promise, instance is None), *_limits(model, pace)),
    )


class _Evidence(NamedTuple):
    """What is known for and against a plan."""

    own: ModelJudge  # the model itself
    logged: LoggedRounds | None
    halves: list[Half]
    tasteful: bool  # whether choices follow taste
    corrected: list[ForwardJudge]  # of both halves, if they do

    @property
    def pairs_judged(self) -> bool:
        """Tell whether judges know what arms do to each other."""
        return not self.halves or self.halves[0].by_model.kind == SYMMETRIC

    @property
    def fault(self) -> int | None:
        """Return which of the regressors of a richer model contradicts the model, if one does."""
        found = [half.by_model.misfit for half in self.halves]
        known = [misfit for misfit in found if misfit is not None]
        if not known:
            return None
        total = np.sum([misfit.coefficients for misfit in known], axis=0)
        errors = np.sqrt(np.sum([np.diag(misfit.covariance) for misfit in known], axis=0))
        ratios = np.abs(total) / np.maximum(errors, 1e-300)
        return int(ratios.argmax()) if ratios.max() > CONTRADICTS else None

    @property
    def perhaps_tasteful(self) -> bool:
        """Tell whether choices may follow taste, though that is not clear."""
        looks = pair_looks(self.halves)
        return not self.tasteful and any(suspect_taste(parts, self.logged) for parts in looks)

    @property
    def trusted(self) -> bool:
        """Tell whether others than those who made the plan judged it, and do not disagree.

        Where choices follow taste, a richer model does not see what is wrong with this one: who
        meets an arm often likes it, which hides that its influence lasts.
        """
        return (
            bool(self.halves)
            and self.pairs_judged
            and all(half.by_model.misfit is not None for half in self.halves)
            and self.fault is None
            and not self.tasteful
            and not self.perhaps_tasteful
        )

    def world(self) -> tuple[Floats, Floats]:
        """Return initial losses and interaction to plan with."""
        if self.corrected:
            return shrink_forward(self.corrected)
        return self.own.initial_loss, self.own.interaction

    def judge(self, found: Found, of_halves: list[Found]) -> tuple[Verdict, float, float, float]:
        """Return the gain, its interval, all that some judge holds for possible, and the promise.

        Half of the instances judge the plan that the other half made, by three kinds of judges: the
        model; a richer one, which may have another memory and be no straight line; and, where
        choices follow taste or may follow it, forward deviations.
        """
        if not self.halves:
            own = self.own.judge(found.comparison)
            alone = _Opinion(own, own, np.inf, 1.0 - COVERAGE)
            return own, *_interval([alone]), _interval([alone._replace(level=BROKEN)])[0]
        models = [half.by_model for half in self.halves]
        freedom = sum(model.freedom for model in models)
        asked = [_ask(models, found, of_halves, freedom, BROKEN)]
        asked.append(_ask(models, found, of_halves, freedom, 1.0 - COVERAGE, richer=True))
        able = [half.by_deviations for half in self.halves if half.by_deviations is not None]
        if len(able) == len(models) and (self.tasteful or self.perhaps_tasteful):
            freedom = 2.0 * (GROUPS - 1)  # of the jackknife
            asked.append(_ask(able, found, of_halves, freedom, BROKEN))
        low, high = _interval(asked)
        if self.corrected:  # a pooled fit hopes for too much where choices follow taste
            return asked[-1].verdict, low, _interval(asked[-1:])[1], low
        return asked[0].verdict, low, high, low

    def world_of(self, half: int) -> tuple[Floats, Floats]:
        """Return what one half plans with."""
        if self.corrected:
            return shrink_forward([self.corrected[half]])
        return self.halves[half].initial_loss, self.halves[half].interaction


def _gather(model: InfluenceModel, known: Mapping[str, Any], instance: object) -> _Evidence:
    """Return what a model and its log say."""
    logged = read_logged(known.get("logged"), model.design_.n_arms)
    halves = read_halves(known.get("halves", ()), model) if instance is None else []
    tasteful = follows_taste(logged, halves)
    able = [half.by_deviations for half in halves if half.by_deviations is not None]
    corrected = able if tasteful and len(able) == 2 else []
    return _Evidence(_own_judge(model, instance, logged), logged, halves, tasteful, corrected)


def _mix(given: npt.ArrayLike | None, arms: int) -> Floats:
    if given is None:
        return np.full(arms, 1.0 / arms)
    try:
        mix = np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        mix = np.zeros(0)
    if mix.shape != (arms,) or not np.isfinite(mix).all() or (mix < 0).any() or mix.sum() <= 0:
        raise InvalidInput(f"logged_mix must be {arms} shares that are not negative, got {given!r}")
    return mix / mix.sum()


def _own_judge(model: InfluenceModel, instance: object, logged: LoggedRounds | None) -> ModelJudge:
    """Return what the model says by itself."""
    if instance is None:
        centre, covariance = model.population_, model.population_covariance_
    else:
        row = model.row(instance)
        centre, covariance = model.coefficients_[row], np.diag(model.standard_errors_[row] ** 2)
    if not is_covariance(covariance, model.design_.size):
        raise InvalidInput(
            "the model's population_covariance_ is no covariance: it must be symmetric and "
            "positive semi-definite; fit the model again"
        )
    return ModelJudge(model.design_.kind, model.design_.n_arms, centre, covariance, logged)


def _average(verdicts: list[Verdict]) -> Verdict:
    """Return the mean of two verdicts that do not depend on each other."""
    gain, variance, spacing = np.mean(verdicts, axis=0).tolist()
    return Verdict(gain, variance / len(verdicts), spacing)


def _baseline(
    what: Comparison, initial_loss: Floats, matrix: Floats, logged: LoggedRounds | None
) -> float:
    """Return the loss per round of what a plan is compared with."""
    pairs = what.baseline_pairs(logged)
    if what.as_logged and logged is not None:
        return logged.loss + float(((pairs - logged.pairs) * matrix).sum())
    return float(initial_loss @ what.other_mix + (pairs * matrix).sum())


class _Opinion(NamedTuple):
    """What judges of one kind say."""

    verdict: Verdict  # of each other's plans
    flattered: Verdict  # of the plan of the whole log, which their own data made
    freedom: float  # degrees of freedom of their errors
    level: float  # how often the gain may be below the lower end by chance


def _ask(
    judges: Sequence[Judge],
    found: Found,
    of_halves: list[Found],
    freedom: float,
    level: float,
    richer: bool = False,
) -> _Opinion:
    """Return what each half says of the other's plan, on average, and both of the plan itself."""

    def judge(one: Judge, plan: Found) -> Verdict:
        if richer and isinstance(one, ModelJudge):
            return one.judge_richer(plan.comparison)
        return one.judge(plan.comparison)

    across = [judge(one, plan) for one, plan in zip(judges, reversed(of_halves), strict=True)]
    flattered = [judge(one, found) for one in judges]
    return _Opinion(_average(across), _average(flattered), freedom, level)


def _interval(asked: list[_Opinion]) -> tuple[float, float]:
    """Return the lowest and the highest gain that some judge holds for possible.

    Plans of halves are a little worse than that of the whole log, whose gain its own data flatter:
    the truth lies in between, and the upper end leaves room for it. If not even its own data say
    that it is better, the lower end counts that. Errors are estimates themselves, with so many
    degrees of freedom, which makes the interval wider.
    """
    student = optional_module("scipy.stats").t
    ends = []
    for verdict, flattered, freedom, level in asked:
        error = float(np.sqrt(verdict.variance))
        low = min(verdict.gain, flattered.gain) - float(student.isf(level, freedom)) * error
        high = max(verdict.gain, flattered.gain) + float(student.ppf(COVERAGE, freedom)) * error
        ends.append((low, high))
    return min(low for low, _ in ends), max(high for _, high in ends)


def _doubts(evidence: _Evidence, promise: float, population: bool) -> list[str]:
    """Say why the gain may not be what is promised."""
    tasteful, corrected, out = evidence.tasteful, bool(evidence.corrected), []
    if promise <= 0.0:
        out.append(
            "the log does not support this plan: its gain is not sure enough to be promised, and "
            "may be zero or negative"
        )
    if not population:
        out.append(
            "a plan for one instance is judged by the same data that made it, and counts as not "
            "supported"
        )
    elif not evidence.halves:
        out.append(
            "the gain is judged by the same data that made the plan, and so is flattered: pass "
            "log=, of a pooled model and twice as many instances as it has coefficients, so that "
            "two halves of it judge each other's plans"
        )
    if evidence.fault is not None:
        out.append(
            f"the log contradicts the model, and the plan counts as not supported: "
            f"{FAULTS[evidence.fault]}, or choices know more than the model; choose the memory "
            "anew, and adjust losses for what moves them beside the arm"
        )
    if evidence.logged is None:
        out.append("without the log, nobody knows what it lost: the plan counts as not supported")
    if not evidence.pairs_judged:
        out.append(
            "the log has too few instances, or too many arms, to judge what arms do to each other; "
            "what they do to themselves was judged, and the plan counts as not supported"
        )
    if tasteful:
        out.append(
            "choices in the log follow taste, which a plan that is the same for all gives up"
            + ("; the gain allows for it" if corrected else "")
            + "; taste hides faults of the model, so that the plan counts as not supported"
        )
    if evidence.perhaps_tasteful:
        out.append(
            "taste is not ruled out as what choices in the log know, so that the plan counts as "
            "not supported"
        )
    if tasteful and not corrected:
        out.append(
            "the gain does not allow for taste: that takes a plan for all, a pooled model, one arm "
            "an event, and two halves of 20 instances or more that have met every arm"
        )
    return out


def _limits(model: InfluenceModel, pace: Pace) -> list[str]:
    """Say what the model leaves out."""
    out = []
    if model.drift:
        out.append("the model has drift, which the plan treats as noise")
    if not model.determined_:
        out.append(model.status_)
    if pace.lasting:
        out.append(
            "memory = 1: influence never fades, so that losses grow for ever; a plan for many more "
            "rounds than histories have is an extrapolation"
        )
    return out
