"""The random streams: the very same numbers for good, and numbers that look random.

Statistical tests use fixed seeds, so they do not fail by chance from run to run. Their error rate
is the chance that a perfect generator would fail with the seeds chosen: 1e-6 for each test.
"""

from fractions import Fraction

import numba
import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from influential_bandits.numerics.portable import normal_quantile
from influential_bandits.numerics.streams import (
    INSTANCE,
    NOISE,
    POLICY,
    Stream,
    centred,
    key_table,
    mix,
    normal,
    stream_at,
    stream_keys,
    uniform,
)

ERROR_RATE = 1e-6
PURPOSES = (NOISE, POLICY, INSTANCE)

words = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 100))
rounds = st.one_of(st.integers(0, 2**53), st.integers(0, 100))
draws = st.one_of(st.integers(0, 2**31), st.integers(0, 100))
purposes = st.sampled_from(PURPOSES)


class Reference:
    """The generator in whole numbers of Python, which never overflow or round."""

    GOLDEN, SECOND = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03

    @staticmethod
    def mix(x):
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    @classmethod
    def keys(cls, seed, instance, purpose):
        keys = []
        for constant in (cls.GOLDEN, cls.SECOND):
            key = 0
            for part in (seed, instance, purpose):
                key = cls.mix(((key ^ part) + constant) % 2**64)
            keys.append(key)
        return tuple(keys)

    @classmethod
    def state(cls, first_key, t):
        return cls.mix((t * cls.GOLDEN + first_key) % 2**64)

    @classmethod
    def centred(cls, state, second_key, draw):
        """(m + ½)·2⁻⁵² for the signed 52-bit integer m of the upper bits, as a rational number."""
        bits = cls.mix(state ^ ((draw * cls.SECOND + second_key) % 2**64))
        m = bits >> 12
        if m >= 2**51:
            m -= 2**52
        return (Fraction(m) + Fraction(1, 2)) / 2**52


def stream_of(first_key, second_key, t):
    """The stream of a round with the types that it has in compiled code.

    On its way back to Python an unsigned number becomes a plain one, of which numba cannot know.
    """
    return Stream(*map(np.uint64, stream_at(np.uint64(first_key), np.uint64(second_key), t)))


@given(words)
@settings(max_examples=300)
@example(0)
@example(2**64 - 1)
def test_mix_is_the_finaliser_of_splitmix64(x):
    assert mix(np.uint64(x)) == Reference.mix(x)


def test_splitmix64_gives_its_published_numbers():
    # First outputs of the generator by Steele, Lea and Flood for seed 1234567.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    states = [(1234567 + n * Reference.GOLDEN) % 2**64 for n in (1, 2, 3)]
    assert [int(mix(np.uint64(state))) for state in states] == published


@given(words, words, purposes)
@settings(max_examples=300)
@example(0, 0, NOISE)
@example(2**63, 2**64 - 1, INSTANCE)
def test_keys_are_those_of_whole_number_arithmetic(seed, instance, purpose):
    keys = stream_keys(np.uint64(seed), np.uint64(instance), purpose)
    assert tuple(map(int, keys)) == Reference.keys(seed, instance, purpose)


@given(words, words, rounds, draws)
@settings(max_examples=300)
@example(0, 0, 0, 0)
@example(2**64 - 1, 2**64 - 1, 2**53, 2**31)
def test_draws_are_those_of_whole_number_arithmetic(first_key, second_key, t, draw):
    stream = stream_of(first_key, second_key, t)
    assert int(stream.state) == Reference.state(first_key, t)
    assert int(stream.key) == second_key
    exact = Reference.centred(Reference.state(first_key, t), second_key, draw)
    assert Fraction(centred(stream, draw)) == exact
    assert Fraction(uniform(stream, draw)) == Fraction(1, 2) + exact
    assert normal(stream, draw) == normal_quantile(centred(stream, draw))


@given(st.lists(words, min_size=1, max_size=5), words, purposes)
def test_key_table_lists_the_keys_of_each_seed(seeds, instance, purpose):
    table = key_table(np.array(seeds, np.uint64), np.uint64(instance), purpose)
    assert table.tolist() == [list(Reference.keys(seed, instance, purpose)) for seed in seeds]


# Never change these: they are what makes a seed name the same run in every version.
GOLDEN_UNIFORM = {
    # (seed, instance, purpose, t, draw)
    (0, 0, 1, 1, 0): "0x1.a408dda8b4df1p-1",
    (0, 0, 1, 2, 0): "0x1.b930b4bb9b24bp-1",
    (0, 0, 1, 1, 1): "0x1.349c302d7369fp-1",
    (0, 0, 2, 1, 0): "0x1.fb71bce63581ep-2",
    (0, 1, 1, 1, 0): "0x1.d5fab8586287bp-1",
    (1, 0, 1, 1, 0): "0x1.8efc538a29671p-1",
    (42, 7, 3, 1_000_000, 5): "0x1.3b0f7addaf943p-1",
    (2**64 - 1, 2**64 - 1, 2, 2**53, 1000): "0x1.e219cd4c356bep-2",
}
GOLDEN_NORMAL = {
    (0, 0, 1, 1, 0): "0x1.d568be759dbedp-1",
    (1, 0, 1, 1, 0): "0x1.8a198e8708e6ap-1",
    (42, 7, 3, 1_000_000, 5): "0x1.2c56156b246b9p-2",
    (0, 0, 1, 15_241, 0): "0x1.c9aceb6ec8715p+1",  # in the tail
}


