"""What a fleet does: decide for a user, note a pull, learn a loss.

An arm is worth its expected loss less ``boldness`` standard deviations. The deviation has two
parts: what is not known of the user's own taste, and what is not known of (μ, A). The second part
is how users explore for each other: it is there while the population is new, and goes as losses
come in, whoever they come from. Of the arms that the best mix of the rounds to come has a use for,
the one with the smallest such bound is pulled; where memory fades, what a pull costs later counts,
too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.fleet.choices import (
    SPREAD_TRIALS_,
    choose_prior,
    choose_spread,
    choose_variances,
    estimate_noise,
    estimate_stays,
    forget_audits,
    rounds_ahead,
    try_variances,
)
from influential_bandits.policies.fleet.effects import (
    fill_exposures,
    fill_features,
    remove_own_part,
    shift_sums,
    weigh_effects,
)
from influential_bandits.policies.fleet.posterior import (
    add_to_sums,
    learn,
    loss_variance,
    multiply,
    refresh,
)
from influential_bandits.policies.fleet.states import (
    ARM,
    AUDIT,
    AUDITS,
    COMMON,
    DECISIONS,
    EPOCH,
    EPOCHS,
    MEMORY,
    NEXT_CHOICE,
    NEXT_EPOCH,
    NEXT_SLOT,
    NEXT_STAYS,
    NOISE_VARIANCE,
    OBSERVED,
    ORIGIN,
    SETTLED,
    SPREAD,
    Apart,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.lookahead import add_later_costs, plan_ahead
from influential_bandits.policies.model_lcb.posterior import place, predict, unknowns

Mask = npt.NDArray[np.bool_]

FAR_APART = 0.25  # variance due to a user's own A, in σ², that hides what a loss says of its taste
AUDITED = 16  # losses of a user after which another one is audited
MOST_AUDITED = 128  # losses of one user that an audit listens to
FIRST_AUDITS = 2000  # losses that are audited, and of those beyond
AUDITS_OF = 32  # one in so many


class Room(NamedTuple):
    """Arrays to compute in."""

    exposures: Floats  # (arms, arms)
    sums: Floats  # (arms,)
    weighed: Floats  # (arms,)
    mean: Floats  # (arms,): expected loss of each arm now
    variance: Floats  # (arms,): of it, in units of σ²
    effect: Floats  # (arms,): the user's initial losses less the population's
    doubt: Floats  # (arms,): variance of these
    bound: Floats  # (arms,)
    interaction: Floats  # (arms, arms)
    allowed: Floats  # (arms,)
    plan: Floats  # (arms,)
    slope: Floats  # (arms,)
    x: Floats  # (p,)
    gain: Floats  # (p,)
    factor: Floats  # (p, p)
    solved: Floats  # (p,)
    root: Floats  # (p, p)


def make_room(n_arms: int) -> Room:
    """Return arrays to compute in."""
    size = unknowns(n_arms)
    square, line = (n_arms, n_arms), n_arms
    return Room(
        *(np.zeros(s) for s in (square, *7 * [line], square, *3 * [line])),
        *(np.zeros(s) for s in (size, size, (size, size), size, (size, size))),
    )


@kernel
def follow_population(shared: Shared, apart: Apart, slot: int, room: Room) -> None:
    """Move a posterior of its own as the population's mean has moved since: by C·Λ⁻¹·(m' − m)."""
    mean, centre = shared.theta[apart.memory[slot]], apart.centre[slot]
    for a in range(mean.size):
        room.x[a] = apart.precision[slot, a] * (mean[a] - centre[a])
        centre[a] = mean[a]
    multiply(apart.covariance[slot], room.x, room.gain)
    for a in range(mean.size):
        apart.theta[slot, a] += room.gain[a]


@kernel
def bring_up_to_date(
    rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room
) -> None:
    """Let what was learned since the user was last looked at reach it."""
    now, then = shared.numbers[EPOCH], own.epoch[u]
    if now == then:
        return
    for m in range(rules.memories.size):
        fill_exposures(rules.exact, own.exposures[u, m], own.seen[u], own.pulls[u], room.exposures)
        before, after = shared.epochs[then, m], shared.epochs[now, m]
        shift_sums(own.seen[u], room.exposures, before, after, own.sums[u, m], own.sums[u, m])
    own.epoch[u] = now
    if own.slot[u] >= 0:
        follow_population(shared, apart, own.slot[u], room)


@kernel
def look(rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room) -> int:
    """Compute the expected loss of every arm for a user, and its variance; return the memory."""
    slot = own.slot[u]
    if slot < 0 or shared.scales[SPREAD] == 0.0:
        look_shared(rules, shared, own, u, room)
        return shared.numbers[MEMORY]
    memory = apart.memory[slot]
    weights = own.faded[u, memory]
    for i in range(rules.n_arms):
        room.mean[i] = predict(apart.theta[slot], weights, i)
        room.variance[i] = loss_variance(apart.covariance[slot], i, weights, 0.0, 0.0, weights)
    return memory


@kernel
def look_shared(rules: Rules, shared: Shared, own: Own, u: int, room: Room) -> None:
    """Compute the expected losses of a user who has the shared A."""
    memory = shared.numbers[MEMORY]
    look_at_sums(rules, shared, own, u, memory, room)
    theta, weights = shared.theta[memory], own.faded[u, memory]
    arm, common = shared.scales[ARM], shared.scales[COMMON]
    for i in range(rules.n_arms):
        if common > 0.0:
            weigh_effects(own.seen[u], arm, common, i, room.weighed)
            room.doubt[i] = room.weighed[i]
            effect = 0.0
            for k in range(rules.n_arms):
                effect += room.weighed[k] * room.sums[k]
        else:
            room.doubt[i] = 1.0 / (own.seen[u, i] + 1.0 / arm)
            effect = room.doubt[i] * room.sums[i]
        room.effect[i] = effect
        room.mean[i] = predict(theta, weights, i) + effect
        room.variance[i] = room.doubt[i]
        if rules.learns:
            room.variance[i] += loss_variance(
                shared.covariance,
                i,
                weights,
                room.doubt[i],
                float(own.seen[u, i]),
                room.exposures[i],
            )


@kernel
def look_at_sums(rules: Rules, shared: Shared, own: Own, u: int, memory: int, room: Room) -> None:
    """Write a user's exposures, and the sums of its residuals as of θ now."""
    seen = own.seen[u]
    fill_exposures(rules.exact, own.exposures[u, memory], seen, own.pulls[u], room.exposures)
    before, after = shared.epochs[shared.numbers[EPOCH], memory], shared.theta[memory]
    shift_sums(seen, room.exposures, before, after, own.sums[u, memory], room.sums)


