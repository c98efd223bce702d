"""Levels that drift: the filter against dense algebra and that of learning/, files, and worth."""

import numpy as np
import pytest
from fixed_fleets import USERS, features, fixed_fleet

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.files import read_about, read_table, write_table
from influential_bandits.learning.kalman import Model, predict_events
from influential_bandits.learning.statistics.design import event_columns
from influential_bandits.policies.fleet.levels import (
    find_drift,
    find_steady_variance,
    scale_drift,
)
from influential_bandits.policies.fleet.snapshot import pack_fleet, pack_users, unpack_fleet
from influential_bandits.policies.fleet.states import DRIFT as CHOSEN
from influential_bandits.policies.fleet.states import NEXT_CHOICE, ORIGIN
from influential_bandits.policies.model_lcb.posterior import unknowns

DRIFT, KEEP = 1.0, 0.9


def play(fleet, rounds, seed, drift, keep=KEEP):
    """Show arms at random to users whose levels drift; returns (user, arm, counts before, loss)."""
    rng = np.random.default_rng(seed)
    counts = {user: np.zeros(fleet.n_arms) for user in USERS}
    levels = {user: drift * rng.normal() for user in USERS}
    events = []
    for _ in range(rounds):
        user = USERS[rng.integers(len(USERS))]
        ticket = fleet.pull(user, arm=int(rng.integers(fleet.n_arms)))
        loss = float(rng.normal() + 0.2 * counts[user][ticket.arm] + levels[user])
        events.append((user, ticket.arm, counts[user].copy(), loss))
        fleet.observe(ticket, loss)
        counts[user][ticket.arm] += 1
        levels[user] = keep * levels[user] + drift * np.sqrt(1 - keep**2) * rng.normal()
    return events, counts


def exact_answer(events, counts, n_arms, arm, prior_variance, origin):
    """Mean and deviation of each user's next losses by dense algebra over (θ, b, every level)."""
    p, people = unknowns(n_arms), {user: n for n, user in enumerate(USERS)}
    of = [user for user, *_ in events]
    own = p + n_arms * len(USERS)
    size = own + len(events) + len(USERS)
    covariance = np.zeros((size, size))
    covariance[range(p), range(p)] = prior_variance
    covariance[range(p, own), range(p, own)] = arm
    spots = {user: [own + n for n, u in enumerate(of) if u == user] for user in USERS}
    for user, n in people.items():  # the last one is the level of the next loss
        spots[user].append(own + len(events) + n)
        steps = np.arange(len(spots[user]))
        autoregression = DRIFT**2 * KEEP ** np.abs(steps[:, None] - steps)
        covariance[np.ix_(spots[user], spots[user])] = autoregression

    def row(user, i, x, level):
        found = features(n_arms, i, x, size)
        found[p + people[user] * n_arms + i] = found[level] = 1.0
        return found

    X = np.array([row(user, i, x, own + n) for n, (user, i, x, _) in enumerate(events)])
    y = np.array([loss for *_, loss in events]) - origin
    ahead = np.array([row(u, i, counts[u], spots[u][-1]) for u in USERS for i in range(n_arms)])
    gain = ahead @ covariance @ X.T @ np.linalg.inv(X @ covariance @ X.T + np.eye(len(events)))
    variance = np.diag((ahead - gain @ X) @ covariance @ ahead.T)
    return gain @ y + origin, np.sqrt(variance)


