"""Policies by name: what is read, and what is refused."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.policies.naming import (
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
        ("InfluentialLCB(scale=2.0)", ib.InfluentialLCB(scale=2.0)),
        ("InfluentialLCB(2.0)", ib.InfluentialLCB(2.0)),
        ("InfluentialLCB(scale='estimate')", ib.InfluentialLCB(scale="estimate")),
        ('InfluentialLCB(opening="paper",scale=3)', ib.InfluentialLCB(scale=3, opening="paper")),
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
        ib.InvalidInput, match=r"unknown policy .*; there are .*InfluentialLCB, LCB"
    ):
        policy_from_text(text)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "LCB(", "LCB LCB", "LCB;LCB", "LCB\nLCB", "LCB\0", "LCB(scale=x)", "LCB(*[1])"],
)
def test_a_text_that_is_no_policy_is_refused_with_an_example(text, refused):
    with refused(ib.InvalidInput, repr(text), "InfluentialLCB(scale=2.0)"):
        policy_from_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir('made')",
        "LCB(__import__('os').mkdir('made'))",
        "InfluentialLCB(scale=__import__('os').mkdir('made'))",
        "InfluentialLCB(scale=[__import__('os').mkdir('made') for _ in '1'])",
        "(lambda: __import__('os').mkdir('made'))()",
        "LCB().__class__.__init__.__globals__['__builtins__']['eval']('1')",
        'InfluentialLCB(scale=f\'{__import__("os").mkdir("made")}\')',
    ],
)
def test_no_code_is_run(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ib.InvalidInput):
        policy_from_text(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("LCB(scale=2)", ("LCB(scale=2)", "'scale'")),
        ("LCB(1)", ("LCB(1)",)),
        ("InfluentialLCB(1, scale=2)", ("scale",)),
    ],
)
def test_settings_that_a_policy_does_not_have_are_refused(text, mentions, refused):
    with refused(ib.InvalidPolicy, *mentions):
        policy_from_text(text)


@pytest.mark.parametrize(
    "text", ["InfluentialLCB(scale=-1)", "InfluentialLCB(scale='x')", "InfluentialLCB(opening='x')"]
)
def test_settings_without_meaning_are_refused_by_the_policy(text, refused):
    with refused(ib.InvalidInput, "must be"):
        policy_from_text(text)


@pytest.mark.parametrize(
    "policy",
    [
        ib.LCB(),
        ib.Uniform(),
        ib.InfluentialLCB(scale=0.1, opening="paper", noise_bound=1 / 3),
        ib.InfluentialLCB(scale="estimate"),
        ib.InfluentialLCB(scale=np.float64(0.1)),
        ib.OptimalOracle(),
        NamedByUser(weight=0.1),
        NamedByUser(weight=np.float32(0.5)),
    ],
    ids=repr,
)
def test_a_policy_survives_json(policy):
    assert policy_from_json(json.loads(json.dumps(policy_to_json(policy)))) == policy


def test_a_policy_that_is_not_imported_is_refused_with_a_hint(refused):
    with refused(ib.InvalidInput, "elsewhere.Clever", "import the module"):
        policy_from_json({"class": "elsewhere.Clever", "settings": {}})
