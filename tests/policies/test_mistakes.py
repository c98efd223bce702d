"""Mistakes in policies of users' own: each is refused, in the policy's terms."""

import random
import time
from dataclasses import dataclass
from time import perf_counter as clock

import numba
import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidPolicy

GENERATOR = np.random.default_rng(0)


def first(c, s, t, eligible, rng):
    return 0


def policy(select=first, *, bases=(ib.Policy,), **members):
    """A policy named Mine with this select and these members."""
    functions = {"select", "init", "pulled", "observed", "arm_added", "arm_retired"}
    members = {"select": select, **members}
    wrapped = {n: staticmethod(m) if n in functions else m for n, m in members.items()}
    wrapped.setdefault("fields", lambda self, arms: {"mean": ("float64", arms)})
    return dataclass(frozen=True)(type("Mine", bases, wrapped))()


def refusal(made, play=lambda made: ib.Agent(made, 2).pull()):
    with pytest.raises(InvalidPolicy, match=r"^Mine") as caught:
        play(made)
    return str(caught.value)


# Names and signatures


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("observe", "observed"),
        ("pull", "pulled"),
        ("arm_add", "arm_added"),
        ("inits", "init"),
        ("selects", "select"),
    ],
)
def test_a_misspelt_function_is_refused_with_the_name_that_is_meant(name, meant):
    def function(c, s):
        pass

    for member in (staticmethod(function), function):
        said = refusal(policy(**{name: member}))
        assert f"Mine.{name} is not part of the contract" in said
        assert f"did you mean {meant}?" in said
        assert "begin with _" in said


def test_a_static_method_of_another_name_is_refused_and_a_helper_is_not():
    said = refusal(policy(decay=staticmethod(lambda x: x)))
    assert "init, select, pulled, observed, elapsed, arm_added, arm_retired" in said
    ib.Agent(policy(_decay=staticmethod(lambda x: x)), 2)


@pytest.mark.parametrize("name", ["memosize", "field", "parameter", "initial_states"])
def test_a_misspelt_method_is_refused(name):
    assert "did you mean" in refusal(policy(**{name: lambda self, arms: 1}))


def test_methods_and_parameters_of_ones_own_are_welcome():
    @dataclass(frozen=True)
    class Mine(ib.Policy):
        selected: int = 0  # a parameter, whatever it is close to
        pull: float = 1.0

        def describe(self):
            return "mine"

        @property
        def label(self):
            return "mine"

        @classmethod
        def usual(cls):
            return cls()

        @staticmethod
        def select(config, state, t, eligible, rng):
            return config.selected

    assert ib.Agent(Mine.usual(), 2).pull().arm == 0


@pytest.mark.parametrize(
    ("name", "function", "expected"),
    [
        ("select", lambda c, s, t: 0, "select(c, s, t, eligible, rng)"),
        ("select", lambda s, c, t, eligible, rng: 0, "select(c, s, t, eligible, rng)"),
        ("observed", lambda c, s, t, arm, loss: None, "observed(c, s, t, arm, memo, loss)"),
        ("observed", lambda c, s, t, arm, loss, memo: None, "observed(c, s, t, arm, memo, loss)"),
        ("pulled", lambda c, s, t, arm, memo, loss: None, "pulled(c, s, t, arm, memo)"),
    ],
)
def test_other_parameters_are_refused_with_the_right_ones(name, function, expected):
    said = refusal(policy(**{name: function}))
    assert f"Mine.{name}(" in said
    assert f"must be {expected}" in said


def test_a_memo_without_memo_size_is_refused():
    def pulled(c, s, t, arm, memo):
        memo[0] = 1.0

    def observed(c, s, t, arm, memo, loss):
        s.mean[arm] = memo[0]

    for members in ({"pulled": pulled}, {"observed": observed}):
        assert "define memo_size(self, n_arms)" in refusal(policy(**members))
    with_room = policy(pulled=pulled, observed=observed, memo_size=lambda self, arms: 1)
    assert ib.Agent(with_room, 2).pull().memo == (1.0,)


# Randomness, clocks and the interpreter


@numba.njit
def helper():
    return np.random.rand()  # noqa: NPY002


@numba.njit
def helper_of_helpers():
    return helper()


HELPERS = (helper,)


def legacy(c, s, t, eligible, rng):
    return int(2 * np.random.rand())  # noqa: NPY002


def standard(c, s, t, eligible, rng):
    return int(2 * random.random())


def generator(c, s, t, eligible, rng):
    return int(2 * GENERATOR.random())


def by_helper(c, s, t, eligible, rng):
    return int(2 * helper_of_helpers())


def by_tuple(c, s, t, eligible, rng):
    return int(2 * HELPERS[0]())


def module_clock(c, s, t, eligible, rng):
    return int(time.time()) % 2


