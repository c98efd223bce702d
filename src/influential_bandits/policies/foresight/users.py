"""Many users: what all have taught, and what is each one's own.

A user's level of an arm is normal around everybody's, with deviation τ in units of σ: its
**taste**. It is integrated out exactly, loss by loss: given the earlier losses of the user and the
arm, a loss is a regression on what all share with other regressors, and a little more noise
(``rule.remove_own``). What arms do to each other may differ from user to user, too. So a fleet has
the sums, hypotheses and posteriors of an agent, with candidates for τ and for that difference
beside those for memory, and the same rule decides.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import HOUR
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import halve, log
from influential_bandits.policies.foresight.hypotheses import (
    FIRST_LEVEL_SPREAD,
    MEANS,
    MOST_ARMS,
    STEP,
    add_loss,
    count_regressors,
    place,
    sums_of,
)
from influential_bandits.policies.foresight.posterior import (
    GROWTH,
    HYPOTHESES,
    choose_hypotheses,
    learn,
    normalise_weights,
)
from influential_bandits.policies.foresight.prior import LossPrior
from influential_bandits.policies.foresight.rule import (
    EXACT_ARMS,
    choose_arm,
    count_pull,
    doubt,
    expect_losses,
    memory_number,
    remove_own,
)
from influential_bandits.policies.foresight.stays import AGES, estimate_stays
from influential_bandits.policies.selection import unseen_arm

TASTES = 5  # candidates for τ, as for the spread of levels
DIFFERENCES = 3  # candidates for how users' interactions differ: not at all, and two more
STEP_FROM_PRIOR = 4.0  # 2·log odds against a τ that is one step off what a log says

Counts = npt.NDArray[np.int32]


class Rules(NamedTuple):
    """The settings of a fleet as compiled code sees them."""

    n_arms: int
    memories: int
    memory: float
    tastes: int
    differences: int
    horizon: int
    half_life: float


class Shared(NamedTuple):
    """What all users have taught; as of an agent (``Foresight.fields``)."""

    seen: Ints  # (arms,)
    observations: Ints  # (1,)
    next_choice: Ints  # (1,)
    decisions: Ints  # (1,)
    next_stays: Ints  # (1,): decisions after which stays are estimated again
    squares: Floats  # (variants,)
    log_widths: Floats  # (variants,)
    noise: Floats  # (1,)
    products: Floats
    moments: Floats
    coarse_products: Floats
    coarse_moments: Floats
    variant: Ints  # (hypotheses,)
    level_spread: Floats
    scale: Floats
    weight: Floats
    rest: Floats
    coefficients: Floats
    response: Floats
    covariance: Floats
    common_precision: Floats
    common_moment: Floats
    kept: Floats  # (2,): Σ of what was left a round later, and of how many
    stays: Floats  # (AGES,): rounds still to come at each age; 0 where nothing is known


class Own(NamedTuple):
    """The users, a row each; or one of them."""

    pulls: Counts  # (users, arms)
    seen: Counts  # (users, arms): losses that have come in
    counts: Floats  # (users, arms·memories): faded pulls
    total: Floats  # (users, memories)
    products: Floats  # (users, arms, pairs·memories): as of an agent, of the losses that came in;
    # of many arms what was pulled before, the arm itself and others, summed
    moments: Floats  # (users, arms, regressors·memories): likewise; of many arms, of losses alone
    first: Ints  # (users,): number of the fleet's decision at which it came
    last: Ints  # (users,): and of its latest one
    time: Floats  # (users,): of the latest pull, in seconds, where influence fades by the clock


def make_shared(rules: Rules) -> Shared:
    """Return what is known before the first loss."""
    n_arms, size = rules.n_arms, count_regressors(rules.n_arms)
    few = n_arms if n_arms <= MOST_ARMS else 0
    variants, rows = rules.memories * rules.tastes * rules.differences, HYPOTHESES * n_arms
    return Shared(
        seen=np.zeros(n_arms, np.int64),
        observations=np.zeros(1, np.int64),
        next_choice=np.ones(1, np.int64),
        decisions=np.zeros(1, np.int64),
        next_stays=np.full(1, 64, np.int64),
        squares=np.zeros(variants),
        log_widths=np.zeros(variants),
        noise=np.zeros(1),
        products=np.zeros((few, (few + 1) * (few + 2) // 2 * variants)),
        moments=np.zeros((few, (few + 1) * variants)),
        coarse_products=np.zeros((n_arms - few, 6 * variants)),
        coarse_moments=np.zeros((n_arms - few, 3 * variants)),
        variant=np.zeros(HYPOTHESES, np.int64),
        level_spread=np.zeros(HYPOTHESES),
        scale=np.zeros(HYPOTHESES),
        weight=np.zeros(HYPOTHESES),
        rest=np.zeros(HYPOTHESES),
        coefficients=np.zeros((rows, size)),
        response=np.zeros((rows, MEANS * size)),
        covariance=np.zeros((rows, place(size, 0))),
        common_precision=np.zeros((HYPOTHESES, MEANS * MEANS)),
        common_moment=np.zeros((HYPOTHESES, MEANS)),
        kept=np.array([0.5, 1.0]),
        stays=np.zeros(AGES),
    )


def share_events(prior: LossPrior, n_arms: int) -> Ints:
    """Return how many losses of each arm a prior counts as."""
    seen = np.zeros(n_arms, np.int64)
    seen[: prior.n_arms] = -(-prior.events // prior.n_arms)
    return seen


def take_prior(rules: Rules, shared: Shared, prior: LossPrior) -> None:
    """Count a prior as losses that were seen before, and expect users to differ as it says."""
    if rules.n_arms > MOST_ARMS:
        return
    products, moments, squares = prior.sums()
    variants, told = shared.squares.size, prior.n_arms
    for sums, values in ((shared.products, products), (shared.moments, moments)):
        sums[:told].reshape(told, -1, variants)[:, : values.shape[1]] = values[:, :, None]
    shared.squares[:] = squares
    if prior.taste > 0.0:
        tastes = FIRST_LEVEL_SPREAD * STEP ** np.arange(rules.tastes)
        steps = np.log(prior.taste / prior.sigma / tastes) / math.log(STEP)
        of_variant = np.arange(variants) // rules.differences % rules.tastes
        shared.log_widths[:] = STEP_FROM_PRIOR * (steps**2)[of_variant]
    shared.seen[:] = share_events(prior, rules.n_arms)
    shared.observations[0] = shared.seen.sum()
    choose_now(rules, shared)


@kernel
def choose_now(rules: Rules, shared: Shared) -> None:
    """Choose the hypotheses before the first loss."""
    choose_hypotheses(rules, shared)
    normalise_weights(shared)


def make_own(rules: Rules, users: int) -> Own:
    """Return users who have not done anything yet."""
    n_arms, memories = rules.n_arms, rules.memories
    exact = n_arms <= EXACT_ARMS
    return Own(
        pulls=np.zeros((users, n_arms), np.int32),
        seen=np.zeros((users, n_arms), np.int32),
        counts=np.zeros((users, n_arms * memories)),
        total=np.zeros((users, memories)),
        products=np.zeros((users, n_arms, memories * (place(n_arms + 1, 0) if exact else 2))),
        moments=np.zeros((users, n_arms, memories * (n_arms + 1 if exact else 1))),
        first=np.zeros(users, np.int64),
        last=np.zeros(users, np.int64),
        time=np.zeros(users),
    )


@inlined
def of_user(own: Own, u: int) -> Own:
    """Return what is a user's."""
    return Own(
        own.pulls[u],
        own.seen[u],
        own.counts[u],
        own.total[u],
        own.products[u],
        own.moments[u],
        own.first[u : u + 1],
        own.last[u : u + 1],
        own.time[u : u + 1],
    )