def draw_of(seed, instance, purpose, t, draw, function):
    keys = stream_keys(np.uint64(seed), np.uint64(instance), purpose)
    return function(stream_of(*keys, t), draw)


@pytest.mark.parametrize("where", GOLDEN_UNIFORM, ids=str)
def test_uniform_draws_never_change(where):
    assert draw_of(*where, uniform).hex() == GOLDEN_UNIFORM[where]


@pytest.mark.parametrize("where", GOLDEN_NORMAL, ids=str)
def test_normal_draws_never_change(where):
    assert draw_of(*where, normal).hex() == GOLDEN_NORMAL[where]


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (2**63, 2.0**-53),  # the smallest signed number
        (2**63 - 1, 1.0 - 2.0**-53),
        (0, 0.5 + 2.0**-53),
        (2**64 - 1, 0.5 - 2.0**-53),
    ],
)
def test_extreme_bits_give_numbers_inside_the_interval(bits, expected):
    word = unmixed(bits)
    assert Reference.mix(word) == bits
    assert uniform(Stream(np.uint64(word), np.uint64(0)), 0) == expected


def unmixed(y):
    """The word that mix turns into y."""
    y = unshifted(y, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    y = unshifted(y, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return unshifted(y, 30)


def unshifted(y, shift):
    """Undo y = x ^ (x >> shift)."""
    x = y
    for _ in range(64 // shift + 1):
        x = y ^ (x >> shift)
    return x


@numba.njit
def fill_uniform(out, seed, instance, purpose, t, draw, steps):
    """out[n] is the draw n steps away from (seed, instance, purpose, t, draw)."""
    for n in range(out.size):
        first_key, second_key = stream_keys(
            np.uint64(seed + n * steps[0]),
            np.uint64(instance + n * steps[1]),
            purpose + n * steps[2],
        )
        stream = stream_at(first_key, second_key, t + n * steps[3])
        out[n] = uniform(stream, draw + n * steps[4])


AXES = {
    "seeds": (1, 0, 0, 0, 0),
    "instances": (0, 1, 0, 0, 0),
    "purposes": (0, 0, 1, 0, 0),
    "rounds": (0, 0, 0, 1, 0),
    "draws": (0, 0, 0, 0, 1),
}
SAMPLE = 2**18


@pytest.fixture(scope="module", params=AXES)
def axis(request):
    return request.param


@pytest.fixture(scope="module")
def sample(axis):
    """Consecutive uniform draws along one axis, all else fixed."""
    out = np.empty(SAMPLE)
    fill_uniform(out, 3, 2, NOISE, 1, 0, AXES[axis])
    return out


def test_draws_along_each_axis_are_uniform(sample):
    observed = np.bincount((sample * 256).astype(int), minlength=256)
    assert scipy.stats.chisquare(observed).pvalue > ERROR_RATE
    assert scipy.stats.kstest(sample, "uniform").pvalue > ERROR_RATE


def test_normal_draws_along_each_axis_have_the_normal_distribution(sample):
    normals = np.array([normal_quantile(q) for q in (sample[:20_000] - 0.5).tolist()])
    assert scipy.stats.kstest(normals, "norm").pvalue > ERROR_RATE
    # z-scores of mean and variance (the variance of z² is 2).
    root = np.sqrt(normals.size)
    assert abs(normals.mean()) * root < scipy.stats.norm.isf(ERROR_RATE / 2)
    assert abs((normals**2).mean() - 1) * root / np.sqrt(2) < scipy.stats.norm.isf(ERROR_RATE / 2)


@pytest.mark.parametrize("lag", [1, 2, 3, 16])
def test_neighbours_along_each_axis_are_uncorrelated(sample, lag):
    centre = sample - 0.5
    # n products of independent uniforms of variance 1/12 each: √n·12·mean is nearly normal.
    products = centre[lag:] * centre[:-lag]
    assert abs(products.mean()) * 12 * np.sqrt(products.size) < scipy.stats.norm.isf(ERROR_RATE / 2)


def test_each_bit_of_neighbours_along_each_axis_differs_half_of_the_time(sample):
    words = ((sample - 2.0**-53) * 2.0**52).astype(np.uint64)  # the 52 random bits
    differences = words[1:] ^ words[:-1]
    for bit in range(52):
        often = int((differences >> np.uint64(bit) & np.uint64(1)).sum())
        assert scipy.stats.binomtest(often, differences.size).pvalue > ERROR_RATE / 52


def test_streams_of_different_purposes_are_uncorrelated():
    streams = [np.empty(SAMPLE) for _ in PURPOSES]
    for purpose, out in zip(PURPOSES, streams, strict=True):
        fill_uniform(out, 0, 0, purpose, 1, 0, AXES["rounds"])
    matrix = np.corrcoef(streams)
    largest = np.abs(matrix[np.triu_indices(3, 1)]).max()
    assert largest * np.sqrt(SAMPLE) < scipy.stats.norm.isf(ERROR_RATE / 6)  # three pairs


def test_no_two_streams_share_a_key():
    # 30,000 random pairs of 64-bit keys would share one with probability 5e-11.
    firsts, seconds = set(), set()
    seeds = np.arange(100, dtype=np.uint64)
    for instance in range(100):
        for purpose in PURPOSES:
            table = key_table(seeds, np.uint64(instance), purpose)
            firsts.update(table[:, 0].tolist())
            seconds.update(table[:, 1].tolist())
    assert len(firsts) == len(seconds) == 30_000
    assert not firsts & seconds
