"""Comparisons: pairs, families, standings, resuming, and the command."""

import dataclasses
import html
import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import run_command
from matplotlib import pyplot as plt
from report_files import check_figures, check_pictures, check_report, stamps

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.policies.registry import policy_from_text
from influential_bandits.simulation import trajectory
from influential_bandits.studies.compare import families as families_module
from influential_bandits.studies.compare import instance_runs as playing
from influential_bandits.studies.compare.compare import compare
from influential_bandits.studies.compare.families import (
    FAMILIES,
    FIRST_INSTANCE,
    LEARNED,
    choose_families,
    describe_families,
)
from influential_bandits.studies.compare.instance_runs import (
    choose_checkpoints,
    list_default_policies,
)
from influential_bandits.studies.compare.results import Estimates
from influential_bandits.studies.compare.standings import compute_standings
from influential_bandits.summaries.resampling import draw_resamples

POLICIES = ["LCB", "InfluentialLCB", "Uniform", "FrankWolfeOracle", "EachArmOnceOracle"]
HORIZONS = [30, 100, 1000, 2000]
KEYS = ["family", "policy", "horizon", "mean_regret", "low", "high"]


def play(out, policies=POLICIES, families=("random-3", "fading-0.9"), horizons=HORIZONS, **more):
    return compare(policies, families, horizons, out=out, **({"n_instances": 4} | more))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    out = tmp_path_factory.mktemp("arena") / "deep" / "results"
    return out, play(out)


def pieces_of(out):
    return stamps(out / "random-3" / "pieces")


def table(out, family):
    rows = pq.read_table(out / family / "data.parquet")
    return {name: rows[name].to_numpy(zero_copy_only=False) for name in rows.column_names}


# --- families ---


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_played(name):
    family = FAMILIES[name]
    worlds = [family.make(n) for n in range(3)]
    assert len({world.n_arms for world in worlds}) == 1
    assert worlds[0] == family.make(0), "a number names an instance"
    run = ib.simulate(worlds, ib.LCB(), 60, family.noise)
    assert run.counts[..., -1, :].sum() == 3 * 60
    if not name.startswith(("prop", "fading")):
        assert worlds[0] != worlds[1]
    assert family.n_instances >= 10
    assert (
        family.largest_horizon
        == {2: 10**6, 3: 10**6, 5: 10**5, 10: 10**5, 20: 10**5, 50: 10**4}[worlds[0].n_arms]
    )
    assert len(family.description) > 10


def test_families_are_what_they_say():
    def worlds(name, count=8):
        return [FAMILIES[name].make(n) for n in range(count)]

    def matrices(name):
        return [world.interaction.to_dense() for world in worlds(name)]

    assert {ib.difficulty(world).verdict for world in worlds("easy", 30)} == {"easy"}
    assert {ib.difficulty(world).verdict for world in worlds("hard", 30)} == {"hard"}
    assert {ib.difficulty(world).verdict for world in worlds("recovery")} == {"easy"}
    assert not any(world.definite for world in worlds("indefinite"))
    assert all(world.definite for name in set(FAMILIES) - {"indefinite"} for world in worlds(name))
    assert all(np.linalg.eigvalsh(a)[-1] > 0 for a in matrices("indefinite"))
    assert all((a - np.diag(np.diag(a)) <= 0).all() for a in matrices("recovery"))
    assert all(np.linalg.matrix_rank(a) == 3 for a in matrices("low-rank"))
    assert not np.any(matrices("stationary"))
    assert {round(float(np.abs(a).max()), 12) for a in matrices("nearly-stationary")} == {0.001}
    assert {world.memory for world in worlds("fading-0.9")} == {0.9}
    assert {world.memory for world in worlds("fading-0.99")} == {0.99}
    for memory in (0.5, 0.8, 0.95):  # expected losses are probabilities, whatever is pulled
        for world in worlds(f"clicks-{memory}", 30):
            worst = np.abs(world.interaction.to_dense()).max(axis=1) / (1.0 - memory)
            assert (world.initial_loss - worst > 0.7).all()
            assert (world.initial_loss + worst < 1.0).all()
    assert worlds("prop-2.3", 2) == [ib.linear_lower_bound(0), ib.linear_lower_bound(1)]
    assert FAMILIES["random-3"].make(0) == ib.random_instance(3, FIRST_INSTANCE)
    noises = [FAMILIES[f"random-3{kind}"].noise for kind in ("", "-quiet", "-exact")]
    assert noises == [ib.GaussianNoise(1.0), ib.GaussianNoise(0.1), ib.NoNoise()]


def test_blocks_tire_together():
    a = FAMILIES["block"].make(0).interaction.to_dense()
    block = np.arange(20) % 4
    same = block[:, None] == block
    assert (a[same] > 0).all()
    assert a[same].mean() > 2 * np.abs(a[~same]).mean()


