"""What a log says for or against a plan: estimates of its halves, and who judges which plan.

The pooled fit judges, as the more precise one, where choices have nothing to do with the instances'
own losses, or follow past losses alone. Where instances meet early what they like, and lose less
for it, choices follow taste: estimates from forward deviations judge, which allow it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import (
    GROUPS,
    MANY_ARMS,
    ForwardEstimate,
    estimate_forward,
)
from influential_bandits.learning.logging_policy import (
    CLEAR,
    TWICE,
    LoggedRounds,
    TasteSigns,
    describe_logged,
    read_logged,
    see_taste,
)
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.model_misfit import EXTRA, POWERS, Misfit, measure_misfit
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.solvers.psd import is_covariance
from influential_bandits.learning.statistics.design import (
    KINDS,
    SYMMETRIC,
    Design,
    as_matrix,
    interaction_entries,
    interaction_matrices,
    interaction_size,
)
from influential_bandits.learning.taste_check import look_for_taste
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats

__all__ = [
    "Comparison",
    "ForwardJudge",
    "Half",
    "ModelJudge",
    "Verdict",
    "describe_support",
    "fit_halves",
    "follows_taste",
    "pair_looks",
    "read_halves",
    "shrink_forward",
]

ENOUGH = 2  # instances for each coefficient of a judge
WEAKEST_RIDGE = 1.0  # of a judge: a stronger one pulls what it says of influence towards zero
DAMAGED = (
    "halves must be estimates of the same model: population, a covariance that is symmetric and "
    "positive semi-definite, what was logged and its forward estimate; fit the model again"
)


class Comparison(NamedTuple):
    """A plan and what it is compared with, as weights of initial losses and influence."""

    mix: Floats  # (arms,): of the plan
    pairs: Floats  # (arms, arms): how much of A_ij a round of the plan meets
    past: float  # how many faded pulls a round meets, on average
    other_mix: Floats  # (arms,): to compare with, drawn at random
    as_logged: bool  # compare with the log as it was instead
    order_matters: bool
    own: Floats  # (3,): what a round of the plan meets of the regressors of a richer model
    totals: Floats  # (3,): the same of all arms together
    roots: Floats  # (arms, arms): what it meets of the roots of exposures, for the fourth

    def baseline_pairs(self, logged: LoggedRounds | None) -> Floats:
        """Return what the baseline meets; the log's as it was, but for the horizon and the pace."""
        if self.as_logged and logged is not None:
            return logged.pairs + self.past * logged.squares - logged.shuffled
        return self.past * np.outer(self.other_mix, self.other_mix)

    def spacing_pairs(self, logged: LoggedRounds | None) -> Floats:
        """Return what better spacing takes away: of both, against a random order."""
        if not self.order_matters:
            return np.zeros_like(self.pairs)
        saved = self.past * np.outer(self.mix, self.mix) - self.pairs
        if self.as_logged and logged is not None:
            saved = saved + logged.pairs - logged.shuffled
        return saved


class Verdict(NamedTuple):
    """What a plan should gain per round."""

    gain: float
    variance: float
    spacing: float  # how much of it is due to the order of the rounds


