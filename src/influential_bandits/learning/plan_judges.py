"""What a log says for or against a plan: estimates of its halves, and who judges which plan.

The pooled fit judges, as the more precise one, where choices have nothing to do with the instances'
own losses, or follow past losses alone. Where instances meet early what they like, and lose less
for it, choices follow taste: estimates from forward deviations judge, which allow it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import (
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
    see_taste,
)
from influential_bandits.learning.model_misfit import POWERS, Misfit, measure_misfit
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    as_matrix,
    interaction_entries,
    interaction_size,
)
from influential_bandits.learning.taste_check import look_for_taste
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats

ENOUGH = 2  # instances for each coefficient of a judge
WEAKEST_RIDGE = 1.0  # of a judge: a stronger one pulls what it says of influence towards zero


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

    def judge(self, comparison: Comparison) -> Verdict:
        """Return the gain, linear in the coefficients; the log's own mean is the baseline."""
        logged, gap, error = self.logged, 0.0, 0.0
        other = comparison.other_mix
        if comparison.as_logged and logged is not None:
            other, gap, error = logged.mix, logged.gap, logged.error
        weights = self._weights(
            other - comparison.mix, comparison.baseline_pairs(logged) - comparison.pairs
        )
        variance = max(float(weights @ self.covariance @ weights), 0.0) + error**2
        spacing = float((comparison.spacing_pairs(logged) * self.interaction).sum())
        return Verdict(float(weights @ self.population) + gap, variance, spacing)

    def judge_richer(self, comparison: Comparison) -> Verdict:
        """Return the gain by a model that may have another memory, and be no straight line."""
        verdict, misfit, logged = self.judge(comparison), self.misfit, self.logged
        if misfit is None:
            return verdict
        own = np.append(comparison.own, (comparison.roots * self.interaction).sum())
        totals = np.append(comparison.totals, comparison.totals[-1])
        ratio = totals / np.where(misfit.totals > 0.0, misfit.totals, 1.0)
        baseline = misfit.logged * ratio**POWERS
        mix = comparison.other_mix - comparison.mix
        pairs = comparison.baseline_pairs(logged) - comparison.pairs
        if comparison.as_logged and logged is not None:  # its own loss is known, whatever the model
            baseline, mix, pairs = baseline - misfit.logged, -comparison.mix, pairs - logged.pairs
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

    def judge(self, comparison: Comparison) -> Verdict:
        """Return the gain; guesses about instances that never met an arm widen it by themselves."""
        loss, initial, matrices, unmet = self.estimate
        if comparison.as_logged:
            more = comparison.baseline_pairs(self.logged) - self.logged.pairs
            baseline = loss + (matrices * more).sum(axis=(1, 2))
        else:
            baseline = initial @ comparison.other_mix
            baseline = baseline + (matrices * comparison.baseline_pairs(None)).sum(axis=(1, 2))
        gains = baseline - initial @ comparison.mix - (matrices * comparison.pairs).sum(axis=(1, 2))
        variance = _jackknife(gains[1:]) + float(unmet @ comparison.mix) ** 2
        spacing = float((comparison.spacing_pairs(self.logged) * matrices[0]).sum())
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


def fit_halves(
    model: InfluenceModel, log: EventLog, execution: Execution | int | None = None
) -> list[Half]:
    """Return the population as each half of the instances sees it; nothing if nothing is shared.

    Nor if a half has no more instances than a judge has coefficients: its errors are not known.
    A half judges by a symmetric interaction, whatever the model's, as long as it has instances
    enough: a plan is to be as good as it is in the world, not as in one without influence on other
    arms.
    """
    if log.n_instances < 4 or model.pooling == "none":
        return []
    halves = []
    for first in (0, 1):
        half = _fit_half(model, log.take(np.arange(first, log.n_instances, 2)), execution)
        if half is None:
            return []
        halves.append(half)
    return halves


def _fit_half(
    model: InfluenceModel, part: EventLog, execution: Execution | int | None
) -> Half | None:
    """Return what one half says; nothing if it is too small for the errors of its judge."""
    settings = model.get_params()
    fitted = judge = InfluenceModel(**settings).fit(part, execution=execution)
    kind = _choose_judge(model, part)
    diagonal = (kind == "diagonal") != (model.interaction == "diagonal")
    if diagonal or model.ridge > WEAKEST_RIDGE:
        settings |= {"interaction": kind, "ridge": min(float(model.ridge), WEAKEST_RIDGE)}
        judge = InfluenceModel(**settings).fit(part, execution=execution)
    design, free, number = judge.design_, judge.unconstrained_population_, part.n_instances
    if number <= design.size:
        return None
    # The sandwich is too small by about as much, where coefficients are many.
    covariance = judge.population_covariance_ * number / (number - design.size)
    logged = describe_logged(design, free, part)
    estimate = estimate_forward(part, design, float(logged.shuffled.sum()))
    return Half(
        fitted.initial_loss_,
        fitted.interaction_,
        ModelJudge(
            design.kind,
            design.n_arms,
            free,
            covariance,
            logged,
            measure_misfit(part, design, free),
            number - design.size,
        ),
        None if estimate is None else ForwardJudge(estimate, logged),
        look_for_taste(part, design, estimate, execution),
    )


def _choose_judge(model: InfluenceModel, part: EventLog) -> str:
    """Return the kind of interaction that a half of the instances can judge by."""
    size = model.design_.start + interaction_size(SYMMETRIC, part.n_arms)
    many = part.n_arms > MANY_ARMS and model.interaction == "diagonal"
    return "diagonal" if many or part.n_instances < ENOUGH * size else "symmetric"