def test_a_family_that_needs_data_is_left_out_with_a_line(monkeypatch, tmp_path, refused):
    monkeypatch.delenv("MOVIELENS_DATA", raising=False)
    families, notes = choose_families(())
    assert [family.name for family in families] == list(FAMILIES)
    (note,) = notes
    assert note.startswith(LEARNED)
    assert "--data" in note
    with refused(ib.errors.InvalidInput, LEARNED, "MOVIELENS_DATA"):
        choose_families([LEARNED])
    with refused(ib.errors.MissingFile, str(tmp_path / "nowhere")):
        choose_families([LEARNED], tmp_path / "nowhere")
    assert list(describe_families()) == [*FAMILIES, LEARNED]


def test_a_world_is_learned_from_a_release(monkeypatch, tmp_path):
    """Who is fitted to what, and whose worlds are played; fitting itself is tested elsewhere."""
    fitted = []

    class Model(ib.InfluenceModel):
        def fit(self, log):
            fitted.append((self, log))
            return self

        def instance(self, user, without_drift):
            assert without_drift, "the drift counts as noise"
            return ib.Instance(np.eye(2), [float(user), 0.0], memory=self.fading)

        def noise(self):
            return ib.GaussianNoise(0.7)

    monkeypatch.setattr(families_module, "InfluenceModel", Model)
    ratings = [(1, 10, 5), (2, 10, 4), (2, 20, 3), (2, 30, 2), (3, 20, 1), (3, 10, 2)]
    lines = [f"{user},{film},{rating},{t}" for t, (user, film, rating) in enumerate(ratings)]
    (tmp_path / "ratings.csv").write_text(
        "\n".join(["userId,movieId,rating,timestamp", *lines, ""]), encoding="utf-8"
    )
    movies = ["movieId,title,genres", "10,film,Horror|Comedy", "20,film,Drama", "30,film,Drama"]
    (tmp_path / "movies.csv").write_text("\n".join([*movies, ""]), encoding="utf-8")

    (family,), notes = choose_families([LEARNED], tmp_path)
    ((model, log),) = fitted
    assert notes == []
    assert (model.interaction, model.pooling, model.drift) == ("psd", "full", True)
    assert len(log) == 6
    firsts = [family.make(n).initial_loss[0] for n in range(4)]
    assert firsts == [2.0, 3.0, 1.0, 2.0], "users by their number of ratings, in turn"
    assert family.make(0).memory == 0.8
    assert family.noise == ib.GaussianNoise(0.7)
    assert "6 ratings" in family.source


# --- playing ---


@pytest.mark.long
def test_policies_meet_the_same_instances_and_the_same_noise(played):
    out, _ = played
    rows = table(out, "random-3")
    worlds = [ib.random_instance(3, FIRST_INSTANCE + n) for n in range(4)]
    for policy in POLICIES[:4]:
        run = ib.simulate(
            worlds,
            policy_from_text(policy),
            2000,
            ib.GaussianNoise(1.0),
            instance_numbers=range(FIRST_INSTANCE, FIRST_INSTANCE + 4),
            checkpoints=choose_checkpoints(HORIZONS),
        )
        mine = rows["policy"] == policy
        np.testing.assert_array_equal(rows["regret"][mine], run.regret().ravel())
        np.testing.assert_array_equal(rows["loss"][mine], run.loss().ravel())
        assert rows["instance"][mine].tolist() == np.repeat(range(4), len(run.checkpoints)).tolist()


def test_an_oracle_that_knows_the_horizon_is_played_anew_for_each(played):
    out, _ = played
    rows = table(out, "random-3")
    mine = rows["policy"] == "EachArmOnceOracle"
    assert sorted(set(rows["horizon"][mine])) == HORIZONS
    for n in range(4):
        world = ib.random_instance(3, FIRST_INSTANCE + n)
        for horizon in HORIZONS:
            run = ib.simulate(world, ib.EachArmOnceOracle(), horizon, checkpoints=[horizon])
            (at,) = np.flatnonzero(mine & (rows["instance"] == n) & (rows["horizon"] == horizon))
            assert rows["regret"][at] == run.regret()[0, 0, 0]
            assert rows["loss"][at] == run.loss()[0, 0, 0]


def test_any_other_policy_that_knows_the_horizon_is_simulated_for_each(monkeypatch):
    monkeypatch.setattr(ib.Uniform, "horizon_aware", True)
    family = FAMILIES["random-3"]
    (part,) = playing.cut_into_pieces(family, [ib.Uniform()], [30, 100], 2)
    rows = part.compute(None)
    assert rows["horizon"].tolist() == [30, 100, 30, 100]
    worlds = [family.make(n) for n in range(2)]
    run = ib.simulate(
        worlds,
        ib.Uniform(),
        100,
        family.noise,
        checkpoints=[30, 100],
        instance_numbers=[FIRST_INSTANCE, FIRST_INSTANCE + 1],
    )
    np.testing.assert_array_equal(rows["regret"], run.regret().ravel())


