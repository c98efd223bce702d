import random
import sqlite3

import pytest
from live.driver import Driver, make_settings

from influential_bandits.errors import InvalidInput
from influential_bandits.live.reading import read_events
from influential_bandits.live.requests import Refused

OWN = make_settings(policy="LCB", control_share=0.3, explore=0.1)
SHARED = make_settings(policy="Foresight", state="shared", control_share=0.3, explore=0.1)
BY_CLOCK = make_settings(policy="Foresight", control_share=0.3, half_life_hours=6.0)
SHARED_BY_CLOCK = make_settings(
    policy="Foresight", state="shared", control_share=0.3, half_life_hours=6.0
)
EVERY_STATE = pytest.mark.parametrize(
    "settings",
    [OWN, SHARED, BY_CLOCK, SHARED_BY_CLOCK],
    ids=["own", "shared", "by clock", "shared by clock"],
)
INSTANCES = [f"user {n}" for n in range(8)]


@pytest.fixture
def shop(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings()) as driver:
        yield driver


def refusal(call, *arguments, **rest):
    with pytest.raises(Refused) as caught:
        call(*arguments, **rest)
    return caught.value.status, caught.value.code


def test_a_decision_and_its_loss(shop):
    first = shop.decide("ann", decision_id="one")
    assert first["arm"] == "tea"
    assert first["group"] == "policy"
    assert first["probability"] == 1.0
    assert shop.feed_back("one", 0.5) == {"decision_id": "one", "status": "observed", "loss": 0.5}
    assert shop.decide("ann")["arm"] == "coffee"


def test_a_repeat_gets_the_same_answer_and_another_question_none(shop):
    first = shop.decide("ann", decision_id="one")
    assert shop.decide("ann", decision_id="one") == first
    assert shop.describe()["events"] == 2
    assert refusal(shop.decide, "bob", decision_id="one") == (409, "decision_exists")
    assert refusal(shop.decide, "ann", decision_id="one", eligible=["tea"]) == (
        409,
        "decision_exists",
    )


def test_the_same_loss_again_changes_nothing_and_another_is_refused(shop):
    shop.decide("ann", decision_id="one")
    shop.feed_back("one", 0.5)
    events = shop.describe()["events"]
    assert shop.feed_back("one", reward=-0.5)["loss"] == 0.5
    assert shop.describe()["events"] == events
    assert refusal(shop.feed_back, "one", 0.6) == (409, "feedback_exists")
    assert refusal(shop.feed_back, "two", 0.6) == (404, "unknown_decision")


@pytest.mark.parametrize("state", ["own", "shared"])
def test_a_loss_is_corrected_by_an_event_of_its_own(tmp_path, state):
    settings = make_settings(policy="Foresight" if state == "shared" else "LCB", state=state)
    with Driver(tmp_path / "shop.db", settings) as shop:
        for n in range(6):
            shop.decide("ann", decision_id=str(n))
            if n < 5:
                shop.feed_back(str(n), n / 4)
        expected = shop.explain("ann")
        assert shop.report()["totals"]["loss"] == 2.5
        for _ in range(2):  # the second time it is a repeat
            assert shop.correct("4", 0.25) == {
                "decision_id": "4", "status": "observed", "loss": 0.25
            }  # fmt: skip
        assert shop.describe()["events"] == 13
        assert shop.explain("ann") == expected  # nobody unlearns
        with pytest.raises(Refused, match="no loss to be corrected"):
            shop.correct("5", 0.25)
        report = shop.report()
        assert (report["totals"]["loss"], report["totals"]["losses"]) == (1.75, 5)
        assert (report["policy"]["loss"], report["policy"]["decisions"]) == (1.75, 5)
        names = shop.describe()["arms"]
        log = shop.read(lambda store: [row[3] for row in read_events(store, 1, names)])
        assert log == [0.0, 0.25, 0.5, 0.75, 0.25]
        shop.restart()
        assert shop.explain("ann") == expected
        assert shop.audit().differences == 0


def test_a_pull_counts_when_it_is_shown(shop):
    later = shop.decide("ann", activate="later", decision_id="later")
    again = shop.decide("ann")
    assert later["arm"] == again["arm"] == "tea"  # the first has moved nothing
    assert refusal(shop.feed_back, "later", 0.1) == (409, "not_shown")
    shop.show("later")
    assert shop.show("later")["status"] == "pending"
    assert refusal(shop.cancel, "later") == (409, "shown")
    shop.feed_back("later", 0.1)
    assert shop.audit().differences == 0


