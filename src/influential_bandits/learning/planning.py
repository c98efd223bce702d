"""From a learned world to a plan: the best mix of arms, or a spaced schedule when memory fades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    abbreviate,
    is_real,
    optional_module,
    require_horizon,
    whole_number,
)
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import GROUPS
from influential_bandits.learning.logging_policy import LoggedRounds, read_logged
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_evidence import (
    Comparison,
    ForwardJudge,
    Half,
    ModelJudge,
    Verdict,
    describe_support,
    follows_taste,
    read_halves,
    shrink_forward,
)
from influential_bandits.learning.solvers.psd import is_covariance
from influential_bandits.learning.statistics.design import SYMMETRIC
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.path import optimum
from influential_bandits.optima.schedules import search_schedule
from influential_bandits.world.instance import Instance

__all__ = ["Plan", "plan"]

LONG_RUN = 100_000  # rounds after which the start no longer shows
COVERAGE = 0.975  # each end of an interval

Judge: TypeAlias = ForwardJudge | ModelJudge


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What to play for a number of rounds, and what it should gain over what was logged.

    Attributes
    ----------
    arm_names : tuple of str
    mix : array (arms,)
        Share of the rounds for each arm.
    schedule : array (rounds,) of int, or None
        Where memory fades, an order to repeat; without fading the order does not matter.
    logged_mix : array (arms,)
        Shares of the arms in the log.
    loss, logged_loss : float
        Expected loss per round of the plan, and of what it is compared with: the log as it was,
        or, where no log is known or ``logged_mix`` is given, arms drawn at random by the model.
    as_logged : bool
        Whether that is the log as it was.
    mean_loss, modelled_loss : float or None
        Mean loss of the log, and what the model says that its rounds lose if all are as the
        population. None without a log.
    calibrated : bool or None
        Whether they are the same, but for chance. If not, choices follow taste or past losses.
    gain, low, high : float
        Loss saved per round, and its 95 % interval. Cross-fitted where the log is known: each half
        of it judges the plan that the other half made, so that a plan which only suits the noise of
        its own half shows no gain.
    gain_from_arms, gain_from_spacing : float
        Parts of the gain: from other arms, and from the order in which they are played, each
        compared with a random order.
    cross_fitted : bool
    supported : bool
        Whether the log judged the plan, and the whole interval of the gain lies above zero.
    rounds_per_session : int or None
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
    rounds_per_session: int | None
    logged_mix: Floats
    loss: float
    logged_loss: float
    as_logged: bool
    mean_loss: float | None
    modelled_loss: float | None
    calibrated: bool | None
    gain: float
    low: float
    high: float
    gain_from_arms: float
    gain_from_spacing: float
    cross_fitted: bool
    supported: bool
    warnings: tuple[str, ...]

    @property
    def compared_with(self) -> str:
        """What the gain is over, in words."""
        return "the log as it was" if self.as_logged else "random draws of the logged mix"

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
        lines += self._order_in_words()
        how = "judged across two halves of the log" if self.cross_fitted else "by the model itself"
        what = self.compared_with
        lines.append(
            f"Expected gain over {what}, {how}: {self.gain:.4g} loss per round "
            f"(95 % interval {self.low:.4g} … {self.high:.4g}; "
            f"{what} {self.logged_loss:.4g}, plan {self.loss:.4g})"
        )
        if self.schedule is not None:
            lines.append(
                f"Of the gain, {self.gain_from_arms:.4g} comes from better arms, and "
                f"{self.gain_from_spacing:.4g} from better spacing."
            )
        if self.calibrated is not None:
            word = (
                "the same but for chance" if self.calibrated else "not the same: choices know more"
            )
            lines.append(
                f"Check: the log lost {self.mean_loss:.4g} per round; by the model, its rounds "
                f"lose {self.modelled_loss:.4g} if all are alike ({word})."
            )
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _order_in_words(self) -> list[str]:
        if self.schedule is None:
            return []
        names = [self.arm_names[i] for i in self.schedule[:12]]
        size = self.rounds_per_session
        if size is None:
            text = ", ".join(names)
            return [f"In this order, repeating after {len(self.schedule)}: {text}, …"]
        parts = [", ".join(names[n : n + size]) for n in range(0, len(names), size)]
        text = f"In this order, session by session of {size} rounds, repeating after "
        return [f"{text}{len(self.schedule)}: {'; '.join(parts)}, …"]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "horizon": self.horizon,
            "mix": dict(zip(self.arm_names, self.mix.tolist(), strict=True)),
            "schedule": None
            if self.schedule is None
            else [self.arm_names[i] for i in self.schedule.tolist()],
            "rounds_per_session": self.rounds_per_session,
            "logged_mix": dict(zip(self.arm_names, self.logged_mix.tolist(), strict=True)),
            "loss": self.loss,
            "logged_loss": self.logged_loss,
            "as_logged": self.as_logged,
            "mean_loss": self.mean_loss,
            "modelled_loss": self.modelled_loss,
            "calibrated": self.calibrated,
            "gain": self.gain,
            "low": self.low,
            "high": self.high,
            "gain_from_arms": self.gain_from_arms,
            "gain_from_spacing": self.gain_from_spacing,
            "cross_fitted": self.cross_fitted,
            "supported": self.supported,
            "warnings": list(self.warnings),
        }


class Pace(NamedTuple):
    """How fast influence fades from round to round."""

    keep: Floats  # (rounds,): what is left from a round to the next, repeated
    scale: float  # of A: by rounds, the next round meets all of it, by the clock keep·A

    @property
    def lasting(self) -> bool:
        """Tell whether nothing fades, so that the order does not matter."""
        return bool((self.keep == 1.0).all())


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
    >>> model = ib.InfluenceModel(memory=0.8, pooling="full").fit(log)
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
    pace = _pace(model, world.memory, rounds_per_session, days_between_sessions)
    known = (
        model.about_ if log is None else describe_support(model, log, execution, instance is None)
    )
    evidence = _gather(model, known, instance)
    logged = evidence.logged
    shares = _mix(known.get("logged_mix") if logged_mix is None else logged_mix, world.n_arms)
    as_it_was = logged is not None and logged_mix is None and instance is None
    search = _Search(model.interaction, pace, horizon, longest, shares, as_it_was)
    found = search.best(*evidence.world())
    verdict, low, high = evidence.judge(search, found)
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
        supported=low > 0.0 and evidence.trusted(instance is None),
        warnings=(*_doubts(evidence, low, instance is None), *_limits(model, pace)),
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

    def trusted(self, population: bool) -> bool:
        """Tell whether the interval of a gain is to be believed."""
        judged = bool(self.halves) if population else self.logged is not None
        return judged and self.pairs_judged and (bool(self.corrected) or not self.tasteful)

    def world(self) -> tuple[Floats, Floats]:
        """Return initial losses and interaction to plan with."""
        if self.corrected:
            return shrink_forward(self.corrected)
        return self.own.initial_loss, self.own.interaction

    def judge(self, search: _Search, found: _Found) -> tuple[Verdict, float, float]:
        """Return the gain and its interval."""
        verdict = flattered = self.own.judge(found.comparison)
        if self.halves:
            judges: Sequence[Judge] = self.corrected or [half.by_model for half in self.halves]
            flattered = _average([judge.judge(found.comparison) for judge in judges])
            verdict = _average(
                [
                    judges[1].judge(search.best(*self._world_of(0)).comparison),
                    judges[0].judge(search.best(*self._world_of(1)).comparison),
                ]
            )
        return verdict, *_interval(verdict, flattered, bool(self.corrected))

    def _world_of(self, half: int) -> tuple[Floats, Floats]:
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


def _pace(model: InfluenceModel, memory: float, rounds: object, days: object) -> Pace:
    """Return how influence fades: from round to round, or in sessions by the clock."""
    if rounds is None and days is None:
        return Pace(np.full(1, memory), 1.0 if model.half_life is not None else 1.0 / memory)
    if model.half_life is None:
        raise NotApplicable(
            "sessions are for memory by the clock, and this model's fades by events: fit half_life"
        )
    if rounds is None or days is None:
        raise InvalidInput("give rounds_per_session and days_between_sessions, both or none")
    size = whole_number("rounds_per_session", rounds, 1, LONG_RUN)
    if not is_real(days) or not 0.0 <= float(days) < np.inf:  # type: ignore[arg-type]
        raise InvalidInput(
            f"days_between_sessions must be a number of days, got {abbreviate(days)}"
        )
    keep = np.full(size, memory)
    keep[-1] = max(2.0 ** (-float(days) / model.half_life), 1e-12)  # type: ignore[arg-type]
    return Pace(keep, 1.0)


class _Found(NamedTuple):
    schedule: Ints | None
    comparison: Comparison


class _Search(NamedTuple):
    """Looks for the best plan in a world."""

    kind: str  # of interaction
    pace: Pace
    horizon: int
    longest: int
    other_mix: Floats  # to compare with
    as_logged: bool  # the log as it was, instead

    def best(self, initial_loss: Floats, interaction: Floats) -> _Found:
        """Return the best shares, and a schedule where the order matters, to be judged."""
        matrix = self._admissible(interaction)
        if self.pace.lasting:
            world = Instance(matrix, initial_loss, definite=self.kind == "psd")
            mix = optimum(world, self.horizon).counts / self.horizon
            # Prop. 2.1: ½·xᵀAx − ½·diag(A)·x, whatever the order; half of a mix drawn at random
            # lies before a round.
            pairs = 0.5 * self.horizon * np.outer(mix, mix) - 0.5 * np.diag(mix)
            past = 0.5 * (self.horizon - 1.0)
            return _Found(None, Comparison(mix, pairs, past, *self[4:], False))
        keep, rounds = self.pace.keep, min(self.horizon, LONG_RUN)
        length, repeats = self._length()
        strength = self.pace.scale * matrix
        schedule = search_schedule(strength, initial_loss, keep, length, repeats=repeats)
        pairs, past = _add_pairs(schedule, keep, rounds, len(initial_loss))
        mix, scale = np.bincount(schedule, minlength=len(initial_loss)) / length, self.pace.scale
        return _Found(schedule, Comparison(mix, scale * pairs, scale * past, *self[4:], True))

    def _length(self) -> tuple[int, bool]:
        """Return how long a schedule is, and whether it repeats: after whole sessions."""
        size = len(self.pace.keep)
        if self.horizon <= self.longest:
            return self.horizon, False
        if size > self.longest:
            raise InvalidInput(
                f"a schedule repeats after whole sessions: longest must be at least {size}, "
                f"got {self.longest}"
            )
        return self.longest // size * size, True

    def _admissible(self, matrix: Floats) -> Floats:
        """Return the matrix as the model's kind of interaction has it."""
        if self.kind == "diagonal":
            return np.diag(np.diag(matrix))
        if self.kind == "psd":
            values, vectors = np.linalg.eigh(matrix)
            matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return 0.5 * (matrix + matrix.T)


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


