"""Decide for a user, and note what was pulled.

An arm is worth its expected loss less ``boldness`` standard deviations. The deviation has two
parts: what is not known of the user's own taste, and what is not known of (μ, A). The second part
is how users explore for each other: it is there while the population is new, and goes as losses
come in, whoever they come from. Of the arms that the best mix of the rounds to come has a use for,
the one with the smallest such bound is pulled; where memory fades, what a pull costs later counts,
too.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.policies.fleet.choices import rounds_ahead
from influential_bandits.policies.fleet.effects import count_pull, wait
from influential_bandits.policies.fleet.expected_losses import add_level, bring_up_to_date, look
from influential_bandits.policies.fleet.own_posteriors import admit
from influential_bandits.policies.fleet.room import Room
from influential_bandits.policies.fleet.states import (
    DECISIONS,
    NOISE_VARIANCE,
    SPREAD,
    Apart,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.lookahead import add_later_costs, plan_ahead
from influential_bandits.policies.model_lcb.posterior import place, predict, unknowns

Mask = npt.NDArray[np.bool_]
# Of a user who differs in A, all that is known about an arm that it was never shown is what others
# have said. If that is wrong, only a pull can tell: the deviation counts more often until then.
HEARSAY = 2.0


@kernel
def decide(
    rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, eligible: Mask, room: Room
) -> int:
    """Return the arm for a user; changes nothing but how up to date its own numbers are.

    What each arm is expected to cost stays in ``room.mean``.
    """
    arm = _decide(rules, shared, own, apart, u, eligible, room)
    add_level(rules, shared, own, u, room)
    return arm


@kernel
def _decide(
    rules: Rules, shared: Shared, own: Own, apart: Apart, u: int, eligible: Mask, room: Room
) -> int:
    n_arms = rules.n_arms
    bring_up_to_date(rules, shared, own, apart, u, room)
    admit(rules, shared, own, apart, u, room)
    memory = look(rules, shared, own, apart, u, room)
    gamma = rules.memories[memory]
    if rules.half_life > 0.0:
        gamma *= shared.kept[0] / shared.kept[1]
    theta = shared.theta[memory]
    differs = own.slot[u] >= 0 and shared.scales[SPREAD] > 0.0
    if differs:
        theta = apart.theta[own.slot[u]]
    sigma = math.sqrt(shared.scales[NOISE_VARIANCE])
    age = 0
    for i in range(n_arms):
        age += own.pulls[u, i]
        room.allowed[i] = 1.0 if eligible[i] else 0.0
        deviation = math.sqrt(max(room.variance[i], 0.0))
        if differs and own.pulls[u, i] == 0:
            deviation *= HEARSAY
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
            room.bound, room.slope, room.interaction, gamma, rounds, room.allowed, room.weighed
        )
        return _smallest(room.weighed, room.allowed, room.allowed)
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
def note_time(rules: Rules, shared: Shared, own: Own, u: int, at: float) -> None:
    """Follow the time, in seconds, until a user's next pull; nothing without a half-life."""
    if rules.half_life == 0.0:
        return
    if own.first[u] == 0:  # nothing yet that could fade
        own.time[u] = at
        return
    shared.kept[0] += wait(rules, own, u, at)
    shared.kept[1] += 1.0


@kernel
def note_pull(rules: Rules, shared: Shared, own: Own, u: int, arm: int, memo: Floats) -> None:
    """Follow a pull: what it was exposed to goes into ``memo``, (memories·arms,)."""
    shared.numbers[DECISIONS] += 1
    now = shared.numbers[DECISIONS]
    if own.first[u] == 0:
        own.first[u] = now
    own.last[u] = now
    count_pull(rules, own, u, arm, memo)
