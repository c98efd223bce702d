"""Fleets compared: players on the same users and noise, standings, pieces, and the command."""

import json
import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import run_command
from matplotlib import pyplot as plt

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, Unfinished
from influential_bandits.studies.compare import players as players_module
from influential_bandits.studies.compare.compare import compare_fleets
from influential_bandits.studies.compare.players import (
    AllUsersAsOne,
    EachUser,
    FleetPlayer,
    KnownInteraction,
    Player,
    list_default_players,
    make_knowing,
    require_player,
    serve,
)
from influential_bandits.studies.compare.populations import (
    FIRST_POPULATION,
    POPULATIONS,
    PopulationFamily,
    choose_populations,
    describe_populations,
)
from influential_bandits.studies.compare.user_standings import choose_windows, measure_users

# Several policies are compiled, and play many users.
pytestmark = pytest.mark.long

SHARED = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.4]])
MEAN = np.array([0.5, -0.2, 0.1])
UNIT = ib.GaussianNoise(1.0)
SEED = 7


def population(**settings):
    return ib.Population(SHARED, MEAN, 0.49, **({"stay": 12} | settings))


# --- players ---


@pytest.mark.parametrize("policy", [ib.LCB(), ib.Foresight(), ib.EachArmOnceOracle()])
def test_a_policy_for_each_user_is_simulated_with_the_noise_of_its_number(policy):
    made = population(stay_law="geometric")
    users = made.draw(9, SEED)
    losses = EachUser(policy).serve(made, 9, UNIT, SEED, 1)
    for user, (world, stay) in enumerate(zip(users.instances(), users.stays, strict=True)):
        run = ib.simulate(world, policy, stay, UNIT, seeds=[SEED], instance_numbers=[user])
        assert losses[user] == run.loss()[0, 0, -1]


@pytest.mark.parametrize("memory", [1.0, 0.9])
@pytest.mark.parametrize("policy", [ib.LCB(), ib.Foresight(), ib.InfluentialLCB()])
def test_following_the_fleet_round_by_round_gives_the_same_losses(policy, memory):
    made = population(concurrency=4, returning=0.3, stay_law="geometric", memory=memory)
    users = made.draw(9, SEED)
    followed = serve(users, lambda user: ib.Agent(policy, 3, SEED), UNIT, SEED)
    apart = EachUser(policy).serve(made, 9, UNIT, SEED, 1)
    if memory == 1.0:
        assert followed.tolist() == apart.tolist()
    else:  # a sum of at most 100 losses below 10, rounded at each step here and only once there
        assert np.abs(followed - apart).max() <= 100 * 1000 * np.finfo(float).eps


class Recorder:
    """An agent that pulls arm 0 and keeps what it is told."""

    def __init__(self, story):
        self.story = story

    def pull(self):
        self.story.append("pull")
        return SimpleNamespace(arm=0, round=self.story.count("pull"))

    def observe(self, ticket, loss):
        self.story.append((ticket.round, round(loss, 9)))


def test_losses_are_told_when_their_delay_is_over_in_the_order_of_the_rounds():
    made = ib.Population([[1.0]], [0.0], stay=5, delay=1)
    users = made.draw(1)._replace(delays=np.array([2, 1, 0, 0, 7]))
    story = []
    serve(users, lambda user: Recorder(story), ib.NoNoise(), 0)
    # After round 3, the losses of rounds 1, 2 and 3; that of round 5 comes too late.
    told = ["pull", "pull", "pull", (1, 0.0), (2, 1.0), (3, 2.0), "pull", (4, 3.0), "pull"]
    assert story == told


def test_late_losses_change_what_a_policy_for_each_user_plays():
    late, at_once = population(delay=40, concurrency=2), population(concurrency=2)
    of_late = EachUser(ib.Foresight()).serve(late, 12, UNIT, SEED, 1)
    assert (of_late != EachUser(ib.Foresight()).serve(at_once, 12, UNIT, SEED, 1)).any()
    # An oracle needs no losses.
    oracle = EachUser(ib.EachArmOnceOracle())
    assert (
        oracle.serve(late, 12, UNIT, SEED, 1).tolist()
        == oracle.serve(at_once, 12, UNIT, SEED, 1).tolist()
    )