@pytest.mark.long
def test_a_policy_that_knows_the_horizon_can_play_where_memory_fades(monkeypatch, tmp_path):
    usual = play(tmp_path / "usual", ["Uniform"], ["fading-0.9"], [30, 100], n_instances=2)
    monkeypatch.setattr(ib.Uniform, "horizon_aware", True)
    aware = play(tmp_path / "aware", ["Uniform"], ["fading-0.9"], [30, 100], n_instances=2)
    assert aware.rows == usual.rows


def test_oracles_are_left_out_where_they_have_no_answer(played):
    _, found = played
    by_name = {result.family.name: result for result in found.results}
    assert by_name["random-3"].absent == []
    assert by_name["fading-0.9"].absent == ["EachArmOnceOracle"]
    section = next(s for s in found.sections if s.name == "fading-0.9")
    assert any("EachArmOnceOracle" in note for note in section.analysis.notes)


def test_fading_worlds_are_compared_with_a_benchmark(played):
    out, found = played
    rows = table(out, "fading-0.9")
    result = found.results[1]
    assert result.benchmark == playing.BOUND
    base = rows["loss"][rows["policy"] == result.benchmark]
    mine = rows["loss"][rows["policy"] == "LCB"] - base
    last = mine.reshape(4, -1)[:, -1]
    np.testing.assert_array_equal(result.regrets["LCB"][:, -1], last)
    world = FAMILIES["fading-0.9"].make(0)
    schedule = rows["loss"][(rows["policy"] == playing.SCHEDULE) & (rows["instance"] == 0)]
    greedy = ib.simulate(world, ib.FrankWolfeOracle(), 2000).loss()[0, 0, -1]
    assert schedule[-1] <= greedy + 1e-9 * abs(greedy)


def test_the_bound_for_each_horizon_is_the_benchmark_of_fading_worlds(tmp_path):
    found = play(tmp_path, ["LCB"], ["fading-0.9"], [30], n_instances=2)
    (result,) = found.results
    assert set(result.regrets) == {"LCB", playing.SCHEDULE}
    loss = table(tmp_path, "fading-0.9")
    mine = (loss["policy"] == "LCB") & (loss["horizon"] == 30)
    worlds = [FAMILIES["fading-0.9"].make(n) for n in range(2)]
    bounds = [30 * ib.fading_lower_bound(world, 30) for world in worlds]
    np.testing.assert_allclose(result.regrets["LCB"][:, 0], loss["loss"][mine] - bounds)


def test_unproved_optima_are_left_out_of_all_policies_alike(monkeypatch, tmp_path):
    real = ib.regret

    def sometimes(world, counts, *more):
        if world == FAMILIES["random-3"].make(1) and (np.sum(counts, axis=-1) == 100).any():
            raise ib.errors.NotCertified("for a test")
        return real(world, counts, *more)

    monkeypatch.setattr(trajectory, "regret", sometimes)
    found = play(tmp_path, ["LCB", "Uniform"], ["random-3"], [30, 100], n_instances=3)
    (result,) = found.results
    assert (result.n_instances, result.left_out) == (2, 1)
    assert all(value.shape == (2, 2) for value in result.regrets.values())
    assert any("1 instances left out" in n for n in found.sections[1].analysis.notes)


def test_the_default_policies_are_all_of_the_package_and_two_references():
    policies = list_default_policies()
    names = [policy.label for policy in policies]
    assert {"LCB", "InfluentialLCB", "Uniform"} <= set(names)
    assert names[-2:] == ["FrankWolfeOracle", "EachArmOnceOracle"]
    assert [name for policy, name in zip(policies, names, strict=True) if policy.privileged] == [
        "FrankWolfeOracle",
        "EachArmOnceOracle",
    ]
    assert len(set(names)) == len(names)


# --- families of the user's ---

OWN = """
import influential_bandits as ib

def two_arms(number):
    'Two arms, and more of them to come.'
    return ib.Instance([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.1 * number])

family = ib.Family("mine", "Mine", two_arms, 2, 1000, ib.NoNoise())
taken = ib.Family("random-3", "Not mine", two_arms)
strange = ib.Family("a/b", "Not a name", two_arms)
number = 7

def broken(number):
    return 1 / number

def other(number):
    return number

def growing(number):
    return ib.random_instance(2 + number, seed=0)

numberless = ib.Family("numberless", "No number of instances", two_arms, 0)
noiseless = ib.Family("noiseless", "No noise", two_arms, noise="loud")
"""


