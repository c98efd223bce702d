"""Rare arms as one: which, what stays known, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.errors import InvalidInput
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.merging import arm_shares, find_share, merge_rare_arms
from influential_bandits.logs.reading import read_log
from influential_bandits.studies.logs.options import describe_reading


def make_log(arms, **more):
    return EventLog(["ann"] * len(arms), list(arms), np.arange(len(arms)), **more)


def test_rare_arms_become_one_and_items_stay():
    log = make_log("aaaabbbcd", controls={"place": np.arange(9)})
    merged = merge_rare_arms(log, 0.2)
    assert merged.arm_names == ("a", "b", "other arms")
    assert merged.arm.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert merged.membership.items == ("a", "b", "c", "d")
    assert merged.about["merged_arms"] == 2
    assert merged.controls is not None
    assert merged.controls["place"].values.tolist() == list(range(9))
    assert merge_rare_arms(log, 0.4).arm_names == ("a", "other arms")
    assert merge_rare_arms(log, 0.9).arm_names == ("other arms",)


def test_a_log_without_two_rare_arms_stays_as_it_is():
    log = make_log("aaab")
    assert merge_rare_arms(log, 0.3) is log


def test_weights_of_items_of_several_arms_add_up():
    films = {"x": ["a", "b", "c"], "y": ["a"], "z": ["b", "c"]}
    log = EventLog(["ann"] * 6, list("xyyyyz"), np.zeros(6), None, Membership(films))
    merged = merge_rare_arms(log, 0.2, name="rest")
    weights = {item: merged.membership.weights(item) for item in "xyz"}
    assert weights["x"] == pytest.approx({"a": 1 / 3, "rest": 2 / 3})
    assert weights["y"] == {"a": 1.0}
    assert weights["z"] == {"rest": 1.0}


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1), st.integers(1, 9))
def test_shares_of_what_is_left_add_up(arms, most):
    log = make_log(arms)
    share, left = find_share(log, max(most, 2))
    merged = merge_rare_arms(log, share)
    assert merged.n_arms == left
    assert np.isclose(arm_shares(merged).sum(), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"below": 0.0}, "between 0 and 1, got 0.0"),
        ({"below": "many"}, "between 0 and 1, got 'many'"),
        ({"below": 0.3, "name": "a"}, "has the name 'a' already"),
    ],
)
def test_what_cannot_be_merged(options, message):
    with pytest.raises(InvalidInput, match=message):
        merge_rare_arms(make_log("aaabc"), **options)


def test_commands_suggest_to_merge_many_arms_and_count_rows_that_repeat():
    assert describe_reading(make_log("aab")) == []
    log = make_log([f"ad {n}" for n in range(99) for _ in range(1 + 100 // (n + 1))])
    (told,) = describe_reading(log)
    assert told.startswith("MANY ARMS: 99 have 4,950 interactions, which takes long; --merge-arms")
    share, left = find_share(log, 40)
    assert f"--merge-arms-below {share:g} leaves {left}, or" in told
    (told,) = describe_reading(log, all_pairs=False, tests=True)
    assert told.startswith("MANY ARMS: 99 are looked at one by one, not in pairs (--all-pairs")
    (told,) = describe_reading(log, all_pairs=False)
    assert told.startswith("MANY ARMS: 99 are fitted one by one; --merge-arms")
    very_many = make_log([f"ad {n}" for n in range(301)])
    assert describe_reading(very_many, all_pairs=False, tests=True) == []  # the test says it
    (told,) = describe_reading(very_many, all_pairs=False)
    assert told.startswith("MANY ARMS: 301 are fitted one by one, which takes long; name a coarser")
    merged = merge_rare_arms(log, share)
    assert merged.n_arms == left <= 40
    assert describe_reading(merged) == [f"{merged.about['merged_arms']} rare arms are one"]
    alike = describe_reading(make_log([f"ad {n}" for n in range(160)]))
    assert alike[0].endswith(
        "which takes long; name a coarser column with --arm and this one with --item"
    )
    twice = {"user": [1, 1], "arm": ["a", "a"], "time": [2, 2], "loss": [0.5, 0.5]}
    told = describe_reading(read_log(twice, instance="user", loss="loss"))
    assert told == [
        f"Read {read_log(twice)!r}: instance = user, arm = arm, time = time, loss = loss",
        "times: 2 to 2, which are no dates: taken for seconds from a start of their own",
        "1 rows repeat another, and are kept",
    ]