def test_one_for_all_users_has_one_state(monkeypatch):
    made = []

    class Counted(ib.Agent):
        def __init__(self, *arguments, **more):
            made.append(self)
            super().__init__(*arguments, **more)

    monkeypatch.setattr(players_module, "Agent", Counted)
    AllUsersAsOne(ib.LCB()).serve(population(), 5, UNIT, SEED, 1)
    assert len(made) == 1
    assert made[0].round == 5 * 12


def test_one_for_all_users_is_lost_where_tastes_differ_but_not_where_they_are_alike():
    def regret(variance, player):
        made = ib.Population(np.zeros((3, 3)), MEAN, variance, stay=12)
        best = made.draw(40, SEED).initial_loss.min(axis=1) * 12
        return (player.serve(made, 40, UNIT, SEED, 1) - best).mean()

    as_one, each = AllUsersAsOne(ib.LCB()), EachUser(ib.LCB())
    assert regret(0.0, as_one) < 0.5 * regret(0.0, each)
    assert regret(9.0, as_one) > 1.5 * regret(9.0, each)


@pytest.mark.parametrize("settings", [{}, {"interaction_spread": 0.2}, {"unlike": True}])
def test_who_knows_the_interaction_knows_that_of_each_user(settings):
    made = population(**settings)
    users = made.draw(4, SEED)
    for matrix in users.interaction:
        prior = make_knowing(made, matrix, UNIT).prior
        agent = ib.Agent(ib.Foresight(prior=prior), 3)
        assert agent.policy.prior.n_arms == 3
        # l1_0, A_00, l1_1, A_01, A_11, l1_2, A_02, A_12, A_22
        losses, entries = [0, 2, 5], [1, 3, 4, 6, 7, 8]
        assert prior.mean[losses].tolist() == MEAN.tolist()
        assert prior.mean[entries].tolist() == matrix[np.tril_indices(3)].tolist()
        assert np.diag(prior.covariance)[losses].tolist() == [0.49] * 3
        assert not prior.covariance[entries].any()
    known = KnownInteraction().serve(made, 4, UNIT, SEED, 1)
    for user, world in enumerate(users.instances()):
        matrix = users.interaction[user % len(users.interaction)]
        policy = make_knowing(made, matrix, UNIT)
        run = ib.simulate(world, policy, 12, UNIT, seeds=[SEED], instance_numbers=[user])
        assert known[user] == run.loss()[0, 0, -1]


def test_knowing_the_interaction_pays():
    made = POPULATIONS["small-5x100"].make(0)
    known = KnownInteraction().serve(made, 60, UNIT, SEED, 1)
    cold = EachUser(ib.Foresight()).serve(made, 60, UNIT, SEED, 1)
    gain = cold - known
    # Paired, and so far above zero that chance would do it once in 300,000 times.
    assert gain.mean() > 4.5 * gain.std() / math.sqrt(60)


def test_players_that_have_no_answer_say_so():
    fading = population(memory=0.9)
    assert not EachUser(ib.EachArmOnceOracle()).can_serve(fading, UNIT)
    assert EachUser(ib.LCB()).can_serve(fading, UNIT)
    assert not KnownInteraction().can_serve(population(), ib.NoNoise())
    assert not KnownInteraction().can_serve(ib.Population(np.eye(25), np.zeros(25)), UNIT)


def test_texts_name_players_as_tables_do():
    for player in list_default_players():
        assert require_player(player.label) == player
    assert require_player("fleet: Foresight") == FleetPlayer(ib.Foresight())
    assert FleetPlayer(ib.Foresight(memory=0.9)).label == "fleet: Foresight(memory=0.9)"
    assert require_player(ib.Foresight()) == EachUser(ib.Foresight())
    assert require_player(ib.LCB()) == EachUser(ib.LCB())