@pytest.fixture
def own_families(tmp_path, monkeypatch):
    (tmp_path / "own_families.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "own_families.py"
    for name in [name for name in sys.modules if name.startswith("own_families")]:
        del sys.modules[name]


@pytest.mark.long
def test_families_of_the_user_are_played_like_others(own_families):
    named = ["own_families.py:family", "own_families:two_arms", "prop-2.2"]
    found = play(Path("out"), ["LCB"], named, [50], n_instances=3)
    assert [c.family.name for c in found.results] == ["mine", "two-arms", "prop-2.2"]
    assert found.results[1].family.description == "Two arms, and more of them to come."
    worlds = [ib.Instance(np.eye(2), [0.0, 0.1 * n]) for n in range(3)]
    numbers = range(FIRST_INSTANCE, FIRST_INSTANCE + 3)
    run = ib.simulate(worlds, ib.LCB(), 50, checkpoints=[50], instance_numbers=numbers)
    rows = table(Path("out"), "mine")
    assert rows["regret"][rows["horizon"] == 50].tolist() == run.regret()[:, 0, 0].tolist()


@pytest.mark.long
def test_an_edited_family_is_played_again(own_families):
    def regret():
        found = play(Path("out"), ["LCB"], ["own_families.py:family"], [50], n_instances=2)
        return found.rows[0]["mean_regret"], stamps(Path("out") / "mine" / "pieces")

    first, kept = regret()
    assert regret() == (first, kept)
    own_families.write_text(OWN.replace("0.1 * number", "0.3 + number"))
    again, more = regret()
    assert again != first
    assert {name: more[name] for name in kept} == kept
    assert len(more) == 2 * len(kept)


@pytest.mark.parametrize(
    ("name", "mentions"),
    [
        ("taken", ["'random-3'", "of the package"]),
        ("strange", ["'a/b'", "folder"]),
        ("number", ["is no family but 7", "function from the number"]),
        ("nothing", ["has no 'nothing'", "two_arms"]),
        ("family(3)", ["name the family itself"]),
        ("broken", ["could not make instance 0", "ZeroDivisionError"]),
        ("other", ["must make an Instance", "got 0 for 0"]),
        ("growing", ["one number of arms, got 2, and 3 for instance 1"]),
        ("numberless", ["instances", "0"]),
        ("noiseless", ["noise", "'loud'"]),
    ],
)
def test_what_is_wrong_with_a_family_of_the_user_is_said(name, mentions, own_families):
    with pytest.raises(ib.errors.InvalidInput) as refusal:
        play(Path("out"), ["LCB"], [f"own_families.py:{name}"], [50])
    for mention in mentions:
        assert mention in str(refusal.value)


def test_families_and_policies_of_one_name_are_refused(own_families, refused):
    with refused(ib.errors.InvalidInput, "two families are called 'mine'"):
        play(Path("out"), ["LCB"], ["own_families.py:family", "own_families:family"], [50])
    for home in ("one", "two"):
        text = "from dataclasses import dataclass\nimport influential_bandits as ib\n"
        text += "class Mine(ib.LCB): pass\n"
        Path(f"{home}.py").write_text(text)
    with refused(ib.errors.InvalidPolicy, "two of the policies are called Mine"):
        play(Path("out"), ["one.py:Mine", "two.py:Mine"], ["prop-2.2"], [50])
    assert not Path("out").exists()


# --- resuming ---


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(played, tmp_path, monkeypatch):
    out, _ = played
    real = playing.simulate

    def stopping(*given, **named):
        if pieces_of(tmp_path):
            raise KeyboardInterrupt
        return real(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(playing, "simulate", stopping)
        with pytest.raises(KeyboardInterrupt):
            play(tmp_path)
    before = pieces_of(tmp_path)
    assert 1 <= len(before) <= len(pieces_of(out))
    assert not (tmp_path / "summary.json").exists()
    play(tmp_path, execution=ib.LocalExecution(1))
    assert before.items() <= pieces_of(tmp_path).items()
    assert (tmp_path / "summary.json").read_bytes() == (out / "summary.json").read_bytes()
    for family in ("random-3", "fading-0.9"):
        one, other = table(tmp_path, family), table(out, family)
        assert list(one) == list(other)
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])


@pytest.mark.long
def test_what_was_played_is_not_played_again(tmp_path, monkeypatch):
    def again(policies, **more):
        return play(tmp_path, policies, ["random-3"], more.pop("horizons", [30, 100]), **more)

    again(["LCB"], n_instances=12)
    first = pieces_of(tmp_path)
    assert len(first) == 2
    summary = (tmp_path / "summary.json").read_bytes()

    def never(*_, **__):
        raise AssertionError("played again")

    monkeypatch.setattr(playing, "simulate", never)
    again(["LCB"], n_instances=12)
    assert pieces_of(tmp_path) == first
    assert (tmp_path / "summary.json").read_bytes() == summary
    monkeypatch.undo()

    again(["LCB", "Uniform"], n_instances=12)
    both = pieces_of(tmp_path)
    assert first.items() < both.items()
    assert len(both) == 4
    again(["LCB"], n_instances=20)
    assert len(pieces_of(tmp_path)) == 5, "the first ten were there already"
    again(["LCB"], n_instances=10, horizons=[30, 200])
    again(["InfluentialLCB(influence_bound=2.0)"], n_instances=10)
    again(["InfluentialLCB"], n_instances=10)
    assert len(pieces_of(tmp_path)) == 8
    again(["LCB"], n_instances=12)
    assert (tmp_path / "summary.json").read_bytes() == summary
    assert len(pieces_of(tmp_path)) == 8