class ModelJudge(NamedTuple):
    """Judges by coefficients of a pooled model and their covariance."""

    kind: int
    arms: int
    population: Floats  # (size,)
    covariance: Floats  # (size, size)
    logged: LoggedRounds | None
    misfit: Misfit | None = None
    freedom: float = np.inf  # degrees of freedom of the covariance

    def judge(self, what: Comparison) -> Verdict:
        """Return the gain, linear in the coefficients; the log's own mean is the baseline."""
        logged, gap, error = self.logged, 0.0, 0.0
        other = what.other_mix
        if what.as_logged and logged is not None:
            other, gap, error = logged.mix, logged.gap, logged.error
        weights = self._weights(other - what.mix, what.baseline_pairs(logged) - what.pairs)
        variance = max(float(weights @ self.covariance @ weights), 0.0) + error**2
        spacing = float((what.spacing_pairs(logged) * self.interaction).sum())
        return Verdict(float(weights @ self.population) + gap, variance, spacing)

    def judge_richer(self, what: Comparison) -> Verdict:
        """Return the gain by a model that may have another memory, and be no straight line."""
        verdict, misfit, logged = self.judge(what), self.misfit, self.logged
        if misfit is None:
            return verdict
        own = np.append(what.own, (what.roots * self.interaction).sum())
        totals = np.append(what.totals, what.totals[-1])
        ratio = totals / np.where(misfit.totals > 0.0, misfit.totals, 1.0)
        baseline = misfit.logged * ratio**POWERS
        mix, pairs = what.other_mix - what.mix, what.baseline_pairs(logged) - what.pairs
        if what.as_logged and logged is not None:  # whose own loss is known, whatever the model
            baseline, mix, pairs = baseline - misfit.logged, -what.mix, pairs - logged.pairs
        weights = self._weights(mix, pairs)
        plain = np.concatenate(
            [weights[: self.arms], weights[-len(misfit.explained) + self.arms :]]
        )
        more = baseline - own - plain @ misfit.explained
        gain = verdict.gain + float(more @ misfit.coefficients)
        variance = verdict.variance + float(more @ misfit.covariance @ more)
        return Verdict(gain, variance, verdict.spacing)

    @property
    def initial_loss(self) -> Floats:
        """Return l1, (arms,)."""
        return self.population[: self.arms]

    @property
    def interaction(self) -> Floats:
        """Return A, (arms, arms)."""
        size = interaction_size(self.kind, self.arms)
        return as_matrix(self.kind, self.arms, self.population[len(self.population) - size :])

    def _weights(self, mix: Floats, pairs: Floats) -> Floats:
        """Return v with l1·mix + Σ A_ij·pairs_ij = v·coefficients."""
        out = np.zeros(len(self.population))
        out[: self.arms] = mix
        entries = interaction_entries(self.kind, self.arms)
        for n, (i, j) in enumerate(entries, len(out) - len(entries)):
            out[n] = pairs[i, j] if i == j else pairs[i, j] + pairs[j, i]
        return out


class ForwardJudge(NamedTuple):
    """Judges by forward deviations and first meetings; errors by the jackknife."""

    estimate: ForwardEstimate
    logged: LoggedRounds

    def judge(self, what: Comparison) -> Verdict:
        """Return the gain; guesses about instances that never met an arm widen it by themselves."""
        loss, initial, matrices, unmet = self.estimate
        if what.as_logged:
            more = what.baseline_pairs(self.logged) - self.logged.pairs
            baseline = loss + (matrices * more).sum(axis=(1, 2))
        else:
            baseline = initial @ what.other_mix
            baseline = baseline + (matrices * what.baseline_pairs(None)).sum(axis=(1, 2))
        gains = baseline - initial @ what.mix - (matrices * what.pairs).sum(axis=(1, 2))
        variance = _jackknife(gains[1:]) + float(unmet @ what.mix) ** 2
        spacing = float((what.spacing_pairs(self.logged) * matrices[0]).sum())
        return Verdict(float(gains[0]), variance, spacing)


class Half(NamedTuple):
    """One half of the instances: who makes a plan from it, and who judges the other's."""

    initial_loss: Floats  # of the model's population, (arms,)
    interaction: Floats  # (arms, arms)
    by_model: ModelJudge
    by_deviations: ForwardJudge | None
    taste: list[TasteSigns]  # in losses as they are and, where it can be told, free of influence


def _jackknife(estimates: Floats) -> Any:
    """Return the variance from estimates that each leave out one group, (groups, …)."""
    deviations = estimates - estimates.mean(axis=0)
    return (len(estimates) - 1.0) / len(estimates) * (deviations**2).sum(axis=0)


def follows_taste(logged: LoggedRounds | None, halves: list[Half]) -> bool:
    """Tell whether choices follow taste, as far as halves can tell it; if in doubt, they do."""
    if logged is None:
        return False
    if not halves:
        return not logged.calibrated
    looks = pair_looks(halves)
    return any(see_taste(parts, TWICE if len(looks) > 1 else CLEAR) for parts in looks)


