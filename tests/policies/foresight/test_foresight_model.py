"""The model of Foresight against dense algebra: likelihoods of hypotheses, and posteriors."""

from collections import namedtuple

import numpy as np
import pytest

from influential_bandits.policies.foresight import hypotheses
from influential_bandits.policies.foresight.hypotheses import (
    LEVEL_SPREADS,
    MEANS,
    MEMORIES,
    MOST_ARMS,
    SCALES,
    SPREAD,
    count_regressors,
    level_spread_of,
    place,
    scale_of,
    solve_common,
    weigh,
    weigh_scale,
)
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.foresight.posterior import (
    HYPOTHESES,
    choose_hypotheses,
    regress,
)


class Play:
    """Random pulls in a fading world, taken in by the policy, and kept as plain lists."""

    def __init__(self, n_arms, rounds, seed, policy, pulled_arms=None):
        draw = np.random.default_rng(seed)
        names = {**policy.parameters(), "n_arms": n_arms}
        self.c = namedtuple("Config", names)(**names)
        fields = {
            name: np.zeros(shape, dtype) for name, (dtype, shape) in policy.fields(n_arms).items()
        }
        self.s = namedtuple("State", fields)(**fields)
        self.n_arms, self.size = n_arms, count_regressors(n_arms)
        self.events = []  # arm, counts (memories, arms), loss
        memories = self.c.memories
        gammas = MEMORIES if memories > 1 else (self.c.memory,)
        counts = np.zeros((memories, n_arms))
        Foresight.init(self.c, self.s)
        memo = np.zeros(policy.memo_size(n_arms))
        for t in range(1, rounds + 1):
            arm = int(draw.integers(pulled_arms or n_arms))
            loss = 0.3 * arm + 0.4 * counts[-1, arm] + draw.normal()
            self.events.append((arm, counts.copy(), loss))
            Foresight.pulled(self.c, self.s, t, arm, memo)
            chosen_anew = self.s.observations[0] + 1 >= self.s.next_choice[0]
            if chosen_anew:  # with σ as it was estimated until then
                self.noise_before = float(self.s.noise[0])
            Foresight.observed(self.c, self.s, t, arm, memo, loss)
            counts *= np.array(gammas)[:, None]
            counts[:, arm] += 1.0

    def design(self, memory):
        """Return the dense design, (losses, arms·coefficients), and the losses."""
        rows, losses = [], []
        for arm, counts, loss in self.events:
            x = counts[memory]
            own = [1.0, x[arm], x.sum() - x[arm]] if self.n_arms > MOST_ARMS else [1.0, *x]
            row = np.zeros((self.n_arms, self.size))
            row[arm] = own
            rows.append(row.ravel())
            losses.append(loss)
        return np.array(rows), np.array(losses)

    def common(self):
        """Return which common mean each coefficient has, (arms·coefficients, 3)."""
        table = np.zeros((self.n_arms * self.size, MEANS))
        for arm in range(self.n_arms):
            for j in range(self.size):
                table[arm * self.size + j, hypotheses.common_mean(arm, j, self.n_arms)] = 1.0
        return table


def spreads(play, level, scale):
    """Return the prior variances of the coefficients around their common means."""
    each = np.full((play.n_arms, play.size), (SPREAD * scale) ** 2)
    each[:, 0] = level**2
    return each.ravel()


def dense_likelihood(play, memory, level, scale, noise):
    """Return the log likelihood up to what is the same for all hypotheses."""
    design, losses = play.design(memory)
    common = design @ play.common()
    covariance = np.eye(len(losses)) + design * spreads(play, level, scale) @ design.T
    covariance += (SPREAD * scale) ** 2 * common[:, 1:] @ common[:, 1:].T
    rest = losses - scale * noise * common[:, 1]
    one = common[:, 0]
    inverse = np.linalg.inv(covariance)
    weight = one @ inverse @ one
    square = rest @ inverse @ rest - (one @ inverse @ rest) ** 2 / weight
    log_determinant = np.linalg.slogdet(covariance)[1] + np.log(weight)
    return -0.5 * (log_determinant + (len(losses) - 2) * np.log(square))


@pytest.mark.parametrize(("n_arms", "rounds"), [(1, 6), (3, 25), (5, 40), (MOST_ARMS + 2, 40)])
def test_hypotheses_are_weighed_by_their_likelihood(n_arms, rounds):
    play = Play(n_arms, rounds, n_arms, Foresight())
    weights = np.empty((SCALES, len(MEMORIES), LEVEL_SPREADS))
    total = weigh(play.c, play.s, weights)
    dense = np.array(
        [
            [
                [
                    dense_likelihood(
                        play,
                        m,
                        level_spread_of(t),
                        scale_of(play.c, k),
                        play.s.noise[0],
                    )
                    for t in range(LEVEL_SPREADS)
                ]
                for m in range(len(MEMORIES))
            ]
            for k in range(SCALES)
        ]
    )
    expected = np.exp(dense - dense.max())
    assert total == pytest.approx(weights.sum())
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-10)


