"""What each arm would cost a user now, and how sure that is."""

from __future__ import annotations

from influential_bandits.numerics.compiling import kernel
from influential_bandits.policies.fleet.effects import fill_exposures, shift_sums, weigh_effects
from influential_bandits.policies.fleet.levels import expected_level, level_variance
from influential_bandits.policies.fleet.posterior import find_entries, loss_variance, multiply
from influential_bandits.policies.fleet.room import Room
from influential_bandits.policies.fleet.states import (
    ARM,
    COMMON,
    EPOCH,
    FEW_LOSSES,
    MEMORY,
    OBSERVED,
    SETTLED,
    SPREAD,
    Apart,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.posterior import predict


@kernel
def bring_up_to_date(
    rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room
) -> None:
    """Let what was learned since the user was last looked at reach it."""
    slot = own.slot[u]
    if slot >= 0 and shared.scales[SPREAD] == 0.0 and shared.numbers[OBSERVED] >= FEW_LOSSES:
        apart.owner[slot] = -1  # users turned out to be alike
        own.slot[u] = -1
    now, then = shared.numbers[EPOCH], own.epoch[u]
    if now == then:
        return
    for m in range(rules.memories.size):
        if m != shared.numbers[MEMORY] and shared.numbers[SETTLED] == 1:
            continue
        fill_exposures(rules.exact, own.exposures[u, m], own.seen[u], own.pulls[u], room.exposures)
        before, after = shared.epochs[then, m], shared.epochs[now, m]
        shift_sums(own.seen[u], room.exposures, before, after, own.sums[u, m], own.sums[u, m])
    own.epoch[u] = now
    if own.slot[u] >= 0:
        follow_population(shared, apart, own.slot[u], room)


@kernel
def follow_population(shared: Shared, apart: Apart, slot: int, room: Room) -> None:
    """Move a posterior of its own as the population's mean has moved since: by C·Λ⁻¹·(m' − m)."""
    mean, centre = shared.theta[apart.memory[slot]], apart.centre[slot]
    for a in range(mean.size):
        room.x[a] = apart.precision[slot, a] * (mean[a] - centre[a])
        centre[a] = mean[a]
    many = find_entries(room.x, room.spots)
    multiply(apart.covariance[slot], room.x, room.spots, many, room.gain)
    for a in range(mean.size):
        apart.theta[slot, a] += room.gain[a]


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
        room.variance[i] = loss_variance(
            apart.covariance[slot], i, weights, 0.0, 0.0, weights, room.spots, room.gain
        )
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
                room.spots,
                room.gain,
            )


@kernel
def look_at_sums(
    rules: Rules, shared: Shared, own: Own, u: int, memory: int, room: Room, only: int = -1
) -> None:
    """Write a user's exposures, and the sums of its residuals as of θ now; of one arm, if told."""
    seen, kept = own.seen[u], own.exposures[u, memory]
    fill_exposures(rules.exact, kept, seen, own.pulls[u], room.exposures, only)
    before, after = shared.epochs[shared.numbers[EPOCH], memory], shared.theta[memory]
    shift_sums(seen, room.exposures, before, after, own.sums[u, memory], room.sums, only)


@kernel
def explain(rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room) -> None:
    """Write what each arm would cost a user now, and how sure that is, into ``room``."""
    bring_up_to_date(rules, shared, own, apart, u, room)
    look(rules, shared, own, apart, u, room)
    add_level(rules, shared, own, u, room)


@kernel
def add_level(rules: Rules, shared: Shared, own: Own, u: int, room: Room) -> None:
    """Add a user's level to what each arm would cost; no choice between them depends on it."""
    if rules.drifts.shape[0] > 0:
        for i in range(rules.n_arms):
            room.mean[i] += expected_level(rules, shared, own, u)
            room.variance[i] += level_variance(rules, shared, own, u)
