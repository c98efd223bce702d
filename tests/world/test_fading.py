"""How influence fades, as one value: what it may be, what it says, and that it is handed on."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.world.fading import require_fading, require_one_fading


@pytest.mark.parametrize(
    ("fading", "words"),
    [
        (ib.Fading(), "it does not fade"),
        (ib.Fading(0.8), "half of it is gone after 3.1 events"),
        (ib.Fading(half_life=48), "half of it is gone after 2 days"),
        (ib.Fading(half_life=47), "half of it is gone after 47 hours"),
        (ib.Fading(0.5, 1), "half of it is gone after 1 hour or 1 event"),
        (ib.Fading(half_life=np.inf), "it does not fade"),
    ],
)
def test_it_says_when_half_is_gone(fading, words):
    assert str(fading) == words
    assert eval(repr(fading), {"Fading": ib.Fading}) == fading


@pytest.mark.parametrize(
    "given", [(0.0,), (1.1,), (np.nan,), ("long",), (1.0, 0.0), (1.0, -2), (1, "x")]
)
def test_what_is_no_fading_is_refused(given, refused):
    with refused(InvalidInput, ("memory", "half_life")[len(given) - 1], str(given[-1])):
        ib.Fading(*given)


def test_a_number_is_the_share_left_after_an_event():
    assert require_fading(0.8) == require_fading(ib.Fading(0.8)) == ib.Fading(0.8)


def test_a_fit_knows_one_of_both(refused):
    with refused(InvalidInput, "not by both", "half_life=24.0"):
        require_one_fading(ib.Fading(0.5, half_life=24))


def test_worlds_and_priors_hand_it_on():
    world = ib.Instance([[1.0]], [0.0], memory=0.5, half_life=12.0)
    prior = ib.LossPrior.around([[0.5]], [1.0], sd=0.1, sigma=1.0, memory=0.5, half_life=12.0)
    assert world.fading == prior.fading == ib.Fading(0.5, half_life=12.0)


def test_what_is_left_after_days_halves():
    assert ib.Fading(half_life=48).left_after(4.0) == 0.25
    assert ib.Fading(0.8).left_after(4.0) == 1.0
