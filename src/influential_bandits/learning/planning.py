"""From a learned world to a plan: the best mix of arms, or a spaced schedule when memory fades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import require_horizon, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.logging_policy import LoggedRounds
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_doubts import list_doubts
from influential_bandits.learning.plan_evidence import gather_evidence
from influential_bandits.learning.plan_judges import Comparison
from influential_bandits.learning.plan_result import Plan
from influential_bandits.learning.plan_search import Search, find_pace
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.outcome import read_outcome
from influential_bandits.numerics.arrays import Floats
from influential_bandits.optima.bounded import require_shares


def plan(
    model: InfluenceModel,
    log: EventLog | None = None,
    horizon: int = 100,
    *,
    shares: Mapping[str, Sequence[float]] | None = None,
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
    log : EventLog, optional
        That the model was fitted to. The plan is compared with what it lost, and the same model is
        fitted to each half of its instances, so that each half judges the plan of the other.
        Without it the model judges its own plan, and nothing is promised.
    horizon : int
        Number of rounds.
    shares : mapping of str to (least, most), optional
        Least and most share of the rounds of some arms, as in ``{"hat": (0.1, 0.3)}``. Mixes and
        schedules keep to them; what nothing can keep to is refused.
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
    horizon, longest = require_horizon(horizon), whole_number("longest", longest, 1)
    world = model.instance(None, days_between_rounds, without_drift=True)
    bounds = require_shares(shares, model.arm_names_)
    pace = find_pace(model, world.memory, rounds_per_session, days_between_sessions)
    evidence = gather_evidence(model, log, execution, pace.lasting)
    logged = evidence.logged
    shown = logged.mix if logged_mix is None and logged is not None else logged_mix
    mix = _mix(shown, world.n_arms)
    as_it_was = logged is not None and logged_mix is None
    options = (mix, as_it_was, model.arm_names_, bounds)
    search = Search(model.interaction, pace, horizon, longest, *options)
    halves = [search.best(*evidence.world_of(half)) for half in range(len(evidence.halves))]
    best = search.choose([search.best(*evidence.world()), *halves], *evidence.world())
    verdict, low, high, promise = evidence.judge(best, halves)
    baseline = _baseline(best.comparison, *evidence.world(), logged)
    doubts = list_doubts(evidence, promise)
    return Plan(
        arm_names=model.arm_names_,
        outcome=model.outcome_ if log is None else read_outcome(log.about),
        horizon=horizon,
        mix=best.comparison.mix,
        schedule=best.schedule,
        rounds_per_session=rounds_per_session,
        logged_mix=mix,
        shares=bounds,
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
        room=search.bound_regret(best, *evidence.world()),
        supported=not any(doubt.decisive for doubt in doubts),
        warnings=tuple(doubt.words for doubt in doubts),
    )


def _mix(shares: npt.ArrayLike | None, arms: int) -> Floats:
    if shares is None:
        return np.full(arms, 1.0 / arms)
    try:
        mix = np.asarray(shares, np.float64)
    except (TypeError, ValueError, OverflowError):
        mix = np.zeros(0)
    if mix.shape != (arms,) or not np.isfinite(mix).all() or (mix < 0).any() or mix.sum() <= 0:
        raise InvalidInput(
            f"logged_mix must be {arms} shares that are not negative, got {shares!r}"
        )
    return mix / mix.sum()


def _baseline(
    comparison: Comparison, initial_loss: Floats, matrix: Floats, logged: LoggedRounds | None
) -> float:
    """Return the loss per round of what a plan is compared with."""
    pairs = comparison.baseline_pairs(logged)
    if comparison.as_logged and logged is not None:
        return logged.loss + float(((pairs - logged.pairs) * matrix).sum())
    return float(initial_loss @ comparison.other_mix + (pairs * matrix).sum())
