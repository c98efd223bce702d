"""Users who have an interaction of their own: how that is found out, and their posteriors."""

from __future__ import annotations

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.fleet.choices import (
    SPREAD_TRIALS_,
    choose_spread,
    estimate_noise,
    forget_audits,
)
from influential_bandits.policies.fleet.effects import fill_features
from influential_bandits.policies.fleet.expected_losses import look_shared
from influential_bandits.policies.fleet.posterior import find_entries, learn, multiply
from influential_bandits.policies.fleet.room import Room
from influential_bandits.policies.fleet.states import (
    AUDIT,
    AUDITS,
    DECISIONS,
    MEMORY,
    NEXT_SLOT,
    OBSERVED,
    SPREAD,
    Apart,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.posterior import place, predict, unknowns

AUDITED = 16  # losses of a user after which another one is audited
MOST_AUDITED = 128  # losses of one user that an audit listens to
FIRST_AUDITS = 2000  # losses that are audited, and of those beyond
AUDITS_OF = 32  # one in so many
KEPT_OF_AUDITS = 0.9  # of the evidence about the spread, when the next user is audited
OUTLIVED = 4  # an audit that is as young ends when the fleet has so many times the losses


@kernel
def admit(rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, room: Room) -> None:
    """Start to audit a user, or to give it a posterior of its own, if it is time to.

    A slot is taken from whoever has not come for longest among a few; if all of them are at play,
    the user goes on with the shared A.
    """
    if not rules.learns:
        return
    outlived = _is_outlived(shared, apart)
    if outlived or _may_audit(shared, own, apart, u):
        forget_audits(shared, 0.0 if outlived else KEPT_OF_AUDITS)
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
def _is_outlived(shared: Shared, apart: Apart) -> bool:
    """Tell whether the fleet has learned so much since an audit began that it says little now.

    So it is where many users come in turn, and an audit that began with nothing known takes what
    nobody knew of A for what users do not share.
    """
    young = apart.owner[0] >= 0 and apart.losses[0] < AUDITED
    return young and shared.numbers[OBSERVED] > OUTLIVED * (apart.since[0] + AUDITED)


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
        for b in range(a + 1):
            apart.covariance[slot, a, b] = doubt * shared.covariance[a, b]
    for i in range(rules.n_arms):
        a = unknowns(i)
        apart.theta[slot, a] += room.effect[i]
        apart.covariance[slot, a, a] += room.doubt[i]
        for j in range(i + 1):
            apart.covariance[slot, place(i, j), place(i, j)] += spread
    for a in range(shared.covariance.shape[0]):
        variance = apart.covariance[slot, a, a]
        apart.precision[slot, a] = 1.0 / variance if variance > 0.0 else 0.0


@kernel
def learn_apart(
    rules: Rules, apart: Apart, slot: int, arm: int, memo: Floats, loss: float, room: Room
) -> tuple[float, float]:
    """Take a loss into a posterior of a user's own; return the surprise and its variance in σ²."""
    m = apart.memory[slot]
    weights = memo[m * rules.n_arms : (m + 1) * rules.n_arms]
    theta, covariance = apart.theta[slot], apart.covariance[slot]
    surprise = loss - predict(theta, weights, arm)
    fill_features(arm, weights, room.x)
    many = find_entries(room.x, room.spots)
    multiply(covariance, room.x, room.spots, many, room.gain)
    alpha = 1.0
    for c in range(many):
        alpha += room.x[room.spots[c]] * room.gain[room.spots[c]]
    learn(theta, covariance, room.gain, surprise, alpha)
    apart.losses[slot] += 1
    return surprise, alpha


@kernel
def audit(
    rules: Rules, shared: Shared, apart: Apart, arm: int, memo: Floats, loss: float, room: Room
) -> None:
    """Let a loss of the audited user speak for and against the candidates for the spread of A."""
    shared.audited[0] += 1.0
    shared.numbers[AUDITS] += 1
    for s in range(AUDIT):
        surprise, alpha = learn_apart(rules, apart, s, arm, memo, loss, room)
        shared.spreads[s, 0] += surprise * surprise / alpha
        shared.spreads[s, 1] += log(alpha)
    choose_spread(shared)
    estimate_noise(shared)
