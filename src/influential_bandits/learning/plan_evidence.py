"""What a log says for or against a plan: halves of it judge each other's, by several judges.

The pooled fit judges, as the more precise one, where choices have nothing to do with the instances'
own losses, or follow past losses alone. Where instances meet early what they like, and lose less
for it, choices follow taste: estimates from forward deviations judge, which allow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

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
    look_for_taste,
    see_taste,
    suspect_taste,
)
from influential_bandits.learning.model_misfit import POWERS, Misfit, measure_misfit
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_search import Candidate
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    as_matrix,
    interaction_entries,
    interaction_size,
)
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats
from influential_bandits.packages import optional_module

ENOUGH = 2  # instances for each coefficient of a judge
WEAKEST_RIDGE = 1.0  # of a judge: a stronger one pulls what it says of influence towards zero
COVERAGE = 0.975  # the upper end of an interval
# How often a plan delivers less than the lower end by chance, which is what it promises: of 200
# plans 0.2 are expected to, and with a probability of 82 % none does. At the end of a 95 % interval
# five of 200 would.
BROKEN = 1.0 / 1000.0
# Standard errors beyond which a regressor of a richer model contradicts the model: of four, one is
# in 93 logs by chance.
CONTRADICTS = 3.0
CLEAR_DRIFT = 2.0  # standard errors beyond which drift is more than chance


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
    logged: LoggedRounds
    misfit: Misfit | None = None
    freedom: float = np.inf  # degrees of freedom of the covariance

    def judge(self, plan: Candidate) -> Verdict:
        """Return the gain, linear in the coefficients; the log's own mean is the baseline."""
        logged = self.logged
        weights = self._weights(logged.mix - plan.mix, plan.baseline_pairs(logged) - plan.pairs)
        variance = max(float(weights @ self.covariance @ weights), 0.0) + logged.error**2
        spacing = float((plan.spacing_pairs(logged) * self.interaction).sum())
        return Verdict(float(weights @ self.population) + logged.gap, variance, spacing)

    def judge_richer(self, plan: Candidate) -> Verdict:
        """Return the gain by a model that may have another memory, and be no straight line."""
        verdict, misfit, logged = self.judge(plan), self.misfit, self.logged
        if misfit is None:
            return verdict
        own = np.append(plan.own, (plan.roots * self.interaction).sum())
        totals = np.append(plan.totals, plan.totals[-1])
        ratio = totals / np.where(misfit.totals > 0.0, misfit.totals, 1.0)
        # The log's own loss is known, whatever the model.
        baseline = misfit.logged * ratio**POWERS - misfit.logged
        pairs = plan.baseline_pairs(logged) - plan.pairs - logged.pairs
        weights = self._weights(-plan.mix, pairs)
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

    def judge(self, plan: Candidate) -> Verdict:
        """Return the gain; guesses about instances that never met an arm widen it by themselves."""
        loss, initial, matrices, unmet = self.estimate
        more = plan.baseline_pairs(self.logged) - self.logged.pairs
        baseline = loss + (matrices * more).sum(axis=(1, 2))
        gains = baseline - initial @ plan.mix - (matrices * plan.pairs).sum(axis=(1, 2))
        variance = _jackknife(gains[1:]) + float(unmet @ plan.mix) ** 2
        spacing = float((plan.spacing_pairs(self.logged) * matrices[0]).sum())
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


def follows_taste(logged: LoggedRounds, halves: list[Half]) -> bool:
    """Tell whether choices follow taste, as far as halves can tell it; if in doubt, they do."""
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


Judge: TypeAlias = ForwardJudge | ModelJudge


