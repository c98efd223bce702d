"""Influential LCB: Algorithm 1, its tree, its openings and its bound (Theorem 2.6)."""

import math
import random

import numpy as np
import pytest

import influential_bandits as ib


def reference_influential_lcb(matrix, initial_loss, scale, noise):
    """Play Algorithm 1 as printed: c and l̂ for each arm, argmin of l̂ − B·c, ties to the first."""
    arms = len(matrix)
    losses = [float(loss) for loss in initial_loss]
    passed, last_seen = [0] * arms, [-math.inf] * arms
    choices = []
    for xi in noise:
        index = [last_seen[i] - scale * passed[i] for i in range(arms)]
        arm = index.index(min(index))
        last_seen[arm] = losses[arm] + xi
        losses = [loss + row for loss, row in zip(losses, matrix[arm], strict=True)]
        passed = [1 if i == arm else passed[i] + 1 for i in range(arms)]
        choices.append(arm)
    return choices


def whole_instance(arms, seed, rank=3):
    """Whole losses: indices are exact, and ties are frequent."""
    draw = np.random.default_rng(seed)
    factors = draw.integers(-1, 2, (arms, rank)).astype(float)
    return factors @ factors.T, draw.integers(-4, 5, arms).astype(float)


def eighths(arms, seed):
    """A positive definite instance whose entries are multiples of 1/8 and differ a lot."""
    draw = np.random.default_rng(seed)
    factors = draw.integers(-6, 7, (arms, arms)) / 4
    matrix = factors @ factors.T + np.diag(draw.integers(0, 3, arms)) / 8
    return ib.Instance(matrix, draw.integers(-16, 17, arms) / 8)


def opening_rounds(opening, arms):
    return 2 * arms if opening == "pairs" else arms * (arms + 1)


def estimate_after(instance, policy, rounds, noise=None, seed=0):
    """B as an agent has it after some rounds."""
    agent = ib.Agent(policy, instance.n_arms)
    environment = ib.Environment(instance, noise, seed)
    for _ in range(rounds):
        ticket = agent.pull()
        agent.observe(ticket, environment.pull(ticket.arm))
    return agent.state["influence_bound"][0]


@pytest.mark.parametrize("arms", [1, 2, 3, 10, 32, 33, 34, 48, 63, 64, 65, 70])
def test_scan_and_tree_choose_as_algorithm_1_does_ties_included(arms):
    rounds = 500
    noise = np.random.default_rng(1).integers(-2, 3, rounds).astype(float)
    for seed, scale in ((arms, 1.0), (arms + 100, 3.0), (arms + 200, 0.5)):
        matrix, initial_loss = whole_instance(arms, seed)
        run = ib.simulate(
            ib.Instance(matrix, initial_loss),
            ib.InfluentialLCB(scale),
            rounds,
            ib.RecordedNoise(noise),
            record="choices",
        )
        expected = reference_influential_lcb(matrix, initial_loss, scale, noise)
        assert run.choices[0, 0].tolist() == expected


@pytest.mark.parametrize("arms", [33, 40, 64, 70])
def test_the_tree_agrees_with_a_scan_while_losses_come_late_and_in_any_order(arms):
    everyone = np.ones(arms, bool)  # given a mask, select scans
    for policy in (ib.InfluentialLCB(), ib.InfluentialLCB("estimate")):
        draw = random.Random(arms)
        agent = ib.Agent(policy, arms)
        for _ in range(6 * arms):
            assert agent.select() == agent.select(everyone)
            agent.pull(draw.choice([None, None, draw.randrange(arms)]))
            while agent.pending and draw.random() < 0.5:
                agent.observe(draw.choice(list(agent.pending.values())), draw.randrange(-3, 4))


def test_the_counts_on_the_counterexample_are_the_known_ones():
    run = ib.simulate(
        ib.counterexample(), ib.InfluentialLCB(), 10**6, checkpoints=[10**2, 10**4, 10**6]
    )
    assert run.counts[0, 0, :, 1].tolist() == [18, 198, 1_998]
    assert run.regret("integer")[0, 0].tolist() == [153, 19_503, 1_995_003]
    assert run.regret()[0, 0].tolist() == [153.125, 19_503.125, 1_995_003.125]


def test_the_bound_of_theorem_2_6_is_never_exceeded():
    """For max|A| = 3 and noise of at most ½: B = 3, N = ½; a theorem: the error rate is 0."""
    for arms in range(2, 7):
        paper = [ib.random_instance(arms, seed) for seed in range(8)]
        instances = [ib.Instance(3 * i.interaction.to_dense(), i.initial_loss) for i in paper]
        run = ib.simulate(
            instances,
            ib.InfluentialLCB(influence_bound=3),
            3000,
            ib.UniformNoise(0.5),
            seeds=range(5),
        )
        for instance, values in zip(instances, run.regret(), strict=True):
            bound = ib.regret_bound(instance, run.checkpoints, influence_bound=3, noise_bound=0.5)
            assert (values <= bound).all()


@pytest.mark.parametrize("arms", [1, 2, 3, 5, 40])
def test_openings_pull_each_arm_twice_in_a_row_or_each_pair_of_arms_in_turn(arms):
    twice = [arm for arm in range(arms) for _ in range(2)]
    paper = [arm for j in range(arms) for k in range(j, arms) for arm in (k, j)]
    for opening, expected in (("pairs", twice), ("paper", paper)):
        policy = ib.InfluentialLCB("estimate", opening=opening)
        run = ib.simulate(eighths(arms, seed=1), policy, len(expected), record="choices")
        assert run.choices[0, 0].tolist() == expected
    if arms == 3:
        assert paper == [0, 0, 1, 0, 2, 0, 1, 1, 2, 1, 2, 2]


