"""Scenarios: the engine does what agents in a plain loop do, and says what regret means then."""

import heapq
import math
import random
from dataclasses import dataclass

import numba
import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.numerics.portable import log
from influential_bandits.numerics.streams import SCENARIO, stream_at, stream_keys, uniform
from influential_bandits.simulation.engine import simulate_policy
from influential_bandits.simulation.kernels import advance_runs

NOISE = ib.GaussianNoise(1.0)
HORIZON = 60
POLICIES = (ib.LCB(), ib.InfluentialLCB(), ib.InfluentialLCB("estimate"), ib.Uniform())
LAWS = ("fixed", "uniform", "geometric")


@numba.njit
def random_number(seed, number, t, n):
    keys = stream_keys(seed, number, SCENARIO)
    return uniform(stream_at(keys[0], keys[1], t), n)


class Chance:
    """The random numbers of a scenario: draw 0 of a round delays, draw 1 + arm offers."""

    def __init__(self, seed, number):
        self.whose = np.uint64(seed), np.uint64(number)

    def draw(self, t, n):
        return random_number(*self.whose, t, n)


def delay(scenario, chance, t):
    d = scenario.delay
    if scenario.delay_law == "fixed" or d == 0:
        return d
    u = chance.draw(t, 0)
    if scenario.delay_law == "uniform":
        return int(u * (d + 1))
    return int(log(u) / log(d / (d + 1)))


def offer(scenario, chance, t, arms, retired):
    """The arms on offer as a mask; None if all arms are, always."""
    if scenario.eligible == 1.0:
        return None
    draws = {arm: chance.draw(t, 1 + arm) for arm in range(arms) if arm not in retired}
    chosen = {arm for arm, u in draws.items() if u < scenario.eligible}
    chosen = chosen or {min(draws, key=draws.get)}
    return [arm in chosen for arm in range(arms)]


def plainly(instance, policy, horizon, noise, seed, number, scenario):
    """Play agent against environment, keeping tickets in a heap; return the arms."""
    told = {"instance": instance, "horizon": horizon} if policy.privileged else {}
    arrivals, retirements = dict(scenario.arrivals), dict(scenario.retirements)
    arms = instance.n_arms - len(arrivals)
    agent = ib.Agent(policy, arms, seed, instance_number=number, **told)
    environment = ib.Environment(instance, noise, seed, number)
    chance, under_way, chosen = Chance(seed, number), [], []
    for t in range(1, horizon + 1):
        for arm in sorted(arm for arm, come in arrivals.items() if come == t):
            assert agent.add_arm() == arm
        for arm in sorted(arm for arm, gone in retirements.items() if gone == t):
            agent.retire_arm(arm)
        mask = offer(scenario, chance, t, agent.n_arms, agent.retired)
        ticket = agent.pull(eligible=mask)
        chosen.append(ticket.arm)
        loss = environment.pull(ticket.arm)
        there = t + delay(scenario, chance, t)
        handed_over = math.ceil(there / scenario.batch) * scenario.batch
        heapq.heappush(under_way, (handed_over, t, ticket, loss))
        while under_way and under_way[0][0] == t:
            _, _, late, loss = heapq.heappop(under_way)
            agent.observe(late, loss)
    return chosen


def any_scenario(draw, arms):
    """A scenario at random, for an instance of so many arms."""
    come = draw.randrange(arms) if draw.random() < 0.5 else 0
    rounds = sorted(draw.randint(2, HORIZON + 5) for _ in range(come))
    arrivals = dict(zip(range(arms - come, arms), rounds, strict=True))
    staying = draw.randrange(arms - come)  # one that is there from the start never goes
    leaving = [arm for arm in range(arms) if arm != staying and draw.random() < 0.3]
    return ib.Scenario(
        delay=draw.choice([0, 0, 1, 3, 10, 100]),
        delay_law=draw.choice(LAWS),
        batch=draw.choice([1, 1, 2, 7, 100]),
        eligible=draw.choice([1.0, 1.0, 0.6, 0.05]),
        arrivals=arrivals,
        retirements={arm: arrivals.get(arm, 1) + draw.randint(1, HORIZON) for arm in leaving},
    )


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_the_engine_does_what_agents_in_a_plain_loop_do(policy):
    for n in range(25):
        draw = random.Random(n)
        arms = draw.choice([1, 2, 3, 5, 34])  # 34: influential LCB keeps a tree beyond 32
        memory = draw.choice([1.0, 0.8])
        paper = ib.random_instance(n_arms=arms, seed=n)
        instance = ib.Instance(paper.interaction, paper.initial_loss, memory=memory)
        scenario = any_scenario(draw, arms)
        run = ib.simulate(
            instance,
            policy,
            HORIZON,
            NOISE,
            seeds=[n, n + 1000],
            instance_numbers=[7],
            record="choices",
            scenario=scenario,
        )
        for s, seed in enumerate((n, n + 1000)):
            chosen = plainly(instance, policy, HORIZON, NOISE, seed, 7, scenario)
            assert run.choices[0, s].tolist() == chosen, scenario
        assert (run.counts.sum(axis=-1) == run.checkpoints).all()
        if memory == 1.0:
            assert np.array_equal(run.loss(), instance.total_loss(run.counts))


