"""The Gymnasium environment: by Gymnasium's own checks, and against the world itself."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from python_process import run_python

import influential_bandits as ib
from influential_bandits.errors import InvalidInput

NAME = "InfluentialBandit-v0"
NOISE = ib.GaussianNoise(1.0)
INSTANCE = ib.Instance([[1.0, 0.5, -0.25], [0.5, 2.0, 0.0], [-0.25, 0.0, 0.5]], [0.5, 0.25, 1.0])
ACTIONS = [0, 2, 1, 1, 0, 2, 2, 0]


def made(**options):
    settings = {"instance": INSTANCE, "noise": NOISE, "horizon": len(ACTIONS), **options}
    return gymnasium.make(NAME, **settings)


def episode(env, **reset):
    """Rewards of one episode."""
    env.reset(**reset)
    return [env.step(action)[1] for action in ACTIONS]


def rewards_of_the_world(seed, instance_number=0):
    environment = ib.Environment(INSTANCE, NOISE, seed, instance_number)
    return [-environment.pull(action) for action in ACTIONS]


def run(script):
    return run_python(script, PYTHONWARNINGS="error").split()


# Registration


IMPORTS = {
    "the package after gymnasium": "import gymnasium, influential_bandits; name = '{}'",
    "the package by gymnasium": "import gymnasium; name = 'influential_bandits:{}'",
    "gymnasium after the package": (
        "import influential_bandits as ib, gymnasium; ib.counterexample(); name = '{}'"
    ),
    "the module by gymnasium, after all": (
        "import influential_bandits as ib; ib.counterexample(); import gymnasium; "
        "name = 'influential_bandits.world.gym:{}'"
    ),
}


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_the_environment_is_registered_whatever_is_imported_first(imports):
    play = "print(gymnasium.make(name, horizon=7).unwrapped.horizon)"
    assert run(f"{imports.format(NAME)}; {play}") == ["7"]


def test_without_gymnasium_the_extra_is_named():
    script = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import influential_bandits as ib\n"
        "try:\n    ib.InfluentialBanditEnv\n"
        "except ib.errors.MissingExtra as error:\n    print(error)"
    )
    assert "pip install gymnasium" in " ".join(run(script))


# Gymnasium's own checks


# Losses are real numbers without bounds, and that is what the space says; Gymnasium only warns.
@pytest.mark.filterwarnings("ignore:.*Box observation space m..imum value is -?infinity")
@pytest.mark.parametrize("observe", ["loss", "counts"])
@pytest.mark.parametrize("noise", [None, NOISE], ids=["without noise", "with noise"])
def test_the_environment_passes_the_checks_of_gymnasium(observe, noise):
    env = gymnasium.make(NAME, disable_env_checker=True, noise=noise, observe=observe, horizon=50)
    check_env(env.unwrapped)


# The episode


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("number", [0, 3])
def test_rewards_are_minus_the_losses_of_the_world_for_the_same_seed(seed, number):
    env = made(instance_number=number)
    assert episode(env, seed=seed) == rewards_of_the_world(seed, number)


def test_what_was_observed_is_the_last_loss():
    env = made()
    observation, info = env.reset(seed=1)
    assert observation.tolist() == [0.0]
    assert list(info) == ["expected_losses"]
    for action in ACTIONS:
        observation, reward, *_ = env.step(action)
        assert observation.tolist() == [-reward]
        assert observation in env.observation_space


def test_counts_are_observed_on_request():
    env = made(observe="counts")
    observation, _ = env.reset(seed=1)
    assert observation["counts"].tolist() == [0, 0, 0]
    assert observation["loss"].tolist() == [0.0]
    for n, action in enumerate(ACTIONS, start=1):
        observation, reward, *_ = env.step(action)
        assert observation["counts"].tolist() == np.bincount(ACTIONS[:n], minlength=3).tolist()
        assert observation["loss"].tolist() == [-reward]
        assert observation in env.observation_space


def test_an_observation_is_not_changed_by_later_steps():
    env = made(observe="counts")
    first, _ = env.reset(seed=1)
    env.step(0)
    assert first["counts"].tolist() == [0, 0, 0]


def test_the_horizon_truncates_and_nothing_terminates():
    env = made()
    env.reset(seed=0)
    ends = [env.step(action)[2:4] for action in ACTIONS]
    assert ends == [(False, False)] * (len(ACTIONS) - 1) + [(False, True)]


@pytest.mark.parametrize("bare", [False, True])
def test_a_step_before_the_first_reset_or_after_the_end_needs_one(bare):
    env = made().unwrapped if bare else made()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    episode(env, seed=0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    assert episode(env, seed=0) == rewards_of_the_world(0)


@pytest.mark.parametrize("action", [-1, 3, 0.5])
def test_an_action_that_does_not_exist_is_refused_and_nothing_changes(action, refused):
    env = ib.InfluentialBanditEnv(INSTANCE, NOISE, horizon=len(ACTIONS))
    env.reset(seed=0)
    with refused(InvalidInput, "arm", str(action)):
        env.step(action)
    assert [env.step(action)[1] for action in ACTIONS] == rewards_of_the_world(0)


# Seeds


def test_a_reset_without_seed_brings_new_noise():
    env = made()
    episodes = [episode(env) for _ in range(5)]
    episodes += [episode(made()) for _ in range(5)]
    # All noise is continuous: two equal rewards in ten episodes have probability about 1e-14.
    assert len({rewards[0] for rewards in episodes}) == 10


def test_a_seeded_environment_repeats_all_its_episodes():
    one, other = made(), made()
    first = [episode(one, seed=3), episode(one), episode(one)]
    second = [episode(other, seed=3), episode(other), episode(other)]
    assert first == second
    assert len({tuple(rewards) for rewards in first}) == 3
    assert episode(one, seed=3) == first[0]


def test_the_info_holds_the_expected_losses_of_the_next_round():
    env, world = made(), ib.Environment(INSTANCE)
    info = env.reset(seed=1)[1]
    for action in ACTIONS:
        assert info["expected_losses"].tolist() == world.expected_losses().tolist()
        info = env.step(action)[4]
        world.pull(action)
    assert info["expected_losses"].tolist() == world.expected_losses().tolist()


# Vectors of environments


def test_gymnasium_plays_many_side_by_side_as_it_plays_one():
    envs = gymnasium.make_vec(
        NAME, 3, instance=INSTANCE, noise=NOISE, horizon=len(ACTIONS), observe="counts"
    )
    envs.reset(seed=5)
    rewards = [envs.step([action] * 3)[1] for action in ACTIONS]
    expected = [rewards_of_the_world(5 + number) for number in range(3)]
    np.testing.assert_array_equal(np.transpose(rewards), expected)


# Settings


def test_defaults_are_the_counterexample_without_noise():
    env = ib.InfluentialBanditEnv()
    env.reset(seed=0)
    assert [env.step(1)[1] for _ in range(3)] == [-1.0, -3.0, -5.0]
    assert env.horizon == 1000


def test_the_spaces_are_those_of_the_instance():
    env = made(observe="counts").unwrapped
    assert env.action_space == gymnasium.spaces.Discrete(3)
    assert env.observation_space["counts"].high.tolist() == [len(ACTIONS)] * 3
    assert env.observation_space["loss"].shape == (1,)


@pytest.mark.parametrize("horizon", [0, -5, 2.5, "10", None, True])
def test_a_horizon_that_is_no_positive_whole_number_is_refused(horizon, refused):
    with refused(InvalidInput, "horizon", str(horizon)):
        ib.InfluentialBanditEnv(horizon=horizon)


@pytest.mark.parametrize("observe", ["losses", None, 1])
def test_only_losses_or_counts_can_be_observed(observe, refused):
    with refused(InvalidInput, "observe", '"loss" or "counts"', repr(observe)):
        ib.InfluentialBanditEnv(observe=observe)


@pytest.mark.parametrize("number", [-1, 0.5, "0"])
def test_an_instance_number_that_is_none_is_refused(number, refused):
    with refused(InvalidInput, "instance_number", str(number)):
        ib.InfluentialBanditEnv(instance_number=number).reset(seed=0)


def test_recorded_noise_must_last_to_the_horizon(refused):
    with refused(InvalidInput, "2 rounds", "horizon is 5"):
        ib.InfluentialBanditEnv(noise=ib.RecordedNoise([0.0, 0.0]), horizon=5)