def pair_looks(halves: list[Half]) -> list[tuple[TasteSigns, ...]]:
    """Return the signs of taste of all halves, one look at the log after the other."""
    return list(zip(*(half.taste for half in halves), strict=False))


def shrink_forward(halves: list[ForwardJudge]) -> tuple[Floats, Floats]:
    """Return initial losses and interaction to plan with: means of halves, pulled towards zero.

    The interaction is shrunk as a whole (James and Stein): entries that are noise would be planned
    for as if they were true.
    """
    initial = np.mean([half.estimate.initial_loss[0] for half in halves], axis=0)
    matrix = np.mean([half.estimate.interaction[0] for half in halves], axis=0)
    variance = np.sum([_jackknife(half.estimate.interaction[1:]) for half in halves], axis=0)
    lower = np.tril_indices(len(matrix))
    sure = variance[lower] > 0.0
    ratio = float((matrix[lower][sure] ** 2 / variance[lower][sure]).sum()) * len(halves) ** 2
    return initial, matrix * max(0.0, 1.0 - (int(sure.sum()) - 2.0) / max(ratio, 1e-300))


def describe_support(
    model: LossModel,
    log: EventLog,
    execution: Execution | int | None = None,
    with_halves: bool = True,
) -> dict[str, Any]:
    """Return what a plan needs beside the model: what was logged, and what two halves of it say."""
    log = require_log(log)
    if log.arm_names != model.arm_names_:
        raise InvalidInput(
            f"log must be the one that the model was fitted to, of the arms "
            f"{', '.join(model.arm_names_[:5])}, got {log!r}"
        )
    logged = describe_logged(model.design_, model.population_, log)
    halves = fit_halves(model, log, execution) if with_halves else []
    return {"logged_mix": logged.mix.tolist(), "logged": logged.to_json(), "halves": halves}


def fit_halves(
    model: LossModel, log: EventLog, execution: Execution | int | None = None
) -> list[dict[str, Any]]:
    """Return the population as each half of the instances sees it; nothing if nothing is shared.

    Nor if a half has no more instances than a judge has coefficients: its errors are not known.
    A half judges by a symmetric interaction, whatever the model's, as long as it has instances
    enough: a plan is to be as good as it is in the world, not as in one without influence on other
    arms.
    """
    if log.n_instances < 4 or model.pooling == "none" or not isinstance(model, InfluenceModel):
        return []
    halves = []
    for half in (0, 1):
        part = log.take(np.arange(half, log.n_instances, 2))
        settings = model.get_params()
        fitted = judge = InfluenceModel(**settings).fit(part, execution=execution)
        kind = _choose_judge(model, part)
        diagonal = (kind == "diagonal") != (model.interaction == "diagonal")
        if diagonal or model.ridge > WEAKEST_RIDGE:
            settings |= {"interaction": kind, "ridge": min(float(model.ridge), WEAKEST_RIDGE)}
            judge = InfluenceModel(**settings).fit(part, execution=execution)
        free, number = judge.unconstrained_population_, part.n_instances
        if number <= judge.design_.size:
            return []
        # The sandwich is too small by about as much, where coefficients are many.
        covariance = judge.population_covariance_ * number / (number - judge.design_.size)
        logged = describe_logged(judge.design_, free, part)
        estimate = estimate_forward(part, judge.design_, float(logged.shuffled.sum()))
        misfit = measure_misfit(part, judge.design_, free)
        taste = look_for_taste(part, judge.design_, estimate, execution)
        halves.append(
            {
                "population": fitted.population_.tolist(),
                "judge": {
                    "interaction": judge.interaction,
                    "population": free.tolist(),
                    "covariance": covariance.tolist(),
                    "freedom": number - judge.design_.size,
                    "misfit": None if misfit is None else misfit.to_json(),
                },
                "logged": logged.to_json(),
                "taste": [signs._asdict() for signs in taste],
                "forward": None if estimate is None else estimate.to_json(),
            }
        )
    return halves