@pytest.mark.parametrize("given", [3, None, ib.LCB, "Nobody", "all users as one: Nobody"])
def test_what_is_no_player_is_refused(given):
    with pytest.raises(InvalidInput, match="policy"):
        require_player(given)


# --- populations ---


@pytest.mark.parametrize("name", POPULATIONS)
def test_every_family_makes_the_population_that_it_says(name):
    family = POPULATIONS[name]
    first, second = family.make(0), family.make(1)
    assert first == family.make(0), "a number names a population"
    assert first != second
    arms, rounds = (int(n) for n in name.split("-")[-1].split("x"))
    assert (first.n_arms, first.stay) == (arms, rounds)
    size = 0.0 if "none" in name else 1.0 if "strong" in name else 0.1
    assert np.abs(first.interaction).max() == pytest.approx(size)
    assert first.unlike is name.startswith("unlike")
    assert (first.interaction_spread > 0) is name.startswith("spread")
    assert first.memory == (0.9 if name.startswith("fading") else 1.0)
    late = name.startswith("late")
    assert (first.concurrency > 1, first.delay > 0, first.returning > 0) == (late,) * 3
    assert first.covariance.tolist() == (0.7**2 * np.eye(arms)).tolist()
    typical = ib.random_instance(arms, FIRST_POPULATION)
    assert first.initial_loss.tolist() == (0.5 * typical.initial_loss).tolist()
    assert family.noise == UNIT
    users = first.draw(3)
    assert (users.stays == rounds).all() or late


def test_families_are_found_by_name_and_populations_taken_as_they_are():
    own = population()
    found = choose_populations(["none-5x30", own, own])
    assert [family.name for family in found] == ["none-5x30", "population-1", "population-2"]
    assert found[1].make(0) == found[1].make(5) == own
    assert [family.name for family in choose_populations([])] == list(POPULATIONS)
    assert list(describe_populations()) == list(POPULATIONS)


@pytest.mark.parametrize(
    ("given", "mention"),
    [(["nobody"], "nobody"), (["none-5x30", "none-5x30"], "twice|once")],
)
def test_families_that_are_not_there_are_refused(given, mention):
    with pytest.raises(InvalidInput, match=mention):
        choose_populations(given)


# --- standings ---


@pytest.mark.parametrize(
    ("users", "windows"),
    [
        (1, [(1, 1)]),
        (50, [(1, 50)]),
        (51, [(1, 50), (51, 51)]),
        (2000, [(1, 50), (51, 500), (501, 2000)]),
    ],
)
def test_windows_cover_every_user_once(users, windows):
    assert choose_windows(users) == windows


@pytest.mark.parametrize("populations", [1, 6])
def test_ratios_are_paired(populations):
    draw = np.random.default_rng(0)
    base = draw.exponential(size=(populations, 80)) + 0.1
    best = draw.normal(size=(populations, 80))
    losses = {"base": best + base, "double": best + 2 * base}
    found = measure_users(losses, best, ["base", "nobody"])
    means = np.stack([base[:, :50].mean(), base[:, 50:].mean()])
    assert found.windows == [(1, 50), (51, 80)]
    assert found.mean.value[0] == pytest.approx(means)
    assert (found.mean.low[0] < means).all()
    assert (found.mean.high[0] > means).all()
    assert list(found.ratios) == ["base"]
    for side in found.ratios["base"]:  # the interval too: whoever is drawn, it is twice
        assert side[1] == pytest.approx([2.0, 2.0])
    served, curve = found.curve
    assert (served[0], served[-1]) == (5, 80)
    # Around 80 users: those from the 54th on, as 80/1.5 = 53.3.
    assert curve[0, -1] == pytest.approx(base[:, 53:].mean())


