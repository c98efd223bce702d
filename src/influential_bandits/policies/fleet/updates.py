"""Learn a loss: for the user, and for everybody."""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.policies.fleet.choices import (
    choose_prior,
    choose_variances,
    estimate_noise,
    estimate_stays,
    try_variances,
)
from influential_bandits.policies.fleet.effects import (
    add_exposure,
    count_pull,
    fill_features,
    remove_own_part,
    wait,
    weigh_effects,
)
from influential_bandits.policies.fleet.expected_losses import bring_up_to_date, look_at_sums
from influential_bandits.policies.fleet.levels import (
    choose_drift,
    expected_level,
    follow_level,
    level_doubt,
)
from influential_bandits.policies.fleet.own_posteriors import MOST_AUDITED, audit, learn_apart
from influential_bandits.policies.fleet.posterior import (
    find_entries,
    learn,
    loss_variance,
    multiply,
    note_aside,
    put_aside,
    refresh,
)
from influential_bandits.policies.fleet.room import Room
from influential_bandits.policies.fleet.states import (
    ARM,
    COMMON,
    DECISIONS,
    EPOCH,
    EPOCHS,
    MEMORY,
    NEXT_CHOICE,
    NEXT_EPOCH,
    NEXT_STAYS,
    OBSERVED,
    ORIGIN,
    SETTLED,
    SPREAD,
    Apart,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.posterior import predict

BEYOND_LOG = 1 << 10  # losses from which on they choose variances, and not the log
FAR_APART = 0.25  # variance due to a user's own A, in σ², that hides what a loss says of its taste


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
    drifts, fresh = rules.drifts.shape[0] > 0, level_doubt(rules, shared, own, u)
    surprise = doubt = 0.0
    if drifts:
        loss -= expected_level(rules, shared, own, u)
    # One variance for all memories: otherwise their likelihoods could not be compared.
    apart_by = shared.scales[SPREAD] * _squares(memo[chosen * n_arms : (chosen + 1) * n_arms])
    for m in range(rules.memories.size):
        if m != chosen and (shared.numbers[SETTLED] == 1 or not rules.learns):
            continue
        weights = memo[m * n_arms : (m + 1) * n_arms]
        # Where levels do not differ, other arms of the user say nothing about this one.
        alone = m != chosen and shared.scales[COMMON] == 0.0
        look_at_sums(rules, shared, own, u, m, room, arm if alone else -1)
        residual = loss - predict(shared.theta[m], weights, arm)
        if rules.learns:
            weigh_effects(own.seen[u], shared.scales[ARM], shared.scales[COMMON], arm, room.weighed)
            if m == chosen and (drifts or apart_by <= FAR_APART):
                unsure = _doubt_shared(shared, own, u, arm, weights, room)
                surprise, doubt = _remove_effect(own, u, residual, room), room.weighed[arm] + unsure
                if apart_by <= FAR_APART:
                    try_variances(shared, own.seen[u], room.sums, arm, residual, unsure + fresh)
                    estimate_noise(shared)
            _learn_from_sums(shared, own, u, m, arm, weights, residual, apart_by + fresh, room)
        own.sums[u, m, arm] += loss - predict(shared.epochs[shared.numbers[EPOCH], m], weights, arm)
        add_exposure(rules, own, u, m, arm, weights)
    if own.slot[u] >= 0:
        own_surprise, alpha = learn_apart(rules, apart, own.slot[u], arm, memo, loss, room)
        if shared.scales[SPREAD] > 0.0:
            surprise, doubt = own_surprise, alpha - 1.0
    elif drifts:
        doubt += apart_by
    if drifts and rules.learns:
        follow_level(rules, shared, own, u, surprise, doubt, apart_by <= FAR_APART)
    if apart.owner[0] == u and apart.losses[0] < MOST_AUDITED and rules.learns:
        audit(rules, shared, apart, arm, memo, loss, room)
    own.seen[u, arm] += 1
    if rules.learns:
        note_aside(rules, shared)
        shared.numbers[OBSERVED] += 1
        _renew(rules, shared, apart, room)
    if shared.numbers[DECISIONS] >= shared.numbers[NEXT_STAYS]:
        shared.numbers[NEXT_STAYS] = 2 * shared.numbers[DECISIONS]
        estimate_stays(own, users, shared.numbers[DECISIONS], shared.stays)


@kernel
def _squares(weights: Floats) -> float:
    total = 0.0
    for weight in weights:
        total += weight * weight
    return total


@kernel
def _doubt_shared(shared: Shared, own: Own, u: int, arm: int, weights: Floats, room: Room) -> float:
    """Return the variance of an arm's loss that is due to (μ, A)."""
    seen = own.seen[u]
    return loss_variance(
        shared.covariance,
        arm,
        weights,
        room.weighed[arm],
        float(seen[arm]),
        room.exposures[arm],
        room.spots,
        room.gain,
    )


@kernel
def _remove_effect(own: Own, u: int, residual: float, room: Room) -> float:
    """Return the surprise: what a user's own taste leaves of a residual."""
    surprise = residual
    for k in range(own.seen.shape[1]):
        surprise -= room.weighed[k] * room.sums[k]
    return surprise


@kernel
def _learn_from_sums(
    shared: Shared,
    own: Own,
    u: int,
    m: int,
    arm: int,
    weights: Floats,
    residual: float,
    apart_by: float,
    room: Room,
) -> None:
    """Take a loss into the sums of a memory, and into θ if it is the one chosen.

    Where users differ in A, by ``apart_by`` = spread·Σw² of this loss in σ², it says that much less
    about what they have in common. Without this, two users who are unlike would make the fleet sure
    of an A that is nobody's. A loss whose level is not yet known says less, too.
    """
    seen = own.seen[u]
    surprise = _remove_effect(own, u, residual, room)
    alpha = 1.0 + room.weighed[arm] + apart_by
    fill_features(arm, weights, room.x)
    remove_own_part(seen, room.exposures, room.weighed, room.x)
    _learn_shared(shared, m, surprise, alpha, room)


@kernel
def _learn_shared(shared: Shared, m: int, surprise: float, alpha: float, room: Room) -> None:
    """Add x̃, which is in ``room.x``, to the sums of a memory, and learn from it if it is chosen."""
    x, spots = room.x, room.spots
    many = find_entries(x, spots)
    target = surprise
    for c in range(many):
        target += x[spots[c]] * shared.theta[m, spots[c]]
    put_aside(shared, m, x, target, alpha)
    if m == shared.numbers[MEMORY]:
        multiply(shared.covariance, x, spots, many, room.gain)
        variance = alpha
        for c in range(many):
            variance += x[spots[c]] * room.gain[spots[c]]
        learn(shared.theta[m], shared.covariance, room.gain, surprise, variance)


@kernel
def replay(
    rules: Rules,
    shared: Shared,
    own: Own,
    u: int,
    arms: Ints,
    losses: Floats,
    times: Floats,
    room: Room,
) -> None:
    """Rebuild the numbers of a user who is new to ``own``, from its pulls; teaches nobody.

    A loss that is not a number has not come. Times are those of the pulls, where there is a
    half-life. A level that drifts is followed with what is known of (μ, A) now.
    """
    n_arms = rules.n_arms
    memo = np.empty(rules.memories.size * n_arms)
    now = shared.numbers[EPOCH]
    own.epoch[u] = now
    own.first[u] = max(shared.numbers[DECISIONS], 1)
    own.last[u] = own.first[u]
    for t in range(arms.size):
        arm = arms[t]
        if rules.half_life > 0.0:
            if t == 0:
                own.time[u] = times[t]
            wait(rules, own, u, times[t])
        count_pull(rules, own, u, arm, memo)
        if losses[t] == losses[t]:
            loss = losses[t] - shared.scales[ORIGIN]
            if rules.drifts.shape[0] > 0:
                loss -= expected_level(rules, shared, own, u)
                _follow_again(rules, shared, own, u, arm, memo, loss, room)
            for m in range(rules.memories.size):
                weights = memo[m * n_arms : (m + 1) * n_arms]
                own.sums[u, m, arm] += loss - predict(shared.epochs[now, m], weights, arm)
                add_exposure(rules, own, u, m, arm, weights)
            own.seen[u, arm] += 1


@kernel
def _follow_again(
    rules: Rules,
    shared: Shared,
    own: Own,
    u: int,
    arm: int,
    memo: Floats,
    loss: float,
    room: Room,
) -> None:
    """Move the level of a user who is rebuilt, by a loss less the level expected."""
    m = shared.numbers[MEMORY]
    weights = memo[m * rules.n_arms : (m + 1) * rules.n_arms]
    look_at_sums(rules, shared, own, u, m, room)
    weigh_effects(own.seen[u], shared.scales[ARM], shared.scales[COMMON], arm, room.weighed)
    surprise = _remove_effect(own, u, loss - predict(shared.theta[m], weights, arm), room)
    doubt = room.weighed[arm] + _doubt_shared(shared, own, u, arm, weights, room)
    doubt += shared.scales[SPREAD] * _squares(weights)
    follow_level(rules, shared, own, u, surprise, doubt, False)


@kernel
def _renew(rules: Rules, shared: Shared, apart: Apart, room: Room) -> None:
    """Now and then choose variances, scales and memory again, and begin an epoch."""
    seen = shared.numbers[OBSERVED]
    if seen >= shared.numbers[NEXT_CHOICE]:
        shared.numbers[NEXT_CHOICE] = 2 * seen
        if shared.known.shape[0] == 0 or seen >= BEYOND_LOG:
            choose_variances(rules, shared)
        choose_drift(rules, shared)
        choose_prior(rules, shared, room.factor, room.solved, room.root)
        if shared.known.shape[0] > 0 and shared.audited[0] == 0.0:
            apart.owner[0] = -1  # audits were dropped: the next user is audited
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