@kernel
def decide(rules: Rules, shared: Shared, own: Own, u: int, eligible: Any, losses: Floats) -> int:
    """Return the arm for a user; what each is expected to cost now is written to ``losses``."""
    mine = of_user(own, u)
    for arm in range(rules.n_arms):
        losses[arm] = 0.0
    if shared.observations[0] == 0:
        return unseen_arm(shared.seen, mine.pulls, eligible)  # type: ignore[arg-type]
    age = 0
    for arm in range(rules.n_arms):
        age += mine.pulls[arm]
    return choose_arm(rules, shared, mine, age, eligible, losses)


@kernel
def look(rules: Rules, shared: Shared, own: Own, u: int, losses: Floats, variance: Floats) -> None:
    """Write what each arm would cost a user now, and the variances of that."""
    n_arms, size = rules.n_arms, shared.response.shape[1] // MEANS
    soon, later = np.zeros((n_arms, size)), np.zeros((n_arms, size))
    common = np.zeros(n_arms)
    mine = of_user(own, u)
    noise = expect_losses(rules, shared, mine, 0.0, losses, soon, later)
    doubt(rules, shared, mine, 0.0, noise, variance, common)
    for arm in range(n_arms):
        variance[arm] *= noise


@inlined
def let_fade(rules: Rules, mine: Own, at: float) -> float:
    """Let a user's influence fade until ``at``, in seconds; return what is left of it."""
    kept = halve(max(at - mine.time[0], 0.0) / HOUR / rules.half_life)
    mine.time[0] = max(at, mine.time[0])
    for k in range(mine.counts.size):
        mine.counts[k] *= kept
    for m in range(rules.memories):
        mine.total[m] *= kept
    return kept


