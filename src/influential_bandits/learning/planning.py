"""From a learned world to a plan: the best mix of arms, or a spaced schedule when memory fades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import checked_horizon, optional_module, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning.loss_model import is_covariance
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.statistics.design import labels_of
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.path import optimum
from influential_bandits.world.instance import Instance, require_instance

__all__ = ["Plan", "best_schedule", "plan", "schedule_loss"]

PERIOD = 240  # rounds of a schedule at most; it repeats after that
SHORT_PERIODS = 12  # all periods up to here are tried too, if a schedule is to be the best found
SWEEPS = 50
LONG_RUN = 100_000  # rounds after which the start no longer shows


@dataclass(frozen=True, eq=False)
class Plan:
    """What to play for a number of rounds, and what it should gain.

    Attributes
    ----------
    arms : tuple of str
    mix : array (arms,)
        Share of the rounds for each arm.
    schedule : array (rounds,) of int, or None
        Where memory fades, an order to repeat; without fading the order does not matter.
    logged_mix : array (arms,)
        What it is compared with: arms drawn at random with these shares.
    loss, logged_loss : float
        Expected loss per round of the plan and of the logged mix, by the model.
    gain, low, high : float
        Loss saved per round, and its 95 % interval. Cross-fitted where the model holds fits of two
        halves of the log: each half judges the plan that the other half made, so that a plan which
        only suits the noise of its own half shows no gain.
    cross_fitted : bool
    warnings : tuple of str

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     300, 60, 2, interaction=[[0.5, 0], [0, 0.2]], memory=0.8, seed=0
    ... )
    >>> found = ib.plan(ib.InfluenceModel(memory=0.8, pooled=True).fit(log), 100)
    >>> found.loss < found.logged_loss
    True
    """

    arms: tuple[str, ...]
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

    def __str__(self) -> str:
        """Say the plan in words."""
        order = np.argsort(-self.mix, kind="stable")
        lines = [f"Recommended mix for {self.horizon:,} rounds (logged mix in brackets):"]
        lines += [
            f"  {self.arms[i]:24} {100 * self.mix[i]:5.1f} %  ({100 * self.logged_mix[i]:.1f} %)"
            for i in order
            if self.mix[i] >= 0.001
        ]
        if self.schedule is not None:
            names = ", ".join(self.arms[i] for i in self.schedule[:12])
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
            "mix": dict(zip(self.arms, self.mix.tolist(), strict=True)),
            "schedule": None
            if self.schedule is None
            else [self.arms[i] for i in self.schedule.tolist()],
            "logged_mix": dict(zip(self.arms, self.logged_mix.tolist(), strict=True)),
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
    instance: object = None,
    logged_mix: npt.ArrayLike | None = None,
    halves: Sequence[Mapping[str, Any]] = (),
    days_between_rounds: float | None = None,
) -> Plan:
    """Recommend what to play in the world that a model learned.

    Parameters
    ----------
    model : InfluenceModel
        Fitted; "psd" or "symmetric" or "diagonal".
    horizon : int
        Number of rounds.
    instance : label, optional
        For whom; by default the population.
    logged_mix : array (arms,), optional
        Shares of the arms to compare with; by default uniform.
    halves : sequence of two mappings, optional
        "population" and "covariance" of the same model fitted to each half of the instances.
    days_between_rounds : float, optional
        For memory by the clock, see :meth:`InfluenceModel.instance`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.5, 0.0], [0.0, 0.2]]
    >>> log = ib.data.synthetic_log(300, 60, 2, interaction=truth, memory=0.8, seed=0)
    >>> model = ib.InfluenceModel(memory=0.8, pooled=True).fit(log)
    >>> found = ib.plan(model, 100)
    >>> found.supported, found.mix.round(1)
    (True, array([0.3, 0.7]))
    """
    if not isinstance(model, InfluenceModel):
        raise NotApplicable(
            f"{type(model).__name__} has no influence to plan for; fit an InfluenceModel"
        )
    horizon = checked_horizon(horizon)
    world = model.instance(instance, days_between_rounds, without_drift=True)
    logged = _mix(logged_mix, world.n_arms)
    mix, schedule = _best(world, horizon)
    value = _functional(world, model, horizon, mix, schedule, logged)
    loss, logged_loss = _loss(world, horizon, mix, schedule), _mixed_loss(world, horizon, logged)
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
        gain, spread = _cross_fitted(model, horizon, logged, halves, days_between_rounds)
    wide = float(optional_module("scipy.stats").norm.ppf(0.975))
    low, high = gain - wide * spread, gain + wide * spread
    return Plan(
        world.arm_names,
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


def best_schedule(instance: Instance, longest: int = PERIOD) -> Ints:
    """Return the best periodic schedule that a search finds for a world whose influence fades.

    A local search from a greedy start for every short period and some long ones; the schedule with
    the smallest loss in the long run is kept. A benchmark that is played, not a bound.

    Parameters
    ----------
    instance : Instance
        With memory < 1.
    longest : int
        Rounds after which the schedule repeats, at most.

    Returns
    -------
    array (period,), int64

    Examples
    --------
    >>> import influential_bandits as ib
    >>> best_schedule(ib.Instance([[1, 0], [0, 1]], [0, 0], memory=0.5)).tolist()
    [0, 1]
    """
    if require_instance(instance).memory == 1.0:
        raise NotApplicable("with memory = 1 the order of the pulls does not matter: see optimum")
    longest = whole_number("longest", longest, 1)
    matrix, loss = instance.interaction.to_dense(), instance.initial_loss
    periods = [*range(1, min(SHORT_PERIODS, longest) + 1), longest // 4, longest // 2, longest]
    best, lowest = np.zeros(1, np.int64), np.inf
    for period in sorted({period for period in periods if period >= 1}):
        found = _schedule(matrix, loss, instance.memory, period, True)
        value = _long_run_loss(matrix, loss, instance.memory, found)
        if value < lowest - 1e-12 * (1.0 + abs(value)):
            best, lowest = found, value
    return best


def schedule_loss(instance: Instance, schedule: npt.ArrayLike, horizon: int) -> float:
    """Return the expected total loss of a schedule, repeated to the horizon from a fresh start.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> schedule_loss(ib.Instance([[1, 0], [0, 1]], [0, 0], memory=0.5), [0, 1], 4)
    1.0
    """
    require_instance(instance)
    try:
        arms = np.atleast_1d(np.asarray(schedule, np.int64))
    except (TypeError, ValueError, OverflowError):
        arms = np.zeros(0, np.int64)
    if arms.ndim != 1 or not len(arms) or arms.min() < 0 or arms.max() >= instance.n_arms:
        raise InvalidInput(
            f"a schedule must be arms 0 … {instance.n_arms - 1}, got {schedule!r:.80}"
        )
    matrix, loss = instance.interaction.to_dense(), instance.initial_loss
    return float(_played_loss(matrix, loss, instance.memory, arms, checked_horizon(horizon)))


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
            "the gain is judged by the same data that made the plan, and so is flattered: halves "
            "of the log that could judge each other's plans are missing"
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


def _best(world: Instance, horizon: int) -> tuple[Floats, Ints | None]:
    """Return the best shares, and a schedule where the order matters."""
    if world.memory == 1.0:
        return optimum(world, horizon).counts / horizon, None
    length = min(horizon, PERIOD)
    matrix = world.interaction.to_dense()
    found = _schedule(matrix, world.initial_loss, world.memory, length, horizon > length)
    return np.bincount(found, minlength=world.n_arms) / length, found


def _cross_fitted(
    model: InfluenceModel,
    horizon: int,
    logged: Floats,
    halves: Sequence[Mapping[str, Any]],
    days: float | None,
) -> tuple[float, float]:
    """Return the mean gain of each half's plan by the other half's estimate, and its error."""
    gains, variances = [], []
    for maker, judge in ((0, 1), (1, 0)):
        half = _with_population(model, halves[maker])
        world = half.instance(None, days, without_drift=True)
        mix, schedule = _best(world, horizon)
        value = _functional(world, model, horizon, mix, schedule, logged)
        theta = np.asarray(halves[judge]["population"], np.float64)
        covariance = np.asarray(halves[judge]["covariance"], np.float64)
        gains.append(float(value @ theta))
        variances.append(_spread(value, covariance) ** 2)
    return float(np.mean(gains)), float(np.sqrt(sum(variances)) / 2.0)


def _with_population(model: InfluenceModel, half: Mapping[str, Any]) -> InfluenceModel:
    other = InfluenceModel(**model.get_params())
    for name in ("design_", "arms_", "days_between_events_", "coefficients_"):
        setattr(other, name, getattr(model, name))
    other.population_ = np.asarray(half["population"], np.float64)
    return other


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
    for n, (i, j) in enumerate(labels_of(model.design_.kind, arms)):
        both = pairs[i, j] if i == j else pairs[i, j] + pairs[j, i]
        out[arms + model.design_.controls + n] = both
    return out


def _loss(world: Instance, horizon: int, mix: Floats, schedule: Ints | None) -> float:
    weights = _pair_weights(world, horizon, mix, schedule)
    return float(world.initial_loss @ mix + (world.interaction.to_dense() * weights).sum())


def _mixed_loss(world: Instance, horizon: int, mix: Floats) -> float:
    weights = _mixed_weights(world, horizon, mix)
    return float(world.initial_loss @ mix + (world.interaction.to_dense() * weights).sum())


def _pair_weights(world: Instance, horizon: int, mix: Floats, schedule: Ints | None) -> Floats:
    """Return W with loss per round = l1·mix + Σ W_ij·A_ij for the plan."""
    if schedule is None:
        # Prop. 2.1: ½·xᵀAx − ½·diag(A)·x, whatever the order.
        return 0.5 * horizon * np.outer(mix, mix) - 0.5 * np.diag(mix)
    rounds = min(horizon, LONG_RUN)
    return _schedule_weights(schedule, world.memory, world.n_arms, rounds)


def _mixed_weights(world: Instance, horizon: int, mix: Floats) -> Floats:
    """Return the same for arms drawn at random."""
    lost = 1.0 - world.memory
    if lost == 0.0:
        past = 0.5 * (horizon - 1.0)
    else:
        past = (1.0 - (1.0 - world.memory**horizon) / (horizon * lost)) / lost
    return past * np.outer(mix, mix)


@kernel
def _schedule_weights(schedule: Ints, memory: float, arms: int, rounds: int) -> Floats:
    """Return how much of pair (i, j) a repeated schedule meets per round, from a fresh start."""
    counts, out = np.zeros(arms), np.zeros((arms, arms))
    for n in range(rounds):
        i = schedule[n % schedule.size]
        for j in range(arms):
            out[i, j] += counts[j] / rounds
            counts[j] *= memory
        counts[i] += 1.0
    return out


@kernel
def _played_loss(A: Floats, loss: Floats, memory: float, schedule: Ints, rounds: int) -> float:
    """Return the total loss of a repeated schedule from a fresh start."""
    deviation = np.zeros(loss.size)
    total = 0.0
    for n in range(rounds):
        i = schedule[n % schedule.size]
        total += loss[i] + deviation[i]
        for j in range(loss.size):
            deviation[j] = memory * deviation[j] + A[i, j]
    return total


@kernel
def _long_run_loss(A: Floats, loss: Floats, memory: float, schedule: Ints) -> float:
    """Return the loss per round of a schedule that has been repeated for ever."""
    deviation = np.zeros(loss.size)
    for i in schedule:
        deviation = memory * deviation + A[i]
    deviation /= 1.0 - memory**schedule.size
    total = 0.0
    for i in schedule:
        total += loss[i] + deviation[i]
        deviation = memory * deviation + A[i]
    return total / schedule.size


@kernel
def _schedule(A: Floats, loss: Floats, memory: float, length: int, repeats: bool) -> Ints:
    """Return a schedule: greedy, then improved round by round until nothing helps.

    If it repeats, each place also meets its neighbours of the repeats before and after.
    """
    arms = loss.size
    schedule = np.empty(length, np.int64)
    deviation = np.zeros(arms)
    for n in range(length):
        best = 0
        for i in range(1, arms):
            if loss[i] + deviation[i] < loss[best] + deviation[best]:
                best = i
        schedule[n] = best
        deviation = memory * deviation + A[best]
    reach = length - 1
    if memory**reach < 1e-9:
        reach = int(np.ceil(np.log(1e-9) / np.log(memory)))
    often = 1.0 / (1.0 - memory**length) if repeats else 1.0
    again = memory ** (length - 1) * often if repeats else 0.0  # the same place in other repeats
    for _ in range(SWEEPS):
        changed = False
        for n in range(length):
            cost = loss.copy()
            weight = often
            for k in range(1, reach + 1):
                if repeats or n >= k:
                    before = schedule[(n - k) % length]
                    for i in range(arms):
                        cost[i] += weight * A[before, i]
                if repeats or n + k < length:
                    behind = schedule[(n + k) % length]
                    for i in range(arms):
                        cost[i] += weight * A[i, behind]
                weight *= memory
            for i in range(arms):
                cost[i] += again * A[i, i]
            best = schedule[n]
            for i in range(arms):
                if cost[i] < cost[best] - 1e-12 * (1.0 + abs(cost[best])):
                    best = i
            if best != schedule[n]:
                schedule[n] = best
                changed = True
        if not changed:
            break
    return schedule