@kernel
def explain(rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room) -> None:
    """Write what each arm would cost a user now, and how sure that is, into ``room``."""
    bring_up_to_date(rules, shared, own, apart, u, room)
    look(rules, shared, own, apart, u, room)


@kernel
def replay(rules: Rules, shared: Shared, own: Own, u: int, arms: Ints, losses: Floats) -> None:
    """Rebuild the numbers of a user who is new to ``own``, from its pulls; teaches nobody.

    A loss that is not a number has not come.
    """
    n_arms = rules.n_arms
    memo = np.empty(rules.memories.size * n_arms)
    now = shared.numbers[EPOCH]
    own.epoch[u] = now
    own.first[u] = max(shared.numbers[DECISIONS], 1)
    own.last[u] = own.first[u]
    for t in range(arms.size):
        arm = arms[t]
        _move(rules, own, u, arm, memo)
        if losses[t] == losses[t]:
            loss = losses[t] - shared.scales[ORIGIN]
            for m in range(rules.memories.size):
                weights = memo[m * n_arms : (m + 1) * n_arms]
                own.sums[u, m, arm] += loss - predict(shared.epochs[now, m], weights, arm)
                _add_exposure(rules, own, u, m, arm, weights)
            own.seen[u, arm] += 1


@kernel
def decide(
    rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, eligible: Mask, room: Room
) -> int:
    """Return the arm for a user; changes nothing but how up to date its sums are."""
    n_arms = rules.n_arms
    bring_up_to_date(rules, shared, own, apart, u, room)
    admit(rules, shared, own, apart, u, room)
    memory = look(rules, shared, own, apart, u, room)
    gamma = rules.memories[memory]
    theta = shared.theta[memory]
    if own.slot[u] >= 0 and shared.scales[SPREAD] > 0.0:
        theta = apart.theta[own.slot[u]]
    sigma = math.sqrt(shared.scales[NOISE_VARIANCE])
    age = 0
    for i in range(n_arms):
        age += own.pulls[u, i]
        room.allowed[i] = 1.0 if eligible[i] else 0.0
        deviation = math.sqrt(max(room.variance[i], 0.0))
        room.bound[i] = room.mean[i] - rules.boldness * sigma * deviation
        # What lies beyond positive semi-definite is taken for noise: plans would seek it out.
        room.interaction[i, i] = max(theta[place(i, i)], 0.0)
        for j in range(i):
            most = math.sqrt(room.interaction[i, i] * room.interaction[j, j])
            entry = min(max(theta[place(i, j)], -most), most)
            room.interaction[i, j] = entry
            room.interaction[j, i] = entry
    rounds = rounds_ahead(shared.stays, age)
    if gamma < 1.0 and rounds > 1.0:
        for i in range(n_arms):
            room.slope[i] = theta[unknowns(i)]
            room.slope[i] += room.bound[i] - predict(theta, own.faded[u, memory], i)
        add_later_costs(
            room.bound, room.slope, room.interaction, gamma, rounds, room.allowed, room.mean
        )
        return _smallest(room.mean, room.allowed, room.allowed)
    plan_ahead(room.bound, room.interaction, rounds, room.allowed, room.plan, room.slope)
    for i in range(n_arms):
        room.plan[i] -= 0.5
    best = _smallest(room.bound, room.plan, room.allowed)
    return best if best >= 0 else _smallest(room.bound, room.allowed, room.allowed)


