import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.policies.fleet.snapshot import pack_fleet, pack_users, unpack_fleet

USERS = [f"user {n}" for n in range(9)]


def play(fleets, rounds, seed):
    """Play the same on all fleets; tickets and losses must be the same ones."""
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        user, late, loss = USERS[random.integers(9)], random.random() < 0.2, random.normal()
        tickets = [fleet.pull(user) for fleet in fleets]
        assert all(ticket == tickets[0] for ticket in tickets)
        if not late:
            for fleet, ticket in zip(fleets, tickets, strict=True):
                fleet.observe(ticket, loss)


def restore(fleet, arms, policy=None, users=None):
    made = ib.Fleet(policy, arms=arms)
    packed = pack_users(fleet, fleet.users) if users is None else users
    unpack_fleet(pack_fleet(fleet), packed.items(), made)
    return made


@pytest.mark.parametrize(
    "policy", [ib.Foresight(), ib.Foresight(memory=0.9)], ids=["estimate", "0.9"]
)
@pytest.mark.parametrize("arms", [3, pytest.param(9, marks=pytest.mark.long)])
def test_a_restored_fleet_goes_on_as_the_first(policy, arms):
    fleet = ib.Fleet(policy, arms=arms)
    for rounds in (0, 1, 60):
        play([fleet], rounds, 1)
        copy = restore(fleet, arms, policy)
        assert copy.pending == fleet.pending
        assert sorted(copy.users) == sorted(fleet.users)
        play([fleet, copy], 40, 2)
        for ticket in list(fleet.pending.values()):
            for each in (fleet, copy):
                each.observe(ticket, 0.5)
        assert np.array_equal(fleet.estimate().interaction, copy.estimate().interaction)


def test_what_does_not_fit_is_refused():
    fleet = ib.Fleet(arms=3)
    play([fleet], 30, 1)
    whole, users = pack_fleet(fleet), pack_users(fleet, fleet.users)
    for blob in (b"", whole[:50], whole[:-1] + bytes([whole[-1] ^ 1]), b"IBF0" + whole[4:]):
        with pytest.raises(InvalidInput, match="damaged"):
            unpack_fleet(blob, users.items(), ib.Fleet(arms=3))
    with pytest.raises(InvalidInput):
        unpack_fleet(whole, users.items(), ib.Fleet(arms=4))
    with pytest.raises(InvalidInput):
        unpack_fleet(whole, [(u, b) for u, b in users.items() if u != USERS[3]], ib.Fleet(arms=3))
    with pytest.raises(InvalidInput):
        unpack_fleet(whole, dict.fromkeys(users, whole).items(), ib.Fleet(arms=3))


def test_looking_moves_nothing():
    fleets = [ib.Fleet(arms=3), ib.Fleet(arms=3)]
    for seed in range(20):
        play(fleets, 10, seed)
        for user in fleets[1].users:
            fleets[1].expected_losses(user)
