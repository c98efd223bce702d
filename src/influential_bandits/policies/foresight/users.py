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
from collections import namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import HOUR
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import halve, log
from influential_bandits.policies.contract import Shape
from influential_bandits.policies.foresight.cholesky import place
from influential_bandits.policies.foresight.hypotheses import (
    FIRST_LEVEL_SPREAD,
    MEANS,
    MOST_ARMS,
    STEP,
    add_loss,
    sums_of,
)
from influential_bandits.policies.foresight.posterior import (
    GROWTH,
    HYPOTHESES,
    choose_hypotheses,
    keeps_digits,
    learn,
    normalise_weights,
    posterior_fields,
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


FLEET_FIELDS: dict[str, tuple[str, Shape]] = {
    "decisions": ("int64", 1),
    "next_stays": ("int64", 1),  # decisions after which stays are estimated again
    "kept": ("float64", 2),  # Σ of what was left a round later, and of how many
    "stays": ("float64", AGES),  # rounds still to come at each age; 0 where nothing is known
}
if TYPE_CHECKING:
    Shared = Any
else:  # what all users have taught
    Shared = namedtuple("Shared", (*posterior_fields(1, 1), *FLEET_FIELDS))


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
    variants = rules.memories * rules.tastes * rules.differences
    fields = {**posterior_fields(rules.n_arms, variants), **FLEET_FIELDS}
    shared = Shared(*(np.zeros(shape, dtype) for dtype, shape in fields.values()))
    shared.next_choice[0], shared.next_stays[0] = 1, 64
    shared.kept[:] = 0.5, 1.0
    return shared


def take_prior(rules: Rules, shared: Shared, prior: LossPrior) -> None:
    """Count a prior as losses that were seen before, and expect users to differ as it says."""
    if rules.n_arms > MOST_ARMS:
        return
    variants = shared.squares.size
    products, moments, squares, seen = prior.sums(rules.n_arms)
    shared.products[:], shared.moments[:] = (np.repeat(x, variants, 1) for x in (products, moments))
    shared.squares[:] = squares
    if prior.taste > 0.0:
        tastes = FIRST_LEVEL_SPREAD * STEP ** np.arange(rules.tastes)
        steps = np.log(prior.taste / prior.sigma / tastes) / math.log(STEP)
        of_variant = np.arange(variants) // rules.differences % rules.tastes
        shared.log_widths[:] = STEP_FROM_PRIOR * (steps**2)[of_variant]
    shared.seen[:] = seen
    shared.observations[0] = seen.sum()
    choose_hypotheses(rules, shared)


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
    first, last, time = own.first[u : u + 1], own.last[u : u + 1], own.time[u : u + 1]
    counted = own.pulls[u], own.seen[u], own.counts[u], own.total[u]
    return Own(*counted, own.products[u], own.moments[u], first, last, time)


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


@inlined
def _take_out(
    c: Any, own: Any, arm: int, counts: Floats, variant: int, loss: float, regressors: Floats
) -> tuple[float, float]:
    """Write a loss's regressors without the user's taste; return the loss without, and its width.

    The width is the variance of what neither the taste nor what is shared explains, in σ².
    """
    m = memory_number(c, variant)
    regressors[0] = 1.0
    for j in range(regressors.size - 1):
        regressors[j + 1] = counts[j * c.memories + m]
    if c.tastes == 1:
        return loss, 1.0
    spread, value = remove_own(c, own, arm, variant, regressors)
    return loss - value, 1.0 + spread


@inlined
def take_loss(c: Any, s: Any, own: Any, arm: int, counts: Floats, loss: float) -> None:
    """Take a loss into all sums, and into the posteriors.

    ``counts`` are the user's faded counts at the pull; ``own`` is as in :func:`choose_arm`.
    """
    regressors = np.empty(1 + counts.size // c.memories)
    products, moments = sums_of(s)
    variants = s.squares.size
    s.seen[arm] += 1
    s.observations[0] += 1
    for v in range(variants):
        left, width = _take_out(c, own, arm, counts, v, loss, regressors)
        s.squares[v] += left * left / width
        s.log_widths[v] += log(width)
        for j in range(regressors.size):
            share = regressors[j] / width
            moments[arm, j * variants + v] += share * left
            for k in range(j + 1):
                products[arm, place(j, k) * variants + v] += share * regressors[k]
    due = s.observations[0] >= s.next_choice[0]
    if due:
        s.next_choice[0] = s.observations[0] + max(1, s.observations[0] // GROWTH)
    if due and keeps_digits(s):
        choose_hypotheses(c, s)
    else:
        for h in range(HYPOTHESES):
            if s.weight[h] > 0.0:
                left, width = _take_out(c, own, arm, counts, s.variant[h], loss, regressors)
                learn(c, s, h, arm, regressors, left, width)
        normalise_weights(s)


@kernel
def note_loss(
    rules: Rules, shared: Shared, own: Own, users: int, u: int, arm: int, memo: Floats, loss: float
) -> None:
    """Learn the loss of a pull, for the user and for everybody."""
    mine = of_user(own, u)
    few = rules.n_arms if rules.n_arms <= MOST_ARMS else 0
    coarse, fine = memo[: 2 * rules.memories], memo[2 * rules.memories :]
    counts = fine if few > 0 else coarse
    take_loss(rules, shared, mine, arm, counts, loss)
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
