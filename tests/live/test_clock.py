"""Memory by the clock in the service: as agents that are told the times, whatever clocks do."""

import numpy as np
import pytest
from live.driver import Driver, make_settings

import influential_bandits as ib
from influential_bandits.live.requests import Refused
from influential_bandits.policies.registry import policy_to_json

ARMS = ("tea", "coffee", "milk")
HALF_LIFE = 6.0
PAUSES = [60.0, 60.0, 600.0, 43_200.0, -300.0]  # the last: a clock that is set back
WORLD = ib.Instance(
    [[1.0, 0.3, 0.0], [0.3, 0.6, 0.1], [0.0, 0.1, 0.8]], [0.0, 0.3, 0.2], half_life=HALF_LIFE
)


def serve(shop, rounds=60, seed=2, user="ann"):
    """Let one instance visit; return the arms served, the losses and the times."""
    draw, world, served = np.random.default_rng(seed), ib.Environment(WORLD, seed=seed), []
    for n in range(rounds):
        shop.clock.now += float(draw.choice(PAUSES))
        if n % 9 == 4:
            shop.expose(user, "milk")
            world.pull(2, at=shop.clock.now)
            served.append(("milk", None, shop.clock.now, None))
            continue
        answer = shop.decide(user, decision_id=f"{user} {n}")
        loss = world.pull(ARMS.index(answer["arm"]), at=shop.clock.now)
        shop.feed_back(f"{user} {n}", loss)
        served.append((answer["arm"], loss, shop.clock.now, answer["expected_loss"]))
    return served


def test_the_service_decides_as_an_agent_that_is_told_the_times(tmp_path):
    settings = make_settings(ARMS, "Foresight", half_life_hours=HALF_LIFE)
    with Driver(tmp_path / "shop.db", settings, events_per_snapshot=7) as shop:
        served = serve(shop)
        now = shop.explain("ann")["expected_losses"]
        shop.clock.now += 30 * 86_400.0
        rested = shop.explain("ann")["expected_losses"]
        assert shop.audit().differences == 0
        shop.restart()
        assert shop.explain("ann")["expected_losses"] == rested
    agent = ib.Agent(ib.Foresight(half_life=HALF_LIFE), ARMS, instance_number=1)
    for arm, loss, at, _ in served:
        if loss is None:
            agent.cancel(agent.expose(arm, at=at))
            continue
        ticket = agent.pull(at=at)
        assert ticket.name == arm
        agent.observe(ticket, loss)
    assert agent.expected_losses().tolist() == list(now.values())
    assert agent.expected_losses(at=served[-1][2] + 31 * 86_400.0).tolist() == pytest.approx(
        list(rested.values()), rel=1e-12
    )
    assert max(now.values()) > max(rested.values()) + 0.3  # a month's rest


def test_a_fleet_decides_as_one_that_is_told_the_times(tmp_path):
    settings = make_settings(ARMS, "Foresight", state="shared", half_life_hours=HALF_LIFE)
    with Driver(tmp_path / "shop.db", settings, events_per_shared_snapshot=11) as shop:
        served = serve(shop)
        assert shop.audit().differences == 0
        shop.restart()
        after = shop.decide("ann")["arm"]
    fleet = ib.Fleet(ib.Foresight(half_life=HALF_LIFE), arms=ARMS)
    for arm, loss, at, expected in served:
        if loss is None:
            fleet.cancel(fleet.pull("1", arm, at=at))
            continue
        chosen = fleet.select("1", at=at)
        assert ARMS[chosen] == arm
        assert fleet.expected_losses("1", at=at)[0][chosen] == expected
        ticket = fleet.pull("1", chosen, at=at)
        fleet.observe(ticket, loss)
    assert fleet.pull("1", at=served[-1][2]).name == after


def test_a_model_with_a_half_life_is_activated_and_remembers(tmp_path):
    """What a fleet learned before a model came is told to it with its times."""
    prior = ib.LossPrior.around(
        WORLD.interaction.to_dense(),
        WORLD.initial_loss,
        0.05,
        1.0,
        half_life=HALF_LIFE,
        taste=0.7,
    )
    model = ib.Foresight(prior=prior)
    with Driver(tmp_path / "shop.db", make_settings(ARMS, "Foresight", state="shared")) as shop:
        served = serve(shop, rounds=20)
        shop.stage_model(policy_to_json(model))
        shop.activate_model(1)
        answer = shop.decide("ann")
        assert shop.audit().differences == 0
    fleet = ib.Fleet(model, arms=ARMS)
    arms, losses, times, _ = zip(*served, strict=True)
    fleet.remember("1", arms, losses, times)
    expected = fleet.expected_losses("1", at=times[-1])[0]
    assert ARMS[fleet.select("1", at=times[-1])] == answer["arm"]
    assert answer["expected_loss"] == expected[ARMS.index(answer["arm"])]


def test_a_client_may_say_when_but_not_in_the_future(tmp_path):
    settings = make_settings(ARMS, "Foresight", half_life_hours=HALF_LIFE)
    with Driver(tmp_path / "shop.db", settings) as shop:
        now = shop.clock.now
        for n, at in enumerate((now - 9e4, now - 8e4, now - 10.0)):
            shop.decide("ann", decision_id=f"d{n}", at=at)
            shop.feed_back(f"d{n}", 0.5)
        shop.expose("ann", "tea", exposure_id="mail", at=now - 5.0)
        assert shop.decide("ann", decision_id="d0", at=now - 9e4)["arm"] == "tea"  # a repeat
        with pytest.raises(Refused, match="future"):
            shop.decide("ann", at=now + 3600.0)
        with pytest.raises(Refused, match="future"):
            shop.expose("ann", "tea", at=now + 3600.0)
        with pytest.raises(Refused, match="activated"):
            shop.decide("ann", at=now, activate="later")
        assert shop.audit().differences == 0
        log = shop.read_log()
        assert log.time.tolist() == [now - 9e4, now - 8e4, now - 10.0]


def test_the_exported_log_has_the_half_life_to_be_found(tmp_path):
    """A log of the service, read as it is, fits a model by the clock, whose prior has hours."""
    settings = make_settings(ARMS, "Uniform")
    with Driver(tmp_path / "shop.db", settings) as shop:
        for seed in range(3):
            serve(shop, 60, seed, f"user {seed}")
        log = shop.read_log()
    model = ib.InfluenceModel(fading=ib.Fading(half_life=HALF_LIFE), pooling="full").fit(log)
    assert model.prior().half_life == pytest.approx(HALF_LIFE)
    assert model.fleet().policy.effective_half_life == pytest.approx(HALF_LIFE)