@pytest.mark.parametrize("opening", ["pairs", "paper"])
@pytest.mark.parametrize("arms", [1, 2, 3, 6, 40])
def test_without_noise_both_openings_find_the_largest_entry(opening, arms):
    for seed in range(4):
        instance = eighths(arms, seed)
        policy = ib.InfluentialLCB("estimate", opening=opening)
        rounds = opening_rounds(opening, arms)
        assert estimate_after(instance, policy, rounds) == instance.interaction.max_abs
        assert estimate_after(instance, policy, rounds + 20) == instance.interaction.max_abs


def test_the_opening_of_the_paper_sees_entries_off_the_diagonal():
    """An indefinite A may have its largest entry there; pairs of an arm with itself miss it."""
    for entry in (5.0, -5.0):
        matrix = [[1.0, 0.5, 0.0], [0.5, 2.0, entry], [0.0, entry, 1.0]]
        instance = ib.Instance(matrix, [0.0, 0.0, 0.0], definite=False)
        paper = ib.InfluentialLCB("estimate", opening="paper")
        assert estimate_after(instance, paper, 12) == 5.0
        assert estimate_after(instance, ib.InfluentialLCB("estimate"), 6) == 2.0


@pytest.mark.parametrize(("opening", "errors"), [("pairs", 2), ("paper", 4)])
def test_with_a_noise_bound_the_estimate_is_certainly_large_enough(opening, errors):
    """Never below max|A| and never above it by more than twice the margin; error rate 0."""
    bound = 0.5
    policy = ib.InfluentialLCB("estimate", opening=opening, noise_bound=bound)
    without = ib.InfluentialLCB("estimate", opening=opening)
    below = 0
    for seed in range(25):
        instance = eighths(3, seed)
        largest, rounds = instance.interaction.max_abs, opening_rounds(opening, 3)
        noise = ib.UniformNoise(bound)
        estimate = estimate_after(instance, policy, rounds, noise, seed)
        assert largest <= estimate <= largest + 2 * errors * bound
        bare = estimate_after(instance, without, rounds, noise, seed)
        assert estimate == pytest.approx(bare + errors * bound, abs=1e-12)
        below += bare < largest
    assert below > 0, "without the margin some estimates should be too small"


@pytest.mark.parametrize("opening", ["pairs", "paper"])
def test_after_the_opening_the_rule_is_that_of_the_estimated_scale(opening):
    instance = eighths(4, seed=5)
    rounds = opening_rounds(opening, 4)
    policy = ib.InfluentialLCB("estimate", opening=opening)
    agent, environment = ib.Agent(policy, 4), ib.Environment(instance)
    known = ib.Agent(ib.InfluentialLCB(instance.interaction.max_abs), 4)
    for t in range(1, rounds + 200):
        if t > rounds:
            assert agent.select() == known.select()
        ticket = agent.pull()
        twin = known.pull(ticket.arm)
        loss = environment.pull(ticket.arm)
        agent.observe(ticket, loss)
        known.observe(twin, loss)


@pytest.mark.parametrize("opening", ["pairs", "paper"])
def test_an_opening_that_was_held_up_still_finds_the_largest_entry(opening):
    """While arm 2 is not on offer the schedule waits for it; its pairs count whenever they come."""
    instance = ib.Instance(np.diag([1.0, 2.0, 5.0]), np.zeros(3))
    policy = ib.InfluentialLCB("estimate", opening=opening)
    agent, environment = ib.Agent(policy, 3), ib.Environment(instance)
    for t in range(40):
        ticket = agent.pull(eligible=[True, True, t >= 15])
        agent.observe(ticket, environment.pull(ticket.arm))
    assert agent.state["scheduled"][0] == opening_rounds(opening, 3)
    assert agent.state["influence_bound"][0] == 5.0


@pytest.mark.parametrize("opening", ["pairs", "paper"])
def test_losses_that_come_late_but_in_order_give_the_same_estimate(opening):
    instance = eighths(3, seed=3)
    policy = ib.InfluentialLCB("estimate", opening=opening)
    agent, environment = ib.Agent(policy, 3), ib.Environment(instance)
    losses = {}
    for _ in range(opening_rounds(opening, 3)):
        ticket = agent.pull()
        losses[ticket] = environment.pull(ticket.arm)
    for ticket, loss in losses.items():
        agent.observe(ticket, loss)
    assert agent.state["influence_bound"][0] == instance.interaction.max_abs


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (
            "influence_bound",
            [0, 0.0, -1.0, math.nan, math.inf, True, "1", "Estimate", None, [1.0]],
            'influence_bound must be a positive number or "estimate"',
        ),
        (
            "opening",
            ["", "Pairs", "triples", 1, None, ["pairs"]],
            'opening must be "pairs" or "paper"',
        ),
        ("noise_bound", [-0.5, math.nan, math.inf, "1", None], "noise_bound must"),
    ],
)
def test_bad_settings_are_refused(name, values, message):
    for value in values:
        with pytest.raises(ib.errors.InvalidInput, match=message):
            ib.InfluentialLCB(**{"influence_bound": "estimate", name: value})