@pytest.mark.parametrize("n_arms", [2, 3])
def test_expected_losses_are_near_the_exact_ones(n_arms):
    """The level is taken for independent of taste and (μ, A): half a deviation at most on average.

    A fleet without drift is more than twice as far off.
    """
    off, off_without, ratios = [], [], []
    for seed in range(6):
        for drift, found in ((DRIFT, off), (0.0, off_without)):
            unit = 1.0 / scale_drift(drift**2, KEEP)[1]
            fleet = fixed_fleet(n_arms, arm=0.5 / unit, drift=drift, drift_memory=KEEP)
            fleet._shared.numbers[CHOSEN] = drift > 0.0
            events, counts = play(fleet, 100, seed, DRIFT)
            prior_variance = unit / fleet._shared.precision
            mean, deviation = exact_answer(
                events, counts, n_arms, 0.5, prior_variance, fleet._shared.scales[ORIGIN]
            )
            told = np.array([fleet.expected_losses(user) for user in USERS])
            found.append(np.abs(told[:, 0].ravel() - mean) / deviation)
            if drift:
                ratios.append(told[:, 1].ravel() / deviation)
    assert np.mean(off) < 0.5
    assert np.mean(off_without) > 2 * np.mean(off)
    assert 0.8 < np.median(ratios) < 1.25


def test_the_level_is_that_of_the_filter_of_learning():
    """With taste and (μ, A) known, nothing is approximated: 1e-6 is what their priors leave."""
    prior = ib.LossPrior.around([[0.0]], [0.3], sd=1e-6, sigma=1.0)
    fleet = ib.Fleet(
        ib.FleetLCB(prior=ib.FleetPrior(prior, 1e-9, drift=DRIFT**2, drift_memory=KEEP)),
        ["a"],
        history=True,
    )
    fleet._shared.numbers[NEXT_CHOICE] = 2**60  # what the log said is not doubted
    rng, expected = np.random.default_rng(1), []
    for loss in rng.normal(0.3, 1.5, 40):
        ticket = fleet.pull("ann", arm=0)
        expected.append(fleet.expected_losses("ann")[0][0])
        fleet.observe(ticket, float(loss))
    log = fleet.to_log()
    model = Model(np.array([0.3]), np.ones(1), 1e-9, 0.0, DRIFT**2, KEEP)
    found = predict_events(model, event_columns(log), np.zeros(1, np.int64), map, [(0, 1)])
    np.testing.assert_allclose(np.array(expected) - 0.3, found.known[:, 1], atol=1e-5)


def test_a_recent_level_is_the_filter_in_the_long_run():
    drift, keep = find_drift(0.8, 0.6)
    steady = find_steady_variance(drift, keep)
    assert steady == pytest.approx(keep**2 * steady / (1 + steady) + drift * (1 - keep**2))
    assert keep * steady / (1 + steady) == pytest.approx(0.6 * 0.2)
    assert find_drift(0.8, -0.3) == (0.0, 0.0)


def people(seed, drift, size=1.0):
    typical = ib.random_instance(5, seed)
    matrix = size * typical.interaction.to_dense()
    return ib.Population(matrix, 0.5 * typical.initial_loss, 0.49, stay=50, drift=drift)


def test_it_pays_to_follow_levels_that_drift():
    """Of eight populations; 16 others had 3.8 ± 0.5 without, 1.5 told and 2.3 estimated."""

    def regrets(policy):
        runs = [ib.simulate_fleet(people(s, 1.0), policy, 150, s) for s in range(70, 78)]
        found = np.array([[run.found.drift, run.found.drift_memory] for run in runs])
        return np.mean([run.regret()[50:].mean() for run in runs]), found

    plain, nothing = regrets(ib.FleetLCB())
    told, _ = regrets(ib.FleetLCB(drift=1.0))
    estimated, found = regrets(ib.FleetLCB(drift="estimate"))
    assert (nothing == 0.0).all()
    assert told < 0.8 * plain
    assert estimated < plain
    assert 0.4 < np.median(found[:, 0]) < 1.6


def test_where_no_level_drifts_nothing_changes():
    world = people(60, 0.0, 0.3)
    plain, ready = (
        ib.simulate_fleet(world, ib.FleetLCB(drift=drift), 60, 1) for drift in (0.0, "estimate")
    )
    assert (plain.counts == ready.counts).all()
    assert ready.found.drift == 0.0


