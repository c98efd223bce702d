"""Users who differ in A, and logs of other people: exact answers where they can be computed."""

import numpy as np
import pytest
from test_fleet import USERS, features, fixed_fleet, play

import influential_bandits as ib
from influential_bandits.policies.fleet.estimate import SCALES, find_errors
from influential_bandits.policies.fleet.own_posteriors import MOST_AUDITED
from influential_bandits.policies.fleet.states import (
    AUDITS,
    MEMORY,
    NEXT_EPOCH,
    NOISE_VARIANCE,
    ORIGIN,
    SPREAD,
)
from influential_bandits.policies.model_lcb.posterior import place, unknowns

N_ARMS, ARM_VARIANCE = 2, 0.5


def unlike_fleet(spread):
    """A fleet that is told by how much users differ in A, and does not find out by itself."""
    fleet = fixed_fleet(N_ARMS)
    fleet.pull(USERS[0], arm=0)
    fleet.expire(fleet.pulls + 1)
    fleet._apart.owner[0], fleet._apart.losses[0] = 0, MOST_AUDITED  # the audit has heard enough
    fleet._shared.numbers[AUDITS] = 2**60  # and there is no other
    fleet._shared.scales[SPREAD] = spread
    return fleet


def serve_unlike(fleet, spread, rounds, seed):
    """Let users with interactions of their own come in any order; return what was heard."""
    rng = np.random.default_rng(seed)
    counts = {user: np.zeros(N_ARMS) for user in USERS}
    counts[USERS[0]][0] = 1.0
    half = rng.normal(0.0, np.sqrt(spread), (len(USERS), N_ARMS, N_ARMS))
    own = {user: 0.3 * np.eye(N_ARMS) + h + h.T for user, h in zip(USERS, half, strict=True)}
    taste = {user: rng.normal(0.0, np.sqrt(ARM_VARIANCE), N_ARMS) for user in USERS}
    events = []
    for _ in range(rounds):
        user = USERS[rng.integers(len(USERS))]
        fleet.select(user)  # which gives it a posterior of its own
        ticket = fleet.pull(user, arm=int(rng.integers(N_ARMS)))
        mean = taste[user][ticket.arm] + own[user][ticket.arm] @ counts[user]
        loss = float(rng.normal(mean))
        events.append((user, ticket.arm, counts[user].copy(), loss))
        counts[user][ticket.arm] += 1
        fleet.observe(ticket, loss)
    return events, counts


def exact_losses(events, counts, spread, precision, origin):
    """Expected losses of each user and arm, and variances in σ²: all unknowns in one system."""
    p = unknowns(N_ARMS)
    size = p * (1 + len(USERS))
    H, right = np.zeros((size, size)), np.zeros(size)
    H[range(p), range(p)] = precision
    tastes = [unknowns(i) for i in range(N_ARMS)]
    own = np.full(p, 1.0 / spread)
    own[tastes] = 1.0 / ARM_VARIANCE
    for n in range(len(USERS)):
        block = range(p * (1 + n), p * (2 + n))
        H[block, block] = own

    def full_features(user, arm, pulls):
        x = np.zeros(size)
        n = USERS.index(user)
        x[:p] = x[p * (1 + n) : p * (2 + n)] = features(N_ARMS, arm, pulls, p)
        return x

    for user, arm, pulls, loss in events:
        x = full_features(user, arm, pulls)
        H += np.outer(x, x)
        right += x * (loss - origin)
    covariance = np.linalg.inv(H)
    rows = np.array(
        [full_features(user, arm, counts[user]) for user in USERS for arm in range(N_ARMS)]
    )
    variances = np.einsum("ij,jk,ik->i", rows, covariance, rows)
    return rows @ covariance @ right + origin, variances


@pytest.mark.parametrize("spread", [4.0**-4, 4.0**-2])
def test_users_who_differ_are_known_about_as_well_as_by_exact_algebra(spread):
    """A fleet approximates here; over eight fleets of four users, means are near the exact ones.

    The exact posterior is of everything at once: (μ, A), and every user's own.
    """
    apart, wider = [], []
    for seed in range(8):
        fleet = unlike_fleet(spread)
        events, counts = serve_unlike(fleet, spread, 120, seed)
        shared = fleet._shared
        mean, variance = exact_losses(
            events, counts, spread, shared.precision, shared.scales[ORIGIN]
        )
        found = np.array([fleet.expected_losses(user) for user in USERS])
        noise = shared.scales[NOISE_VARIANCE]
        apart += list((found[:, 0].ravel() - mean) / np.sqrt(variance))
        wider += list(found[:, 1].ravel() / np.sqrt(noise * variance))
    print(np.sqrt(np.mean(np.square(apart))), np.quantile(wider, [0, 0.1, 0.5, 0.9, 1]))
    assert 0