def test_another_code_of_the_same_name_is_played(monkeypatch):
    before = playing.name_piece(ib.Uniform(), [30])

    def select(c, s, t, eligible, rng):
        return 0

    monkeypatch.setattr(ib.Uniform, "select", staticmethod(select))
    assert playing.name_piece(ib.Uniform(), [30]) != before


# --- measuring ---


def plain_interval(values):
    return np.quantile(values, [0.025, 0.975])


def test_standings_are_those_of_a_slow_plain_computation():
    rng = np.random.default_rng(1)
    horizons = [100, 1000, 10_000, 100_000]
    regrets = {
        name: rng.gamma(2.0, scale, (15, 4)) * np.array([1.0, 5.0, 40.0, 300.0])
        for name, scale in (("a", 1.0), ("b", 1.1), ("c", 3.0), ("oracle", 0.1))
    }
    found = compute_standings(regrets, horizons, ["oracle"], resamples=200)
    drawn = draw_resamples(15, 200)
    for h in range(4):
        means = {name: float(np.mean(value[:, h])) for name, value in regrets.items()}
        contenders = ["a", "b", "c"]
        best = min(contenders, key=means.get)
        assert found.policies[found.lowest[h]] == best
        for p, (name, value) in enumerate(regrets.items()):
            again = [value[rows, h].mean() for rows in drawn]
            others = [regrets[best][rows, h].mean() for rows in drawn]
            assert found.mean.value[p, h] == pytest.approx(means[name])
            assert found.mean.at(p, h)[1:] == pytest.approx(plain_interval(again))
            ratios = np.divide(again, others)
            assert found.ratio.value[p, h] == pytest.approx(means[name] / means[best])
            assert found.ratio.at(p, h)[1:] == pytest.approx(plain_interval(ratios))
            differences = plain_interval(np.subtract(again, others))
            assert found.difference.at(p, h)[1:] == pytest.approx(differences)
            assert found.close[p, h] == (differences[0] <= 1e-9)
            tails = [np.quantile(value[:, h] / horizons[h], q) for q in (0.5, 0.9, 0.99, 1.0)]
            assert found.tails[:, p, h] == pytest.approx(tails)
            if name == "oracle":
                assert np.isnan(found.rank[p, h])
            else:
                assert found.rank[p, h] == 1 + sum(means[o] < means[name] for o in contenders)
    assert np.isnan(found.slope.value[:, :2]).all(), "one horizon from 1,000 on has no slope"
    for p, value in enumerate(regrets.values()):
        x, y = np.log(horizons[1:]), np.log(value.mean(axis=0)[1:])
        assert found.slope.value[p, 3] == pytest.approx(np.polyfit(x, y, 1)[0])
        slopes = [np.polyfit(x, np.log(value[rows].mean(axis=0)[1:]), 1)[0] for rows in drawn]
        assert found.slope.at(p, 3)[1:] == pytest.approx(plain_interval(slopes))


def test_equal_policies_share_their_rank_and_are_all_close():
    value = np.full((3, 1), 7.1)
    found = compute_standings({"a": value, "b": value, "c": value + 1}, [10])
    assert found.rank[:, 0].tolist() == [1.5, 1.5, 3.0]
    assert found.close[:, 0].tolist() == [True, True, False]
    mean, low, high = found.mean.at(0, 0)
    assert low == pytest.approx(7.1)
    assert low <= mean <= high


def test_ratios_and_slopes_of_what_is_not_positive_are_not_defined():
    values = {"a": np.array([[-1.0, 2.0]]), "b": np.array([[3.0, 0.0]])}
    found = compute_standings(values, [1000, 2000])
    assert np.isnan(found.ratio.value).all()
    assert np.isnan(found.slope.value).all()
    assert found.lowest.tolist() == [0, 1]


# --- what is written ---


def test_the_summary_has_a_row_for_each_family_policy_and_horizon(played):
    out, found = played
    text = (out / "summary.json").read_text(encoding="utf-8")
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    rows = json.loads(text)
    assert rows == found.rows
    assert all(list(row)[:6] == KEYS for row in rows)
    fading = [p for p in POLICIES if p != "EachArmOnceOracle"]
    expected = [("random-3", p, h) for p in POLICIES for h in HORIZONS]
    mine = [(r["family"], r["policy"], r["horizon"]) for r in rows]
    assert [key for key in mine if key[0] == "random-3"] == expected
    assert {key[1] for key in mine if key[0] == "fading-0.9"} >= set(fading)
    data = table(out, "random-3")
    for row in rows:
        assert row["low"] <= row["mean_regret"] <= row["high"]
        assert row["reference"] == (row["rank"] is None)
        if row["family"] == "random-3":
            same = (data["policy"] == row["policy"]) & (data["horizon"] == row["horizon"])
            assert row["mean_regret"] == pytest.approx(data["regret"][same].mean())
    for horizon in HORIZONS:
        lowest = [r for r in rows if r["family"] == "random-3" and r["horizon"] == horizon]
        (first,) = [r for r in lowest if r["lowest"]]
        assert (first["rank"], first["ratio_to_lowest"]) == (1.0, 1.0)
        assert first["within_interval_of_lowest"]


