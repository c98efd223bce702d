"""Arms that come and go: what is known stays, in memory and in files."""

import copy

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput

USERS = ("ann", "bob", "cy")


def show(fleet, rng, rounds, late, arms=None):
    """Show arms at random; losses come up to ``late`` pulls later. Returns the open tickets."""
    waiting = []
    for _ in range(rounds):
        arm = int(rng.integers(arms or fleet.n_arms))
        waiting.append(fleet.pull(USERS[rng.integers(len(USERS))], arm=arm))
        while len(waiting) > late:
            ticket = waiting.pop(rng.integers(len(waiting)))
            fleet.observe(ticket, float(rng.normal() + 0.5 * ticket.arm))
    return waiting


def assert_same_sums(first, second):
    """Two fleets know the same; sums of few losses in any order differ by rounding alone."""
    users = len(first.users)  # there may be room for more
    own = [type(fleet._own)(*(part[:users] for part in fleet._own)) for fleet in (first, second)]
    for mine, theirs in ((first._shared, second._shared), own):
        for name in ("products", "moments", "coarse_products", "coarse_moments", "counts", "seen"):
            if hasattr(mine, name):
                ours, others = getattr(mine, name), getattr(theirs, name)
                np.testing.assert_allclose(ours, others, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("n_arms", [2, pytest.param(9, marks=pytest.mark.long)])
def test_a_fleet_knows_what_one_knows_that_had_the_arm_all_along(n_arms, reload, tmp_path):
    """Losses of before the arrival that come after it included."""
    policy, fleets = ib.Foresight(memory=0.9), []
    for early in (True, False):
        rng = np.random.default_rng(1)
        fleet = ib.Fleet(policy, arms=n_arms + early)
        waiting = show(fleet, rng, 40, 6, n_arms)
        assert len(waiting) == 6
        if not early:
            assert fleet.add_arm() == n_arms
            if reload:
                fleet.save(tmp_path / "fleet.parquet")
                fleet = ib.Fleet.load(tmp_path / "fleet.parquet")
        for ticket in waiting:
            fleet.observe(ticket, 0.25)
        for ticket in show(fleet, rng, 60, 3):
            fleet.observe(ticket, 0.5)
        fleets.append(fleet)
    assert_same_sums(*fleets)
    assert fleets[0].estimate().losses == fleets[1].estimate().losses == 100


@pytest.mark.parametrize("n_arms", [8, 24])
def test_what_is_known_of_users_stays_where_sums_are_merged(n_arms):
    """A ninth arm: users' sums of pairs become two; a twenty-fifth: so do everybody's."""
    fleet, rng = ib.Fleet(ib.Foresight(memory=1.0), arms=n_arms), np.random.default_rng(2)
    waiting = show(fleet, rng, 150, 6)
    before, wide = fleet.estimate(), copy.copy(fleet)
    wide.add_arm()
    after = wide.estimate()
    np.testing.assert_allclose(after.initial_loss[:n_arms], before.initial_loss, atol=0.5)
    assert after.sigma == pytest.approx(before.sigma, rel=0.1)
    assert after.losses == before.losses == 144
    for user in USERS:
        old, new = fleet.expected_losses(user)[0], wide.expected_losses(user)[0]
        assert np.corrcoef(old, new[:n_arms])[0, 1] > 0.9
    for ticket in waiting:
        wide.observe(ticket, 0.5)
    assert wide._own.seen.sum() == wide.estimate().losses == 150
    ready = ib.Fleet(ib.Foresight(memory=1.0), arms=n_arms + 1)
    for ticket in show(ready, np.random.default_rng(2), 150, 6, n_arms):
        ready.observe(ticket, 0.5)
    np.testing.assert_allclose(wide._own.products, ready._own.products)
    np.testing.assert_allclose(wide._own.moments, ready._own.moments)


@pytest.mark.parametrize("n_arms", [2, 24])
def test_an_agents_losses_of_before_an_arm_came_are_counted_as_they_were(n_arms):
    agents = []
    for late in (False, True):
        agent = ib.Agent(ib.Foresight(memory=0.9), n_arms)
        for n in range(30):
            agent.observe(agent.pull(arm=n % 2), 0.1 * n)
        ticket = agent.pull(arm=0)
        if late:
            agent.add_arm()
        agent.observe(ticket, 0.5)
        if not late:
            agent.add_arm()
        agents.append(agent.state)
    for name in ("products", "moments", "coarse_products", "coarse_moments", "counts"):
        np.testing.assert_array_equal(agents[0][name], agents[1][name], err_msg=name)


def test_a_new_arm_of_a_fleet_from_a_log_is_like_the_others():
    """Its mean is theirs, and its deviation at least as large as they differ."""
    interaction, losses = np.diag([0.2, 0.4, 0.3]) + 0.1, [0.0, 1.0, 2.0]
    prior = ib.LossPrior.around(interaction, losses, sd=0.01, sigma=0.5)
    fleet = ib.Fleet(ib.Foresight(prior=prior), arms=3)
    before = fleet.estimate()
    number = fleet.add_arm()
    estimate = fleet.estimate()
    assert estimate.initial_loss[number] == pytest.approx(1.0, abs=0.2)
    assert estimate.interaction[number, number] == pytest.approx(0.4, abs=0.1)
    np.testing.assert_allclose(estimate.interaction[number, :3], 0.1, atol=0.05)
    np.testing.assert_allclose(estimate.interaction[:3, :3], before.interaction, atol=0.01)
    assert estimate.interaction_errors[number, number] > np.std([0.3, 0.5, 0.4])
    assert (estimate.interaction_errors[:3, :3] < 0.02).all()


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
    with refused(InvalidInput, "arms", "1001"):
        ib.Fleet(arms=1000).add_arm()


def test_a_copy_goes_on_by_itself():
    fleet = ib.Fleet(arms=2)
    for _ in range(10):
        fleet.observe(fleet.pull("ann"), 0.3)
    twin = copy.copy(fleet)
    fleet.observe(fleet.pull("ann"), 9.0)
    assert twin.estimate().losses == 10
    assert twin.pull("ann").round == 11