@kernel
def _smallest(values: Floats, wanted: Floats, allowed: Floats) -> int:
    """Return the first arm with the smallest value among those wanted and allowed, or −1."""
    best = -1
    for i in range(values.size):
        if wanted[i] > 0.0 and allowed[i] > 0.0 and (best < 0 or values[i] < values[best]):
            best = i
    return best


@kernel
def note_pull(
    rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, arm: int, memo: Floats
) -> None:
    """Follow a pull: what it was exposed to goes into ``memo``, (memories·arms,)."""
    shared.numbers[DECISIONS] += 1
    now = shared.numbers[DECISIONS]
    if own.first[u] == 0:
        own.first[u] = now
    own.last[u] = now
    _move(rules, own, u, arm, memo)


@kernel
def _move(rules: Rules, own: Own, u: int, arm: int, memo: Floats) -> None:
    """Count a pull, and keep the faded counts before it."""
    n_arms = rules.n_arms
    own.pulls[u, arm] += 1
    for m in range(rules.memories.size):
        faded, gamma = own.faded[u, m], rules.memories[m]
        for j in range(n_arms):
            memo[m * n_arms + j] = faded[j]
            if gamma < 1.0:
                faded[j] *= gamma
        faded[arm] += 1.0


@kernel
def admit(rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room) -> None:
    """Start to audit a user, or to give it a posterior of its own, if it is time to.

    A slot is taken from whoever has not come for longest among a few; if all of them are at play,
    the user goes on with the shared A.
    """
    if not rules.learns:
        return
    if _may_audit(shared, own, apart, u):
        forget_audits(shared)
        look_shared(rules, shared, own, u, room)
        for s in range(AUDIT):
            _start_apart(rules, shared, apart, s, SPREAD_TRIALS_[s], room)
            apart.owner[s] = u
    slots = apart.owner.size - AUDIT
    if shared.scales[SPREAD] == 0.0 or slots == 0:
        return
    slot = own.slot[u]
    if slot >= 0:
        # While a user has said little, what others have said since is worth more.
        young = apart.losses[slot] < AUDITED
        if young and shared.numbers[OBSERVED] > 2 * apart.since[slot]:
            look_shared(rules, shared, own, u, room)
            _start_apart(rules, shared, apart, slot, shared.scales[SPREAD], room)
        return
    slot = AUDIT + shared.numbers[NEXT_SLOT]
    shared.numbers[NEXT_SLOT] = (slot - AUDIT + 1) % slots
    before = apart.owner[slot]
    if before >= 0:
        if shared.numbers[DECISIONS] - own.last[before] < slots:
            return
        own.slot[before] = -1
    look_shared(rules, shared, own, u, room)
    _start_apart(rules, shared, apart, slot, shared.scales[SPREAD], room)
    own.slot[u] = slot
    apart.owner[slot] = u


@kernel
def _may_audit(shared: Shared, own: Own, apart: Apart, u: int) -> bool:
    """Tell whether to audit this user next: the one before has been heard enough, or has left."""
    audited = apart.owner[0]
    if audited < 0:
        return True
    absent = shared.numbers[DECISIONS] - own.last[audited]
    rounds = max(own.pulls[audited].sum(), 1)
    usual = (own.last[audited] - own.first[audited]) / rounds
    heard = apart.losses[0] >= AUDITED or absent > AUDITED * (1.0 + usual)
    within = shared.numbers[AUDITS] < FIRST_AUDITS + shared.numbers[OBSERVED] // AUDITS_OF
    return u != audited and heard and within