def _choose_judge(model: InfluenceModel, part: EventLog) -> str:
    """Return the kind of interaction that a half of the instances can judge by."""
    size = model.design_.start + interaction_size(SYMMETRIC, part.n_arms)
    many = part.n_arms > MANY_ARMS and model.interaction == "diagonal"
    return "diagonal" if many or part.n_instances < ENOUGH * size else "symmetric"


def read_halves(data: Any, model: InfluenceModel) -> list[Half]:
    """Return the halves that a model file brings along; none if it does not say what was logged."""
    try:
        if all(half["population"] and _knows_less(half) for half in data):
            return []
        one, other = data
        return [_read_half(one, model.design_), _read_half(other, model.design_)]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise InvalidInput(DAMAGED) from None


def _knows_less(half: Any) -> bool:
    """Tell whether a half is of an earlier version.

    Without degrees of freedom, of one look, or with a richer model of three regressors.
    """
    judge = half.get("judge", {})
    misfit = judge.get("misfit") or {}
    fewer = len(misfit.get("coefficients", ())) == EXTRA - 1
    return "freedom" not in judge or isinstance(half.get("taste"), dict) or fewer


def _read_half(half: Any, design: Design) -> Half:
    """Return one half, checked."""
    arms = design.n_arms
    population, judge = np.asarray(half["population"], np.float64), half["judge"]
    kind = KINDS[judge["interaction"]]
    centre = np.asarray(judge["population"], np.float64)
    covariance = np.asarray(judge["covariance"], np.float64)
    wanted = design.start + interaction_size(kind, arms)
    if (
        population.shape != (design.size,)
        or centre.shape != (wanted,)
        or not (np.isfinite(population).all() and np.isfinite(centre).all())
        or not is_covariance(covariance, wanted)
    ):
        raise ValueError(DAMAGED)
    logged = read_logged(half["logged"], arms)
    if logged is None:
        raise ValueError(DAMAGED)
    taste = [
        TasteSigns(*(float(look[name]) for name in TasteSigns._fields)) for look in half["taste"]
    ]
    for signs in taste:
        if not np.isfinite(signs).all() or min(signs.slope_error, signs.gap_error) < 0.0:
            raise ValueError(DAMAGED)
    if not taste:
        raise ValueError(DAMAGED)
    forward = None
    if half["forward"] is not None:
        found = ForwardEstimate(
            *(np.asarray(half["forward"][name], np.float64) for name in ForwardEstimate._fields)
        )
        shapes = [(1 + GROUPS,), (1 + GROUPS, arms), (1 + GROUPS, arms, arms), (arms,)]
        for table, shape in zip(found, shapes, strict=True):
            if table.shape != shape or not np.isfinite(table).all():
                raise ValueError(DAMAGED)
        forward = ForwardJudge(found, logged)
    misfit, freedom = _read_misfit(judge, kind, arms), float(judge["freedom"])
    if not freedom > 0.0:
        raise ValueError(DAMAGED)
    return Half(
        population[:arms],
        interaction_matrices(design, population),
        ModelJudge(kind, arms, centre, covariance, logged, misfit, freedom),
        forward,
        taste,
    )


def _read_misfit(judge: Any, kind: int, arms: int) -> Misfit | None:
    """Return what a richer model says, checked; nothing if a file does not know."""
    if judge.get("misfit") is None:
        return None
    found = Misfit(*(np.asarray(judge["misfit"][name], np.float64) for name in Misfit._fields))
    size = arms + interaction_size(kind, arms)
    shapes = [(EXTRA,), (EXTRA, EXTRA), (size, EXTRA), (EXTRA,), (EXTRA,)]
    for table, shape in zip(found, shapes, strict=True):
        if table.shape != shape or not np.isfinite(table).all():
            raise ValueError(DAMAGED)
    if not is_covariance(found.covariance, EXTRA):
        raise ValueError(DAMAGED)
    return found
