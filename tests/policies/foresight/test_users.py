"""Many users: the model against dense algebra, who differ in A, and one who is like an agent.

The slow version has every coefficient as an unknown of its own: those that all share, around common
means, and what each user adds to each of them. All losses together are one normal vector.
"""

import pickle
from typing import NamedTuple

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.policies.fleet.snapshot import pack_fleet, pack_users, unpack_fleet
from influential_bandits.policies.foresight.hypotheses import (
    LEVEL_SPREADS,
    MEMORIES,
    SCALES,
    SPREAD,
    STEP,
    level_spread_of,
    scale_of,
    weigh,
)
from influential_bandits.policies.foresight.posterior import fit, regress
from influential_bandits.policies.foresight.rule import (
    EXACT_ARMS,
    FIRST_DIFFERENCE,
    own_exposure,
)
from influential_bandits.policies.foresight.users import DIFFERENCES, TASTES, look


class Hypothesis(NamedTuple):
    memory: int  # its number
    taste: float
    unlike: float
    level: float
    scale: float

    @classmethod
    def of(cls, variant, level, scale):
        numbers = np.unravel_index(variant, (len(MEMORIES), TASTES, DIFFERENCES))
        memory, taste, difference = map(int, numbers)
        unlike = FIRST_DIFFERENCE * STEP ** (2 * (difference - 1)) if difference else 0.0
        return cls(memory, level_spread_of(taste), unlike, level, scale)


class Service:
    """A fleet that shows arms at random, its losses as plain lists, and the dense model of them."""

    def __init__(self, n_arms, n_users, rounds, seed):
        self.fleet = ib.Fleet(arms=n_arms)
        self.n_arms, self.n_users = n_arms, n_users
        draw = np.random.default_rng(seed)
        self.counts = np.zeros((n_users, len(MEMORIES), n_arms))
        self.events = []  # user, arm, counts before (memories, arms), loss; as they came in
        waiting = []
        taste = draw.normal(size=(n_users, n_arms))
        for n in range(rounds + n_users):
            user = n if n < n_users else int(draw.integers(n_users))  # rows in the order of users
            ticket = self.fleet.pull(str(user), arm=int(draw.integers(n_arms)))
            before = self.counts[user].copy()
            loss = taste[user, ticket.arm] + 0.3 * before[1, ticket.arm] + draw.normal()
            waiting.append((ticket, (user, ticket.arm, before, loss)))
            self.counts[user] *= np.array(MEMORIES)[:, None]
            self.counts[user, :, ticket.arm] += 1.0
            while len(waiting) > 5:
                ticket, event = waiting.pop(int(draw.integers(len(waiting))))
                self.fleet.observe(ticket, event[3])
                self.events.append(event)
        self.losses = np.array([loss for *_, loss in self.events])

    def row(self, user, arm, x):
        """What a loss has of each unknown: common means, what all share, and what each adds."""
        shared = np.zeros((self.n_arms, 1 + self.n_arms))
        own = np.zeros((self.n_users, self.n_arms, 1 + self.n_arms))
        shared[arm] = own[user, arm] = [1.0, *x]
        common = [1.0, x[arm], x.sum() - x[arm]]
        return np.concatenate([common, shared.ravel(), own.ravel()])

    def design(self, memory):
        return np.array([self.row(u, i, counts[memory]) for u, i, counts, _ in self.events])

    def ahead(self, memory):
        """The same of the next loss of each user and arm."""
        pairs = [(u, i) for u in range(self.n_users) for i in range(self.n_arms)]
        return np.array([self.row(u, i, self.counts[u, memory]) for u, i in pairs])

    def variances(self, guess, common=True):
        """Of all unknowns but μ, which is flat."""
        tight = (SPREAD * guess.scale) ** 2
        shared = np.full((self.n_arms, 1 + self.n_arms), tight)
        own = np.full((self.n_users, self.n_arms, 1 + self.n_arms), guess.unlike**2)
        shared[..., 0], own[..., 0] = guess.level**2, guess.taste**2
        return np.concatenate([[tight * common] * 2, shared.ravel(), own.ravel()])

    def solve(self, guess, noise):
        """Return the inverse covariance, the mean of μ, losses less all means, and their square."""
        design, variances = self.design(guess.memory), self.variances(guess)
        rest = self.losses - guess.scale * noise * design[:, 1]
        covariance = np.eye(len(rest)) + design[:, 1:] * variances @ design[:, 1:].T
        inverse = np.linalg.inv(covariance)
        weight = inverse.sum()
        mean = inverse.sum(axis=0) @ rest / weight
        square = (rest - mean) @ inverse @ (rest - mean)
        log_determinant = np.linalg.slogdet(covariance)[1] + np.log(weight)
        return inverse, mean, rest - mean, square, log_determinant

    def likelihood(self, guess, noise):
        """Log likelihood with μ and σ integrated out, up to what all hypotheses have alike."""
        *_, square, log_determinant = self.solve(guess, noise)
        return -0.5 * (log_determinant + (len(self.losses) - 2) * np.log(square))

    def expect(self, guess, noise):
        """Expected losses (users · arms,), and their variances given the common means."""
        inverse, mean, rest, square, _ = self.solve(guess, noise)
        design, ahead = self.design(guess.memory), self.ahead(guess.memory)
        variances = self.variances(guess)
        gain = ahead[:, 1:] * variances @ design[:, 1:].T @ inverse
        expected = mean + guess.scale * noise * ahead[:, 1] + gain @ rest
        known = self.variances(guess, common=False)
        across = ahead[:, 1:] * known @ design[:, 1:].T
        covariance = np.eye(len(rest)) + design[:, 1:] * known @ design[:, 1:].T
        left = ahead[:, 1:] * known @ ahead[:, 1:].T
        left -= across @ np.linalg.solve(covariance, across.T)
        return expected, square / (len(rest) - 1) * np.diag(left)