def test_the_report_has_every_section_picture_and_table(played):
    out, found = played
    page = check_report(out, found.sections)
    assert [section.name for section in found.sections] == ["overview", "random-3", "fading-0.9"]
    for section in found.sections:
        check_figures(out, section)
        for written in section.analysis.tables:
            assert written.title in page
            assert all(len(row) == len(written.header) for row in written.rows)
    check_pictures(out, found.sections[:1])


def test_the_printed_tables_are_those_of_the_summary(played):
    _, found = played
    text = str(found)
    for name in ("random-3", "fading-0.9"):
        assert f"{name}: {FAMILIES[name].description} (4 runs)" in text
    assert text.count("| LCB |") == 2


def test_one_policy_alone_has_no_ranks_to_show(tmp_path):
    found = play(tmp_path, ["LCB"], ["random-3"], [30], n_instances=1)
    assert found.sections[0].analysis.figures == []


def test_references_alone_can_be_played(tmp_path):
    found = play(tmp_path, ["FrankWolfeOracle"], ["prop-2.2"], [30, 100], n_instances=1)
    assert [row["mean_regret"] for row in found.rows] == [0.125, 0.125]


def test_a_repeated_policy_plays_once(tmp_path):
    found = play(tmp_path, ["LCB", "LCB()", ib.LCB()], ["prop-2.2"], [30], n_instances=1)
    assert len(found.rows) == 1


# --- in Python ---


@pytest.mark.long
def test_nothing_is_written_unless_a_folder_is_named(played, tmp_path, monkeypatch):
    out, found = played
    monkeypatch.chdir(tmp_path)
    again = ib.compare(POLICIES, ["random-3", "fading-0.9"], HORIZONS, n_instances=4)
    assert not list(tmp_path.iterdir())
    assert again.rows == found.rows
    assert repr(again) == str(again) == str(found)
    again.save("results")
    one = {p.relative_to("results") for p in Path("results").rglob("*") if p.is_file()}
    other = {p.relative_to(out) for p in out.rglob("*") if p.is_file()}
    kept = {path for path in other if "pieces" in path.parts or path.name == "settings.json"}
    assert one == other - kept
    assert Path("results/summary.json").read_bytes() == (out / "summary.json").read_bytes()


def test_frames_have_the_summary_or_every_run(played):
    out, found = played
    frame = found.to_frame()
    assert frame["mean_regret"].tolist() == [row["mean_regret"] for row in found.rows]
    runs = found.to_frame("pyarrow", runs=True)
    data = [table(out, name) for name in ("random-3", "fading-0.9")]
    assert len(runs) == sum(len(rows["loss"]) for rows in data)
    np.testing.assert_array_equal(runs["loss"], np.concatenate([rows["loss"] for rows in data]))
    assert set(runs["seed"].to_pylist()) == {0}


def test_a_notebook_shows_the_report(played):
    _, found = played
    page = html.unescape(found._repr_html_())
    for section in found.sections[1:]:  # the figure of the overview opens the report
        assert f"<details><summary>{section.name}</summary>" in page
        assert section.description in page
        for table in section.analysis.tables:
            numbers = [cell.partition(" (")[0] for row in table.rows for cell in row[1:]]
            assert all(number in page for number in numbers)
            assert all(row[0] in page for row in table.rows)


def test_a_comparison_is_plotted_family_by_family(played, refused):
    _, found = played
    ax = found.plot(family="random-3")
    assert ax.get_title() == "random-3: 4 runs"
    assert len(ax.lines) == len(POLICIES)
    plt.close("all")
    with refused(ib.errors.InvalidInput, "'easy'", "random-3, fading-0.9"):
        found.plot(family="easy")


def test_one_instance_is_played_with_several_seeds():
    instance = ib.random_instance(3, seed=6)
    found = ib.compare([ib.LCB(), "Uniform"], instance, 100, seeds=3, noise=ib.UniformNoise(1.0))
    numbers = range(FIRST_INSTANCE, FIRST_INSTANCE + 3)
    run = ib.simulate([instance] * 3, ib.LCB(), 100, ib.UniformNoise(1.0), instance_numbers=numbers)
    assert found.rows[0]["mean_regret"] == pytest.approx(run.regret()[:, 0, -1].mean())
    assert found.rows[0]["instances"] == 3
    runs = found.to_frame(runs=True)
    assert set(runs["instance"]) == {0}
    assert set(runs["seed"]) == {0, 1, 2}
    assert str(found).startswith("instances: One instance of your own (3 runs)")


def test_intervals_are_over_instances_and_not_over_their_seeds():
    instances = [ib.random_instance(3, seed=seed) for seed in (6, 7)]
    found = ib.compare(ib.LCB(), instances, [50, 100], seeds=3)
    (result,) = found.results
    assert (result.n_instances, result.n_arms) == (2, 3)
    runs = found.to_frame(runs=True)
    last = runs[runs["horizon"] == 100]
    means = last.groupby("instance")["regret"].mean().tolist()
    assert (len(last), result.n_runs) == (6, 6)
    np.testing.assert_allclose(result.regrets["LCB"][:, -1], means)
    assert found.rows[-1]["mean_regret"] == pytest.approx(np.mean(means))