class Evidence(NamedTuple):
    """What is known for and against a plan."""

    model: InfluenceModel
    lasting: bool  # influence never fades
    own: ModelJudge  # the model itself
    halves: list[Half]
    tasteful: bool  # whether choices follow taste
    corrected: list[ForwardJudge]  # of both halves, if they do

    @property
    def logged(self) -> LoggedRounds:
        """Return what the log's rounds met and lost."""
        return self.own.logged

    @property
    def pairs_judged(self) -> bool:
        """Tell whether judges know what arms do to each other."""
        return not self.halves or self.halves[0].by_model.kind == SYMMETRIC

    @property
    def carried_over(self) -> float:
        """Return the share of the recent level that carries over; 0 where chance may be all."""
        model = self.model
        if not model.drift:
            return 0.0
        level = model.design_.n_arms  # the coefficient after those of the arms
        carried = float(model.population_[level])
        error = math.sqrt(max(float(model.population_covariance_[level, level]), 0.0))
        return carried if carried > CLEAR_DRIFT * error else 0.0

    @property
    def fault(self) -> int | None:
        """Return which of the regressors of a richer model contradicts the model, if one does."""
        misfits = [half.by_model.misfit for half in self.halves]
        known = [misfit for misfit in misfits if misfit is not None]
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

    def world(self) -> tuple[Floats, Floats]:
        """Return initial losses and interaction to plan with."""
        if self.corrected:
            return shrink_forward(self.corrected)
        return self.own.initial_loss, self.own.interaction

    def judge(
        self, best: Candidate, of_halves: list[Candidate]
    ) -> tuple[Verdict, float, float, float]:
        """Return the gain, its interval, all that some judge holds for possible, and the promise.

        Half of the instances judge the plan that the other half made, by three kinds of judges: the
        model; a richer one, which may have another memory and be no straight line; and, where
        choices follow taste or may follow it, forward deviations.
        """
        if not self.halves:
            own = self.own.judge(best)
            alone = Opinion(own, own, np.inf, 1.0 - COVERAGE)
            return own, *span_opinions([alone]), span_opinions([alone._replace(level=BROKEN)])[0]
        models = [half.by_model for half in self.halves]
        freedom = sum(model.freedom for model in models)
        asked = [_ask(models, best, of_halves, freedom, BROKEN)]
        asked.append(_ask(models, best, of_halves, freedom, 1.0 - COVERAGE, richer=True))
        able = [half.by_deviations for half in self.halves if half.by_deviations is not None]
        if len(able) == len(models) and (self.tasteful or self.perhaps_tasteful):
            freedom = 2.0 * (GROUPS - 1)  # of the jackknife
            asked.append(_ask(able, best, of_halves, freedom, BROKEN))
        low, high = span_opinions(asked)
        if self.corrected:  # a pooled fit hopes for too much where choices follow taste
            return asked[-1].verdict, low, span_opinions(asked[-1:])[1], low
        return asked[0].verdict, low, high, low

    def world_of(self, half: int) -> tuple[Floats, Floats]:
        """Return what one half plans with."""
        if self.corrected:
            return shrink_forward([self.corrected[half]])
        return self.halves[half].initial_loss, self.halves[half].interaction


def gather_evidence(
    model: InfluenceModel, log: EventLog, execution: Execution | int | None, lasting: bool
) -> Evidence:
    """Return what a model and its log say for and against plans."""
    if require_log(log).arm_names != model.arm_names_:
        raise InvalidInput(
            f"log must be the one that the model was fitted to, of the arms "
            f"{', '.join(model.arm_names_[:5])}, got {log!r}"
        )
    logged = describe_logged(model.design_, model.population_, log)
    halves = fit_halves(model, log, execution)
    tasteful = follows_taste(logged, halves)
    able = [half.by_deviations for half in halves if half.by_deviations is not None]
    corrected = able if tasteful and len(able) == 2 else []
    design = model.design_
    covariance = model.population_covariance_
    own = ModelJudge(design.kind, design.n_arms, model.population_, covariance, logged)
    return Evidence(model, lasting, own, halves, tasteful, corrected)


def average_verdicts(verdicts: list[Verdict]) -> Verdict:
    """Return the mean of two verdicts that do not depend on each other."""
    gain, variance, spacing = np.mean(verdicts, axis=0).tolist()
    return Verdict(gain, variance / len(verdicts), spacing)


class Opinion(NamedTuple):
    """What judges of one kind say."""

    verdict: Verdict  # of each other's plans
    flattered: Verdict  # of the plan of the whole log, which their own data made
    freedom: float  # degrees of freedom of their errors
    level: float  # how often the gain may be below the lower end by chance


def _ask(
    judges: Sequence[Judge],
    best: Candidate,
    of_halves: list[Candidate],
    freedom: float,
    level: float,
    richer: bool = False,
) -> Opinion:
    """Return what each half says of the other's plan, on average, and both of the plan itself."""

    def judge(half: Judge, plan: Candidate) -> Verdict:
        if richer and isinstance(half, ModelJudge):
            return half.judge_richer(plan)
        return half.judge(plan)

    across = [judge(half, plan) for half, plan in zip(judges, reversed(of_halves), strict=True)]
    flattered = [judge(half, best) for half in judges]
    return Opinion(average_verdicts(across), average_verdicts(flattered), freedom, level)


def span_opinions(asked: list[Opinion]) -> tuple[float, float]:
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