@kernel
def _start_apart(
    rules: Rules, shared: Shared, apart: Apart, slot: int, spread: float, room: Room
) -> None:
    """Lay out a posterior around the population's and what is known of the user's taste."""
    memory = shared.numbers[MEMORY]
    apart.memory[slot] = memory
    apart.losses[slot] = 0
    apart.since[slot] = shared.numbers[OBSERVED]
    # The first audit is to find the size of A: the population's own doubt would hide it.
    doubt = 1.0 if slot >= AUDIT or shared.numbers[OBSERVED] >= AUDITED else 0.0
    for a in range(shared.covariance.shape[0]):
        apart.theta[slot, a] = shared.theta[memory, a]
        apart.centre[slot, a] = shared.theta[memory, a]
        for b in range(shared.covariance.shape[0]):
            apart.covariance[slot, a, b] = doubt * shared.covariance[a, b]
        apart.covariance[slot, a, a] += spread
    for i in range(rules.n_arms):
        a = unknowns(i)
        apart.theta[slot, a] += room.effect[i]
        apart.covariance[slot, a, a] += room.doubt[i] - spread
    for a in range(shared.covariance.shape[0]):
        variance = apart.covariance[slot, a, a]
        apart.precision[slot, a] = 1.0 / variance if variance > 0.0 else 0.0


@kernel
def _audit(
    rules: Rules, shared: Shared, apart: Apart, arm: int, memo: Floats, loss: float, room: Room
) -> None:
    """Let a loss of the audited user speak for and against the candidates for the spread of A."""
    shared.audited[0] += 1.0
    shared.numbers[AUDITS] += 1
    for s in range(AUDIT):
        surprise, alpha = _learn_apart(rules, apart, s, arm, memo, loss, room)
        shared.spreads[s, 0] += surprise * surprise / alpha
        shared.spreads[s, 1] += log(alpha)
    choose_spread(shared)


@kernel
def note_loss(
    rules: Rules,
    shared: Shared,
    own: Own,
    apart: Apart,
    users: int,
    u: int,
    arm: int,
    memo: Floats,
    loss: float,
    room: Room,
) -> None:
    """Learn the loss of a pull, for the user and for everybody."""
    n_arms, chosen = rules.n_arms, shared.numbers[MEMORY]
    if rules.learns and shared.numbers[OBSERVED] == 0 and shared.known.shape[0] == 0:
        shared.scales[ORIGIN] = loss
    loss -= shared.scales[ORIGIN]
    bring_up_to_date(rules, shared, own, apart, u, room)
    for m in range(rules.memories.size):
        if m != chosen and (shared.numbers[SETTLED] == 1 or not rules.learns):
            continue
        weights = memo[m * n_arms : (m + 1) * n_arms]
        look_at_sums(rules, shared, own, u, m, room)
        residual = loss - predict(shared.theta[m], weights, arm)
        if rules.learns:
            if m == chosen:
                _judge(shared, own, u, arm, weights, residual, room)
            _learn_from_sums(shared, own, u, m, arm, weights, residual, room)
        own.sums[u, m, arm] += loss - predict(shared.epochs[shared.numbers[EPOCH], m], weights, arm)
        _add_exposure(rules, own, u, m, arm, weights)
    slot = own.slot[u]
    if slot >= 0:
        _learn_apart(rules, apart, slot, arm, memo, loss, room)
    if apart.owner[0] == u and apart.losses[0] < MOST_AUDITED and rules.learns:
        _audit(rules, shared, apart, arm, memo, loss, room)
    own.seen[u, arm] += 1
    if rules.learns:
        shared.numbers[OBSERVED] += 1
        _renew(rules, shared, room)
    if shared.numbers[DECISIONS] >= shared.numbers[NEXT_STAYS]:
        shared.numbers[NEXT_STAYS] = 2 * shared.numbers[DECISIONS]
        estimate_stays(own, users, shared.numbers[DECISIONS], shared.stays)


