"""Weigh what a log says of a plan: halves of it judge each other's, by several kinds of judges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import GROUPS
from influential_bandits.learning.logging_policy import (
    LoggedRounds,
    describe_logged,
    suspect_taste,
)
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_judges import (
    ForwardJudge,
    Half,
    ModelJudge,
    Verdict,
    fit_halves,
    follows_taste,
    pair_looks,
    shrink_forward,
)
from influential_bandits.learning.plan_search import Candidate
from influential_bandits.learning.statistics.design import SYMMETRIC
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats
from influential_bandits.packages import optional_module

COVERAGE = 0.975  # the upper end of an interval
# How often a plan delivers less than the lower end by chance, which is what it promises: of 200
# plans 0.2 are expected to, and with a probability of 82 % none does. At the end of a 95 % interval
# five of 200 would.
BROKEN = 1.0 / 1000.0
# Standard errors beyond which a regressor of a richer model contradicts the model: of four, one is
# in 93 logs by chance.
CONTRADICTS = 3.0
CLEAR_DRIFT = 2.0  # standard errors beyond which drift is more than chance

Judge: TypeAlias = ForwardJudge | ModelJudge


class Evidence(NamedTuple):
    """What is known for and against a plan."""

    model: InfluenceModel
    lasting: bool  # influence never fades
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
            own = self.own.judge(best.comparison)
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
    model: InfluenceModel, log: EventLog | None, execution: Execution | int | None, lasting: bool
) -> Evidence:
    """Return what a model and its log say for and against plans."""
    logged, halves = None, []
    if log is not None:
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
    return Evidence(model, lasting, own, logged, halves, tasteful, corrected)


def _average(verdicts: list[Verdict]) -> Verdict:
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
            return half.judge_richer(plan.comparison)
        return half.judge(plan.comparison)

    across = [judge(half, plan) for half, plan in zip(judges, reversed(of_halves), strict=True)]
    flattered = [judge(half, best) for half in judges]
    return Opinion(_average(across), _average(flattered), freedom, level)


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
