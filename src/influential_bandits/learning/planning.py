"""From a learned world to a plan: the best mix of arms, or a spaced schedule when memory fades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module, require_horizon, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.solvers.psd import is_covariance
from influential_bandits.learning.statistics.design import interaction_entries
from influential_bandits.learning.statistics.pooled_sums import arm_sums
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.path import optimum
from influential_bandits.optima.schedules import find_schedule
from influential_bandits.world.dynamics import Progress, World, advance, start_progress
from influential_bandits.world.instance import Instance

__all__ = ["Plan", "describe_support", "fit_halves", "plan"]

LONG_RUN = 100_000  # rounds after which the start no longer shows


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What to play for a number of rounds, and what it should gain.

    Attributes
    ----------
    arm_names : tuple of str
    mix : array (arms,)
        Share of the rounds for each arm.
    schedule : array (rounds,) of int, or None
        Where memory fades, an order to repeat; without fading the order does not matter.
    logged_mix : array (arms,)
        What it is compared with: arms drawn at random with these shares.
    loss, logged_loss : float
        Expected loss per round of the plan and of the logged mix, by the model.
    gain, low, high : float
        Loss saved per round, and its 95 % interval. Cross-fitted where the log is known: each half
        of it judges the plan that the other half made, so that a plan which only suits the noise of
        its own half shows no gain.
    cross_fitted : bool
    warnings : tuple of str

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.5, 0], [0, 0.2]]
    >>> log = ib.data.synthetic_log(300, 60, 2, interaction=truth, memory=0.8, seed=0)
    >>> found = ib.plan(ib.InfluenceModel(memory=0.8, pooling="full").fit(log), 100)
    >>> found.loss < found.logged_loss
    True
    """

    arm_names: tuple[str, ...]
    horizon: int
    mix: Floats
    schedule: Ints | None
    logged_mix: Floats
    loss: float
    logged_loss: float
    gain: float
    low: float
    high: float
    cross_fitted: bool
    warnings: tuple[str, ...]

    @property
    def supported(self) -> bool:
        """Whether the whole interval of the gain lies above zero."""
        return self.low > 0.0

    def __repr__(self) -> str:
        """Say the size and the gain."""
        how = ", cross-fitted" if self.cross_fitted else ""
        return (
            f"Plan({self.horizon:,} rounds of {len(self.arm_names)} arms, gain {self.gain:.3g} "
            f"({self.low:.3g} … {self.high:.3g}){how})"
        )

    def __str__(self) -> str:
        """Say the plan in words."""
        order = np.argsort(-self.mix, kind="stable")
        lines = [f"Recommended mix for {self.horizon:,} rounds (logged mix in brackets):"]
        lines += [
            f"  {name:24} {100 * self.mix[i]:5.1f} %  ({100 * self.logged_mix[i]:.1f} %)"
            for i, name in ((i, self.arm_names[i]) for i in order)
            if self.mix[i] >= 0.001
        ]
        if self.schedule is not None:
            names = ", ".join(self.arm_names[i] for i in self.schedule[:12])
            lines.append(f"In this order, repeating after {len(self.schedule)}: {names}, …")
        how = "judged across two halves of the log" if self.cross_fitted else "by the model itself"
        lines.append(
            f"Expected gain over the logged mix, {how}: {self.gain:.4g} loss per round "
            f"(95 % interval {self.low:.4g} … {self.high:.4g}; "
            f"logged mix {self.logged_loss:.4g}, plan {self.loss:.4g} by the model)"
        )
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "horizon": self.horizon,
            "mix": dict(zip(self.arm_names, self.mix.tolist(), strict=True)),
            "schedule": None
            if self.schedule is None
            else [self.arm_names[i] for i in self.schedule.tolist()],
            "logged_mix": dict(zip(self.arm_names, self.logged_mix.tolist(), strict=True)),
            "loss": self.loss,
            "logged_loss": self.logged_loss,
            "gain": self.gain,
            "low": self.low,
            "high": self.high,
            "cross_fitted": self.cross_fitted,
            "supported": self.supported,
            "warnings": list(self.warnings),
        }


