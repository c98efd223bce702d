"""Numbers of every size: taken, or refused by name."""

from fractions import Fraction

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.checks import abbreviate, is_real, whole_number

HUGE = [10**400, -(10**400), 10**5000, Fraction(10**400, 3)]


@pytest.mark.parametrize("value", [1, 2.5, np.float32(1), np.int64(3), Fraction(1, 3), 1e308])
def test_real_numbers_are_real(value):
    assert is_real(value)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j, *HUGE], ids=abbreviate)
def test_what_float_does_not_take_is_not_real(value):
    assert not is_real(value)


def test_whatever_was_given_can_be_shown():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    for value in (*HUGE, [10**5000], nested, "x" * 1000):
        assert len(abbreviate(value)) <= 80


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=abbreviate)
def test_a_whole_number_beyond_its_bound_is_refused(value):
    with pytest.raises(ib.errors.InvalidInput, match="seed must be below"):
        whole_number("seed", value)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1.5, np.nan, np.inf, 1j, [1], 1e400])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ib.errors.InvalidInput, match="seed must be a whole number, got"):
        whole_number("seed", value)


def test_whole_numbers_of_every_type_are_taken_from_the_least_on():
    taken = [whole_number("n", value, 1) for value in (1, 1.0, 1e6, np.int8(3), np.float32(2))]
    assert taken == [1, 1, 10**6, 3, 2]
    assert {type(value) for value in taken} == {int}
    for value in (0, -3, 0.0):
        with pytest.raises(ib.errors.InvalidInput, match="n must be at least 1, got"):
            whole_number("n", value, 1)


INSTANCE = ib.counterexample()


@pytest.mark.parametrize("value", HUGE, ids=abbreviate)
@pytest.mark.parametrize(
    "use",
    [
        ib.GaussianNoise,
        lambda x: ib.UniformNoise(bound=x),
        lambda x: ib.RecordedNoise([x]),
        lambda x: ib.Instance([[1.0]], [x]),
        lambda x: ib.Instance([[x]], [1.0]),
        lambda x: ib.Instance([[1.0]], [1.0], memory=x),
        lambda x: ib.LowRankInteraction([[x]]),
        lambda x: ib.SparseInteraction([[x]]),
        lambda x: INSTANCE.losses([x, 1]),
        lambda x: INSTANCE.total_loss([x, 1]),
        lambda x: ib.random_instance(n_arms=x, seed=0),
        lambda x: ib.block_instance(4, 2, 0, within=x),
        lambda x: ib.optimum(INSTANCE, x),
        lambda x: ib.optimal_path(INSTANCE).counts(x),
        lambda x: ib.regret(INSTANCE, [x, 1]),
        lambda x: ib.regret_bound(INSTANCE, 10, influence_bound=x),
        lambda x: ib.regret_bound(INSTANCE, x),
        lambda x: ib.simulate(INSTANCE, ib.LCB(), x),
        lambda x: ib.simulate(INSTANCE, ib.LCB(), 10, seeds=[x]),
        lambda x: ib.simulate(INSTANCE, ib.LCB(), 10, checkpoints=[x]),
        lambda x: ib.Scenario(delay=x),
        lambda x: ib.Scenario(eligible=x),
        lambda x: ib.Scenario(arrivals={1: x}),
        lambda x: ib.EventLog(["a"], ["b"], [x]),
        lambda x: ib.InfluentialLCB(influence_bound=x),
        lambda x: ib.InfluentialLCB("estimate", noise_bound=x),
        lambda x: ib.Foresight(memory=x),
        lambda x: ib.Foresight(horizon=x),
        lambda x: ib.LossPrior.around([[1.0]], [1.0], sd=x, sigma=1.0),
        lambda x: ib.LossPrior([x, 0.0], np.eye(2), sigma=1.0),
        lambda x: ib.SlidingWindowLCB(window=x),
        lambda x: ib.UCBV(zeta=x),
        lambda x: ib.InfluenceModel(ridge=x).fit(ib.EventLog(["a"] * 3, list("bcb"), [1, 2, 3])),
    ],
    ids=range(33),
)
def test_numbers_beyond_all_doubles_are_refused(use, value):
    with pytest.raises(ib.errors.InfluentialBanditsError):
        use(value)


@pytest.mark.parametrize("value", [1.01e100, -1.01e100, 1e308])
@pytest.mark.parametrize(
    "use",
    [
        lambda x: ib.GaussianNoise(abs(x)),
        lambda x: ib.UniformNoise(abs(x)),
        lambda x: ib.RecordedNoise([0.0, x]),
        lambda x: ib.Instance(np.eye(2), [0.0, x]),
        lambda x: ib.Instance([[x]], [0.0], definite=False),
        lambda x: ib.SparseInteraction([[x]]),
        lambda x: ib.LowRankInteraction([[0.0], [1.01e50]]),
        lambda x: ib.EventLog(["a"], ["b"], [x]),
    ],
    ids=range(8),
)
def test_losses_beyond_the_largest_are_refused_at_the_door(use, value):
    with pytest.raises(ib.errors.InvalidInput, match=r"at most 1e\+100"):
        use(value)
