"""Users who differ in A, and logs of other people: exact answers where they can be computed."""

import numpy as np
import pytest
from fixed_fleets import USERS, features, fixed_fleet

import influential_bandits as ib
from influential_bandits.policies.fleet.estimate import SCALES, find_errors
from influential_bandits.policies.fleet.own_posteriors import MOST_AUDITED
from influential_bandits.policies.fleet.states import (
    AUDITS,
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


def compare_with_exact(spread, told):
    """Distances of means from the exact ones in exact deviations, and deviations as multiples."""
    distances, multiples = [], []
    for seed in range(8):
        fleet = unlike_fleet(told)
        events, counts = serve_unlike(fleet, spread, 120, seed)
        shared = fleet._shared
        mean, variance = exact_losses(
            events, counts, spread, shared.precision, shared.scales[ORIGIN]
        )
        found = np.array([fleet.expected_losses(user) for user in USERS])
        distances.append((found[:, 0].ravel() - mean) / np.sqrt(variance))
        scale = np.sqrt(shared.scales[NOISE_VARIANCE] * variance)
        multiples.append(found[:, 1].ravel() / scale)
    return np.sqrt(np.mean(np.square(distances))), np.array(multiples)


@pytest.mark.parametrize("spread", [4.0**-4, 4.0**-2])
def test_users_who_differ_are_known_nearly_as_by_exact_algebra(spread):
    """A fleet approximates here: eight fleets of four users who came at once, 30 losses each.

    The exact posterior is of everything together: (μ, A), and every user's own. Seen: means are
    0.74 and 1.03 exact deviations away; if users were taken to be alike, 1.6 and 7.4. Deviations
    are 1.1 times the exact ones in the median, and hardly ever below them.
    """
    distance, multiples = compare_with_exact(spread, told=spread)
    as_one, too_sure = compare_with_exact(spread, told=0.0)
    assert distance < 1.25 < as_one
    assert multiples.min() > 0.95
    assert 1.0 < np.median(multiples) < 1.25
    assert np.median(too_sure) < 0.8


def test_what_a_user_who_differs_says_is_learned_exactly():
    """From where its own posterior stands, 20 losses later: one linear system, 1e-8 is ample."""
    fleet = unlike_fleet(4.0**-2)
    serve_unlike(fleet, 4.0**-2, 120, seed=9)
    fleet._shared.numbers[NEXT_EPOCH] = 2**60  # from here on, nothing is heard of others
    fleet.select(USERS[0])  # brings it up to date
    slot = fleet._own.slot[0]
    half = fleet._apart.covariance[slot]
    H = np.linalg.inv(np.tril(half) + np.tril(half, -1).T)
    right = H @ fleet._apart.theta[slot]
    rng = np.random.default_rng(0)
    for _ in range(20):
        counts = fleet._own.faded[0, 0].copy()
        ticket = fleet.pull(USERS[0], arm=int(rng.integers(N_ARMS)))
        x, loss = features(N_ARMS, ticket.arm, counts, len(H)), float(rng.normal())
        H += np.outer(x, x)
        right += x * (loss - fleet._shared.scales[ORIGIN])
        fleet.observe(ticket, loss)
    covariance = np.linalg.inv(H)
    np.testing.assert_allclose(fleet._apart.theta[slot], covariance @ right, atol=1e-8)
    np.testing.assert_allclose(fleet._apart.covariance[slot], np.tril(covariance), atol=1e-8)


@pytest.mark.parametrize("group", ["diagonal", "pairs"])
def test_errors_are_those_of_a_mixture_over_the_scale_of_the_interaction(group):
    """Dense algebra in the space of losses: their likelihood under every scale, and posteriors."""
    n_arms = 3
    fleet = fixed_fleet(n_arms)
    rng, counts, rows, losses, owners = np.random.default_rng(3), {}, [], [], []
    for _ in range(50):
        user = USERS[rng.integers(len(USERS))]
        pulls = counts.setdefault(user, np.zeros(n_arms))
        ticket = fleet.pull(user, arm=int(rng.integers(n_arms)))
        rows.append(features(n_arms, ticket.arm, pulls, unknowns(n_arms)))
        losses.append(float(rng.normal() + 0.2 * pulls[ticket.arm]))
        owners.append((user, ticket.arm))
        pulls[ticket.arm] += 1
        fleet.observe(ticket, losses[-1])
    shared = fleet._shared
    pairs = [(i, j) for i in range(n_arms) for j in range(i + 1)]
    entries = np.array([place(i, j) for i, j in pairs if (i == j) == (group == "diagonal")])
    X, y = np.array(rows), np.array(losses) - shared.scales[ORIGIN]
    taste = np.array([[a == b for b in owners] for a in owners])
    sigma2, theta = shared.scales[NOISE_VARIANCE], shared.theta[0, entries]
    logs, squares = [], []
    for scale in SCALES:
        prior = 1.0 / shared.precision
        prior[entries] = scale**2
        V = np.eye(len(y)) + 0.5 * taste + (X * prior) @ X.T
        gain = np.linalg.solve(V, X * prior).T  # prior·Xᵀ·V⁻¹
        mean, covariance = gain @ y, np.diag(prior) - gain @ (X * prior)
        fit = len(y) * np.log(y @ np.linalg.solve(V, y) / len(y)) + np.linalg.slogdet(V)[1]
        logs.append(-0.5 * fit + np.log(scale) - 2.5 * np.log1p(scale**2 / 4))
        squares.append(sigma2 * np.diag(covariance)[entries] + (mean[entries] - theta) ** 2)
    weights = np.exp(np.array(logs) - max(logs))
    expected = np.sqrt(weights @ np.array(squares) / weights.sum())
    np.testing.assert_allclose(find_errors(shared, entries), expected, rtol=1e-6)


def test_pairs_that_are_taken_for_nothing_are_not_certain_to_be_nothing():
    """Only the diagonal matters in this world, and the fleet finds so: errors stay honest.

    With 2,000 losses at some 10 pulls of each arm, an entry could be known to 1/(√2000·10) at best.
    """
    people = ib.Population(0.3 * np.eye(3), [0.0, 0.1, 0.2], 0.5, stay=40)
    shares = []
    for seed in range(4):
        found = ib.simulate_fleet(people, n_users=50, seed=seed, progress=False).found
        pairs = ~np.eye(3, dtype=bool)
        error = found.interaction_errors[pairs]
        assert (error > 1e-3).all()
        shares += list(np.abs(found.interaction[pairs]) / error)
    assert max(shares) < 4.0  # 12 different entries, all truly 0, at most four deviations away


def wrong_and_right_prior():
    """What a log of a population says, and what one of other people says, both sure of it."""
    losses, interaction = np.array([0.0, 0.3, -0.2]), np.diag([0.3, 0.2, 0.4])
    others = np.array([[0.1, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.05]])
    made = []
    for matrix, level in ((interaction, losses), (others, losses[::-1] + 1.0)):
        shared = ib.LossPrior.around(matrix, level, sd=0.01, sigma=1.0)
        made.append(ib.FleetPrior(shared, arm=0.5))
    return ib.Population(interaction, losses, 0.5, stay=40), made


def test_a_log_of_other_people_is_found_to_be_wrong_and_a_right_one_is_kept():
    people, (right, wrong) = wrong_and_right_prior()
    errors = []
    for prior in (right, wrong):
        found = ib.simulate_fleet(people, ib.FleetLCB(prior=prior), 30, progress=False).found
        errors.append(np.abs(found.interaction - people.interaction).max())
        assert 0.8 < found.sigma < 1.2
        assert found.interaction_spread == 0.0
    # 1,200 losses move a right prior of ± 0.01 hardly, and a wrong one from 0.35 to where they say
    assert errors[0] < 0.03
    assert errors[1] < 0.15
