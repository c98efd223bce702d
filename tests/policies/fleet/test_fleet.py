"""Fleet: its object, its files, what it refuses, and how long users are expected to stay."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, MissingFile, NotApplicable
from influential_bandits.files import read_about, read_table, write_table
from influential_bandits.policies.foresight.stays import AGES, estimate_stays
from influential_bandits.policies.foresight.users import make_own

USERS = ("ann", "bob", "cy", "di")


def play(fleet, rounds, seed=0, late=0):
    """Let users come in any order, with arms shown at random and losses up to ``late`` pulls late.

    Returns all pulls as (user, arm, loss or None), in their order.
    """
    rng = np.random.default_rng(seed)
    waiting, pulls = [], []
    for n in range(rounds):
        user = USERS[rng.integers(len(USERS))]
        ticket = fleet.pull(user, arm=int(rng.integers(fleet.n_arms)))
        pulls.append([user, ticket.arm, None])
        waiting.append((n, ticket))
        while len(waiting) > late:
            spot, ticket = waiting.pop(rng.integers(len(waiting)))
            loss = float(rng.normal() + 0.3 * ticket.arm)
            pulls[spot][2] = loss
            fleet.observe(ticket, loss)
    for _, ticket in waiting:
        fleet.cancel(ticket)
    return pulls


@pytest.mark.parametrize("arms", [3, 9, 26])
def test_a_user_rebuilt_from_its_events_is_the_same(arms):
    """With as many sums as pairs of arms, with two for each arm, and with two coefficients."""
    fleet = ib.Fleet(arms=arms)
    pulls = play(fleet, 60, seed=5, late=4)
    before = fleet.expected_losses("bob")
    mine = [(arm, loss) for user, arm, loss in pulls if user == "bob"]
    assert None in [loss for _, loss in mine]
    known = fleet.estimate().losses
    fleet.forget("bob")
    assert "bob" not in fleet.users
    fleet.remember("bob", *zip(*mine, strict=True))
    np.testing.assert_allclose(fleet.expected_losses("bob"), before, rtol=1e-9)
    assert fleet.estimate().losses == known  # nobody was taught twice


def test_multiplying_losses_by_a_power_of_two_changes_no_choice():
    chosen = []
    for scale in (1.0, 2.0**-7):
        fleet, arms = ib.Fleet(arms=3), []
        rng = np.random.default_rng(6)
        for _ in range(120):
            ticket = fleet.pull(USERS[rng.integers(4)])
            arms.append(ticket.arm)
            fleet.observe(ticket, scale * (rng.normal() + 0.5 * ticket.arm))
        chosen.append(arms)
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) == 3


def test_a_saved_fleet_goes_on_as_the_one_that_was_not(tmp_path):
    def serve(fleet, rng, rounds):
        arms = []
        for _ in range(rounds):
            ticket = fleet.pull(USERS[rng.integers(4)], eligible=["a", "c"])
            arms.append(ticket.name)
            fleet.observe(ticket, rng.normal())
        return arms

    fleet = ib.Fleet(arms=["a", "b", "c"], history=True)
    serve(fleet, np.random.default_rng(7), 50)
    pending = fleet.pull("new")
    fleet.save(tmp_path / "fleet.parquet")
    copy = ib.Fleet.load(tmp_path / "fleet.parquet")
    assert repr(copy) == repr(fleet)
    for one in (fleet, copy):
        one.observe(pending, 0.25)
    futures = [serve(one, np.random.default_rng(8), 50) for one in (fleet, copy)]
    assert futures[0] == futures[1]
    assert set(futures[0]) == {"a", "c"}
    assert (copy.to_log().loss == fleet.to_log().loss).all()


def test_a_damaged_file_is_refused(tmp_path, refused):
    path = tmp_path / "fleet.parquet"
    ib.Fleet(arms=2).save(path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with refused(InvalidInput, "damaged"):
        ib.Fleet.load(path)
    with refused(MissingFile, "none.parquet"):
        ib.Fleet.load(tmp_path / "none.parquet")
    (tmp_path / "text").write_text("{}")
    with refused(InvalidInput, "no fleet file"):
        ib.Fleet.load(tmp_path / "text")


def test_a_file_of_a_fleet_with_other_arms_is_refused(tmp_path, refused):
    path = tmp_path / "fleet.parquet"
    ib.Fleet(arms=2).save(path)
    about, table = read_about(path), read_table(path)
    write_table(path, table, {**about, "n_arms": 3})
    with refused(InvalidInput, "damaged", "seen"):
        ib.Fleet.load(path)


def test_refusals(refused):
    fleet = ib.Fleet(arms=["a", "b"])
    with refused(InvalidInput, "1001"):
        ib.Fleet(arms=1001)
    with refused(InvalidInput, "LCB"):
        ib.Fleet(ib.LCB(), arms=2)
    with refused(InvalidInput, "user"):
        fleet.pull("")
    with refused(InvalidInput, "no arm 'c'"):
        fleet.pull("ann", eligible=["c"])
    with refused(InvalidInput, "eligible"):
        fleet.pull("ann", eligible=[False, False])
    with refused(InvalidInput, "not eligible"):
        fleet.pull("ann", arm="a", eligible=["b"])
    with refused(InvalidInput, "first pull"):
        fleet.expected_losses("ann")
    assert fleet.users == ()  # nothing that was refused left a trace
    ticket = fleet.pull("ann")
    for loss in (np.nan, "1", 1e300):
        with refused(InvalidInput, "loss"):
            fleet.observe(ticket, loss)
    fleet.observe(ticket, 1.0)
    with refused(InvalidInput, "not pending"):
        fleet.observe(ticket, 1.0)
    with refused(NotApplicable, "history=True"):
        fleet.to_log()
    with refused(InvalidInput, "known already"):
        fleet.remember("ann", [0], [1.0])
    with refused(InvalidInput, "one loss"):
        fleet.remember("bob", [0, 1], [1.0])
    with refused(InvalidInput, "memory"):
        ib.Foresight(memory=2.0)


def test_late_losses_expire():
    fleet = ib.Fleet(arms=2)
    tickets = [fleet.pull("ann") for _ in range(4)]
    assert fleet.expire(3) == tickets[:2]
    assert [t.number for t in fleet.pending.values()] == [3, 4]


def stays_of(ages, last, decisions):
    own = make_own(ib.Foresight(memory=1.0).rules(2), len(ages))
    own.pulls[:, 0] = ages
    own.first[:] = 1
    own.last[:] = last
    stays = np.zeros(AGES)
    estimate_stays(own, len(ages), decisions, stays)
    return stays


def test_rounds_to_come_are_learned_from_those_who_left():
    stays = stays_of(np.full(50, 30), last=np.full(50, 40), decisions=10**6)
    np.testing.assert_allclose(stays[:30], np.arange(30, 0, -1))


def test_nobody_has_left_yet():
    """Users who all have played 20 rounds and are still there may stay much longer."""
    stays = stays_of(np.full(50, 20), last=np.full(50, 1000), decisions=1000)
    np.testing.assert_allclose(stays[:20], 200 + np.arange(20, 0, -1))


def test_half_of_the_users_left_after_ten_rounds():
    ages = np.repeat([10, 30], 25)
    stays = stays_of(ages, last=np.full(50, 60), decisions=10**6)
    assert stays[0] == pytest.approx(20.0)
    assert stays[10] == pytest.approx(20.0)
