"""check_policy: a policy that breaks a rule is told which."""

from dataclasses import dataclass

import pytest

import influential_bandits as ib
from influential_bandits import testing


@dataclass(frozen=True)
class Base(ib.Policy):
    """Plays the arms in turn; each of the others has one thing wrong."""

    def fields(self, arms):
        return {"seen": ("float64", arms)}

    @staticmethod
    def select(c, s, t, eligible, rng):
        for step in range(c.n_arms):
            arm = (t + step) % c.n_arms
            if eligible is None or eligible[arm]:
                return arm
        return -1


@dataclass(frozen=True)
class OutOfRange(Base):
    @staticmethod
    def observed(c, s, t, arm, memo, loss):
        s.seen[arm + 1] = loss


@dataclass(frozen=True)
class Endless(Base):
    @staticmethod
    def observed(c, s, t, arm, memo, loss):
        s.seen[arm] += loss * loss * loss * loss


@dataclass(frozen=True)
class Deaf(Base):
    @staticmethod
    def select(c, s, t, eligible, rng):
        return t % c.n_arms


@dataclass(frozen=True)
class Mutable(Base):
    __hash__ = None


def test_a_policy_that_keeps_the_contract_passes_and_is_told_what_was_checked(capsys):
    ib.testing.check_policy(Base(), n_arms=(1, 3), rounds=10)
    first, *rules = capsys.readouterr().out.splitlines()
    assert first == (
        "Base keeps the contract. With 1 and 3 arms, 10 rounds at a time and indices checked, it "
        "was seen to"
    )
    assert rules == [f"- {rule}" for rule in testing.RULES]


def test_a_policy_may_be_named_and_only_what_was_checked_is_said(capsys):
    ib.testing.check_policy("EachArmOnceOracle", n_arms=[2], rounds=4, check=False)
    said = capsys.readouterr().out
    assert said.startswith("EachArmOnceOracle keeps the contract. With 2 arms, 4 rounds at a time,")
    assert "take losses late" in said
    assert "arms come and go" not in said, "an oracle knows all arms from the start"


def test_a_policy_that_breaks_a_rule_is_not_said_to_keep_it(capsys):
    with pytest.raises(ib.errors.InvalidPolicy):
        ib.testing.check_policy(Deaf(), n_arms=(2,), rounds=10)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (OutOfRange(), r"play in simulate .* out of bounds"),
        (Endless(), r"take losses of every size.*keeps infinite or undefined numbers in 'seen'"),
        (Deaf(), r"choose among the eligible arms.*not on offer \(n_arms=2, seed=0\)"),
        (Mutable(), r"be a frozen dataclass of numbers"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_broken_rule_is_named(policy, rule):
    with pytest.raises(ib.errors.InvalidPolicy, match=f"{type(policy).__name__} must {rule}"):
        ib.testing.check_policy(policy, n_arms=(2,), rounds=10)


@pytest.mark.parametrize("wrong", [{"n_arms": [0]}, {"n_arms": []}, {"rounds": 0}, {"seed": -1}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ib.errors.InvalidInput, match=next(iter(wrong))):
        ib.testing.check_policy(Base(), **wrong)