def plan(
    model: InfluenceModel,
    horizon: int,
    *,
    log: EventLog | None = None,
    instance: object = None,
    logged_mix: npt.ArrayLike | None = None,
    days_between_rounds: float | None = None,
    longest: int = 240,
    execution: Execution | int | None = None,
) -> Plan:
    """Recommend what to play in the world that a model learned.

    Parameters
    ----------
    model : InfluenceModel
        Fitted; "psd" or "symmetric" or "diagonal".
    horizon : int
        Number of rounds.
    log : EventLog, optional
        That the model was fitted to. Its mix is compared with, and the same model is fitted to each
        half of its instances, so that each half judges the plan of the other. Models that the
        commands ``fit`` and ``diagnose`` wrote bring both along.
    instance : label, optional
        For whom; by default the population.
    logged_mix : array (arms,), optional
        Shares of the arms to compare with; by default those of the log, if it is known, or uniform.
    days_between_rounds : float, optional
        For memory by the clock, see :meth:`InfluenceModel.instance`.
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
    >>> model = ib.InfluenceModel(memory=0.8, pooling="full").fit(log)
    >>> found = ib.plan(model, 100, log=log)
    >>> found
    Plan(100 rounds of 2 arms, gain 0.2... (0.2... … 0.2...), cross-fitted)
    >>> found.supported, found.mix.round(1)
    (True, array([0.3, 0.7]))
    """
    if not isinstance(model, InfluenceModel):
        raise NotApplicable(
            f"{type(model).__name__} has no influence to plan for; fit an InfluenceModel"
        )
    horizon, longest = require_horizon(horizon), whole_number("longest", longest, 1)
    world = model.instance(instance, days_between_rounds, without_drift=True)
    known = (
        model.about_ if log is None else describe_support(model, log, execution, instance is None)
    )
    logged = _mix(known.get("logged_mix") if logged_mix is None else logged_mix, world.n_arms)
    halves = known.get("halves", ())
    mix, schedule = _best(world, horizon, longest)
    value = _functional(world, model, horizon, mix, schedule, logged)
    loss = _loss(world, mix, _pair_weights(world, horizon, mix, schedule))
    logged_loss = _loss(world, logged, _mixed_weights(world, horizon, logged))
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
    gain, spread = float(value @ centre), _spread(value, covariance)
    if not _fit_the_model(halves, model.design_.size):
        raise InvalidInput(
            "halves must be estimates of the same model: population, and a covariance that is "
            "symmetric and positive semi-definite"
        )
    crossed = instance is None and len(halves) == 2
    if crossed:
        gain, spread = _cross_fitted(model, horizon, logged, halves, days_between_rounds, longest)
    wide = float(optional_module("scipy.stats").norm.ppf(0.975))
    low, high = gain - wide * spread, gain + wide * spread
    return Plan(
        model.arm_names_,
        horizon,
        mix,
        schedule,
        logged,
        loss,
        logged_loss,
        gain,
        low,
        high,
        crossed,
        tuple(_warnings(model, world, low, instance, crossed)),
    )


def describe_support(
    model: LossModel,
    log: EventLog,
    execution: Execution | int | None = None,
    with_halves: bool = True,
) -> dict[str, Any]:
    """Return what a plan needs beside the model: the logged mix, and the halves' own estimates."""
    log = require_log(log)
    if log.arm_names != model.arm_names_:
        raise InvalidInput(
            f"log must be the one that the model was fitted to, of the arms "
            f"{', '.join(model.arm_names_[:5])}, got {log!r}"
        )
    shares = arm_sums(log, log.n_arms).shares
    halves = fit_halves(model, log, execution) if with_halves else []
    return {"logged_mix": shares.tolist(), "halves": halves}


def fit_halves(
    model: LossModel, log: EventLog, execution: Execution | int | None = None
) -> list[dict[str, Any]]:
    """Return the population as each half of the instances sees it; nothing if nothing is shared."""
    if log.n_instances < 4 or model.pooling == "none" or not isinstance(model, InfluenceModel):
        return []
    halves = []
    for half in (0, 1):
        numbers = np.arange(half, log.n_instances, 2)
        fitted = InfluenceModel(**model.get_params()).fit(log.take(numbers), execution=execution)
        population, covariance = fitted.population_, fitted.population_covariance_
        halves.append({"population": population.tolist(), "covariance": covariance.tolist()})
    return halves