@pytest.mark.parametrize(("n_arms", "n_users"), [(2, 4), (3, 3)])
def test_hypotheses_are_weighed_by_their_likelihood(n_arms, n_users):
    service = Service(n_arms, n_users, 40, n_arms)
    rules, shared = service.fleet._rules, service.fleet._shared
    variants = len(MEMORIES) * TASTES * DIFFERENCES
    weights = np.empty((SCALES, variants, LEVEL_SPREADS))
    weigh(rules, shared, weights)
    draw = np.random.default_rng(1)
    likely = np.argwhere(weights > 1e-6)
    tried = [tuple(likely[n]) for n in draw.integers(len(likely), size=150)]
    tried += [tuple(draw.integers(weights.shape)) for _ in range(150)]
    tried.append(np.unravel_index(weights.argmax(), weights.shape))
    dense = np.array(
        [
            service.likelihood(
                Hypothesis.of(v, level_spread_of(t), scale_of(rules, k)),
                shared.noise[0],
            )
            for k, v, t in tried
        ]
    )
    ours = np.array([weights[spot] for spot in tried])
    assert ours.max() == 1.0
    assert {v % DIFFERENCES for _, v, _ in tried} == set(range(DIFFERENCES))
    np.testing.assert_allclose(ours, np.exp(dense - dense[-1]), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("difference", range(DIFFERENCES))
@pytest.mark.parametrize(("memory", "taste"), [(0, 1), (2, 3), (3, 0)])
def test_expected_losses_are_those_of_dense_algebra(memory, taste, difference):
    """For one hypothesis that has all the weight, and without messages between arms."""
    service = Service(3, 4, 40, 7)
    rules, shared, own = service.fleet._rules, service.fleet._shared, service.fleet._own
    h, variant = 2, (memory * TASTES + taste) * DIFFERENCES + difference
    shared.weight[:] = np.arange(shared.weight.size) == h
    shared.variant[h], shared.level_spread[h], shared.scale[h] = variant, 0.5, 0.3
    fit(rules, shared, h)
    size = 1 + service.n_arms
    matrix, silent = np.empty((size, size + 1)), np.zeros((service.n_arms, 2 * size))
    for arm in range(service.n_arms):
        regress(rules, shared, h, arm, matrix, silent)
    guess = Hypothesis.of(variant, 0.5, 0.3)
    expected, variances = service.expect(guess, shared.noise[0])
    for user in range(service.n_users):
        losses, variance = np.zeros(service.n_arms), np.zeros(service.n_arms)
        look(rules, shared, own, user, losses, variance)
        spots = slice(user * service.n_arms, (user + 1) * service.n_arms)
        np.testing.assert_allclose(losses, expected[spots], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(variance, variances[spots], rtol=1e-8)


def test_what_a_user_was_exposed_to_is_shared_out_by_its_pulls_where_arms_are_many():
    """The sums are those of its pulls; each other arm has its part in proportion to its pulls."""
    n_arms, gamma = EXACT_ARMS + 1, 0.9
    fleet, draw = ib.Fleet(ib.Foresight(memory=gamma), arms=n_arms), np.random.default_rng(3)
    counts, exposed = np.zeros(n_arms), np.zeros((n_arms, n_arms))
    for _ in range(60):
        ticket = fleet.pull("ann", arm=int(draw.integers(n_arms)))
        fleet.observe(ticket, draw.normal())
        exposed[ticket.arm] += counts
        counts *= gamma
        counts[ticket.arm] += 1.0
    user = type(fleet._own)(*(numbers[0] for numbers in fleet._own))
    told = np.array(
        [
            [own_exposure(fleet._rules, user, arm, j + 1, 0) for j in range(n_arms)]
            for arm in range(n_arms)
        ]
    )
    np.testing.assert_allclose(np.diag(told), np.diag(exposed))
    np.testing.assert_allclose(told.sum(axis=1), exposed.sum(axis=1))
    shares = told[0, 1:] / told[0, 1:].sum()
    np.testing.assert_allclose(shares, user.pulls[1:] / user.pulls[1:].sum())


def prior_of_taste(taste):
    """What a log says of three arms, and of how its users differ."""
    plain = ib.LossPrior.around(np.diag([0.2, 0.4, 0.3]), [0.3, 0.0, 0.6], sd=0.3, sigma=1.0)
    return ib.LossPrior(plain.mean, plain.covariance, 1.0, 50, taste=taste)


def test_a_fleet_of_one_user_expects_about_what_an_agent_does(monkeypatch):
    """Told that users hardly differ: the smallest taste of a fleet is 0.1 σ."""
    monkeypatch.setattr("influential_bandits.policies.foresight.policy.DIFFERENCES", 1)
    policy = ib.Foresight(prior=prior_of_taste(1e-3))
    agent, fleet = ib.Agent(policy, 3), ib.Fleet(policy, arms=3)
    draw, off = np.random.default_rng(4), []
    for _ in range(60):
        arm = int(draw.integers(3))
        ticket, other = agent.pull(arm), fleet.pull("ann", arm)
        loss = 0.3 * arm + 0.2 * agent.state["counts"][arm] + draw.normal()
        agent.observe(ticket, loss)
        fleet.observe(other, loss)
        expected, _ = fleet.expected_losses("ann")
        off.append(np.abs(expected - agent.expected_losses()).max())
    assert np.mean(off) < 0.02
    assert max(off) < 0.05


def reload(fleet, folder):
    fleet.save(folder / "fleet.parquet")
    return ib.Fleet.load(folder / "fleet.parquet")


def restore(fleet, folder):
    copy = ib.Fleet(fleet.policy, arms=fleet.n_arms)
    unpack_fleet(pack_fleet(fleet), pack_users(fleet, fleet.users).items(), copy)
    return copy


def unpickle(fleet, folder):
    return pickle.loads(pickle.dumps(fleet))


def test_files_snapshots_and_pickles_in_any_order_change_nothing(tmp_path):
    draw, ways = np.random.default_rng(5), [reload, restore, unpickle]
    fleets, late = [ib.Fleet(arms=3) for _ in range(3)], []
    for n in range(120):
        if n % 20 == 10:
            order = draw.permutation(3)
            fleets = [ways[k](fleet, tmp_path) for k, fleet in zip(order, fleets, strict=True)]
        user, loss = f"user {draw.integers(7)}", draw.normal()
        tickets = [fleet.pull(user) for fleet in fleets]
        assert tickets[1:] == tickets[:1] * 2
        late.append(tickets[0])
        if n % 3:
            ticket = late.pop(int(draw.integers(len(late))))
            for fleet in fleets:
                fleet.observe(ticket, loss)
        if n == 60:
            for fleet in fleets:
                fleet.forget("user 3")
            late = [ticket for ticket in late if ticket.user != "user 3"]
    for fleet in fleets[1:]:
        assert sorted(fleet.users) == sorted(fleets[0].users)
        for user in fleet.users:
            ours, theirs = fleet.expected_losses(user), fleets[0].expected_losses(user)
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.long
def test_it_pays_to_let_users_differ_in_what_arms_do_to_each_other(monkeypatch):
    """One population of users with an interaction each, 150 of them: paired, three errors."""
    people = ib.Population(
        0.3 * np.eye(4), [0.0, 0.1, 0.2, 0.0], 0.25, interaction_spread=0.3, stay=60
    )
    free = ib.simulate_fleet(people, n_users=150, seed=2)
    monkeypatch.setattr("influential_bandits.policies.foresight.policy.DIFFERENCES", 1)
    bound = ib.simulate_fleet(people, n_users=150, seed=2)
    assert free.found.interaction_spread > 0.1
    assert bound.found.interaction_spread == 0.0
    gain = (bound.regret() - free.regret())[30:]
    assert gain.mean() > 3.0 * gain.std(ddof=1) / np.sqrt(gain.size)