def test_a_decision_that_is_cancelled_has_never_been(shop):
    shop.decide("ann", activate="later", decision_id="one")
    assert shop.cancel("one")["status"] == "cancelled"
    assert shop.cancel("one")["status"] == "cancelled"
    assert refusal(shop.show, "one") == (409, "settled")
    assert refusal(shop.feed_back, "one", 0.1) == (409, "settled")
    assert shop.decide("ann")["arm"] == "tea"


def test_arms_met_elsewhere_are_pulls_without_a_loss(shop, tmp_path):
    shop.expose("ann", "tea", "coffee", exposure_id="mail")
    shop.expose("ann", "tea", "coffee", exposure_id="mail")
    assert shop.describe()["events"] == 3
    assert refusal(shop.expose, "ann", "milk", exposure_id="mail") == (409, "exposure_exists")
    assert refusal(shop.feed_back, "mail", 0.1) == (404, "unknown_decision")
    assert refusal(shop.expose, "ann", "gold")[0] == 422


def test_only_eligible_arms_are_served(shop):
    for n in range(20):
        arm = shop.decide("ann", decision_id=str(n), eligible=["milk", "coffee"])["arm"]
        assert arm in ("milk", "coffee")
        shop.feed_back(str(n), n % 3)
    assert refusal(shop.decide, "ann", eligible=[])[0] == 422
    assert refusal(shop.decide, "ann", eligible=["gold"])[0] == 422


def test_a_window_that_ends_counts_the_missing_loss(tmp_path):
    assert make_settings().window_hours == 24 * 7, "a week by default"
    settings = make_settings(window_hours=1.0, missing_loss=2.0)
    with Driver(tmp_path / "shop.db", settings) as shop:
        shop.decide("ann", decision_id="one")
        shop.decide("ann", decision_id="open", activate="later")
        shop.clock.now += 3599.0
        shop.decide("ann", decision_id="two")
        shop.sweep()
        assert shop.describe()["events"] == 4
        shop.clock.now += 2.0
        shop.sweep()
        assert shop.describe()["events"] == 6  # one has expired, open was cancelled
        assert refusal(shop.feed_back, "one", 0.1) == (409, "settled")
        assert refusal(shop.show, "open") == (409, "settled")
        shop.feed_back("two", 0.5)
        shop.clock.now += 10_000.0
        shop.sweep()
        assert shop.describe()["events"] == 7
        losses = {e.decision: e.loss for e in shop.read(lambda s: s.events_of_instance(1, 1))}
        assert losses == {"one": 2.0, "two": 0.5, "open": None}
        assert shop.audit().differences == 0


def test_ratings_need_the_best_one(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(best_rating=5.0)) as shop:
        shop.decide("ann", decision_id="one")
        assert shop.feed_back("one", rating=4.0)["loss"] == 1.0
    with Driver(tmp_path / "other.db", make_settings()) as shop:
        shop.decide("ann", decision_id="one")
        assert refusal(shop.feed_back, "one", rating=4.0)[0] == 422
        assert refusal(shop.feed_back, "one", 1.0, reward=1.0)[0] == 422
        assert refusal(shop.feed_back, "one", float("nan"))[0] == 422
        assert refusal(shop.feed_back, "one", 1e101)[0] == 422


def test_shadow_mode_serves_the_baseline_and_notes_ours(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(mode="shadow")) as shop:
        assert refusal(shop.decide, "ann")[0] == 422
        told = shop.decide("ann", baseline="milk")
        assert (told["arm"], told["proposed"], told["probability"]) == ("milk", "tea", None)
        shop.change(mode="live")
        assert shop.decide("ann")["arm"] != "milk"  # which has been shown once, and the others not
        assert shop.audit().differences == 0


def test_a_paused_experiment_still_takes_losses(shop):
    shop.decide("ann", decision_id="one")
    shop.change(mode="paused")
    assert refusal(shop.decide, "ann") == (409, "paused")
    assert shop.decide("ann", decision_id="one")["arm"] == "tea"
    shop.feed_back("one", 0.1)


def test_exploration_has_the_probability_that_it_tells(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(explore=0.3)) as shop:
        told = [shop.decide("ann", eligible=["tea", "milk"])["probability"] for _ in range(1000)]
    assert set(told) == {0.15, 0.85}
    assert abs(told.count(0.15) / 1000 - 0.15) < 0.06  # 5 standard deviations


def test_groups_are_drawn_by_instance(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(control_share=0.25)) as shop:
        groups = {n: shop.decide(f"user {n}")["group"] for n in range(600)}
        assert all(shop.decide(f"user {n}")["group"] == groups[n] for n in range(0, 600, 7))
    share = sum(group == "control" for group in groups.values()) / 600
    assert abs(share - 0.25) < 0.09  # 5 standard deviations