@pytest.mark.parametrize(
    "scenario",
    [
        ib.Scenario(arrivals={33: 45}),
        ib.Scenario(arrivals={32: 10, 33: 45}),
        ib.Scenario(delay=2, arrivals={31: 40, 32: 40, 33: 50}),
    ],
    ids=repr,
)
def test_a_tree_of_arms_grows_with_them(scenario):
    """Influential LCB keeps a tree beyond 32 arms, and uses it while nothing is off offer."""
    instance = ib.random_instance(n_arms=34, seed=0)
    game = (instance, ib.InfluentialLCB(), 150, NOISE)
    run = ib.simulate(*game, seeds=[3], record="choices", scenario=scenario)
    assert run.choices[0, 0].tolist() == plainly(*game, 3, 0, scenario)


@dataclass(frozen=True)
class Newcomer(ib.Policy):
    """Pull the arm that came last until it goes; then arm 0, or 1 by a sum over late memos.

    Or simply: arm 0 until the first loss is known, and then arm 1.
    """

    waits: bool = False

    def fields(self, arms):
        return {"newest": ("int64", 1), "sum": ("float64", 1)}

    def memo_size(self, arms):
        return arms

    @staticmethod
    def select(c, s, t, eligible, rng):
        if c.waits:
            return 0 if s.sum[0] == 0.0 else 1
        return s.newest[0] if s.newest[0] > 0 else int(s.sum[0]) % 2

    @staticmethod
    def pulled(c, s, t, arm, memo):
        for k in range(c.n_arms):
            memo[k] = 1.0

    @staticmethod
    def observed(c, s, t, arm, memo, loss):
        for k in range(c.n_arms):
            s.sum[0] += memo[k]

    @staticmethod
    def arm_added(c, s, arm):
        s.newest[0] = arm

    @staticmethod
    def arm_retired(c, s, arm):
        s.newest[0] = 0


def test_a_policy_is_told_of_arms_that_come_and_go():
    """Memos of the two rounds before the arrival have two ones, and a zero for the new arm."""
    scenario = ib.Scenario(delay=3, arrivals={2: 3}, retirements={2: 5})
    instance = ib.random_instance(n_arms=3, seed=0)
    run = ib.simulate(instance, Newcomer(), 10, record="choices", scenario=scenario)
    # sums before each round: 0 0 0 0 2 4 7 10 13 16
    assert run.choices[0, 0].tolist() == [0, 0, 2, 2, 0, 0, 1, 0, 1, 0]


def test_an_oracle_copes_with_late_losses_and_restricted_offers():
    instance = ib.random_instance(n_arms=4, seed=1)
    scenario = ib.Scenario(delay=3, eligible=0.5, retirements={2: 20})
    policy = ib.FrankWolfeOracle()
    run = ib.simulate(instance, policy, HORIZON, seeds=[4], record="choices", scenario=scenario)
    assert run.choices[0, 0].tolist() == plainly(
        instance, policy, HORIZON, ib.NoNoise(), 4, 0, scenario
    )


@pytest.mark.parametrize("policy", POLICIES[1:], ids=repr)
@pytest.mark.parametrize("memory", [1.0, 0.9])
def test_a_scenario_without_anything_changes_no_bit(policy, memory):
    paper = [ib.random_instance(n_arms=4, seed=seed) for seed in range(2)]
    worlds = [ib.Instance(i.interaction, i.initial_loss, memory=memory) for i in paper]
    plain = ib.simulate(worlds, policy, 400, NOISE, range(3), record="choices")
    for trivial in (ib.Scenario(), ib.Scenario(delay_law="geometric", retirements={1: 401})):
        run = ib.simulate(worlds, policy, 400, NOISE, range(3), record="choices", scenario=trivial)
        for name in ("choices", "counts", "expected_loss"):
            assert np.array_equal(getattr(run, name), getattr(plain, name))


