"""Estimates that all decisions share: variances, the scale of influence, memory, and stays.

They are made anew whenever the number of losses, or of decisions, has doubled.
"""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.fleet.effects import weigh_effects
from influential_bandits.policies.fleet.posterior import add_waiting, refresh, support
from influential_bandits.policies.fleet.states import (
    AGES,
    ARM,
    ARM_TRIALS,
    COMMON,
    COMMON_TRIALS,
    EFFECT,
    EFFECT_TRIALS,
    FEW_LOSSES,
    MEMORY,
    NOISE_VARIANCE,
    OBSERVED,
    SETTLED,
    SPREAD,
    SPREAD_TRIALS,
    Counts,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.posterior import place, unknowns

LEAST_PRECISION, MOST_PRECISION = 4.0**-6, 4.0**20  # of the prior, in units of 1/σ²
NOTHING, SOMETHING = 4.0**6, (4.0**5, 4.0**3, 4.0)  # precisions: no A_ii to speak of, and some
LEAST_SHARE = 4.0**-12  # of the precision of a prior that came from a log
WRONG = 2.0  # nats by which a smaller share must beat the whole of it
LIKE_LOSSES = 16.0  # how many surprises σ² counts for, when earlier ones are dropped
FADING = 6.0  # nats by which a fading memory must beat lasting memory
APART = 2.0  # nats by which users who differ in A must beat users who do not, and variances others
SETTLE = 1 << 14  # losses after which the memory is not chosen again
SOONEST, CLEARLY = 1 << 11, 30.0  # or so many, if one is better than the others by so many nats
GONE = 8.0  # a user who has not come for so many of its usual pauses has left
AHEAD = 10.0  # where nothing is known of stays, plan for so many times the rounds played
ARM_TRIALS_ = np.array(ARM_TRIALS)
COMMON_TRIALS_ = np.array(COMMON_TRIALS)
SPREAD_TRIALS_ = np.array(SPREAD_TRIALS)


@kernel
def try_variances(
    shared: Shared,
    seen: Counts,
    sums: Floats,
    i: int,
    residual: float,
    shared_variance: float,
) -> None:
    """Add a loss to the predictive likelihood of every candidate for the variances.

    A candidate is judged by how it predicts each loss from the user's losses before.

    Parameters
    ----------
    residual : float
        Of the loss, from (μ, A) alone.
    shared_variance : float
        What not knowing (μ, A) adds, in units of σ².
    """
    shared.tried[0] += 1.0
    weighed = np.empty(seen.size)
    for a in range(ARM_TRIALS_.size):
        for b in range(COMMON_TRIALS_.size):
            arm = ARM_TRIALS_[a]
            weigh_effects(seen, arm, arm * COMMON_TRIALS_[b], i, weighed)
            surprise = residual
            for k in range(seen.size):
                surprise -= weighed[k] * sums[k]
            variance = 1.0 + weighed[i] + shared_variance
            row = a * COMMON_TRIALS_.size + b
            shared.trials[row, 0] += surprise * surprise / variance
            shared.trials[row, 1] += log(variance)


def nearest_trial(arm: float, common: float, n_arms: int) -> int:
    """Return the candidate that is most like these variances (Kullback–Leibler)."""
    arms = np.repeat(ARM_TRIALS_, COMMON_TRIALS_.size)
    levels = arms * (1.0 + n_arms * np.tile(COMMON_TRIALS_, ARM_TRIALS_.size))
    own, level = arm / arms, (arm + n_arms * common) / levels
    apart = (n_arms - 1) * (own - 1.0 - np.log(own)) + level - 1.0 - np.log(level)
    return int(np.argmin(apart))


@kernel
def estimate_noise(shared: Shared) -> None:
    """Estimate σ² from the surprises so far, in units of what was expected of them."""
    surprises, many = shared.trials[shared.numbers[EFFECT], 0], shared.tried[0]
    if shared.scales[SPREAD] > 0.0:
        for s in range(SPREAD_TRIALS_.size):
            if shared.scales[SPREAD] == SPREAD_TRIALS_[s] and shared.audited[0] > 0.0:
                surprises, many = shared.spreads[s, 0], shared.audited[0]
    if surprises > 0.0 and many > 0.0:
        shared.scales[NOISE_VARIANCE] = surprises / many


@kernel
def _fit(sums: Floats, many: float) -> float:
    """Return the log likelihood of a candidate, σ² at its best."""
    return -0.5 * (many * log(sums[0] / many) + sums[1]) if sums[0] > 0.0 else 0.0


@kernel
def choose_variances(rules: Rules, shared: Shared) -> None:
    """Take the best candidate, and let losses so far count half from now on.

    Where users differ in A, few losses are judged, and those hardly tell taste from noise: from a
    handful nothing is chosen, and what was chosen before is only left for something clearly better.
    """
    if shared.tried[0] < 2.0 * rules.n_arms:
        return
    best, chosen = -math.inf, 0
    many = COMMON_TRIALS_.size
    for trial in range(EFFECT_TRIALS):
        value = _fit(shared.trials[trial], shared.tried[0])
        arm = ARM_TRIALS_[trial // many]
        common = arm * COMMON_TRIALS_[trial % many]
        as_before = arm == shared.scales[ARM] and common == shared.scales[COMMON]
        if as_before and shared.scales[SPREAD] > 0.0:
            value += APART
        if value > best:
            best, chosen = value, trial
    shared.numbers[EFFECT] = chosen
    shared.scales[ARM] = ARM_TRIALS_[chosen // many]
    shared.scales[COMMON] = shared.scales[ARM] * COMMON_TRIALS_[chosen % many]
    for trial in range(EFFECT_TRIALS):
        for k in range(2):
            shared.trials[trial, k] *= 0.5
    shared.tried[0] *= 0.5


@kernel
def choose_spread(shared: Shared) -> None:
    """Take the best candidate for how far users differ in A.

    Once something is known of a shared A, to leave it costs much, and needs some evidence. A single
    loss says nothing: σ² at its best explains it as well by any of them.
    """
    if shared.audited[0] < 2.0:
        return
    best, chosen = -math.inf, 0
    for s in range(SPREAD_TRIALS_.size):
        value = _fit(shared.spreads[s], shared.audited[0])
        if s == 0 and shared.numbers[OBSERVED] >= FEW_LOSSES:
            value += APART
        if value > best:
            best, chosen = value, s
    shared.scales[SPREAD] = SPREAD_TRIALS_[chosen]


@kernel
def forget_audits(shared: Shared, kept: float) -> None:
    """Let audits so far count less: the first ones knew little of the population."""
    for s in range(SPREAD_TRIALS_.size):
        for k in range(2):
            shared.spreads[s, k] *= kept
    shared.audited[0] *= kept


@kernel
def _scale_precision(n_arms: int, group: int, factor: float, precision: Floats) -> None:
    """Multiply the prior's precision of μ (group 0), of A_ii (1) or of A_ij (2)."""
    for i in range(n_arms):
        if group == 0:
            precision[unknowns(i)] *= factor
        for j in range(i + 1):
            if (group == 1 and i == j) or (group == 2 and i != j):
                precision[place(i, j)] *= factor


@kernel
def _search_precision(
    rules: Rules, shared: Shared, least: float, most: float, factor: Floats, solved: Floats
) -> float:
    """Move the prior's precision of μ, of A_ii and of A_ij to where losses are likeliest.

    Returns the log marginal likelihood there.
    """
    seen, chosen = float(shared.numbers[OBSERVED]), shared.numbers[MEMORY]
    best, _ = support(shared, chosen, shared.precision, seen, factor, solved)
    trial = shared.precision.copy()
    for _ in range(2):
        moved = False
        for group in range(3):
            for step in (4.0, 0.25):
                grown = False
                while True:
                    trial[:] = shared.precision
                    _scale_precision(rules.n_arms, group, step, trial)
                    if trial.min() < least or trial.max() > most:
                        break
                    value, _ = support(shared, chosen, trial, seen, factor, solved)
                    if not value > best:
                        break
                    best = value
                    shared.precision[:] = trial
                    moved = grown = True
                if grown:  # the other way lies what it came from
                    break
        if not moved:
            break
    return best


@kernel
def _size_for_memory(
    rules: Rules, shared: Shared, memory: int, factor: Floats, solved: Floats
) -> tuple[Floats, float]:
    """Return a prior's precision for another memory, and the log marginal likelihood of both.

    It is the precision in use, which is the best for the memory in use. But if that memory sees no
    influence, none is possible with that precision: then others are given a chance with some.
    """
    seen = float(shared.numbers[OBSERVED])
    found = shared.precision.copy()
    best, _ = support(shared, memory, found, seen, factor, solved)
    own = found[place(0, 0)]
    if own < NOTHING or shared.known.shape[0] > 0:
        return found, best
    trial = found.copy()
    for precision in SOMETHING:
        trial[:] = shared.precision
        _scale_precision(rules.n_arms, 1, precision / own, trial)
        if rules.n_arms > 1:
            _scale_precision(rules.n_arms, 2, precision / trial[place(1, 0)], trial)
        value, _ = support(shared, memory, trial, seen, factor, solved)
        if value > best:
            best = value
            found[:] = trial
    return found, best


@kernel
def _doubt_log(rules: Rules, shared: Shared, factor: Floats, solved: Floats) -> None:
    """Choose how much the prior of a log counts: in full, unless losses are clearly against it.

    The log may be of other people. What a wrong prior took for surprises says nothing of variances:
    if it counts less than before, those are dropped, and so is what audits have said.
    """
    seen, chosen = float(shared.numbers[OBSERVED]), shared.numbers[MEMORY]
    before = shared.precision.copy()
    shared.precision[:] = 1.0
    whole, _ = support(shared, chosen, shared.precision, seen, factor, solved)
    _search_precision(rules, shared, LEAST_SHARE, 1.0, factor, solved)
    best, noise = support(shared, chosen, shared.precision, seen, factor, solved)
    if best < whole + WRONG:
        shared.precision[:] = 1.0
    for a in range(before.size):
        if shared.precision[a] < before[a]:
            shared.trials[:, 0] = LIKE_LOSSES * noise
            shared.trials[:, 1] = 0.0
            shared.tried[0] = LIKE_LOSSES
            shared.scales[NOISE_VARIANCE] = noise
            shared.scales[SPREAD] = 0.0
            forget_audits(shared, 0.0)
            break


@kernel
def choose_prior(
    rules: Rules, shared: Shared, factor: Floats, solved: Floats, root: Floats
) -> None:
    """Choose the scales of μ and A, and the memory, by marginal likelihood; compute θ again."""
    add_waiting(rules, shared)
    seen = float(shared.numbers[OBSERVED])
    chosen = shared.numbers[MEMORY]
    at_present = 0.0
    if shared.known.shape[0] == 0:
        at_present = _search_precision(
            rules, shared, LEAST_PRECISION, MOST_PRECISION, factor, solved
        )
    else:
        _doubt_log(rules, shared, factor, solved)
    memories = rules.memories.size
    if memories > 1 and shared.numbers[SETTLED] == 0:
        best, second, number = -math.inf, -math.inf, 0
        wanted = shared.precision.copy()
        for m in range(memories):
            trial, value = shared.precision, at_present
            if m != chosen:
                trial, value = _size_for_memory(rules, shared, m, factor, solved)
            if m == 0:
                value += FADING
            if m == chosen and shared.scales[SPREAD] > 0.0:
                value += CLEARLY  # losses of a user who differs say the same thing many times
            if value > best:
                best, second, number = value, best, m
                wanted[:] = trial
            else:
                second = max(second, value)
        shared.numbers[MEMORY] = number
        if shared.precision[place(0, 0)] != wanted[place(0, 0)]:
            shared.precision[:] = wanted
            _search_precision(rules, shared, LEAST_PRECISION, MOST_PRECISION, factor, solved)
        clear = seen >= SOONEST and best - second >= CLEARLY and shared.scales[SPREAD] == 0.0
        if seen >= SETTLE or clear:
            shared.numbers[SETTLED] = 1
        for m in range(memories):
            if m != number:
                refresh(shared, m, factor, solved, root)
        chosen = number
    refresh(shared, chosen, factor, solved, root)


@kernel
def estimate_stays(own: Own, users: int, decisions: int, stays: Floats) -> None:
    """Estimate how many rounds are to come after each age, from who has left (Kaplan–Meier).

    A user has left if it has not come for eight times its usual pause, or the fleet's. Whoever
    reaches an age that nobody has passed is expected to stay ten times as long again.
    """
    reached, left = np.zeros(AGES + 2), np.zeros(AGES + 1)
    ages = np.zeros(users, np.int64)
    pauses, many, longest = 0.0, 0, 0
    for u in range(users):
        for k in range(own.pulls.shape[1]):
            ages[u] += own.pulls[u, k]
        if ages[u] > 1:
            pauses += (own.last[u] - own.first[u]) / (ages[u] - 1.0)
            many += 1
    usual = pauses / many if many > 0 else float(decisions)
    for u in range(users):
        age = min(ages[u], AGES)
        longest = max(longest, age)
        reached[age] += 1.0
        pause = usual
        if ages[u] > 1:
            pause = max(usual, (own.last[u] - own.first[u]) / (ages[u] - 1.0))
        if age < AGES and decisions - own.last[u] > GONE * max(pause, 1.0):
            left[age] += 1.0
    for age in range(longest - 1, -1, -1):
        reached[age] += reached[age + 1]
    goes_on = np.zeros(longest + 1)  # chance to play on after each age
    goes_on[0] = 1.0
    for age in range(1, longest + 1):
        goes_on[age] = goes_on[age - 1] * (1.0 - left[age] / reached[age])
    ahead = goes_on[longest] * AHEAD * longest
    stays[:] = 0.0
    for age in range(longest - 1, -1, -1):
        ahead += goes_on[age]
        stays[age] = ahead / goes_on[age] if goes_on[age] > 0.0 else 1.0


@inlined
def rounds_ahead(stays: Floats, age: int) -> float:
    """Return the number of rounds to plan for, the next one included, after ``age`` rounds."""
    if age < AGES and stays[age] > 0.0:
        return stays[age]
    return AHEAD * (age + 1.0)
