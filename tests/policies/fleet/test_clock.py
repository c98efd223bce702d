"""Fleets told the time: as simulated, as remembered, as saved, and what it is worth."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.policies.fleet.snapshot import pack_fleet, pack_users, unpack_fleet

A = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.1], [0.0, -0.1, 0.4]])
NOISE = ib.GaussianNoise(1.0)


def make_population(**settings):
    usual = {"stay": 12, "concurrency": 4, "returning": 0.3, "half_life": 3.0}
    times = {"rounds_per_hour": 6.0, "open_hours": 8.0}
    return ib.Population(A, [0.0, 0.2, 0.1], 0.5, **(usual | times | settings))


def test_days_have_nights():
    at = make_population().draw(30).times
    assert at[:3].tolist() == [0.0, 600.0, 1200.0]
    assert at[47] == 47 * 600.0
    assert at[48] == 24 * 3600.0  # after eight hours of six rounds
    assert (np.diff(at) > 0.0).all()
    assert make_population(half_life=None, rounds_per_hour=None).draw(3).times.size == 0


@pytest.mark.parametrize(
    "policy", [ib.Foresight(half_life=3.0), ib.Foresight()], ids=["knows", "not"]
)
def test_a_fleet_by_hand_makes_the_same_choices(policy, tmp_path):
    run = ib.simulate_fleet(make_population(), policy, n_users=9, seed=3, noise=NOISE)
    fleet = ib.Fleet(policy, arms=3, history=True)
    worlds = [
        ib.Environment(instance, NOISE, seed=3, instance_number=u)
        for u, instance in enumerate(run.users.instances())
    ]
    expected = np.zeros(9)
    for r, (u, at) in enumerate(zip(run.users.visits, run.users.times, strict=True)):
        looked = fleet.select(str(u), at=at)
        ticket = fleet.pull(str(u), at=at)
        assert ticket.arm == looked
        expected[u] += worlds[u].expected_losses(at=at)[ticket.arm]
        fleet.observe(ticket, worlds[u].pull(ticket.arm, at=at))
        if r == 40:
            fleet.save(tmp_path / "fleet.parquet")
            fleet = ib.Fleet.load(tmp_path / "fleet.parquet")
        if r == 70:
            copy, users = ib.Fleet(policy, arms=3, history=True), pack_users(fleet, fleet.users)
            unpack_fleet(pack_fleet(fleet), users.items(), copy)
            copy._history, copy._of = fleet._history, fleet._of
            fleet = copy
    assert (run.counts == [world.counts for world in worlds]).all()
    assert run.losses == pytest.approx(expected, rel=1e-12)
    log = fleet.to_log()
    assert sorted(log.time) == run.users.times.tolist()


def test_a_user_who_is_remembered_is_the_same_as_ever():
    fleet, draw = ib.Fleet(ib.Foresight(half_life=3.0), arms=3), np.random.default_rng(1)
    at, arms, losses = 0.0, [], []
    for n in range(400):
        at += float(draw.choice([60.0, 40_000.0, -500.0, -20_000.0]))
        user, loss = ("ann" if n % 20 == 0 else f"user {n % 7}"), float(draw.normal())
        ticket = fleet.pull(user, at=at)
        heard = n % 3 > 0
        if heard:
            fleet.observe(ticket, loss)
        else:
            fleet.cancel(ticket)
        if user == "ann":
            arms.append((ticket.arm, at))
            losses.append(loss if heard else None)
    times = np.array([when for _, when in arms])
    assert (np.diff(times) < 0.0).any()  # which counts as no time at all
    later = times.max() + 60.0
    before = fleet.expected_losses("ann", at=later)
    fleet.forget("ann")
    fleet.remember("ann", [arm for arm, _ in arms], losses, [when for _, when in arms])
    for mine, theirs in zip(fleet.expected_losses("ann", at=later), before, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9)
    gone = fleet.expected_losses("ann", at=later + 1e9)[0]
    assert np.abs(gone - before[0]).max() > 1e-3


def test_what_is_left_of_pulls_is_counted_by_the_clock():
    """Every pull of a user is half gone after three hours; time that runs backwards is none."""
    fleet, draw = ib.Fleet(ib.Foresight(half_life=3.0), arms=2), np.random.default_rng(2)
    clocks, pulls, kept = {}, {"ann": [], "bob": []}, [0.5]
    for at in np.cumsum(draw.normal(4000.0, 8000.0, 40)):
        user = "ann" if draw.random() < 0.5 else "bob"
        now = max(float(at), clocks.get(user, float(at)))
        if user in clocks:
            kept.append(0.5 ** ((now - clocks[user]) / 3600.0 / 3.0))
        clocks[user] = now
        ticket = fleet.pull(user, arm=int(draw.integers(2)), at=float(at))
        met = [sum(0.5 ** ((now - when) / 10_800.0) for i, when in pulls[user] if i == arm)
               for arm in (0, 1)]  # fmt: skip
        assert ticket.memo == pytest.approx([met[ticket.arm], met[1 - ticket.arm], *met])
        pulls[user].append((ticket.arm, now))
    assert min(kept) < 0.9
    assert max(kept) == 1.0
    assert fleet._shared.kept == pytest.approx([sum(kept), len(kept)])


def test_what_a_fleet_must_be_told(refused):
    fleet = ib.Fleet(ib.Foresight(half_life=3.0), arms=2)
    with refused(InvalidInput, "at="):
        fleet.pull("ann")
    with refused(InvalidInput, "time", "2 pulls"):
        fleet.remember("ann", [0, 1], [None, None])
    with refused(InvalidInput, "rounds_per_hour"):
        make_population(rounds_per_hour=None)
    with refused(InvalidInput, "rounds_per_hour"):
        ib.simulate_fleet(make_population(half_life=None, rounds_per_hour=None), fleet.policy)
    with refused(InvalidInput, "rounds_per_hour", "0"):
        make_population(rounds_per_hour=0.0)
    with refused(InvalidInput, "open_hours"):
        make_population(open_hours=25.0)
    prior = ib.LossPrior.around(A, [0.0] * 3, 0.1, 1.0, half_life=2.0)
    with refused(InvalidInput, "half_life"):
        ib.Foresight(prior=prior, half_life=2.0)
    told = ib.Fleet(ib.Foresight(prior=prior), arms=3)
    with refused(InvalidInput, "at="):
        told.pull("ann")


def test_a_fleet_that_knows_that_a_night_is_long_loses_less_than_one_that_forgets_nothing():
    """Paired over 200 users, more than three standard errors; both fleets meet the same noise.

    An estimated memory by rounds does about as well in this world (docs/explanation/fleets.md).
    """
    people = make_population(
        stay=40, concurrency=10, rounds_per_hour=40.0, open_hours=2.0, half_life=6.0, returning=0.0
    )
    runs = [
        ib.simulate_fleet(people, policy, n_users=200, seed=1, noise=NOISE)
        for policy in (ib.Foresight(half_life=6.0), ib.Foresight(memory=1.0))
    ]
    difference = runs[0].losses - runs[1].losses
    assert difference.mean() < -3.0 * difference.std(ddof=1) / np.sqrt(200)