EVERYTHING = ib.Scenario(
    delay=5,
    delay_law="geometric",
    batch=3,
    eligible=0.7,
    arrivals={3: 50, 4: 120},
    retirements={0: 80, 3: 200},
)


def test_neither_threads_nor_steps_change_a_bit():
    worlds = [ib.random_instance(n_arms=5, seed=seed) for seed in range(3)]

    def run(**how):
        policy, settings = ib.InfluentialLCB(), {"record": "choices", "scenario": EVERYTHING}
        return simulate_policy(worlds, policy, 300, NOISE, seeds=5, **settings, **how).choices

    whole = run()
    assert all(np.array_equal(run(execution=threads), whole) for threads in (1, 2, 3))
    assert all(np.array_equal(run(rounds_per_step=rounds), whole) for rounds in (1, 7, 400))


def test_all_policies_meet_the_same_offers():
    """Whom an arm on offer with a small probability is offered to does not depend on the policy."""
    instance = ib.random_instance(n_arms=3, seed=0)
    scenario = ib.Scenario(eligible=1e-9)  # always the one arm whose number is smallest
    runs = [
        ib.simulate(
            instance, policy, 300, NOISE, range(3), record="choices", scenario=scenario
        ).choices
        for policy in POLICIES
    ]
    assert all(np.array_equal(runs[0], other) for other in runs[1:])
    assert (np.bincount(runs[0].ravel()) > 200).all()  # 300 expected of each, deviation 14


def test_arms_are_pulled_only_while_they_are_there():
    run = ib.simulate(
        ib.random_instance(n_arms=5, seed=2),
        ib.Uniform(),
        300,
        seeds=range(5),
        record="choices",
        scenario=EVERYTHING,
    )
    for arm, start, stop in ((0, 1, 80), (3, 50, 200), (4, 120, 301)):
        when = np.nonzero((run.choices == arm).any(axis=(0, 1)))[0] + 1
        assert start <= when.min()
        assert when.max() < stop


@pytest.mark.parametrize(
    ("scenario", "first"),
    [
        (ib.Scenario(), 1),
        (ib.Scenario(delay=4), 5),
        (ib.Scenario(batch=10), 10),
        (ib.Scenario(delay=9, batch=10), 10),
        (ib.Scenario(delay=10, batch=10), 20),
        (ib.Scenario(delay=HORIZON), HORIZON),
        (ib.Scenario(batch=10**9), HORIZON),
    ],
    ids=repr,
)
def test_a_loss_is_known_after_its_delay_at_the_end_of_a_batch(scenario, first):
    run = ib.simulate(ib.counterexample(), Newcomer(waits=True), HORIZON, scenario=scenario)
    assert run.counts[0, 0, -1].tolist() == [first, HORIZON - first]


def test_regret_is_refused_where_arms_were_not_on_offer():
    instance = ib.random_instance(n_arms=3, seed=0)
    for scenario in (
        ib.Scenario(eligible=0.5),
        ib.Scenario(arrivals={2: 10}),
        ib.Scenario(retirements={0: 10}),
    ):
        run = ib.simulate(instance, ib.LCB(), 50, scenario=scenario)
        other = ib.simulate(instance, ib.Uniform(), 50, scenario=scenario)
        for against in ("relaxation", "integer"):
            with pytest.raises(ib.errors.NotApplicable, match="did not offer"):
                run.regret(against)
        with pytest.raises(ib.errors.NotApplicable, match="did not offer"):
            run.slope(1, 50)
        difference = run.loss() - other.loss()
        assert run.regret(against=other.counts) == pytest.approx(difference, abs=1e-9)
        assert run.to_frame()["regret"].isna().all()


def test_a_scenario_is_a_value():
    twin = ib.Scenario(
        5, "geometric", 3.0, 0.7, arrivals=[(3, 50), (4, 120)], retirements={3: 200, 0: 80}
    )
    assert twin == EVERYTHING
    assert hash(twin) == hash(EVERYTHING)
    assert eval(repr(EVERYTHING), {"Scenario": ib.Scenario}) == EVERYTHING
    with pytest.raises(AttributeError):
        EVERYTHING.delay = 3


