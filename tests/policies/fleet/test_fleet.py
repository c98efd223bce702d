"""Fleet: the posterior against dense algebra, its object, its files, and what it refuses."""

import numpy as np
import pytest
from fixed_fleets import USERS, features, fixed_fleet

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, MissingFile, NotApplicable
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    interaction_entries,
)
from influential_bandits.learning.statistics.pooled_sums import pooled_gram
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.policies.fleet.choices import estimate_stays
from influential_bandits.policies.fleet.effects import fill_exposures
from influential_bandits.policies.fleet.estimate import complete_gram
from influential_bandits.policies.fleet.states import (
    AGES,
    NOISE_VARIANCE,
    ORIGIN,
    make_own,
)
from influential_bandits.policies.model_lcb.posterior import place, unknowns


def play(fleet, rounds, seed=0, late=0):
    """Let users come in any order, with arms shown at random and losses up to ``late`` pulls late.

    Returns all pulls as (user, arm, counts before, loss), in the order in which losses came in.
    """
    rng = np.random.default_rng(seed)
    counts = {user: np.zeros(fleet.n_arms) for user in USERS}
    waiting, seen = [], []
    for _ in range(rounds):
        user = USERS[rng.integers(len(USERS))]
        ticket = fleet.pull(user, arm=int(rng.integers(fleet.n_arms)))
        loss = float(rng.normal() + 0.3 * counts[user][ticket.arm])
        waiting.append((ticket, (user, ticket.arm, counts[user].copy(), loss)))
        counts[user][ticket.arm] += 1
        while len(waiting) > late:
            ticket, event = waiting.pop(rng.integers(len(waiting)))
            fleet.observe(ticket, event[3])
            seen.append(event)
    for ticket, _ in waiting:
        fleet.cancel(ticket)
    return seen, counts


def dense_posterior(events, n_arms, arm, common, precision, origin):
    """Mean and covariance, in σ², of (θ, b of every user) by one linear system."""
    p, people = unknowns(n_arms), {user: n for n, user in enumerate(USERS)}
    size = p + n_arms * len(USERS)
    H, right = np.zeros((size, size)), np.zeros(size)
    H[range(p), range(p)] = precision
    own = np.linalg.inv(arm * np.eye(n_arms) + common)
    for n in people.values():
        block = slice(p + n * n_arms, p + (n + 1) * n_arms)
        H[block, block] = own
    for user, i, counts, loss in events:
        x = features(n_arms, i, counts, size)
        x[p + people[user] * n_arms + i] = 1.0
        H += np.outer(x, x)
        right += x * (loss - origin)
    covariance = np.linalg.inv(H)
    return covariance @ right, covariance


@pytest.mark.parametrize("common", [0.0, 0.3])
@pytest.mark.parametrize("late", [0, 6])
def test_the_posterior_is_that_of_dense_algebra(common, late):
    """Rank-one updates lose some digits: 1e-8 of the prior's deviations is ample for 60 of them."""
    n_arms = 3
    fleet = fixed_fleet(n_arms, common=common)
    events, counts = play(fleet, 60, seed=1, late=late)
    shared = fleet._shared
    mean, covariance = dense_posterior(
        events, n_arms, 0.5, common, shared.precision, shared.scales[ORIGIN]
    )
    p = unknowns(n_arms)
    np.testing.assert_allclose(shared.theta[0], mean[:p], atol=1e-8)
    np.testing.assert_allclose(shared.covariance, np.tril(covariance[:p, :p]), atol=1e-8)
    for n, user in enumerate(USERS):
        expected, deviation = fleet.expected_losses(user)
        for i in range(n_arms):
            x = features(n_arms, i, counts[user], len(mean))
            x[p + n * n_arms + i] = 1.0
            assert expected[i] - shared.scales[ORIGIN] == pytest.approx(x @ mean, abs=1e-8)
            if common == 0.0:  # otherwise only the arm's own losses are taken off
                variance = shared.scales[NOISE_VARIANCE] * (x @ covariance @ x)
                assert deviation[i] ** 2 == pytest.approx(variance, abs=1e-8)