def unfold(triangle, size):
    """Return the symmetric matrix that is kept as its lower triangle."""
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = triangle
    return matrix + np.tril(matrix, -1).T


@pytest.mark.parametrize("rounds", [3, 20, 61, 150])
def test_posteriors_are_those_of_dense_algebra(rounds):
    """Where arms are many, no messages are passed between them: all is exact, loss by loss."""
    play = Play(MOST_ARMS + 2, rounds, rounds, Foresight(memory=0.8), pulled_arms=4)
    s, size = play.s, play.size
    design, losses = play.design(0)
    table = play.common()
    seen_weight = 0.0
    for h in range(HYPOTHESES):
        if s.weight[h] == 0.0:
            continue
        seen_weight += s.weight[h]
        variances = spreads(play, s.level_spread[h], s.scale[h])
        known = (SPREAD * s.scale[h]) ** 2
        # deviations from the common means, and these; μ is flat
        both = np.hstack([design, design @ table])
        precision = np.diag([*1.0 / variances, 0.0, 1.0 / known, 1.0 / known])
        moment = both.T @ losses
        moment[-2] += s.scale[h] * play.noise_before / known
        inverse = np.linalg.inv(both.T @ both + precision)
        whole = np.hstack([np.eye(len(table)), table])
        expected, covariance = whole @ inverse @ moment, whole @ inverse @ whole.T
        common, factor = np.empty(MEANS), np.zeros(MEANS * MEANS)
        solve_common(s.common_precision[h], s.common_moment[h], common, factor)
        spread = np.linalg.inv(np.tril(factor.reshape(MEANS, MEANS)))
        spread = spread.T @ spread
        for arm in range(play.n_arms):
            row = h * play.n_arms + arm
            response = s.response[row].reshape(size, MEANS)
            part = slice(arm * size, (arm + 1) * size)
            np.testing.assert_allclose(
                s.coefficients[row] + response @ common, expected[part], rtol=1e-7, atol=1e-7
            )
            ours = unfold(s.covariance[row], size) + response @ spread @ response.T
            np.testing.assert_allclose(ours, covariance[part, part], rtol=1e-7, atol=1e-7)
    assert seen_weight == pytest.approx(1.0)


def test_weights_between_choices_follow_the_likelihood():
    """Loss by loss they change as the likelihoods of their hypotheses do."""
    play = Play(MOST_ARMS + 2, 60, 3, Foresight(memory=0.8), pulled_arms=3)
    chosen = play.s.weight.copy()
    spread, scale = play.s.level_spread.copy(), play.s.scale.copy()
    before = [
        dense_likelihood(play, 0, *pair, play.noise_before)
        for pair in zip(spread, scale, strict=True)
        if pair[1] > 0.0
    ]
    next_choice = int(play.s.next_choice[0])
    later = Play(MOST_ARMS + 2, next_choice - 1, 3, Foresight(memory=0.8), pulled_arms=3)
    after = [
        dense_likelihood(later, 0, *pair, play.noise_before)
        for pair in zip(spread, scale, strict=True)
        if pair[1] > 0.0
    ]
    held = [h for h in range(HYPOTHESES) if chosen[h] > 0.0]
    grown = np.array([chosen[h] * np.exp(after[h] - before[h]) for h in held])
    assert next_choice - 1 > 60
    np.testing.assert_array_equal(later.s.scale, scale)
    np.testing.assert_allclose(later.s.weight[held], grown / grown.sum(), rtol=1e-6)


def test_partners_tell_each_other_what_they_know():
    """What arm 0 has learned of A_01 moves arm 1's estimate of A_10, and narrows it."""
    play = Play(2, 200, 3, Foresight(memory=0.9))
    h, size = int(play.s.weight.argmax()), play.size
    choose_hypotheses(play.c, play.s)
    own = play.s.covariance.copy()
    matrix, silent = np.empty((size, size + 1)), np.zeros((2, 2 * size))
    for arm in range(2):
        regress(play.c, play.s, h, arm, matrix, silent)
    alone = play.s.covariance
    for arm in range(2):
        row, cell = 2 * h + arm, place(2 - arm, 2 - arm)
        assert own[row, cell] < 0.9 * alone[row, cell]
        assert own[row, cell] > 0.4 * alone[row, cell]  # no more than both know together


def test_a_weight_is_the_same_however_many_spreads_are_weighed():
    play = Play(3, 30, 5, Foresight())
    many, one = np.empty(LEVEL_SPREADS), np.empty(1)
    sums = (play.s.products, play.s.moments, play.s.seen, play.s.squares[0])
    arguments = (*sums, 5, 1, 0.0, 0.2, 0.7)
    weigh_scale(*arguments, many)
    weigh_scale(*arguments, one)
    assert many[0] == one[0]
