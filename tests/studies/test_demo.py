"""The demo's study: settings, rows and picture."""

import math
from dataclasses import replace

import matplotlib as mpl
import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.studies import demo

mpl.use("Agg")


def small(setting):
    """The same setting with less to do."""
    return replace(setting, instances=setting.instances[:3], horizon=10_000, fitted=(10**2, 10**4))


@pytest.fixture(scope="module")
def results():
    return [(setting, list(demo.play(setting))) for setting in map(small, demo.SETTINGS)]


def test_the_settings_are_those_of_the_paper():
    counterexample, random = demo.SETTINGS
    assert counterexample.instances == (ib.counterexample(),)
    assert counterexample.noise == ib.NoNoise()
    assert (counterexample.horizon, counterexample.fitted) == (10**7, (10**2, 10**7))
    assert len(random.instances) == 100
    assert len(set(random.instances)) == 100
    assert {instance.n_arms for instance in random.instances} == {3}
    assert random.noise == ib.GaussianNoise(1.0)


def test_what_lies_outside_the_assumptions_is_said():
    counterexample, random = demo.SETTINGS
    assert "Assumption 2.4" in counterexample.note
    assert "Assumption 2.5" in random.note


def test_both_policies_are_played_at_every_power_of_ten(results):
    for setting, runs in results:
        assert [run.policy for run in runs] == [ib.LCB(), ib.InfluentialLCB()]
        for run in runs:
            assert run.checkpoints.tolist() == [100, 1000, 10_000]
            assert run.instances == setting.instances


def test_a_row_has_the_policy_the_mean_regrets_and_the_slope(results):
    setting, (lcb, influential) = results[0]
    slope = (math.log10(401_856.125) - math.log10(210.125)) / 2  # least squares on three decades
    assert demo.rows(setting, lcb) == ("LCB", "210", "8.39e3", "4.02e5", f"{slope:.3f}")
    assert demo.rows(setting, influential)[:4] == ("InfluentialLCB", "153", "1.83e3", "1.95e4")
    setting, (lcb, _) = results[1]
    means = lcb.regret().mean(axis=(0, 1))
    row = demo.rows(setting, lcb)
    assert [float(text) for text in row[1:4]] == pytest.approx(means, rel=5e-3)
    assert float(row[4]) == pytest.approx(lcb.slope(10**2, 10**4), abs=5e-4)


@pytest.mark.parametrize(
    ("number", "text"), [(1, "10⁰"), (10, "10¹"), (10**6, "10⁶"), (10**12, "10¹²")]
)
def test_powers_of_ten_are_written_with_superscripts(number, text):
    assert demo.power(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (98.62, "98.6"), (999.4, "999"), (1000, "1.00e3"), (1_417_062_466, "1.42e9")],
)
def test_numbers_are_shortened_to_three_digits(number, text):
    assert demo.short(number) == text


@pytest.mark.parametrize("number", [999.5, 999.9])
def test_numbers_just_below_a_thousand_are_shortened_like_those_above(number):
    assert demo.short(number) == "1.00e3"


@pytest.mark.parametrize("settings", [1, 2])
def test_the_picture_shows_all_settings(results, tmp_path, settings):
    plt.close("all")
    path = tmp_path / "regret.png"
    demo.draw(results[:settings], path)
    picture = matplotlib.image.imread(path)
    assert picture.shape[1] == pytest.approx(5.2 * 150 * settings, abs=2)
    assert np.ptp(picture) > 0.5, "something is drawn"
    assert plt.get_fignums() == []
