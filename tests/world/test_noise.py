"""Every kind of noise.

Statistical tests use fixed seeds; each would fail for right noise with probability 1e-6.
"""

import json
import math
from dataclasses import dataclass
from math import log

import numba
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.random import uniform

ERROR_RATE = 1e-6
ROUNDS = 20_000
finite = st.floats(-1e100, 1e100)
scales = st.floats(0.0, 1e100)


def drawn(noise, rounds, seed=0):
    """The noise of some rounds, as seen in a world without losses."""
    environment = ib.Environment(ib.Instance([[0.0]], [0.0]), noise, seed)
    return np.array([environment.pull(0) for _ in range(rounds)])


def test_uniform_noise_is_uniform_between_its_bounds_and_never_outside():
    values = drawn(ib.UniformNoise(2.5), ROUNDS)
    assert (np.abs(values) < 2.5).all()
    assert scipy.stats.kstest((values + 2.5) / 5.0, "uniform").pvalue > ERROR_RATE


def test_noises_of_one_seed_come_from_the_same_draws():
    # Paired comparisons: a larger sigma is the same noise, larger.
    one, two = drawn(ib.GaussianNoise(1.0), 10), drawn(ib.GaussianNoise(2.0), 10)
    assert (two == 2.0 * one).all()
    assert (np.sign(drawn(ib.UniformNoise(1.0), 10)) == np.sign(one)).all()


@pytest.mark.parametrize(
    ("make", "what"), [(ib.GaussianNoise, "sigma"), (ib.UniformNoise, "bound")]
)
@pytest.mark.parametrize(
    "bad", [-1.0, -1e-300, math.nan, math.inf, "1", None, True, [1.0], 1j, np.complex128(1j)]
)
def test_a_scale_that_is_negative_or_no_number_is_refused(make, what, bad, refused):
    with refused(InvalidInput, what, str(bad)):
        make(bad)


def test_noises_are_equal_by_their_numbers_and_kind():
    different = [
        ib.NoNoise(),
        ib.GaussianNoise(1.0),
        ib.GaussianNoise(2.0),
        ib.UniformNoise(1.0),
        ib.RecordedNoise([1.0]),
        ib.RecordedNoise([2.0]),
        ib.RecordedNoise([1.0, 2.0]),
        ib.RecordedNoise([[1.0], [2.0]]),
    ]
    for i, one in enumerate(different):
        for j, other in enumerate(different):
            assert (one == other) is (i == j)
    assert len(set(different)) == len(different)
    assert hash(ib.RecordedNoise([1.0, 2.0])) == hash(ib.RecordedNoise([[1.0, 2.0]]))


def test_recorded_noise_never_changes():
    given_values = np.zeros((2, 3))
    noise = ib.RecordedNoise(given_values)
    given_values[0, 0] = 5.0
    assert noise == ib.RecordedNoise(np.zeros((2, 3)))
    assert given_values.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        noise.values[0, 0] = 5.0


@given(hnp.arrays(float, st.integers(1, 6), elements=finite))
def test_recorded_noise_is_played_back(values):
    assert drawn(ib.RecordedNoise(values), values.size).tolist() == values.tolist()


def test_one_row_of_recorded_noise_serves_any_number_of_seeds_and_more_rows_as_many():
    ib.RecordedNoise([1.0, 2.0]).require_rounds(2, 7)
    ib.RecordedNoise(np.zeros((7, 2))).require_rounds(2, 7)


def test_recorded_noise_that_is_too_short_is_refused(refused):
    with refused(InvalidInput, "2 rounds", "horizon is 1,000"):
        ib.RecordedNoise([0.0, 0.0]).require_rounds(1000, 1)


@pytest.mark.parametrize(("rows", "seeds"), [(2, 1), (2, 3), (3, 2)])
def test_recorded_noise_of_the_wrong_number_of_rows_is_refused(rows, seeds, refused):
    with refused(InvalidInput, f"{rows} rows", f"{seeds} seed"):
        ib.RecordedNoise(np.zeros((rows, 5))).require_rounds(5, seeds)


@pytest.mark.parametrize("bad", [[1.0, math.nan], [[math.inf]], [-math.inf]])
def test_recorded_noise_that_is_not_finite_is_refused(bad, refused):
    with refused(InvalidInput, "finite"):
        ib.RecordedNoise(bad)


@pytest.mark.parametrize(
    ("bad", "mention"),
    [(np.zeros((1, 1, 1)), "(1, 1, 1)"), (np.zeros((0, 3)), "(0, 3)"), ("abc", "numbers")],
    ids=["three axes", "no rows", "no numbers"],
)
def test_recorded_noise_of_another_shape_is_refused(bad, mention, refused):
    with refused(InvalidInput, "recorded noise", mention):
        ib.RecordedNoise(bad)


# --- noises of the user's ---


@dataclass(frozen=True)
class Laplace(ib.Noise):
    """Noise with heavy tails."""

    scale: float = 1.0

    @staticmethod
    def observe(c, t, arm, expected, rng):
        u = uniform(rng, 0)
        if u < 0.5:
            return expected + c.scale * log(2 * u)
        return expected - c.scale * log(2 - 2 * u)


@dataclass(frozen=True)
class Told(ib.Noise):
    """Tells all that it is told."""

    factor: int = 1000
    odd: bool = True

    @staticmethod
    def observe(c, t, arm, expected, rng):
        return expected + c.factor * (10 * t + arm) + c.odd