def test_instances_of_a_family_can_be_played_several_times(tmp_path):
    once = ib.compare("LCB", "random-3", 30, n_instances=2, out=tmp_path)
    found = ib.compare("LCB", "random-3", 30, n_instances=2, seeds=3, out=tmp_path)
    assert ib.compare("LCB", "random-3", 30, n_instances=2, out=tmp_path).rows == once.rows
    worlds = [FAMILIES["random-3"].make(n) for n in (0, 0, 0, 1, 1, 1)]
    numbers = range(FIRST_INSTANCE, FIRST_INSTANCE + 6)
    run = ib.simulate(worlds, ib.LCB(), 30, ib.GaussianNoise(1.0), instance_numbers=numbers)
    expected = run.regret()[:, 0, -1].reshape(2, 3).mean(axis=1)
    np.testing.assert_allclose(found.results[0].regrets["LCB"][:, 0], expected)


def test_instances_and_families_can_be_compared_together():
    tiring = ib.Family("tiring", "Two arms", lambda n: ib.Instance(np.eye(2), [0.0, 0.1 * n]))
    found = ib.compare("LCB", [tiring, ib.counterexample(), "prop-2.2"], 30, n_instances=2)
    assert [r.family.name for r in found.results] == ["tiring", "prop-2.2", "instances"]
    assert [r.n_instances for r in found.results] == [2, 2, 10]


@pytest.mark.parametrize(
    ("given", "mentions"),
    [
        ({"policies": 7}, ["policies must be Policy or text", "7"]),
        ({"policies": [ib.LCB(), 7]}, ["each of policies", "7"]),
        ({"instances": [np.eye(2)]}, ["each of instances must be Instance or Family or text"]),
        (
            {"instances": [ib.Family("instances", "", ib.random_instance), ib.counterexample()]},
            ["two families are called 'instances'"],
        ),
        ({"instances": "random-3", "noise": ib.NoNoise()}, ["noise", "instances of your own"]),
        (
            {"instances": [ib.counterexample(), ib.random_instance(3, 0)]},
            ["one number of arms, got 2, 3"],
        ),
        ({"instances": ib.counterexample(), "seeds": 0}, ["seeds must be at least 1"]),
        ({"instances": "random-3", "n_instances": 0}, ["n_instances must be at least 1"]),
        ({"instances": ib.counterexample(), "noise": "loud"}, ["noise", "'loud'"]),
        ({"instances": "random-3", "horizons": [10.5]}, ["horizon must be a whole number"]),
    ],
)
def test_what_cannot_be_compared_is_refused(given, mentions, refused):
    with refused(ib.errors.InvalidInput, *mentions):
        ib.compare(**({"policies": "LCB", "horizons": 30} | given))


def test_what_is_left_of_a_comparison_comes_with_the_error(monkeypatch):
    real = playing.simulate

    def fail_on_one(worlds, *given, **named):
        if any(world.initial_loss[1] > 1.05 for world in worlds):
            raise ib.errors.NotCertified("no proof")
        return real(worlds, *given, **named)

    monkeypatch.setattr(playing, "simulate", fail_on_one)
    family = ib.Family("mine", "Two arms", lambda n: ib.Instance(np.eye(2), [0.0, 0.1 * n]), 15)
    with pytest.raises(ib.errors.Unfinished) as error:
        ib.compare(ib.LCB(), family, 30)
    assert "kept in" not in str(error.value)
    (result,) = error.value.results.results
    assert result.n_instances == 10
    assert any("00010-00015" in note for note in result.failures)


# --- the command ---