@kernel
def _judge(
    shared: Shared, own: Own, u: int, arm: int, weights: Floats, residual: float, room: Room
) -> None:
    """Let a loss speak for and against the candidates for the variances."""
    seen = own.seen[u]
    weigh_effects(seen, shared.scales[ARM], shared.scales[COMMON], arm, room.weighed)
    less = room.weighed[arm]
    unsure = loss_variance(
        shared.covariance, arm, weights, less, float(seen[arm]), room.exposures[arm]
    )
    apart = 0.0
    for j in range(weights.size):
        apart += shared.scales[SPREAD] * weights[j] * weights[j]
    if apart > FAR_APART:
        return
    try_variances(shared, seen, room.sums, arm, residual, unsure, room.weighed)
    estimate_noise(shared)


@kernel
def _learn_from_sums(
    shared: Shared,
    own: Own,
    u: int,
    m: int,
    arm: int,
    weights: Floats,
    residual: float,
    room: Room,
) -> None:
    """Take a loss into the sums of a memory, and into θ if it is the one chosen."""
    seen = own.seen[u]
    weigh_effects(seen, shared.scales[ARM], shared.scales[COMMON], arm, room.weighed)
    surprise = residual
    for k in range(seen.size):
        surprise -= room.weighed[k] * room.sums[k]
    alpha = 1.0 + room.weighed[arm]
    fill_features(arm, weights, room.x)
    remove_own_part(seen, room.exposures, room.weighed, room.x)
    _learn_shared(shared, m, surprise, alpha, room)


@kernel
def _learn_shared(shared: Shared, m: int, surprise: float, alpha: float, room: Room) -> None:
    """Add x̃, which is in ``room.x``, to the sums of a memory, and learn from it if it is chosen."""
    target = surprise
    for a in range(room.x.size):
        target += room.x[a] * shared.theta[m, a]
    add_to_sums(shared.gram[m], shared.right[m], room.x, target, alpha)
    shared.squares[m] += target * target / alpha
    if m == shared.numbers[MEMORY]:
        multiply(shared.covariance, room.x, room.gain)
        variance = alpha
        for a in range(room.x.size):
            variance += room.x[a] * room.gain[a]
        learn(shared.theta[m], shared.covariance, room.gain, surprise, variance)


@kernel
def _add_exposure(rules: Rules, own: Own, u: int, m: int, arm: int, weights: Floats) -> None:
    """Note what a pull whose loss came in had been exposed to."""
    kept = own.exposures[u, m, arm]
    total = 0.0
    for j in range(weights.size):
        total += weights[j]
        if rules.exact:
            kept[j] += weights[j]
    if not rules.exact:
        kept[0] += weights[arm]
        kept[1] += total


@kernel
def _learn_apart(
    rules: Rules, apart: Apart, slot: int, arm: int, memo: Floats, loss: float, room: Room
) -> tuple[float, float]:
    """Take a loss into a posterior of a user's own; return the surprise and its variance in σ²."""
    m = apart.memory[slot]
    weights = memo[m * rules.n_arms : (m + 1) * rules.n_arms]
    theta, covariance = apart.theta[slot], apart.covariance[slot]
    surprise = loss - predict(theta, weights, arm)
    fill_features(arm, weights, room.x)
    multiply(covariance, room.x, room.gain)
    alpha = 1.0
    for a in range(room.x.size):
        alpha += room.x[a] * room.gain[a]
    learn(theta, covariance, room.gain, surprise, alpha)
    apart.losses[slot] += 1
    return surprise, alpha


@kernel
def _renew(rules: Rules, shared: Shared, room: Room) -> None:
    """Now and then choose variances, scales and memory again, and begin an epoch."""
    seen = shared.numbers[OBSERVED]
    if seen >= shared.numbers[NEXT_CHOICE]:
        shared.numbers[NEXT_CHOICE] = 2 * seen
        choose_variances(shared)
        choose_prior(rules, shared, room.factor, room.solved, room.root)
    if seen >= shared.numbers[NEXT_EPOCH] and shared.numbers[EPOCH] + 1 < EPOCHS:
        shared.numbers[NEXT_EPOCH] = seen + 1 + seen // 50
        shared.numbers[EPOCH] += 1
        for m in range(rules.memories.size):
            for a in range(room.x.size):
                shared.epochs[shared.numbers[EPOCH], m, a] = shared.theta[m, a]


@kernel
def compute_shared(shared: Shared, room: Room) -> None:
    """Compute θ and its covariance from the sums and the prior."""
    refresh(shared, shared.numbers[MEMORY], room.factor, room.solved, room.root)
