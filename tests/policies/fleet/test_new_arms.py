"""Arms that come and go: what is known stays exact, in memory and in files."""

import copy

import numpy as np
import pytest
from fixed_fleets import fixed_fleet

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.policies.fleet.estimate import complete_gram
from influential_bandits.policies.fleet.posterior import find_entries, multiply
from influential_bandits.policies.fleet.states import (
    NOISE_VARIANCE,
    ORIGIN,
    SETTLED,
    SPREAD,
)
from influential_bandits.policies.model_lcb.posterior import place, unknowns

USERS = ("ann", "bob", "cy")


def show(fleet, rng, rounds, counts, late):
    """Show arms at random; losses come up to ``late`` pulls later. Returns (user, arm, x, loss)."""
    waiting, heard = [], []
    for _ in range(rounds):
        user = USERS[rng.integers(len(USERS))]
        ticket = fleet.pull(user, arm=int(rng.integers(fleet.n_arms)))
        event = (user, ticket.arm, counts[user].copy(), float(rng.normal()))
        counts[user][ticket.arm] += 1
        waiting.append((ticket, event))
        while len(waiting) > late:
            heard.append(hear(fleet, waiting.pop(rng.integers(len(waiting)))))
    return waiting, heard


def hear(fleet, waiting):
    ticket, event = waiting
    fleet.observe(ticket, event[3])
    return event


@pytest.mark.parametrize("reload", [False, True])
def test_the_posterior_is_that_of_a_fleet_that_had_the_arm_all_along(reload, tmp_path):
    """Dense algebra over (μ, A, b) of three arms, losses of before the arrival included."""
    rng, n_arms = np.random.default_rng(1), 3
    fleet = fixed_fleet(["a", "b"])
    counts = {user: np.zeros(n_arms) for user in USERS}
    waiting, heard = show(fleet, rng, 30, counts, late=5)
    assert fleet.add_arm("c") == 2
    if reload:
        fleet.save(tmp_path / "fleet.parquet")
        fleet = ib.Fleet.load(tmp_path / "fleet.parquet")
        assert fleet.arm_names == ("a", "b", "c")
    heard += [hear(fleet, one) for one in waiting]  # pulled when there were two arms
    waiting, more = show(fleet, rng, 40, counts, late=3)
    heard += more + [hear(fleet, one) for one in waiting]
    assert {arm for _, arm, _, _ in heard} == {0, 1, 2}

    p = unknowns(n_arms)
    size = p + n_arms * len(USERS)
    H, right = np.zeros((size, size)), np.zeros(size)
    H[range(p), range(p)] = fleet._shared.precision
    H[range(p, size), range(p, size)] = 1 / 0.5
    for user, arm, x_before, loss in heard:
        x = np.zeros(size)
        x[unknowns(arm)] = 1.0
        for j in range(n_arms):
            x[place(arm, j)] = x_before[j]
        x[p + USERS.index(user) * n_arms + arm] = 1.0
        H += np.outer(x, x)
        right += x * (loss - fleet._shared.scales[ORIGIN])
    covariance = np.linalg.inv(H)
    np.testing.assert_allclose(fleet._shared.theta[0], (covariance @ right)[:p], atol=1e-8)
    np.testing.assert_allclose(fleet._shared.covariance, np.tril(covariance[:p, :p]), atol=1e-8)
    log = fleet.to_log()
    assert log.arm_names == ("a", "b", "c")
    assert len(log) == len(heard)


def test_a_new_arm_of_a_fleet_from_a_log_is_like_the_others():
    """Its mean is theirs, and its deviation at least as large as they differ."""
    interaction, losses = np.diag([0.2, 0.4, 0.3]) + 0.1, [0.0, 1.0, 2.0]
    prior = ib.LossPrior.around(interaction, losses, sd=0.01, sigma=0.5)
    fleet = ib.Fleet(ib.FleetLCB(prior=ib.FleetPrior(prior, arm=0.5)), arms=3)
    before = fleet.estimate()
    number = fleet.add_arm()
    found = fleet.estimate()
    assert found.initial_loss[number] == pytest.approx(1.0)
    np.testing.assert_allclose(found.interaction[number], [0.1, 0.1, 0.1, 0.4])
    np.testing.assert_allclose(found.interaction[:3, :3], before.interaction)
    deviation = np.std([0.3, 0.5, 0.4])
    assert found.interaction_errors[number, number] == pytest.approx(deviation, rel=0.01)
    assert fleet._shared.scales[NOISE_VARIANCE] == 0.25