def test_arms_come_and_go(shop):
    for n in range(4):
        shop.decide("ann", decision_id=str(n))
        shop.feed_back(str(n), 0.5)
    shop.add_arm("water")
    assert shop.decide("ann", decision_id="w")["arm"] == "water"  # never tried before
    shop.retire_arm("water")
    shop.feed_back("w", -9.0)  # the loss still to come is taken
    assert all(shop.decide("ann")["arm"] != "water" for _ in range(9))
    assert refusal(shop.add_arm, "water") == (409, "arm_retired")
    assert refusal(shop.retire_arm, "gold") == (404, "unknown_arm")
    shop.retire_arm("tea")
    shop.retire_arm("milk")
    assert refusal(shop.retire_arm, "coffee") == (409, "last_arm")
    assert shop.audit().differences == 0


def test_an_arm_retired_between_decision_and_showing_has_moved_the_world(shop):
    shop.decide("ann", activate="later", decision_id="one")
    shop.retire_arm("tea")
    shop.show("one")
    shop.feed_back("one", 0.3)
    shop.restart()
    shop.decide("ann")
    assert shop.audit().differences == 0


def test_models_are_activated_and_rolled_back(shop):
    shop.decide("ann", decision_id="one")
    shop.feed_back("one", -5.0)  # LCB will stay with tea for a while
    assert refusal(shop.activate_model, 1) == (404, "unknown_model")
    version = shop.stage_model("EpsilonGreedy(epsilon=0.0)")["version"]
    shop.activate_model(version)
    told = shop.decide("ann")
    assert told["model"] == version
    assert told["probability"] is None  # it draws random numbers of its own
    shop.activate_model(0)
    assert shop.decide("ann")["model"] == 0
    shop.restart()
    assert shop.decide("ann")["model"] == 0
    assert shop.audit().differences == 0
    assert refusal(shop.stage_model, "Nonsense")[0] == 422
    assert refusal(shop.stage_model, "os:system")[0] == 422
    assert refusal(shop.stage_model, "OptimalOracle")[0] == 422


def test_an_erased_instance_is_gone(shop):
    shop.decide("ann", decision_id="one")
    shop.feed_back("one", 0.5)
    shop.decide("bob")
    shop.erase("ann")
    assert refusal(shop.explain, "ann") == (404, "unknown_instance")
    assert refusal(shop.erase, "ann") == (404, "unknown_instance")
    assert refusal(shop.feed_back, "one", 0.5) == (404, "unknown_decision")
    assert b"ann" not in shop.address.read_bytes() or shop.restart() is None
    assert shop.decide("ann", decision_id="one")["arm"] == "tea"  # somebody new
    assert shop.audit().differences == 0


def test_an_erased_instance_of_a_fleet_is_unlinked(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(policy="Foresight", state="shared")) as shop:
        for n in range(5):
            shop.decide("ann", decision_id=str(n))
            shop.feed_back(str(n), 0.5)
        shop.erase("ann")
        labels = shop.read(lambda store: store.run("SELECT label FROM instances"))
        names = shop.read(lambda store: store.run("SELECT decision FROM events"))
        assert all("ann" not in label for (label,) in labels)
        assert all(name is None for (name,) in names)
        assert shop.decide("ann")["arm"]
        assert shop.audit().differences == 0


def test_looking_moves_nothing(tmp_path):
    every = {"own": OWN, "shared": SHARED, "by clock": BY_CLOCK, "both": SHARED_BY_CLOCK}
    for name, settings in every.items():
        answers = []
        for looks in (False, True):
            with Driver(tmp_path / f"{name}{looks}.db", settings) as shop:
                answers.append(play(shop, 150, 3, looks=looks))
        assert answers[0] == answers[1]


def test_a_loss_from_before_a_fleet_started_afresh_is_not_taken_for_another(tmp_path):
    """Tickets are numbered anew: the first pull after going back has the number of the first."""
    with Driver(tmp_path / "shop.db", make_settings(policy="Foresight", state="shared")) as shop:
        shop.decide("ann", decision_id="old")
        shop.stage_model("Foresight")
        shop.activate_model(1)
        shop.activate_model(0)
        assert shop.explain("ann")["expected_losses"]  # what it met before is known
        shop.decide("ann", decision_id="new")
        shop.feed_back("old", 50.0)
        before = shop.explain("ann")["expected_losses"]
        shop.feed_back("new", 5.0)
        assert shop.explain("ann")["expected_losses"] != before  # it was still waited for
        assert max(before.values()) < 10.0
        assert shop.audit().differences == 0


