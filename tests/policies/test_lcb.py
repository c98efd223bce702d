"""LCB against a slow version of itself, and the paper's numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import influential_bandits as ib


def reference_lcb(matrix, initial_loss, rounds):
    """Play mean − √(2·log t / n) without noise, losses and means in exact fractions."""
    arms = len(matrix)
    losses = [Fraction(loss) for loss in initial_loss]
    totals, pulls = [Fraction(0)] * arms, [0] * arms
    choices = []
    for t in range(1, rounds + 1):
        if 0 in pulls:
            arm = pulls.index(0)
        else:
            index = [
                float(totals[i] / pulls[i]) - math.sqrt(2.0 * math.log(t) / pulls[i])
                for i in range(arms)
            ]
            arm = index.index(min(index))
        totals[arm] += losses[arm]
        pulls[arm] += 1
        losses = [loss + Fraction(row) for loss, row in zip(losses, matrix[arm], strict=True)]
        choices.append(arm)
    return choices


def sixteenths(arms, seed):
    """A random instance whose losses are multiples of 1/16, so that no sum is ever rounded."""
    draw = np.random.default_rng(seed)
    factors = draw.integers(-4, 5, (arms, arms)) / 4
    matrix = factors @ factors.T
    return matrix, draw.integers(-32, 33, arms) / 16


@pytest.mark.parametrize(
    ("world", "rounds"),
    [(([[1, 1], [1, 2]], [1, 1]), 3000), *((sixteenths(n, n), 600) for n in (1, 2, 3, 5, 8))],
    ids=["counterexample", 1, 2, 3, 5, 8],
)
def test_every_choice_is_that_of_the_rule_as_printed(world, rounds):
    run = ib.simulate(ib.Instance(*world), ib.LCB(), rounds, record="choices")
    assert run.choices[0, 0].tolist() == reference_lcb(*world, rounds)


def test_the_counts_on_the_counterexample_are_the_known_ones():
    run = ib.simulate(ib.counterexample(), ib.LCB(), 10**6, checkpoints=[10**2, 10**4, 10**6])
    assert run.counts[0, 0, :, 1].tolist() == [21, 897, 53_237]
    assert run.regret("integer")[0, 0].tolist() == [210, 401_856, 1_417_062_466]
    assert run.regret()[0, 0].tolist() == [210.125, 401_856.125, 1_417_062_466.125]


def test_the_second_arm_is_pulled_for_the_18th_and_19th_time_in_rounds_79_and_85():
    """The rule as printed; the appendix says 98 and 105 (see the study lower-bounds)."""
    arms = ib.simulate(ib.counterexample(), ib.LCB(), 100, record="choices").choices[0, 0]
    rounds = np.flatnonzero(arms == 1) + 1
    assert rounds[17:19].tolist() == [79, 85]
    assert (arms[:84] == 0).sum() == 66


def test_the_lower_bound_of_the_appendix_holds():
    """Prop. 2.2: the n-th pull comes by round 20·n·log n, and regret is ≥ t²/(800·log²t) − t/2."""
    run = ib.simulate(ib.counterexample(), ib.LCB(), 10**5, record="choices")
    rounds = np.flatnonzero(run.choices[0, 0] == 1) + 1
    n = np.arange(1, len(rounds) + 1)
    assert (rounds[18:] <= 20 * n[18:] * np.log(n[18:])).all()
    t = run.checkpoints[run.checkpoints >= 10]
    regret = run.regret("integer")[0, 0, -len(t) :]
    assert (regret >= t**2 / (800 * np.log(t) ** 2) - t / 2).all()