def imported_clock(c, s, t, eligible, rng):
    return int(clock()) % 2


def interpreted(c, s, t, eligible, rng):
    with numba.objmode(arm="int64"):
        arm = t % 2
    return arm + 0


def enclosed():
    draw = np.random.rand

    def select(c, s, t, eligible, rng):
        return int(2 * draw())

    return select


@pytest.mark.parametrize(
    ("select", "mention"),
    [
        (legacy, "np.random"),
        (standard, "random"),
        (generator, "GENERATOR"),
        (by_helper, "through helper_of_helpers through helper"),
        (by_tuple, "through HELPERS"),
        (module_clock, "a clock"),
        (imported_clock, "a clock"),
        (interpreted, "interpreted code"),
        (enclosed(), "draw"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_would_differ_for_the_same_seed_is_refused(select, mention):
    for play in (lambda made: ib.Agent(made, 2), lambda made: ib.simulate(WORLD, made, 3)):
        said = refusal(policy(select), play)
        assert mention in said
        assert "ib.random.uniform(rng, 0)" in said


def test_randomness_is_found_in_every_function():
    def observed(c, s, t, arm, memo, loss):
        s.mean[arm] = np.random.normal()  # noqa: NPY002

    assert "Mine.observed uses np.random" in refusal(policy(observed=observed))


WORLD = ib.counterexample()


# What the compiler says


@numba.njit
def write(array):
    array[0] = 1.0


def undecorated(x):
    return x


def returns_float(c, s, t, eligible, rng):
    return s.mean[0]


def returns_nothing(c, s, t, eligible, rng):
    pass


def returns_sometimes(c, s, t, eligible, rng):  # noqa: RET503
    if t > 3:
        return 1


def unknown_field(c, s, t, eligible, rng):
    return int(s.maen[0])


def unknown_parameter(c, s, t, eligible, rng):
    return int(c.scale)


def unknown_name(c, s, t, eligible, rng):
    return nowhere  # noqa: F821


def plain_helper(c, s, t, eligible, rng):
    return undecorated(0)


def writes(c, s, t, eligible, rng):
    s.mean[0] = 1.0
    return 0


def writes_by_helper(c, s, t, eligible, rng):
    write(s.mean)
    return 0


def adds_in_place(c, s, t, eligible, rng):
    s.mean[:] += 1.0
    return 0


def sorts(c, s, t, eligible, rng):
    s.mean.sort()
    return 0


def replaces(c, s, t, eligible, rng):
    s.mean = 3.0
    return 0


@pytest.mark.parametrize(
    ("select", "mentions"),
    [
        (returns_float, ["must return an integer", "float64", "in select", "test_mistakes.py"]),
        (returns_nothing, ["must return an integer", "nothing (None)"]),
        (returns_sometimes, ["must return an integer", "None) on some paths"]),
        (unknown_field, ["no s.maen", "did you mean mean?", "in select", "line"]),
        (unknown_parameter, ["no c.scale", "The parameters are n_arms"]),
        (unknown_name, ["nowhere is not defined", "in select"]),
        (plain_helper, ["undecorated", "@numba.njit"]),
        (writes, ["select may only read", "in select"]),
        (writes_by_helper, ["select may only read", "in a helper"]),
        (adds_in_place, ["select may only read"]),
        (sorts, ["select may only read", "in select"]),
        (replaces, ["s.mean[:] ="]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_the_compiler_refuses_is_said_in_the_terms_of_the_contract(select, mentions):
    made = policy(select)
    agent = ib.Agent(made, 2)
    with pytest.raises(InvalidPolicy) as caught:
        agent.select()
    for mention in ["Mine cannot be compiled", *mentions]:
        assert mention in str(caught.value)
    assert caught.value.__cause__ is not None, "what Numba said is lost"
    assert agent.round == 0


def test_the_engine_says_the_same():
    said = refusal(policy(unknown_field), lambda made: ib.simulate(WORLD, made, 3))
    assert "did you mean mean?" in said


def test_the_offer_cannot_be_changed():
    def select(c, s, t, eligible, rng):
        if eligible is not None:
            eligible[:] = True
        return 0

    with pytest.raises(InvalidPolicy, match="select may only read its state and eligible"):
        ib.Agent(policy(select), 2).select([False, True])


# What goes wrong while playing


def raises(c, s, t, eligible, rng):
    if t == 3:
        raise ValueError("no more arms")
    return 0


def test_an_error_of_the_policys_own_names_policy_round_and_cause():
    made, cause = policy(raises), "ValueError: no more arms"
    agent = ib.Agent(made, 2)
    first, second = agent.pull(), agent.pull()
    with pytest.raises(InvalidPolicy, match=rf"Mine failed in select, round 3 with {cause}"):
        agent.pull()
    assert agent.pending == {1: first, 2: second}
    for options in ({}, {"scenario": ib.Scenario(delay=1)}):
        with pytest.raises(
            InvalidPolicy, match=rf"Mine failed in round 3 \(instance 0, seed 4\) with {cause}"
        ):
            ib.simulate(WORLD, made, 9, seeds=[4, 5], **options)


def test_an_error_of_observed_names_its_round():
    def observed(c, s, t, arm, memo, loss):
        if t == 5:
            raise ValueError("enough")

    with pytest.raises(InvalidPolicy, match=r"Mine failed in round 5 .* ValueError: enough"):
        ib.simulate(WORLD, policy(observed=observed), 9)


def out_of_range(c, s, t, eligible, rng):
    return 0 if s.mean[10 * t] == 0.0 else 1


def test_checked_code_finds_an_index_out_of_range_although_unchecked_code_is_there():
    made = policy(out_of_range)
    ib.simulate(WORLD, made, 2)
    with pytest.raises(InvalidPolicy, match=r"Mine failed in round 1 .* out of bounds"):
        ib.simulate(WORLD, made, 2, check=True)


@numba.njit
def entry(array, place):
    return array[place]


def out_of_range_by_helper(c, s, t, eligible, rng):
    return int(entry(s.mean, 10 * t)) % 2


def test_checked_code_reaches_helpers():
    with pytest.raises(InvalidPolicy, match="out of bounds"):
        ib.Agent(policy(out_of_range_by_helper), 2, check=True).select()


def test_checked_code_makes_the_same_choices():
    runs = [
        ib.simulate(WORLD, ib.SlidingWindowLCB(window=5), 200, record="choices", check=check)
        for check in (False, True)
    ]
    assert np.array_equal(runs[0].choices, runs[1].choices)


# What a policy says about itself


def fails(*arguments):
    return 1 // 0


@pytest.mark.parametrize(
    ("name", "method", "mentions"),
    [
        ("fields", fails, ["Mine.fields failed with ZeroDivisionError"]),
        ("fields", lambda self, arms: None, ["Mine.fields() must return", "None"]),
        ("fields", lambda self, arms: {"x": "float64"}, ["Mine.fields() must return"]),
        ("fields", lambda self, arms: {"x": ("float64", 1.5)}, ["'x'", "1.5"]),
        ("fields", lambda self, arms: {"x": ("float64", "many")}, ["'x'", "many"]),
        ("memo_size", fails, ["Mine.memo_size failed"]),
        ("memo_size", lambda self, arms: -1, ["Mine.memo_size()", "-1"]),
        ("memo_size", lambda self, arms: None, ["Mine.memo_size()", "None"]),
        ("initial_state", fails, ["Mine.initial_state failed"]),
        ("initial_state", lambda self, arms: {"nope": np.zeros(2)}, ["'nope'", "mean: (2,)"]),
        ("initial_state", lambda self, arms: {"mean": np.zeros(3)}, ["'mean'", "(3,)"]),
        ("initial_state", lambda self, arms: {"mean": ["a", "b"]}, ["arrays of numbers"]),
        ("initial_state", lambda self, arms: 3, ["arrays of numbers by name"]),
        ("parameters", fails, ["Mine.parameters failed"]),
        ("parameters", lambda self: [1], ["Mine.parameters() must return"]),
        ("parameters", lambda self: {"x": "high"}, ["parameter x must be a number", "'high'"]),
        ("parameters", lambda self: {"x": 10**400}, ["parameter x must fit 64 bits"]),
        ("parameters", lambda self: {"x": 2**63}, ["parameter x must fit 64 bits"]),
    ],
)
def test_what_a_policy_says_about_itself_is_checked(name, method, mentions):
    said = refusal(policy(**{name: method}))
    for mention in mentions:
        assert mention in said


def test_what_an_oracle_knows_is_checked_and_cannot_be_written_to():
    def oracle(knowledge, **members):
        return policy(knowledge=knowledge, privileged=("instance",), **members)

    def play(made):
        return ib.Agent(made, 2, instance=WORLD).pull()

    assert "Mine.knowledge failed" in refusal(oracle(fails), play)
    assert "arrays of numbers" in refusal(oracle(lambda *a: {"x": "text"}), play)

    def pulled(c, s, t, arm, memo):
        s.known[0] = 1.0

    made = oracle(lambda *a: {"known": np.zeros(2)}, pulled=pulled)
    assert "nobody may write to what knowledge() gave" in refusal(made, play)


def test_a_policy_with_an_endless_parameter_plays_and_cannot_be_saved():
    agent = ib.Agent(policy(parameters=lambda self: {"x": float("inf")}), 2)
    agent.pull()
    with pytest.raises(InvalidPolicy, match="parameter x is inf"):
        agent.to_json()