def test_a_saved_fleet_and_a_snapshot_go_on_as_before(tmp_path):
    fleet = ib.Fleet(ib.FleetLCB(drift="estimate"), 3)
    play(fleet, 390, 3, 1.5)
    assert fleet.estimate().drift > 0.0
    fleet.save(tmp_path / "fleet.parquet")
    restored = ib.Fleet(ib.FleetLCB(drift="estimate"), 3)
    users = pack_users(fleet, fleet.users)
    unpack_fleet(pack_fleet(fleet), users.items(), restored)
    for copy in (ib.Fleet.load(tmp_path / "fleet.parquet"), restored):
        for user in USERS:
            told, again = fleet.expected_losses(user), copy.expected_losses(user)
            assert [part.tolist() for part in told] == [part.tolist() for part in again]


def test_a_user_rebuilt_from_its_events_has_about_its_level():
    """Levels are followed with what is known of (μ, A) now, and not with what was known then."""
    fleet = fixed_fleet(3, drift=DRIFT, drift_memory=KEEP)
    fleet._shared.numbers[CHOSEN] = 1
    events, _ = play(fleet, 120, 4, DRIFT)
    before, deviation = fleet.expected_losses("bob")
    fleet.forget("bob")
    fleet.remember("bob", *zip(*[(i, y) for user, i, _, y in events if user == "bob"], strict=True))
    again, _ = fleet.expected_losses("bob")
    assert (np.abs(again - before) < 0.5 * deviation).all()


def test_a_file_from_before_levels_drifted_is_read(tmp_path):
    fleet = ib.Fleet(arms=3)
    play(fleet, 64, 5, 0.0)  # a multiple of eight: no loss waits
    path, old = tmp_path / "fleet.parquet", tmp_path / "old.parquet"
    fleet.save(path)
    table, about = read_table(path), read_about(path)
    columns = table.to_pydict()
    at = columns["name"].index("shared.numbers")
    columns["bytes"][at] = columns["bytes"][at][: 11 * 8]
    columns["shape"][at] = [11]
    new = ("shared.rows", "shared.alphas", "shared.drifts", "own.level")
    kept = [n for n, name in enumerate(columns["name"]) if name not in new]
    rows = {name: [values[n] for n in kept] for name, values in columns.items()}
    for name in ("drift", "drift_memory"):
        del about["policy"][name]
    write_table(old, type(table).from_pydict(rows, schema=table.schema), about)
    assert repr(ib.Fleet.load(old)) == repr(fleet)
    told, again = (one.expected_losses("ann") for one in (fleet, ib.Fleet.load(old)))
    np.testing.assert_array_equal(told, again)


def test_a_model_with_drift_tells_its_fleet():
    fleet = ib.Fleet(ib.FleetLCB(memory=1.0), ["a", "b"], history=True)
    for seed in range(12):
        play(fleet, 100, seed, 1.0)
    log = fleet.to_log()
    for drift in (False, True):
        model = ib.InfluenceModel(pooling="full", drift=drift).fit(log)
        assert (model.fleet().policy.prior.drift > 0.1) == drift
    again = ib.FleetLCB.from_json(model.fleet().policy.to_json())
    assert again == model.fleet().policy


def test_refusals(refused):
    with refused(InvalidInput, "drift"):
        ib.FleetLCB(drift=-1.0)
    with refused(InvalidInput, "drift_memory"):
        ib.FleetLCB(drift=1.0, drift_memory=1.0)
    prior = ib.FleetPrior(ib.LossPrior.around([[0.1]], [0.5], sd=0.1, sigma=1.0), arm=0.5)
    with refused(InvalidInput, "drop drift"):
        ib.FleetLCB(prior=prior, drift=0.5)
    with refused(InvalidInput, "drift"):
        ib.Population([[0.1]], [0.0], drift="much")
    with refused(InvalidInput, "drift_memory"):
        ib.Population([[0.1]], [0.0], drift=1.0, drift_memory=1.0)