def _fit_the_model(halves: Any, size: int) -> bool:
    """Tell whether estimates of two halves are of the model's shape."""
    try:
        return all(
            np.shape(half["population"]) == (size,)
            and np.isfinite(np.asarray(half["population"], np.float64)).all()
            and is_covariance(half["covariance"], size)
            for half in halves
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return False


def _spread(value: Floats, covariance: Floats) -> float:
    """Return the standard error of value·θ; rounding may make a variance of zero negative."""
    return float(np.sqrt(max(float(value @ covariance @ value), 0.0)))


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


def _warnings(
    model: InfluenceModel, world: Instance, low: float, instance: object, crossed: bool
) -> list[str]:
    out = []
    if low <= 0.0:
        out.append("the model does not support this plan: its gain may well be zero or negative")
    if instance is None and not crossed:
        out.append(
            "the gain is judged by the same data that made the plan, and so is flattered: pass "
            "log=, of four instances or more and a pooled model, so that two halves of it judge "
            "each other's plans"
        )
    if model.drift:
        out.append("the model has drift, which the plan treats as noise")
    if not model.determined_:
        out.append(model.status_)
    if world.memory == 1.0:
        out.append(
            "memory = 1: influence never fades, so that losses grow for ever; a plan for many more "
            "rounds than histories have is an extrapolation"
        )
    return out


def _best(world: Instance, horizon: int, longest: int) -> tuple[Floats, Ints | None]:
    """Return the best shares, and a schedule where the order matters."""
    if world.memory == 1.0:
        return optimum(world, horizon).counts / horizon, None
    length = min(horizon, longest)
    found = find_schedule(world, length, repeats=horizon > length)
    return np.bincount(found, minlength=world.n_arms) / length, found


def _cross_fitted(
    model: InfluenceModel,
    horizon: int,
    logged: Floats,
    halves: Sequence[Mapping[str, Any]],
    days: float | None,
    longest: int,
) -> tuple[float, float]:
    """Return the mean gain of each half's plan by the other half's estimate, and its error."""
    gains, variances = [], []
    for maker, judge in ((0, 1), (1, 0)):
        half = copy(model)
        half.population_ = np.asarray(halves[maker]["population"], np.float64)
        world = half.instance(None, days, without_drift=True)
        mix, schedule = _best(world, horizon, longest)
        value = _functional(world, model, horizon, mix, schedule, logged)
        theta = np.asarray(halves[judge]["population"], np.float64)
        covariance = np.asarray(halves[judge]["covariance"], np.float64)
        gains.append(float(value @ theta))
        variances.append(_spread(value, covariance) ** 2)
    return float(np.mean(gains)), float(np.sqrt(sum(variances)) / 2.0)


def _functional(
    world: Instance,
    model: InfluenceModel,
    horizon: int,
    mix: Floats,
    schedule: Ints | None,
    logged: Floats,
) -> Floats:
    """Return v with gain per round = v·coefficients: losses are linear in l1 and A."""
    arms = world.n_arms
    own, other = (
        _pair_weights(world, horizon, mix, schedule),
        _mixed_weights(world, horizon, logged),
    )
    pairs = other - own
    if model.half_life is not None:  # the instance holds γ·A
        pairs = world.memory * pairs
    out = np.zeros(model.design_.size)
    out[:arms] = logged - mix
    for n, (i, j) in enumerate(interaction_entries(model.design_.kind, arms)):
        both = pairs[i, j] if i == j else pairs[i, j] + pairs[j, i]
        out[model.design_.start + n] = both
    return out


def _loss(world: Instance, mix: Floats, weights: Floats) -> float:
    """Return l1·mix + Σ W_ij·A_ij."""
    return float(world.initial_loss @ mix + (world.interaction.to_dense() * weights).sum())


def _pair_weights(world: Instance, horizon: int, mix: Floats, schedule: Ints | None) -> Floats:
    """Return W with loss per round = l1·mix + Σ W_ij·A_ij for the plan."""
    if schedule is None:
        # Prop. 2.1: ½·xᵀAx − ½·diag(A)·x, whatever the order.
        return 0.5 * horizon * np.outer(mix, mix) - 0.5 * np.diag(mix)
    rounds = min(horizon, LONG_RUN)
    return _schedule_weights(world.world, start_progress(world.world), schedule, rounds)


def _mixed_weights(world: Instance, horizon: int, mix: Floats) -> Floats:
    """Return the same for arms drawn at random."""
    lost = 1.0 - world.memory
    if lost == 0.0:
        past = 0.5 * (horizon - 1.0)
    else:
        past = (1.0 - (1.0 - world.memory**horizon) / (horizon * lost)) / lost
    return past * np.outer(mix, mix)


@kernel
def _schedule_weights(world: World, progress: Progress, schedule: Ints, rounds: int) -> Floats:
    """Return how much of pair (i, j) a repeated schedule meets per round, from a fresh start."""
    arms = world.initial_loss.size
    out = np.zeros((arms, arms))
    for n in range(rounds):
        i = schedule[n % schedule.size]
        for j in range(arms):  # the weights of a dense world are its faded counts
            out[i, j] += progress.weights[j] / rounds
        advance(world, progress, i, n + 1)
    return out
