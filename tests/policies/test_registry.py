"""Policies by name: what is read, and what is refused."""

import dataclasses
import json
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.policies.registry import (
    code_digest,
    known_policies,
    policy_from_json,
    policy_from_text,
    policy_to_json,
)


@dataclass(frozen=True)
class NamedByUser(ib.Policy):
    """A policy of a user."""

    weight: float = 1.0

    @staticmethod
    def select(c, s, t, eligible, rng):
        return 0


def test_the_policies_of_the_package_are_known_without_an_import():
    known = known_policies()
    assert list(known) == sorted(known)
    for name in ("LCB", "InfluentialLCB", "Uniform", "OptimalOracle", "EachArmOnceOracle"):
        assert known[name] is getattr(ib, name)
    assert "Policy" not in known


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("LCB", ib.LCB()),
        ("LCB()", ib.LCB()),
        ("  Uniform ", ib.Uniform()),
        ("InfluentialLCB(influence_bound=2.0)", ib.InfluentialLCB(influence_bound=2.0)),
        ("InfluentialLCB(2.0)", ib.InfluentialLCB(2.0)),
        (
            "InfluentialLCB(influence_bound='estimate')",
            ib.InfluentialLCB(influence_bound="estimate"),
        ),
        (
            'InfluentialLCB(opening="paper",influence_bound=3)',
            ib.InfluentialLCB(influence_bound=3, opening="paper"),
        ),
        ("OptimalOracle", ib.OptimalOracle()),
        ("NamedByUser(weight=-1.5)", NamedByUser(-1.5)),
    ],
)
def test_a_text_names_a_policy(text, policy):
    assert policy_from_text(text) == policy
    assert policy_from_text(repr(policy)) == policy


@pytest.mark.parametrize("text", ["lcb", "Nonsense", "Policy", "LCB.x", "ib.LCB", "1", "object()"])
def test_an_unknown_name_is_refused_with_the_known_ones(text, refused):
    with pytest.raises(
        ib.errors.InvalidInput, match=r"unknown policy .*; there are .*InfluentialLCB, LCB"
    ):
        policy_from_text(text)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "LCB(", "LCB LCB", "LCB;LCB", "LCB\nLCB", "LCB\0", "LCB(scale=x)", "LCB(*[1])"],
)
def test_a_text_that_is_no_policy_is_refused_with_an_example(text, refused):
    with refused(ib.errors.InvalidInput, repr(text), "MOSS(alpha=2.0)"):
        policy_from_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir('made')",
        "LCB(__import__('os').mkdir('made'))",
        "InfluentialLCB(influence_bound=__import__('os').mkdir('made'))",
        "InfluentialLCB(influence_bound=[__import__('os').mkdir('made') for _ in '1'])",
        "(lambda: __import__('os').mkdir('made'))()",
        "LCB().__class__.__init__.__globals__['__builtins__']['eval']('1')",
        'InfluentialLCB(influence_bound=f\'{__import__("os").mkdir("made")}\')',
    ],
)
def test_no_code_is_run(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ib.errors.InvalidInput):
        policy_from_text(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("LCB(scale=2)", ("LCB(scale=2)", "'scale'")),
        ("LCB(1)", ("LCB(1)",)),
        ("InfluentialLCB(1, influence_bound=2)", ("influence_bound",)),
    ],
)
def test_settings_that_a_policy_does_not_have_are_refused(text, mentions, refused):
    with refused(ib.errors.InvalidPolicy, *mentions):
        policy_from_text(text)


@pytest.mark.parametrize(
    "policy",
    [
        ib.LCB(),
        ib.Uniform(),
        ib.InfluentialLCB(influence_bound=0.1, opening="paper", noise_bound=1 / 3),
        ib.InfluentialLCB(influence_bound="estimate"),
        ib.InfluentialLCB(influence_bound=np.float64(0.1)),
        ib.OptimalOracle(),
        NamedByUser(weight=0.1),
        NamedByUser(weight=np.float32(0.5)),
    ],
    ids=repr,
)
def test_a_policy_survives_json(policy):
    assert policy_from_json(json.loads(json.dumps(policy_to_json(policy)))) == policy


def test_policies_of_the_package_are_named_plainly_and_others_by_their_module():
    assert policy_to_json(ib.MOSS(alpha=2.0))["name"] == "MOSS"
    assert policy_to_json(NamedByUser())["name"] == f"{__name__}:NamedByUser"


@pytest.mark.parametrize(
    ("name", "mentions"),
    [
        ("Clever", ["'Clever'", "there are"]),
        ("elsewhere:Clever", ["elsewhere:Clever", "cannot be imported", "load(path, policy)"]),
        ("__main__:Clever", ["script", "load(path, policy)"]),
        ("elsewhere:some.<locals>.Clever", ["a function", "load(path, policy)"]),
        ("math:sqrt", ["math:sqrt is no policy but", "load(path, policy)"]),
        ("math:Clever", ["math:Clever is no policy but None"]),
        ("../elsewhere:Clever", ["expected module:Class"]),
        (".elsewhere:Clever", ["expected module:Class"]),
    ],
)
def test_a_policy_that_cannot_be_found_is_refused_with_a_hint(name, mentions, refused):
    with refused(ib.errors.InvalidInput, *mentions):
        policy_from_json({"name": name, "settings": {}})