def _interval(verdict: Verdict, flattered: Verdict, corrected: bool) -> tuple[float, float]:
    """Return the 95 % interval.

    Plans of halves are a little worse than that of the whole log, whose gain its own data flatter:
    the truth lies in between, and the upper end leaves room for it. The jackknife's own error
    makes the interval wider.
    """
    stats = optional_module("scipy.stats")
    wide = stats.t.ppf(COVERAGE, 2 * (GROUPS - 1)) if corrected else stats.norm.ppf(COVERAGE)
    spread = float(wide) * float(np.sqrt(verdict.variance))
    return verdict.gain - spread, max(verdict.gain, flattered.gain) + spread


def _doubts(evidence: _Evidence, low: float, population: bool) -> list[str]:
    """Say why the gain may not be what is promised."""
    tasteful, corrected, out = evidence.tasteful, bool(evidence.corrected), []
    if low <= 0.0:
        out.append("the model does not support this plan: its gain may well be zero or negative")
    if population and not evidence.halves:
        out.append(
            "the gain is judged by the same data that made the plan, and so is flattered: pass "
            "log=, of a pooled model and twice as many instances as it has coefficients, so that "
            "two halves of it judge each other's plans"
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
        )
    if tasteful and not corrected:
        out.append(
            "the gain does not allow for taste, so that the plan counts as not supported: it takes "
            "a plan for all, a pooled model, one arm an event, and two halves of 20 instances or "
            "more that have met every arm"
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


@kernel
def _add_pairs(schedule: Ints, keep: Floats, rounds: int, arms: int) -> tuple[Floats, float]:
    """Return how much of pair (i, j) a repeated schedule meets per round, and of all pulls.

    From a fresh start, in units in which a pull counts keep after one round.
    """
    out, counts = np.zeros((arms, arms)), np.zeros(arms)
    past = 0.0
    for n in range(rounds):
        i = schedule[n % schedule.size]
        for j in range(arms):
            out[i, j] += counts[j] / rounds
            past += counts[j] / rounds
        counts[i] += 1.0
        for j in range(arms):
            counts[j] *= keep[n % keep.size]
    return out, past