def test_intervals_are_over_populations_where_there_are_several():
    """Users of one population do not count as independent: what it is like, they share."""
    level = np.array([1.0, 5.0, 9.0, 2.0])[:, None]
    losses = {"base": np.broadcast_to(level, (4, 40)).copy()}
    found = measure_users(losses, np.zeros((4, 40)), ["base"]).mean
    # The standard error of four levels is 1.8, whoever many users have each.
    assert found.high[0, 0] - found.low[0, 0] > 3.0


def test_regret_of_rounding_size_is_none():
    best = np.full((1, 3), -123.456)
    losses = {"base": best * (1 - 2e-16)}
    found = measure_users(losses, best, ["base"])
    assert found.mean.value.tolist() == [[0.0]]
    assert np.isnan(found.ratios["base"].value).all()


# --- comparing ---

PLAYERS = ["Foresight", "LCB", "all users as one: LCB", "A known", "EachArmOnceOracle"]
FAMILIES = ["small-5x30", "fading-5x100"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    out = tmp_path_factory.mktemp("fleets") / "deep" / "results"
    return out, compare_fleets(PLAYERS, FAMILIES, 60, n_populations=2, out=out, execution=1)


def stamps(out):
    return {path: path.stat().st_mtime_ns for path in out.glob("*/pieces/*.parquet")}


def test_means_are_those_of_simulations_and_their_regrets(played):
    _, found = played
    family = POPULATIONS["small-5x30"]
    regrets = []
    for number in range(2):
        seed = FIRST_POPULATION + number
        worlds = family.make(number).draw(60, seed).instances()
        run = ib.simulate(worlds, ib.LCB(), 30, UNIT, seeds=[seed])
        regrets.append(run.regret()[:, 0, -1])
    means = {
        (row["first_user"], row["last_user"]): row["mean_regret"]
        for row in found.rows
        if (row["family"], row["policy"]) == ("small-5x30", "LCB")
    }
    for (first, last), mean in means.items():
        assert mean == pytest.approx(np.mean([r[first - 1 : last] for r in regrets]), rel=1e-9)
    assert list(means) == [(1, 50), (51, 60)]


def test_where_memory_fades_regret_is_beyond_the_bound_and_oracles_are_absent(played):
    _, found = played
    lasting, fading = found.results
    assert (lasting.benchmark, fading.benchmark) == ("optimum", "lower bound")
    assert (lasting.absent, fading.absent) == ([], ["EachArmOnceOracle"])
    assert (fading.standings.mean.value > 0.0).all()
    assert lasting.standings.contender.tolist() == [True, True, True, False, False]


def test_everything_is_written_and_read_by_programs(played):
    out, found = played
    assert json.loads((out / "summary.json").read_text()) == found.rows
    page = (out / "report.html").read_text()
    for family in FAMILIES:
        assert (out / family / "users.png").stat().st_size > 1000
        assert (out / family / "data.parquet").exists()
        assert POPULATIONS[family].description in page
    frame = found.to_frame()
    assert len(frame) == len(found.rows) == 2 * (5 + 4)
    users = found.to_frame(runs=True)
    assert len(users) == 2 * 60 * (6 + 5)
    assert set(users["policy"]) == {*PLAYERS, "optimum", "lower bound"}
    assert set(users["family"]) == set(FAMILIES)


def test_it_prints_a_table_for_each_family_and_can_be_drawn(played, refused):
    _, found = played
    text = str(found)
    assert "small-5x30: max A = 0.1; K = 5, 30 rounds (2 populations of 60 users)" in text
    assert "| mean regret of a user | users 1–50 | users 51–60 | ÷ Foresight | ÷ A known |" in text
    assert "| A known (reference) |" in text
    alone = found.plot(family="small-5x30")
    assert [line.get_label() for line in alone.lines] == PLAYERS
    plt.close(alone.figure)
    with refused(InvalidInput, "nobody", "fading-5x100"):
        found.plot(family="nobody")


def test_finished_pieces_are_not_computed_again_and_threads_change_no_bit(played, tmp_path):
    out, found = played
    before = stamps(out)
    assert len(before) == 2 * (6 + 5)
    again = compare_fleets(PLAYERS, FAMILIES, 60, n_populations=2, out=out, execution=2)
    assert stamps(out) == before
    assert again.rows == found.rows
    apart = compare_fleets(PLAYERS, FAMILIES, 60, n_populations=2, execution=2)
    assert apart.rows == found.rows


def test_another_policy_plays_alone(tmp_path):
    compare_fleets("LCB", "none-5x30", 5, n_populations=1, out=tmp_path)
    before = stamps(tmp_path)
    compare_fleets(["LCB", "Uniform"], "none-5x30", 5, n_populations=1, out=tmp_path)
    after = stamps(tmp_path)
    assert {path: after[path] for path in before} == before
    assert [path.name.partition("-")[0] for path in set(after) - set(before)] == ["Uniform"]
    compare_fleets("LCB", "none-5x30", 6, n_populations=1, out=tmp_path)
    assert len(stamps(tmp_path)) == len(after) + 2, "other numbers of users are other pieces"


def test_the_fleet_serves_beside_the_others():
    found = compare_fleets(["fleet: Foresight", "LCB"], population(), 8, n_populations=2)
    fleet = found.results[0].standings.policies[0]
    assert fleet == "fleet: Foresight"
    rows = [row for row in found.rows if row["policy"] == fleet]
    assert all(row["mean_regret"] >= 0.0 for row in rows)


@dataclass(frozen=True)
class Broken(Player):
    """Fails on the second population."""

    label = "broken"

    def serve(self, population, n_users, noise, seed, threads):
        if seed > FIRST_POPULATION:
            raise ArithmeticError("no such thing")
        return EachUser(ib.LCB()).serve(population, n_users, noise, seed, threads)


def test_populations_that_fail_are_left_out_for_everybody():
    with pytest.raises(Unfinished, match="no such thing") as caught:
        compare_fleets([Broken(), "LCB"], population(), 4, n_populations=2, execution=1)
    result = caught.value.results.results[0]
    assert result.n_populations == 1
    assert "broken" in result.failures[0]
    assert result.standings.mean.value[0].tolist() == result.standings.mean.value[1].tolist()


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        ({"policies": ["LCB", "LCB"]}, "LCB"),
        ({"policies": []}, "empty"),
        ({"policies": 3}, "3"),
        ({"populations": 3}, "3"),
        ({"populations": "nobody"}, "nobody"),
        ({"n_users": 0}, "n_users"),
        ({"n_populations": 0}, "n_populations"),
        ({"policies": "EachArmOnceOracle", "populations": "fading-5x100"}, "nothing is left"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, mention):
    with pytest.raises(InvalidInput, match=mention):
        compare_fleets(**({"policies": "LCB", "populations": "none-5x30"} | arguments))


def test_a_family_of_ones_own():
    family = PopulationFamily("mine", "One arm", lambda n: ib.Population([[0.5]], [float(n)]), 3)
    found = compare_fleets("LCB", family, 4)
    assert found.results[0].n_populations == 3
    assert found.results[0].standings.mean.value.tolist() == [[0.0]]


def test_the_command_compares_and_lists(tmp_path):
    done = run_command(
        "compare-fleets",
        *("--policies", "LCB,all users as one: LCB,A known", "--populations", "none-5x30"),
        *("--users", "20", "--number", "2", "--jobs", "1", "--out", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert "| all users as one: LCB |" in done.stdout
    assert "Report:" in done.stdout
    assert (tmp_path / "report.html").exists()
    listed = run_command("populations")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(POPULATIONS)
    wrong = run_command("compare-fleets", "--users", "0", "--out", str(tmp_path))
    assert wrong.returncode != 0
    assert "users must be at least 1" in wrong.stderr