@kernel
def note_time(rules: Rules, shared: Shared, own: Own, u: int, at: float) -> None:
    """Let influence fade until a user's next pull, in seconds; nothing without a half-life.

    Time never runs backwards: an earlier time than that of its latest pull counts as that one.
    """
    if rules.half_life == 0.0:
        return
    if own.first[u] == 0:  # nothing yet that could fade
        own.time[u] = at
        return
    kept = let_fade(rules, of_user(own, u), at)
    shared.kept[0] += kept
    shared.kept[1] += 1.0


@kernel
def note_pull(rules: Rules, shared: Shared, own: Own, u: int, arm: int, memo: Floats) -> None:
    """Count a pull of a user; what it was exposed to goes into ``memo``."""
    shared.decisions[0] += 1
    now = shared.decisions[0]
    if own.first[u] == 0:
        own.first[u] = now
    own.last[u] = now
    count_pull(rules, of_user(own, u), arm, memo)


@kernel
def note_loss(
    rules: Rules, shared: Shared, own: Own, users: int, u: int, arm: int, memo: Floats, loss: float
) -> None:
    """Learn the loss of a pull, for the user and for everybody."""
    mine = of_user(own, u)
    few = rules.n_arms if rules.n_arms <= MOST_ARMS else 0
    coarse, fine = memo[: 2 * rules.memories], memo[2 * rules.memories :]
    counts = fine if few > 0 else coarse
    regressors = np.empty(1 + counts.size // rules.memories)
    shared.seen[arm] += 1
    shared.observations[0] += 1
    products, moments = sums_of(shared)
    variants = rules.memories * rules.tastes * rules.differences
    for v in range(variants):
        left, width = _take_out(rules, mine, arm, counts, v, loss, regressors)
        shared.squares[v] += left * left / width
        shared.log_widths[v] += log(width)
        for j in range(regressors.size):
            share = regressors[j] / width
            moments[arm, j * variants + v] += share * left
            for k in range(j + 1):
                products[arm, place(j, k) * variants + v] += share * regressors[k]
    if shared.observations[0] >= shared.next_choice[0]:
        grown = max(1, shared.observations[0] // GROWTH)
        shared.next_choice[0] = shared.observations[0] + grown
        choose_hypotheses(rules, shared)
    else:
        for h in range(HYPOTHESES):
            if shared.weight[h] > 0.0:
                v = shared.variant[h]
                left, width = _take_out(rules, mine, arm, counts, v, loss, regressors)
                learn(rules, shared, h, arm, regressors, left, width)
    normalise_weights(shared)
    _keep_loss(rules, mine, arm, fine, coarse, loss)
    if shared.decisions[0] >= shared.next_stays[0]:
        shared.next_stays[0] = 2 * shared.decisions[0]
        estimate_stays(own, users, shared.decisions[0], shared.stays)


@inlined
def _keep_loss(
    rules: Rules, mine: Own, arm: int, fine: Floats, coarse: Floats, loss: float
) -> None:
    """Add a loss to a user's own sums."""
    if rules.n_arms <= EXACT_ARMS:
        add_loss(mine.products, mine.moments, arm, fine, rules.memories, loss)
    else:
        for k in range(coarse.size):
            mine.products[arm, k] += coarse[k]
        for m in range(rules.memories):
            mine.moments[arm, m] += loss
    mine.seen[arm] += 1


@kernel
def remember(
    rules: Rules, own: Own, u: int, now: int, arms: Ints, losses: Floats, times: Floats
) -> None:
    """Rebuild a user from its pulls in order, NaN where there is no loss; nobody else is taught."""
    mine = of_user(own, u)
    few = rules.n_arms if rules.n_arms <= MOST_ARMS else 0
    memo = np.empty((few + 2) * rules.memories)
    for t in range(arms.size):
        if rules.half_life > 0.0 and t > 0:
            let_fade(rules, mine, times[t])
        elif rules.half_life > 0.0:
            mine.time[0] = times[0]
        count_pull(rules, mine, arms[t], memo)
        if not math.isnan(losses[t]):
            split = 2 * rules.memories
            _keep_loss(rules, mine, arms[t], memo[split:], memo[:split], losses[t])
    mine.first[0] = now
    mine.last[0] = now


@inlined
def _take_out(
    c: Any, mine: Own, arm: int, counts: Floats, variant: int, loss: float, regressors: Floats
) -> tuple[float, float]:
    """Write a loss's regressors without the user's taste; return the loss without, and its width.

    The width is the variance of what neither the taste nor what is shared explains, in σ².
    """
    m = memory_number(c, variant)
    regressors[0] = 1.0
    for j in range(regressors.size - 1):
        regressors[j + 1] = counts[j * c.memories + m]
    spread, value = remove_own(c, mine, arm, variant, regressors)
    return loss - value, 1.0 + spread