@pytest.mark.long
def test_the_command_compares(tmp_path):
    options = ("--families", "random-3,prop-2.2", "--horizons", "30,1e2")
    options += ("--instances", 2, "--seeds", 3)
    policies = ("--policies", "LCB,InfluentialLCB(influence_bound=2.0, opening='pairs')")
    out = tmp_path / "out"
    done = run_command("compare", *policies, *options, "--out", out, "--jobs", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| InfluentialLCB(influence_bound=2.0) |" in done.stdout
    assert str(out / "report.html") in done.stdout
    assert {row["horizon"] for row in json.loads((out / "summary.json").read_text())} == {30, 100}
    again = run_command("compare", *policies, *options, "--out", out)
    assert again.stdout == done.stdout
    listed = run_command("families")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(describe_families())


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--policies", "LCB,Nobody"], ["unknown policy 'Nobody'", "LCB"]),
        (["--policies", "LCB(x=1)"], ["LCB(x=1)"]),
        (["--policies", "LCB("], ["cannot read the policy 'LCB('"]),
        (["--families", "random-4"], ["unknown family 'random-4'", "random-3"]),
        (["--families", "random-50", "--horizons", "1e5"], ["random-50", "10,000", "100,000"]),
        (["--horizons", "soon"], ["horizons", "'soon'"]),
        (["--horizons", "0"], ["horizon must be at least 1"]),
        (["--horizons", "10.5"], ["horizon must be a whole number"]),
        (["--horizons", "1e12"], ["nothing is left to play", "random-3"]),
        (
            ["--policies", "EachArmOnceOracle", "--families", "fading-0.9,indefinite"],
            ["nothing is left to play", "fading-0.9", "indefinite"],
        ),
        (["--instances", "0"], ["instances must be at least 1"]),
        (["--seeds", "0"], ["seeds must be at least 1"]),
        (["--jobs", "0"], ["jobs must be at least 1"]),
        (["--data", "/nowhere/at/all"], ["/nowhere/at/all"]),
        (["--out", Path(__file__) / "x"], ["cannot write to", "is a file"]),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_bad_input_gets_one_sentence(options, parts, tmp_path, monkeypatch):
    monkeypatch.delenv("MOVIELENS_DATA", raising=False)
    where = [] if "--out" in options else ["--out", tmp_path / "out"]
    done = run_command("compare", *options, *where)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line.startswith("error: ")
    assert all(part in line for part in parts), line
    assert not (tmp_path / "out").exists()


# --- for a paper -----------------------------------------------------------------------------

OWN_POLICY = """
import influential_bandits as ib

class Plain_Greedy(ib.Uniform):
    '''One of the user's own.'''
"""


@pytest.fixture(scope="module")
def with_own(tmp_path_factory):
    """Six policies, of which the last of all is the user's own."""
    home = tmp_path_factory.mktemp("own")
    (home / "mine.py").write_text(OWN_POLICY)
    policies = ["LCB", "InfluentialLCB", "MOSS", "DiscountedLCB", "UCBV", "EachArmOnceOracle"]
    mine = f"{home / 'mine.py'}:Plain_Greedy"
    return compare([*policies, mine], ["random-3", "hard"], [30, 100], n_instances=3)


def test_the_users_own_policy_stands_out(with_own, tmp_path):
    assert str(with_own).count("| Plain_Greedy (own) |") == 2  # though five others do better
    assert "LCB (own)" not in str(with_own)
    assert "Plain_Greedy (own)" in with_own._repr_html_()
    frame = with_own.to_frame()
    assert set(frame[frame["own"]]["policy"]) == {"Plain_Greedy"}
    for section in with_own.sections[1:]:
        strong = {s.name for s in section.analysis.figures[0].series if s.strong}
        assert strong == {"Plain_Greedy (own)"}
        shown = {s.name: s.kind for s in section.analysis.figures[0].series}
        assert shown["Plain_Greedy (own)"] == "line"
        for table in section.analysis.tables:
            (place,) = (n for n, row in enumerate(table.rows) if row[0] == "Plain_Greedy (own)")
            assert (place, 0) in table.strong
    (ranks,) = with_own.sections[0].analysis.figures
    assert "Plain_Greedy (own)" in ranks.rows
    ax = with_own.plot(family="hard")
    widths = {line.get_label(): line.get_linewidth() for line in ax.get_lines()}
    assert widths["Plain_Greedy (own)"] > max(
        width for name, width in widths.items() if name != "Plain_Greedy (own)"
    )
    plt.close(ax.figure)


def test_a_comparison_becomes_latex(with_own, refused):
    text = with_own.to_latex()
    assert text.count(r"\begin{table}") == text.count(r"\bottomrule") == 2
    assert r"\textbf{Plain\_Greedy (own)}" in text
    assert not re.search(r"(?<!\\)[_%&#](?![&\s])", text.replace(" & ", " "))
    assert "…" not in text
    assert text.isascii()
    one = with_own.to_latex(family="hard")
    assert r"\label{tab:hard}" in one
    assert one in text
    rows = [line.split(" & ") for line in one.splitlines() if line.endswith(r"\\")]
    assert {len(row) for row in rows} == {3}
    bold = [row[0].strip() for row in rows[1:] if row[2].startswith(r"\textbf")]
    best = [r["policy"] for r in with_own.rows if r["family"] == "hard" and r["rank"] == 1.0]
    assert set(bold) <= set(best)
    assert bold
    with refused(InvalidInput, "no family 'easy'", "random-3, hard"):
        with_own.to_latex(family="easy")


def test_tables_for_a_paper_are_saved(with_own, tmp_path):
    with_own.save(tmp_path)
    for name in ("random-3", "hard"):
        text = (tmp_path / name / "table.tex").read_text(encoding="utf-8")
        assert text == with_own.to_latex(family=name)


def test_slopes_below_zero_are_explained(with_own, monkeypatch):
    result = with_own.results[0]
    slope = np.full_like(result.standings.rank, -0.25)
    standings = dataclasses.replace(result.standings, slope=Estimates(slope, slope, slope))
    falling = dataclasses.replace(result, standings=standings)
    (_, details) = falling.section.analysis.tables
    assert "slope below zero says that mean regret shrinks" in details.caption
    (_, details) = result.section.analysis.tables
    assert "below zero" not in details.caption
