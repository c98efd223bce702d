"""From a learned world to a plan: the best mix of arms, or a spaced schedule when memory fades.

What stands against a plan is a list of checks, each of which may raise a doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from influential_bandits.checks import require_horizon
from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_evidence import Evidence, gather_evidence
from influential_bandits.learning.plan_result import Plan
from influential_bandits.learning.plan_search import Search, find_pace
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.outcome import read_outcome
from influential_bandits.optima.bounded import require_shares

FAULTS = (
    "influence seems to last longer than the model's memory",
    "influence seems to fade faster than the model's memory",
    "influence seems to be no straight line of exposure",
    "influence seems to be no straight line of exposure",
)
WORTH_TELLING = 0.1  # share of the recent level that carries over


def plan(
    model: InfluenceModel,
    log: EventLog,
    horizon: int = 100,
    *,
    shares: Mapping[str, Sequence[float]] | None = None,
    days_between_rounds: float | None = None,
    execution: Execution | int | None = None,
) -> Plan:
    """Recommend what to play in the world that a model learned.

    One plan for all instances: a mix or a schedule that does not look at who it is for. It is
    compared with the log as it was, whatever its policy knew of the instances.

    Parameters
    ----------
    model : InfluenceModel
        Fitted; "psd" or "symmetric" or "diagonal".
    log : EventLog
        That the model was fitted to. The plan is compared with what it lost, and the same model is
        fitted to each half of its instances, so that each half judges the plan of the other.
    horizon : int
        Number of rounds.
    shares : mapping of str to (least, most), optional
        Least and most share of the rounds of some arms, as in ``{"hat": (0.1, 0.3)}``. Mixes and
        schedules keep to them; what nothing can keep to is refused.
    days_between_rounds : float, optional
        For memory by the clock, see :meth:`InfluenceModel.instance`.
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
    >>> advice = ib.plan(model, log, 100)
    >>> advice
    Plan(100 rounds of 2 arms, gain 0.2... (0.1... … 0.2...) loss, cross-fitted)
    >>> advice.supported, advice.calibrated, advice.mix.round(1)
    (True, True, array([0.3, 0.7]))
    """
    if not isinstance(model, InfluenceModel):
        raise NotApplicable(
            f"{type(model).__name__} has no influence to plan for; fit an InfluenceModel"
        )
    horizon = require_horizon(horizon)
    world = model.instance(None, days_between_rounds, without_drift=True)
    bounds = require_shares(shares, model.arm_names_)
    pace = find_pace(model, world.memory)
    evidence = gather_evidence(model, log, execution, pace.lasting)
    logged = evidence.logged
    search = Search(model.interaction, pace, horizon, model.arm_names_, bounds)
    halves = [search.best(*evidence.world_of(half)) for half in range(len(evidence.halves))]
    initial_loss, interaction = evidence.world()
    plans = [search.best(initial_loss, interaction), *halves]
    best = search.choose(plans, initial_loss, interaction)
    verdict, low, high, promise = evidence.judge(best, halves)
    more = best.baseline_pairs(logged) - logged.pairs  # of rounds like the log's
    baseline = logged.loss + float((more * interaction).sum())
    doubts = list_doubts(evidence, promise)
    return Plan(
        arm_names=model.arm_names_,
        outcome=read_outcome(log.about),
        horizon=horizon,
        mix=best.mix,
        schedule=best.schedule,
        logged_mix=logged.mix,
        shares=bounds,
        loss=baseline - verdict.gain,
        logged_loss=baseline,
        mean_loss=logged.loss,
        modelled_loss=logged.modelled,
        calibrated=logged.calibrated,
        gain=verdict.gain,
        low=low,
        high=high,
        gain_from_arms=verdict.gain - verdict.spacing,
        gain_from_spacing=verdict.spacing,
        cross_fitted=bool(evidence.halves),
        promise=promise,
        room=search.bound_regret(best, initial_loss, interaction),
        supported=not any(doubt.decisive for doubt in doubts),
        warnings=tuple(doubt.words for doubt in doubts),
    )


class Doubt(NamedTuple):
    """Why a plan may not gain what is expected."""

    words: str
    decisive: bool = True  # then the plan is not supported


def list_doubts(evidence: Evidence, promise: float) -> list[Doubt]:
    """Return all doubts of a plan; it is supported if none of them is decisive."""
    raised = [check(evidence, promise) for check in CHECKS]
    return [doubt for doubt in raised if doubt is not None]


def _check_promise(_: Evidence, promise: float) -> Doubt | None:
    """A gain must be sure enough to be promised."""
    if promise > 0.0:
        return None
    return Doubt(
        "the log does not support this plan: its gain is not sure enough to be promised, and may "
        "be zero or negative"
    )


def _check_judges(evidence: Evidence, _: float) -> Doubt | None:
    """Others than those who made the plan must judge it."""
    if evidence.halves:
        return None
    return Doubt(
        "the gain is judged by the same data that made the plan, and so is flattered: it takes a "
        "pooled model, and twice as many instances as it has coefficients, for two halves of the "
        "log to judge each other's plans"
    )


def _check_model(evidence: Evidence, _: float) -> Doubt | None:
    """The log must not contradict the model, as far as a richer one can tell."""
    fault = evidence.fault
    if fault is not None:
        return Doubt(
            f"the log contradicts the model, and the plan counts as not supported: "
            f"{FAULTS[fault]}, or choices know more than the model; choose how influence fades "
            "anew, and adjust losses for what moves them beside the arm"
        )
    if all(half.by_model.misfit is not None for half in evidence.halves):
        return None
    return Doubt(
        "the log says too little to check the model by a richer one, and the plan counts as not "
        "supported"
    )


def _check_pairs(evidence: Evidence, _: float) -> Doubt | None:
    """Judges must know what arms do to each other."""
    if evidence.pairs_judged:
        return None
    return Doubt(
        "the log has too few instances, or too many arms, to judge what arms do to each other; "
        "what they do to themselves was judged, and the plan counts as not supported"
    )


def _check_taste(evidence: Evidence, _: float) -> Doubt | None:
    """Choices must not follow taste, nor seem to.

    There a richer model does not see what is wrong with this one: who meets an arm often likes it,
    which hides that its influence lasts.
    """
    if evidence.tasteful:
        return Doubt(
            "choices in the log follow taste, which a plan that is the same for all gives up"
            + ("; the gain allows for it" if evidence.corrected else "")
            + "; taste hides faults of the model, so that the plan counts as not supported"
        )
    if evidence.perhaps_tasteful:
        return Doubt(
            "taste is not ruled out as what choices in the log know, so that the plan counts as "
            "not supported"
        )
    return None


def _check_correction(evidence: Evidence, _: float) -> Doubt | None:
    """Where choices follow taste, the gain must allow for it."""
    if evidence.corrected or not evidence.tasteful:
        return None
    return Doubt(
        "the gain does not allow for taste: that takes a plan for all, a pooled model, one arm an "
        "event, and two halves of 20 instances or more that have met every arm"
    )


def _check_drift(evidence: Evidence, _: float) -> Doubt | None:
    """The plan leaves drift out, which matters where there is some."""
    carried = evidence.carried_over
    if carried < WORTH_TELLING:
        return None
    return Doubt(
        f"losses follow their own recent level ({100.0 * carried:.0f} % of it carries over), which "
        "the plan treats as noise: single instances will lose more or less than it says, and their "
        "mean as much",
        decisive=False,
    )


def _check_solution(evidence: Evidence, _: float) -> Doubt | None:
    """The log must determine the interaction."""
    if evidence.model.determined_:
        return None
    return Doubt(evidence.model.status_, decisive=False)


def _check_horizon(evidence: Evidence, _: float) -> Doubt | None:
    """Influence that never fades grows beyond what was logged."""
    if not evidence.lasting:
        return None
    return Doubt(
        "memory = 1: influence never fades, so that losses grow for ever; a plan for many more "
        "rounds than histories have is an extrapolation",
        decisive=False,
    )


CHECKS = (
    _check_promise,
    _check_judges,
    _check_model,
    _check_pairs,
    _check_taste,
    _check_correction,
    _check_drift,
    _check_solution,
    _check_horizon,
)