def play(shop, steps, seed, *, looks=False, restarts=False, arms_change=False):
    """Play at random; return the arms, groups and probabilities that were served."""
    draw, told, shown, to_show, users = random.Random(seed), [], [], [], set()
    for n in range(steps):
        user, kind = draw.choice(INSTANCES), draw.random()
        shop.clock.now += draw.choice([0.0, 0.25, 60.0, 7200.0, -600.0])  # clocks are set back, too
        if kind < 0.45:
            later = draw.random() < 0.2
            answer = shop.decide(
                user,
                decision_id=f"d{n}",
                eligible=draw.choice([None, None, ["tea", "milk"]]),
                activate="later" if later else "now",
            )
            told.append(
                [answer[key] for key in ("arm", "group", "probability", "expected_loss", "number")]
            )
            users.add(user)
            (to_show if later else shown).append(f"d{n}")
        elif kind < 0.8 and shown:
            shop.feed_back(shown.pop(draw.randrange(len(shown))), draw.gauss(0.0, 1.0))
        elif kind < 0.87 and to_show:
            name = to_show.pop(draw.randrange(len(to_show)))
            if draw.random() < 0.7:
                shop.show(name)
                shown.append(name)
            else:
                shop.cancel(name)
        elif kind < 0.92:
            shop.expose(user, draw.choice(["tea", "coffee", "milk"]))
            users.add(user)
        elif kind < 0.94 and arms_change:
            shop.add_arm(f"new {n}")
        elif kind < 0.96:
            shop.change(explore=draw.choice([0.0, 0.1, 0.5]))
        elif kind < 0.98:
            version = draw.choice([0, 1])
            if version and not shop.describe()["models"]:
                shop.stage_model(MODELS[shop.describe()["settings"]["state"]])
            shop.activate_model(version)
        if looks and user in users:
            shop.explain(user)
        if restarts and n % 40 == 39:
            shop.restart()
    return told


MODELS = {"own": "InfluentialLCB", "shared": "Foresight"}


@EVERY_STATE
def test_restarts_evictions_and_snapshots_change_no_decision(tmp_path, settings):
    options = {"steps": 400, "seed": 7, "arms_change": True}
    with Driver(tmp_path / "calm.db", settings) as calm:
        expected = play(calm, **options)
        assert calm.audit().differences == 0
    busy = {"events_per_snapshot": 3, "events_per_shared_snapshot": 17, "members_held": 2}
    with Driver(tmp_path / "restless.db", settings, **busy) as restless:
        assert play(restless, restarts=True, **options) == expected
        audit = restless.audit()
    assert audit.differences == 0
    assert audit.decisions == len(expected)


@EVERY_STATE
@pytest.mark.parametrize("harm", ["fingerprint", "damage", "loss"])
def test_snapshots_that_do_not_fit_are_rebuilt(tmp_path, settings, harm):
    with Driver(tmp_path / "calm.db", settings) as calm:
        play(calm, 120, 1)
        expected = play_on(calm)
    shop = Driver(tmp_path / "shop.db", settings, events_per_snapshot=3)
    play(shop, 120, 1)
    shop.close()
    change = {
        "fingerprint": "UPDATE snapshots SET fingerprint = 'another'",
        "damage": "UPDATE snapshots SET state = CAST('nonsense' AS BLOB)",
        "loss": "DELETE FROM snapshots WHERE instance <> 0",
    }[harm]
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        assert connection.execute(change).rowcount > 0
    connection.close()
    shop.open()
    assert play_on(shop) == expected
    assert shop.audit().differences == 0
    shop.close()


def play_on(shop):
    return [shop.decide(user, decision_id=f"after {user}") for user in INSTANCES]


def test_a_decision_that_was_tampered_with_is_found(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings()) as shop:
        for n in range(10):
            shop.decide("ann", decision_id=str(n))
            shop.feed_back(str(n), float(n % 3))
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("UPDATE events SET arm = (arm + 1) % 3 WHERE decision = '4'")
    connection.close()
    with Driver(tmp_path / "shop.db") as shop:
        audit = shop.audit()
    assert audit.first is not None
    assert audit.first.event.decision == "4"
    assert "differ" in str(audit)


def test_what_cannot_be_an_experiment_is_refused():
    for wrong in (
        {"arms": ()},
        {"arms": ("a", "a")},
        {"arms": ("",)},
        {"arms": ("x" * 201,)},
        {"arms": ("a\0b",)},
        {"control_share": 1.5},
        {"explore": -0.1},
        {"window_hours": 0.0},
        {"half_life_hours": 0.0},
        {"half_life_hours": float("nan")},
        {"policy": "LCB", "state": "shared"},
        {"policy": "file.py:Mine"},
        {"policy": {"name": "os:system", "settings": {}}},
        {"control": "OptimalOracle"},
        {"seed": -1},
    ):
        with pytest.raises(InvalidInput):
            make_settings(**wrong).check()