def pulls(noise, arms, seed=0, world=None):
    environment = ib.Environment(world or ib.counterexample(), noise, seed)
    return [environment.pull(arm) for arm in arms]


def test_a_noise_is_told_its_parameters_the_round_the_arm_and_the_expected_loss():
    assert pulls(Told(), [1, 0]) == [1.0 + 11_000 + 1, 2.0 + 20_000 + 1]
    assert pulls(Told(np.int64(1), odd=np.False_), [1]) == [12.0]


def test_engine_scenario_environment_and_gymnasium_give_the_same_bits():
    world, noise = ib.random_instance(n_arms=3, seed=1), Laplace(0.5)
    for scenario in (None, ib.Scenario(delay=3)):
        run = ib.simulate(
            world, ib.LCB(), 60, noise, [5, 6], record=("choices", "losses"), scenario=scenario
        )
        for n, seed in enumerate((5, 6)):
            assert pulls(noise, run.choices[0, n], seed, world) == run.losses[0, n].tolist()
    gym = ib.InfluentialBanditEnv(world, noise, horizon=60)
    gym.reset(seed=6)
    assert [-gym.step(arm)[1] for arm in run.choices[0, 1]] == run.losses[0, 1].tolist()


def test_a_noise_that_changes_its_code_is_never_played_from_old_code():
    def made(shift):
        @numba.njit
        def helper(x):
            return x + shift

        @dataclass(frozen=True)
        class Shifted(ib.Noise):
            @staticmethod
            def observe(c, t, arm, expected, rng):
                return helper(expected)

        return Shifted()

    assert pulls(made(1.0), [0]) == [2.0]
    assert pulls(made(5.0), [0]) == [6.0]
    assert made(1.0).code_digest != made(5.0).code_digest
    assert ib.GaussianNoise(1.0).code_digest == ""


def test_a_subclass_of_a_noise_of_the_package_may_say_what_is_observed():
    @dataclass(frozen=True)
    class Halved(ib.GaussianNoise):
        @staticmethod
        def observe(c, t, arm, expected, rng):
            return expected / 2 + c.sigma

    @dataclass(frozen=True)
    class Renamed(ib.GaussianNoise):
        pass

    assert pulls(Halved(3.0), [0]) == [3.5]
    assert pulls(Renamed(2.0), [0, 1]) == pulls(ib.GaussianNoise(2.0), [0, 1])


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (ib.NoNoise(), {"name": "NoNoise"}),
        (ib.GaussianNoise(np.float32(0.5)), {"name": "GaussianNoise", "sigma": 0.5}),
        (ib.UniformNoise(np.int64(2)), {"name": "UniformNoise", "bound": 2.0}),
        (ib.RecordedNoise([0.1]), {"name": "RecordedNoise", "values": [[0.1]]}),
        (Laplace(np.float64(0.5)), {"name": f"{__name__}:Laplace", "scale": 0.5}),
    ],
    ids=repr,
)
def test_json_names_a_noise_and_its_settings_exactly(noise, expected):
    assert json.loads(json.dumps(noise.to_json(), allow_nan=False)) == expected


def test_what_is_wrong_with_a_noise_of_the_users_is_said(refused):
    class Empty(ib.Noise):
        pass

    class NotStatic(ib.Noise):
        def observe(self, c, t, arm, expected, rng):
            return expected

    class NoData(ib.Noise):
        scale: float = 1.0

        @staticmethod
        def observe(c, t, arm, expected, rng):
            return expected

    @dataclass(frozen=True)
    class Nothing(ib.Noise):
        @staticmethod
        def observe(c, t, arm, expected, rng):
            return None

    @dataclass(frozen=True)
    class Misspelt(ib.Noise):
        scale: float = 1.0

        @staticmethod
        def observe(c, t, arm, expected, rng):
            return expected + c.scael

    @dataclass(frozen=True)
    class Unseeded(ib.Noise):
        @staticmethod
        def observe(c, t, arm, expected, rng):
            return expected + np.random.normal()  # noqa: NPY002 - that is the mistake

    @dataclass(frozen=True)
    class Short(ib.Noise):
        @staticmethod
        def observe(c, t, arm, rng):
            return 0.0

    world = ib.counterexample()
    for noise, mentions in (
        (Empty(), ["Empty does not say what is observed", "observe(c, t, arm, expected, rng)"]),
        (ib.Noise(), ["define the static method"]),
        (NotStatic(), ["NotStatic.observe must be a @staticmethod"]),
        (NoData(), ["NoData.scale", "@dataclass(frozen=True)"]),
        (Laplace("wide"), ["Laplace: parameter scale must be a number", "'wide'"]),
        (Laplace(2**63), ["parameter scale must fit 64 bits"]),
        (Unseeded(), ["Unseeded.observe uses np.random", "ib.random.normal(rng, 0)"]),
        (Short(), ["Short.observe(c, t, arm, rng) does not fit its call"]),
        (Nothing(), ["Nothing.observe must return the observed loss", "None"]),
        (Misspelt(), ["Misspelt.observe could not be compiled", "scael"]),
        (Laplace, ["construct it"]),
        ("loud", ["'loud'"]),
    ):
        for _ in range(2):  # the second time as the first
            with refused(InvalidInput, *mentions):
                ib.Environment(world, noise)
