"""ModelLCB where A is not positive semi-definite: when it says so, and what it does then."""

import json

import numpy as np
import pytest

import influential_bandits as ib

NOISE = ib.GaussianNoise(1.0)
TRAP = ib.Instance([[0.3, 0.0], [0.0, -0.5]], [-1.0, 3.0], definite=False)
# Arm 0 is better for 13 pulls; arm 1 gets better for being pulled, without end.
SEEN = ib.Instance([[-0.1, 0.0], [0.0, -1.0]], [-1.0, 5.0], definite=False)
PAIR = ib.Instance([[1.0, -3.0], [-3.0, 1.0]], [0.0, 0.0], definite=False)


def play(policy, instance, rounds, seed):
    """Play an agent; return it, what it pulled, and the rounds in which it followed a mix."""
    agent = ib.Agent(policy, instance.n_arms, seed=seed)
    environment = ib.Environment(instance, NOISE, seed)
    mix = agent._layout.views(agent._arrays)["mix"]  # it follows every round
    pulled, mixed = [], []
    for t in range(rounds):
        if mix.any():
            mixed.append(t)
        ticket = agent.pull()
        pulled.append(ticket.arm)
        agent.observe(ticket, environment.pull(ticket.arm))
    return agent, pulled, mixed


def bound_totals(state, instance, rounds):
    """Lower bounds of single arms, by the dense covariance: mean less one standard deviation."""
    arms, theta = instance.n_arms, state["theta"]
    covariance = state["root"].T @ state["root"]
    noise = np.sqrt(state["rss"][0] / state["observations"][0])
    found = []
    for arm in range(arms):
        features = np.zeros(len(theta))
        features[arm * (arm + 3) // 2] = rounds
        for other in range(arms):
            low, high = sorted((arm, other))
            where = high * (high + 3) // 2 + 1 + low
            features[where] = rounds * state["pulls"][other]
            if other == arm:
                features[where] += rounds * (rounds - 1) / 2
        found.append(features @ theta - noise * np.sqrt(features @ covariance @ features))
    return found


def test_in_positive_semi_definite_worlds_it_never_plans():
    """Where the radius holds; singular matrices, with uᵀAu = 0, are the hardest of them."""
    worlds = [ib.random_instance(n_arms=3, seed=seed) for seed in range(12)]
    worlds += [ib.random_instance(n_arms=4, rank=1, seed=seed) for seed in range(12)]
    worlds += [ib.recovery_instance(5, seed) for seed in range(6)]
    for seed, world in enumerate(worlds):
        assert play(ib.ModelLCB(), world, 300, seed)[2] == []


@pytest.mark.parametrize("seed", range(5))
def test_an_arm_that_pays_late_is_found_if_one_asks_for_plans(seed):
    """Its first pulls cost more than those of arm 0."""
    _, pulled, mixed = play(ib.ModelLCB(definite=False), TRAP, 300, seed)
    assert mixed
    assert np.mean(pulled[100:]) > 0.95


@pytest.mark.parametrize("seed", range(5))
def test_an_arm_that_surely_gets_better_is_reason_to_try_others(seed):
    """Arm 0 shows that A_00 < 0; arm 1 is worse at first, and better in the end.

    The scale is given: arm 0 alone would say that influence is too small for much hope.
    """
    _, pulled, mixed = play(ib.ModelLCB(sigma=1.0, influence_scale=1.0), SEEN, 600, seed)
    assert mixed
    assert np.mean(pulled[400:]) > 0.95


def test_two_arms_that_help_each_other_are_pulled_in_turn():
    _, pulled, _ = play(ib.ModelLCB(definite=False), PAIR, 300, 1)
    assert 0.4 < np.mean(pulled) < 0.6


def test_the_arm_it_commits_to_has_the_lowest_lower_bound():
    """Against the dense covariance; among mixes of one arm."""
    checked = 0
    for seed in range(5):
        for rounds in range(3, 16):  # plans are compared after each
            agent, _, _ = play(ib.ModelLCB(definite=False), TRAP, rounds, seed)
            state = agent.state
            if state["mix"].max() == 1.0:
                bounds = bound_totals(state, TRAP, 10.0 * rounds)
                assert bounds[np.argmax(state["mix"])] == pytest.approx(min(bounds), rel=1e-6)
                checked += 1
    assert checked >= 5


@pytest.mark.parametrize("policy", [ib.ModelLCB(), ib.ModelLCB(definite=False)], ids=repr)
def test_engine_and_agent_choose_alike(policy):
    instance = ib.indefinite_instance(3, 4)
    run = ib.simulate(instance, policy, 200, NOISE, seeds=[9], record="choices")
    assert run.choices[0, 0].tolist() == play(policy, instance, 200, 9)[1]


def test_an_agent_that_follows_a_mix_goes_on_after_it_was_saved():
    policy = ib.ModelLCB(definite=False)
    agent, _, mixed = play(policy, TRAP, 50, 2)
    assert mixed
    again = ib.Agent.from_json(json.loads(json.dumps(agent.to_json())), policy)
    assert all(np.array_equal(again.state[n], v) for n, v in agent.state.items())
    assert [agent.pull().arm for _ in range(9)] == [again.pull().arm for _ in range(9)]


@pytest.mark.parametrize(("name", "value"), [("mix", [0.5, 0.2]), ("due", [1e9, 0.0])])
def test_a_damaged_mix_is_refused(name, value):
    agent, _, _ = play(ib.ModelLCB(), TRAP, 20, 0)
    data = json.loads(json.dumps(agent.to_json()))
    data.pop("checksum", None)
    data["state"][name] = value
    with pytest.raises(ib.errors.InvalidInput, match=name):
        ib.Agent.from_json(data, agent.policy)


def test_definite_is_true_or_false():
    with pytest.raises(ib.errors.InvalidInput, match="definite"):
        ib.ModelLCB(definite="no")