def test_the_module_of_a_policy_is_imported(own_file, monkeypatch):
    monkeypatch.syspath_prepend(own_file.parent)
    data = {"name": "own_policies:Mine", "settings": {"weight": 2.0}}
    assert policy_from_json(data).label == "Mine(weight=2.0)"
    for wrong in ({"weight": -1.0}, {"height": 1.0}, ["weight"]):
        with pytest.raises(ib.errors.InvalidInput, match="own_policies:Mine"):
            policy_from_json(data | {"settings": wrong})


def test_a_policy_that_is_given_must_be_that_of_the_file(refused):
    data = policy_to_json(ib.MOSS(alpha=2.0))
    mine = ib.MOSS(alpha=2.0)
    assert policy_from_json(data, mine) is mine
    with refused(ib.errors.InvalidInput, "MOSS", "does not fit"):
        policy_from_json(data, ib.MOSS())


def test_a_setting_that_no_file_can_hold_is_named(refused):
    with refused(ib.errors.InvalidPolicy, "NamedByUser", "weight", "to_json"):
        policy_to_json(NamedByUser(weight=object()))
    assert policy_to_json(NamedByUser(weight=(1, 2)))["settings"] == {"weight": [1, 2]}


MINE = """
from dataclasses import dataclass
import influential_bandits as ib

@dataclass(frozen=True)
class Mine(ib.Policy):
    weight: float = 1.0
    odd: bool = False

    def __post_init__(self):
        if self.weight < 0:
            raise ArithmeticError("too light")

    @staticmethod
    def select(c, s, t, eligible, rng):
        return 0

class Unfinished(ib.Policy):
    pass

heavy = Mine(9.0)
number = 7
"""


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    (tmp_path / "own_policies.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "own_policies.py"
    sys.modules.pop("own_policies", None)


@pytest.mark.parametrize("home", ["own_policies.py", "own_policies"])
def test_a_policy_of_ones_own_is_named_with_its_home(home, own_file):
    assert policy_from_text(f"{home}:Mine").weight == 1.0
    assert policy_from_text(f"{home}:Mine(weight=2.0)").label == "Mine(weight=2.0)"
    assert policy_from_text(f"{home}:Mine(3, odd=True)").label == "Mine(weight=3, odd=True)"
    assert policy_from_text(f"{home}:heavy").weight == 9.0


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("own_policies.py:Nothing", ["has no 'Nothing'", "Mine"]),
        ("own_policies.py:number", ["own_policies.py:number is no policy but 7", "subclass"]),
        ("own_policies.py:dataclass", ["is no policy"]),
        ("own_policies.py:heavy()", ["is no policy but Mine(weight=9.0"]),
        ("own_policies.py:Mine(size=1)", ["own_policies.py:Mine(size=1)", "'size'"]),
        ("own_policies.py:Mine(1, 2, 3, 4)", ["own_policies.py:Mine(1, 2, 3, 4)", "positional"]),
        ("own_policies.py:Mine(weight=-1)", ["ArithmeticError: too light"]),
        ("own_policies.py:Mine(weight='a lot')", ["own_policies.py:Mine", "'<' not supported"]),
        ("own_policies.py:Unfinished", ["Unfinished does not define select"]),
        ("nowhere.py:Mine", ["nowhere.py"]),
        ("nowhere_at_all:Mine", ["nowhere_at_all"]),
    ],
)
def test_what_is_wrong_with_a_policy_of_ones_own_is_said(text, mentions, own_file):
    with pytest.raises(ib.errors.InvalidInput) as refusal:
        policy_from_text(text)
    assert "\n" not in str(refusal.value)
    for mention in mentions:
        assert mention in str(refusal.value)


def test_the_digest_of_code_follows_every_edit(own_file):
    first = code_digest(policy_from_text("own_policies.py:Mine"))
    assert code_digest(policy_from_text("own_policies.py:Mine(weight=2.0)")) == first
    edited = MINE.replace("too light", "far too light")  # not a part of what is compiled
    for text in (edited, MINE.replace("return 0", "return 1")):
        own_file.write_text(text)
        sys.modules.pop("own_policies")
        assert code_digest(policy_from_text("own_policies.py:Mine")) != first
    assert code_digest(ib.LCB()) != code_digest(ib.Uniform())
    assert code_digest(ib.InfluentialLCB(2.0)) == code_digest(ib.InfluentialLCB(3.0))


# --- labels ---


@dataclass(frozen=True)
class Labelled(ib.Policy):
    """Settings of every sort."""

    must: int
    weights: tuple = (1.0, 2.0)
    table: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(2))

    @staticmethod
    def select(c, s, t, eligible, rng):
        return 0


@pytest.mark.parametrize(
    ("policy", "label"),
    [
        (ib.LCB(), "LCB"),
        (ib.InfluentialLCB(), "InfluentialLCB"),
        (ib.InfluentialLCB(influence_bound=2.0), "InfluentialLCB(influence_bound=2.0)"),
        (ib.InfluentialLCB(influence_bound=1), "InfluentialLCB"),
        (ib.Foresight(horizon=100), "Foresight(horizon=100)"),
        (Labelled(3), "Labelled(must=3)"),
        (Labelled(3, (1, 2)), "Labelled(must=3)"),
        (Labelled(3, (5,)), "Labelled(must=3, weights=(5,))"),
        (Labelled(3, table=np.ones(2)), "Labelled(must=3, table=array([1., 1.]))"),
    ],
    ids=str,
)
def test_a_label_names_what_is_not_usual(policy, label):
    assert policy.label == label
