"""The compiled loop, the stepwise loop and Gymnasium play the same game to the last bit."""

import gymnasium
import numpy as np
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import influential_bandits as ib

POLICIES = (
    ib.LCB(),
    ib.InfluentialLCB(),
    ib.InfluentialLCB("estimate"),
    ib.InfluentialLCB("estimate", opening="paper", noise_bound=0.1),
    ib.Uniform(),
    ib.FrankWolfeOracle(),
)


@st.composite
def instances(draw):
    """Dense, low-rank and sparse instances, with and without fading, of 1 to 6 arms."""
    arms = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["dense", "low rank", "sparse"]))
    memory = draw(st.sampled_from([1.0, 0.9, 0.25]))
    factors = random.normal(size=(arms, draw(st.integers(1, 3))))
    initial_loss = random.normal(size=arms)
    if kind == "low rank":
        interaction = ib.LowRankInteraction(factors)
    elif kind == "dense":
        interaction = ib.DenseInteraction(factors @ factors.T)
    else:
        chain = np.eye(arms) + 0.5 * np.eye(arms, k=1) + 0.5 * np.eye(arms, k=-1)
        interaction = ib.SparseInteraction(scipy.sparse.csr_array(chain * random.uniform(0.1, 2)))
    return ib.Instance(interaction, initial_loss, memory=memory)


@st.composite
def noises(draw, rounds):
    kind = draw(st.sampled_from(["none", "Gaussian", "uniform", "recorded"]))
    if kind == "recorded":
        random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return ib.RecordedNoise(random.normal(size=rounds))
    return {"none": ib.NoNoise(), "Gaussian": ib.GaussianNoise(0.7), "uniform": ib.UniformNoise()}[
        kind
    ]


def stepwise(instance, policy, horizon, noise, seed, number):
    """Play agent against environment; return arms, observed losses and expected losses."""
    told = {"instance": instance, "horizon": horizon} if policy.privileged else {}
    agent = ib.Agent(policy, instance.n_arms, seed, instance_number=number, **told)
    environment = ib.Environment(instance, noise, seed, number)
    arms, losses, expected = [], [], []
    for _ in range(horizon):
        ticket = agent.pull()
        expected.append(environment.expected_losses()[ticket.arm])
        loss = environment.pull(ticket.arm)
        agent.observe(ticket, loss)
        arms.append(ticket.arm)
        losses.append(loss)
    return arms, losses, expected


def in_gymnasium(instance, policy, horizon, noise, seed, number):
    """Play agent against the registered environment, which only shows rewards."""
    told = {"instance": instance, "horizon": horizon} if policy.privileged else {}
    agent = ib.Agent(policy, instance.n_arms, seed, instance_number=number, **told)
    environment = gymnasium.make(
        "InfluentialBandit-v0",
        instance=instance,
        noise=noise,
        horizon=horizon,
        instance_number=number,
        disable_env_checker=True,
    )
    environment.reset(seed=seed)
    arms, losses, truncated = [], [], False
    while not truncated:
        ticket = agent.pull()
        _, reward, _, truncated, _ = environment.step(ticket.arm)
        agent.observe(ticket, -reward)
        arms.append(ticket.arm)
        losses.append(-reward)
    return arms, losses


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
def test_engine_and_stepwise_loop_and_gymnasium_choose_the_same_arms(data):
    instance = data.draw(instances(), label="instance")
    policy = data.draw(st.sampled_from(POLICIES), label="policy")
    horizon = data.draw(st.integers(1, 50), label="horizon")
    noise = data.draw(noises(horizon), label="noise")
    seed = data.draw(st.integers(0, 2**63 - 1), label="seed")
    number = data.draw(st.integers(0, 2**64 - 1), label="instance number")
    game = (instance, policy, horizon, noise, seed, number)

    run = ib.simulate(
        instance, policy, horizon, noise, seeds=[seed], instance_numbers=[number], record="choices"
    )
    arms, losses, expected = stepwise(*game)
    assert run.choices[0, 0].tolist() == arms
    assert in_gymnasium(*game) == (arms, losses)
    assert run.counts[0, 0, -1].tolist() == np.bincount(arms, minlength=instance.n_arms).tolist()
    assert np.isclose(run.loss()[0, 0, -1], np.sum(expected), rtol=1e-12, atol=1e-10)


def test_engine_and_stepwise_loop_choose_the_same_arms_with_a_tree():
    instance = ib.random_instance(n_arms=40, seed=0, rank=4)
    for policy in POLICIES:
        run = ib.simulate(instance, policy, 300, ib.GaussianNoise(1.0), seeds=[7], record="choices")
        arms, _, _ = stepwise(instance, policy, 300, ib.GaussianNoise(1.0), 7, 0)
        assert run.choices[0, 0].tolist() == arms
