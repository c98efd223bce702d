"""Arms are added and retired while models are fitted, activated and taken back: nobody is lost."""

import random

import pytest
from live.driver import Driver, make_settings

import influential_bandits as ib
from influential_bandits import Foresight
from influential_bandits.live.fitting import fit_policy
from influential_bandits.live.requests import Decide, Refused
from influential_bandits.policies.registry import policy_to_json

STATES = {
    "own": {"policy": "Foresight"},
    "shared": {"policy": "Foresight", "state": "shared"},
}
EVERY_STATE = pytest.mark.parametrize("state", STATES)


def fit(shop):
    return fit_policy(shop.read_log(), shop.describe())


def learn(shop, users, draw):
    """Let each of these users decide, and tell the loss."""
    for user in users:
        name = f"d{shop.describe()['events']}"
        arm = shop.decide(user, decision_id=name)["arm"]
        shop.feed_back(name, draw.gauss(len(arm) / 10, 0.3))


@EVERY_STATE
def test_a_learned_model_serves_those_who_came_before_an_arm(tmp_path, state):
    settings = make_settings(["a", "b"], explore=0.3, **STATES[state])
    with Driver(tmp_path / "shop.db", settings) as shop:
        draw = random.Random(0)
        shop.decide("old", decision_id="before")
        shop.add_arm("c")
        learn(shop, [f"user {n % 6}" for n in range(60)], draw)
        shop.activate_model(shop.stage_model(fit(shop))["version"])
        assert shop.decide("old")["arm"] in "abc"
        shop.feed_back("before", 0.5)
        assert shop.explain("old")["expected_losses"]
        shop.restart()
        assert shop.decide("old")["model"] == 1
        assert shop.audit().differences == 0


def test_a_state_of_the_model_before_is_not_kept_as_one_of_the_present_model(tmp_path):
    settings = make_settings(policy="DiscountedLCB")
    with Driver(tmp_path / "shop.db", settings, events_per_snapshot=1) as shop:

        def decide_and_activate(
            work, at
        ):  # in one transaction, at the end of which states are kept
            work.decide(Decide(instance="ann"), at)
            work.activate_model(1, at)

        learn(shop, ["ann"] * 9, random.Random(0))
        shop.stage_model("DiscountedLCB(discount=0.1)")
        shop.ask(decide_and_activate, label="ann")
        shop.restart()
        learn(shop, ["ann"] * 9, random.Random(0))
        assert shop.audit().differences == 0


@pytest.mark.parametrize("change", ["an arm", "a setting"])
def test_a_fleet_goes_on_from_its_snapshot_though_it_was_changed_since(tmp_path, caplog, change):
    settings = make_settings(["a", "b"], explore=0.5, **STATES["shared"])
    with Driver(tmp_path / "shop.db", settings, events_per_shared_snapshot=5) as shop:
        learn(shop, ["ann", "bob"] * 3, random.Random(0))
        shop.decide("ann")
        shop.add_arm("c") if change == "an arm" else shop.change(explore=0.0)
        shop.writer._loaded.clear()  # as after a commit that failed
        shop.decide("ann")
        loaded = shop.writer._loaded["shop"]
        assert loaded.snapshot_bytes > 0
        assert loaded.arms.names == tuple(shop.describe()["arms"])
        learn(shop, ["ann", "bob"] * 3, random.Random(0))
        assert shop.audit().differences == 0
    assert caplog.messages == []


@EVERY_STATE
@pytest.mark.parametrize("seed", range(4))
def test_in_every_order_everybody_is_served_or_the_step_is_refused(tmp_path, state, seed):
    settings = make_settings(["a", "b"], explore=0.3, control_share=0.2, **STATES[state])
    draw, done, codes = random.Random(seed), set(), set()
    with Driver(tmp_path / "shop.db", settings, events_per_snapshot=5) as shop:
        users = [f"user {n}" for n in range(6)]
        learn(shop, users * 3, draw)
        for step in range(30):
            described = shop.describe()
            there = [arm for arm in described["arms"] if arm not in described["retired"]]
            kind = draw.choice(["add", "retire", "fit", "activate", "activate", "restart", "new"])
            try:
                if kind == "add":
                    shop.add_arm(f"arm {step}")
                elif kind == "retire" and len(there) > 2:
                    shop.retire_arm(draw.choice(there))
                elif kind == "fit" and len(described["models"]) < 4:
                    learn(shop, users, draw)
                    shop.stage_model(fit(shop))
                elif kind == "activate":
                    shop.activate_model(draw.randint(0, len(described["models"])))
                elif kind == "restart":
                    shop.restart()
                elif kind == "new":
                    users.append(f"user {len(users)}")
            except Refused as refused:
                codes.add((kind, refused.code))
                now = shop.describe()
                assert [now[of] for of in ("arms", "model")] == [
                    described[of] for of in ("arms", "model")
                ]
                kind = f"{kind} refused"
            done.add(kind)
            learn(shop, draw.sample(users, 3), draw)
        for user in users:
            shop.decide(user)
            shop.explain(user)
        assert shop.audit().differences == 0
    # Of few losses a fit may say nothing certain enough for a policy to start from.
    known = {("add", "model_knows_arms"), ("activate", "model_knows_arms"), ("fit", "invalid")}
    assert codes <= known
    assert {"add", "fit", "activate"} <= done


def make_fleet():
    prior = ib.LossPrior.around([[0.2, 0.0], [0.0, 0.1]], [0.5, 0.4], 0.05, 1.0, taste=0.7)
    return policy_to_json(Foresight(prior=prior))


@pytest.mark.parametrize("state", ["own", "shared"])
def test_an_arm_that_the_active_model_does_not_know_starts_from_nothing(tmp_path, state):
    with Driver(tmp_path / "shop.db", make_settings(["a", "b"], **STATES[state])) as shop:
        shop.stage_model(make_fleet())
        shop.activate_model(1)
        shop.decide("ann", decision_id="one")
        shop.add_arm("c")
        for n in range(20):
            shop.decide("ann", decision_id=f"d{n}")
            shop.feed_back(f"d{n}", 0.1 * n)
        shop.feed_back("one", 0.5)
        assert {shop.decide(user)["model"] for user in ("ann", "bob")} == {1}
        assert shop.audit().differences == 0


def test_a_model_of_more_arms_than_there_are_is_refused(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(["a"], **STATES["shared"])) as shop:
        with pytest.raises(Refused, match="the prior is about 2 arms, and there are 1"):
            shop.stage_model(make_fleet())
        assert shop.describe()["arms"] == ["a"]