@pytest.mark.parametrize("common", [0.0, 0.3])
def test_the_sums_are_those_of_the_batch_fit_of_its_log(common):
    """One formula: pooled_sums.py gathers from the log what the fleet gathered loss by loss."""
    n_arms = 3
    fleet = fixed_fleet(n_arms, common=common)
    play(fleet, 80, seed=2)
    design = Design(n_arms, SYMMETRIC, 1.0, 0.0, 0, 0.9, np.zeros(n_arms))
    batch = pooled_gram([fleet.to_log()], design, RandomEffects(0.5, common, 1.0))
    spots = [unknowns(i) for i in range(n_arms)]
    spots += [place(i, j) for i, j in interaction_entries(SYMMETRIC, n_arms)]
    gram = complete_gram(fleet._shared, 0)
    np.testing.assert_allclose(gram[np.ix_(spots, spots)], batch[:-1, :-1], atol=1e-9)


def test_two_arms_need_no_more_than_two_numbers():
    """With one other arm, what is not its own exposure is the other's: nothing is approximated."""
    kept, short = (fixed_fleet(2, exact=exact) for exact in (True, False))
    for fleet in (kept, short):
        play(fleet, 80, seed=3, late=4)
    np.testing.assert_allclose(kept._shared.theta, short._shared.theta, atol=1e-6)
    np.testing.assert_allclose(
        kept.expected_losses("ann")[0], short.expected_losses("ann")[0], atol=1e-5
    )


def test_approximate_exposures_keep_their_sums():
    rng = np.random.default_rng(4)
    n_arms = 5
    arms = rng.integers(0, n_arms, 60)
    true, counts = np.zeros((n_arms, n_arms)), np.zeros(n_arms, np.int32)
    for arm in arms:
        true[arm] += counts
        counts[arm] += 1
    two = np.stack([np.diag(true), true.sum(axis=1)], axis=1)
    found = np.empty((n_arms, n_arms))
    fill_exposures(False, two, counts, counts, found)
    np.testing.assert_allclose(found.sum(axis=1), true.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(np.diag(found), np.diag(true), rtol=1e-12)
    # Pulls in random order: closer to the truth than to share evenly among the other arms.
    even = (two[:, 1:] - two[:, :1]) / (n_arms - 1) * (1 - np.eye(n_arms)) + np.diag(two[:, 0])
    assert np.abs(found - true).sum() < 0.7 * np.abs(even - true).sum()


def test_a_user_rebuilt_from_its_events_is_the_same():
    fleet = fixed_fleet(3)
    events, _ = play(fleet, 60, seed=5)
    before = fleet.expected_losses("bob")
    mine = [(arm, loss) for user, arm, _, loss in events if user == "bob"]
    known = fleet.estimate().losses
    fleet.forget("bob")
    assert "bob" not in fleet.users
    fleet.remember("bob", *zip(*mine, strict=True))
    np.testing.assert_allclose(fleet.expected_losses("bob"), before, atol=1e-8)
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


def test_refusals(refused):
    fleet = ib.Fleet(arms=["a", "b"])
    with refused(InvalidInput, "65"):
        ib.Fleet(arms=65)
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
        ib.FleetLCB(memory=2.0)
    prior = ib.FleetPrior(ib.LossPrior.around([[0.1]], [0.5], sd=0.1, sigma=1.0), arm=0.5)
    with refused(InvalidInput, "1 arms"):
        ib.Fleet(ib.FleetLCB(prior=prior), arms=2)


def test_late_losses_expire():
    fleet = ib.Fleet(arms=2)
    tickets = [fleet.pull("ann") for _ in range(4)]
    assert fleet.expire(3) == tickets[:2]
    assert [t.number for t in fleet.pending.values()] == [3, 4]


def stays_of(ages, last, decisions):
    own = make_own(len(ages), ib.FleetLCB(memory=1.0).rules(2))
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