BAD = {
    "delay -1": ({"delay": -1}, "delay must be at least 0, got -1"),
    "law": ({"delay_law": "normal"}, "delay_law must be one of fixed, uniform, geometric"),
    "batch 0": ({"batch": 0}, "batch must be at least 1, got 0"),
    "eligible 0": ({"eligible": 0.0}, "eligible must be a number above 0 and at most 1, got 0.0"),
    "eligible 1.1": ({"eligible": 1.1}, "eligible must be a number"),
    "arrivals list": ({"arrivals": [3]}, "arrivals must say a round for each arm"),
    "arrival in round 1": ({"arrivals": {2: 1}}, "round of arrivals must be at least 2, got 1"),
    "arrivals out of order": (
        {"arrivals": {1: 9, 2: 8}},
        "order of their numbers, but arm 1 comes in round 9 and arm 2 in round 8",
    ),
    "arrivals with a gap": ({"arrivals": {0: 5, 2: 8}}, "order of their numbers"),
    "retirement of -1": ({"retirements": {-1: 5}}, "arm of retirements must be at least 0"),
    "retirement twice": ({"retirements": [(1, 5), (1, 6)]}, "retirements name an arm twice"),
    "gone before it comes": (
        {"arrivals": {2: 9}, "retirements": {2: 9}},
        "arm 2 retires in round 9, but comes in round 9",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_scenario_gets_one_clear_sentence(wrong, message):
    with pytest.raises(ib.errors.InvalidInput, match=message) as refusal:
        ib.Scenario(**wrong)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("late", "scenario must be a Scenario"),
        (5, "scenario must be a Scenario"),
        (ib.Scenario(arrivals={1: 9}), "arrivals must be the last of the 3 arms"),
        (ib.Scenario(arrivals={3: 9}), "arrivals must be the last of the 3 arms"),
        (ib.Scenario(arrivals={0: 7, 1: 8, 2: 9}), "at least one arm for the first round"),
        (ib.Scenario(retirements={3: 9}), "retirements name arm 3, but there are 3 arms"),
        (
            ib.Scenario(arrivals={2: 9}, retirements={0: 5, 1: 7}),
            "no arm would be left in round 7",
        ),
    ],
)
def test_a_scenario_must_fit_the_instance(scenario, message):
    with pytest.raises(ib.errors.InvalidInput, match=message):
        ib.simulate(ib.random_instance(n_arms=3, seed=0), ib.LCB(), 50, scenario=scenario)


@pytest.mark.parametrize("wait", [{"delay": 10**9}, {"batch": 10**9}])
def test_more_losses_under_way_than_fit_are_refused(wait):
    with pytest.raises(ib.errors.InvalidInput, match="losses would be under way at once"):
        ib.simulate(ib.counterexample(), ib.LCB(), 10**9, scenario=ib.Scenario(**wait))


def test_arms_cannot_arrive_for_who_knows_them_all():
    with pytest.raises(ib.errors.NotApplicable, match="FrankWolfeOracle knows the instance"):
        ib.simulate(
            ib.random_instance(n_arms=3, seed=0),
            ib.FrankWolfeOracle(),
            50,
            scenario=ib.Scenario(arrivals={2: 9}),
        )


def test_a_policy_that_ignores_the_offer_is_named():
    game = (ib.counterexample(), Newcomer(waits=True), 50)
    message = r"Newcomer chose arm 0 in round 5 .* on offer"
    with pytest.raises(ib.errors.InvalidPolicy, match=message):
        ib.simulate(*game, scenario=ib.Scenario(100, retirements={0: 5}))
    ib.simulate(*game, scenario=ib.Scenario(retirements={0: 5}))


def test_other_scenarios_compile_nothing_new():
    def play(scenario, arms=5, **settings):
        instance = ib.random_instance(n_arms=arms, seed=0)
        ib.simulate(instance, ib.Uniform(), 30, scenario=scenario, **settings)

    play(ib.Scenario())
    before = len(advance_runs.signatures)
    play(EVERYTHING, noise=NOISE, seeds=range(3), record="choices")
    play(ib.Scenario(delay=3, batch=2), arms=1)
    assert len(advance_runs.signatures) == before