def test_users_with_posteriors_of_their_own_keep_them():
    fleet = ib.Fleet(arms=2)
    rng = np.random.default_rng(3)
    for _ in range(30):
        fleet.observe(fleet.pull("ann"), rng.normal())
    fleet._shared.scales[SPREAD] = 0.25
    ticket = fleet.pull("bob")
    assert fleet._own.slot[1] >= 0
    before = fleet.expected_losses("bob")
    fleet.add_arm()
    for old, new in zip(before, fleet.expected_losses("bob"), strict=True):
        np.testing.assert_allclose(new[:2], old, rtol=1e-12)
    fleet.observe(ticket, 0.5)
    assert np.isfinite(fleet.expected_losses("bob")).all()


def test_a_loss_of_before_memory_was_settled_and_of_before_an_arm_came():
    fleet = ib.Fleet(arms=2)
    early = [fleet.pull("ann") for _ in range(6)]
    for ticket in early[:5]:
        fleet.observe(ticket, 0.1)
    fleet._shared.numbers[SETTLED] = 1
    fleet.observe(fleet.pull("bob"), 0.2)
    assert len(fleet.pull("cy").memo) == 2
    fleet.add_arm()
    weights = fleet._weights(early[5])
    np.testing.assert_array_equal(weights, [*early[5].memo[:2], 0.0])
    fleet.observe(early[5], 0.3)
    assert fleet._own.exposures[0, 0, early[5].arm].sum() > 0


def test_retired_arms_are_not_chosen(tmp_path, refused):
    fleet = ib.Fleet(arms=["a", "b", "c"])
    ticket = fleet.pull("ann", arm="b")
    fleet.retire_arm("b")
    fleet.observe(ticket, -100.0)  # it would be the best of all
    fleet.save(tmp_path / "fleet.parquet")
    for one in (fleet, ib.Fleet.load(tmp_path / "fleet.parquet")):
        assert "1 retired" in repr(one)
        for _ in range(20):
            pulled = one.pull("ann")
            assert pulled.name != "b"
            one.observe(pulled, 1.0)
        with refused(InvalidInput, "retired or not eligible"):
            one.pull("ann", arm="b")
        with refused(InvalidInput, "leave at least one arm"):
            one.pull("ann", eligible=["b"])
        with refused(InvalidInput, "not in use"):
            one.retire_arm("b")
    fleet.retire_arm("a")
    with refused(InvalidInput, "last one in use"):
        fleet.retire_arm("c")
    with refused(InvalidInput, "occurs twice"):
        fleet.add_arm("a")
    assert fleet.n_arms == 3
    with refused(InvalidInput, "at most 64 arms"):
        ib.Fleet(arms=64).add_arm()


def test_a_copy_goes_on_by_itself():
    fleet = ib.Fleet(arms=2)
    for _ in range(10):
        fleet.observe(fleet.pull("ann"), 0.3)
    twin = copy.copy(fleet)
    fleet.observe(fleet.pull("ann"), 9.0)
    assert twin.estimate().losses == 10
    assert twin.pull("ann").round == 11


@pytest.mark.parametrize("entries", [1, 3, 30])
def test_a_triangle_is_multiplied_as_the_whole_matrix(entries):
    """Both ways, for few entries and for many: 30 sums of 30 terms of size 1 lose ≤ 30·30·ε."""
    rng = np.random.default_rng(entries)
    half = rng.normal(size=(30, 30))
    whole = half + half.T
    x = np.zeros(30)
    x[rng.choice(30, entries, replace=False)] = rng.normal(size=entries)
    spots, out = np.zeros(30, np.int64), np.empty(30)
    many = find_entries(x, spots)
    multiply(np.tril(whole), x, spots, many, out)
    assert many == entries
    np.testing.assert_allclose(out, whole @ x, atol=30 * 30 * 2.3e-16 * 10)


def test_losses_say_less_of_a_shared_interaction_where_users_differ():
    """Var(loss) = σ²·(1 + arm + spread·Σx²): the weight of one loss in the sums is its inverse."""
    fleet = fixed_fleet(2)
    for _ in range(5):
        fleet.pull("ann", arm=1)  # their losses never come
    fleet._shared.scales[SPREAD] = 0.25
    fleet.observe(fleet.pull("ann", arm=0), 1.0)
    weight = complete_gram(fleet._shared, 0)[unknowns(0), unknowns(0)]
    assert weight == pytest.approx(1 / (1 + 0.5 + 0.25 * 5**2))
