"""Trajectory: what follows from the counts, tables, pictures and files."""

import gc
import math
import os
import sys
from dataclasses import dataclass

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import influential_bandits as ib
from influential_bandits import files
from influential_bandits.errors import InvalidInput
from influential_bandits.simulation import trajectory

mpl.use("Agg")

NOISE = ib.GaussianNoise(1.0)
FADING = ib.Instance([[0.5, 0.1], [0.1, 0.3]], [0.0, 0.2], memory=0.9)


@dataclass(frozen=True)
class Alternating(ib.Policy):
    period: int = 1

    @staticmethod
    def select(c, s, t, eligible, rng):
        return (t // c.period) % c.n_arms


@pytest.fixture(scope="module")
def run():
    instances = [ib.random_instance(n_arms=3, seed=seed) for seed in range(4)]
    return ib.simulate(instances, ib.InfluentialLCB(), 1000, NOISE, seeds=[5, 3])


@pytest.fixture
def fading():
    instance = ib.Instance([[1, 1], [1, 2]], [1, 1], memory=0.5)
    return ib.simulate([instance, ib.counterexample()], ib.LCB(), 50, NOISE, seeds=[1, 2, 3])


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def same(a, b):
    """Whether two trajectories are the same in everything, types included."""
    for name in ("seeds", "checkpoints", "counts", "expected_loss", "choices"):
        x, y = getattr(a, name), getattr(b, name)
        if (x is None) != (y is None):
            return False
        if x is not None and not (
            x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        ):
            return False
    return (
        a.instances == b.instances
        and (a.policy, a.noise) == (b.policy, b.noise)
        and (type(a.policy), type(a.noise)) == (type(b.policy), type(b.noise))
    )


def test_shapes_are_instances_by_seeds_by_checkpoints_by_arms(run):
    assert run.checkpoints.tolist() == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert run.counts.shape == (4, 2, 10, 3)
    assert run.counts.dtype == np.int64
    assert run.loss().shape == run.regret().shape == (4, 2, 10)
    assert run.choices is None
    assert run.expected_loss is None


def test_the_loss_is_that_of_the_counts(run):
    for i, instance in enumerate(run.instances):
        for s in range(2):
            for n in range(10):
                assert run.loss()[i, s, n] == instance.total_loss(run.counts[i, s, n])


def test_the_regret_is_that_of_the_counts_and_never_negative(run):
    for against in ("relaxation", "integer"):
        regret = run.regret(against)
        assert (regret >= 0).all()
        for i, instance in enumerate(run.instances):
            assert np.array_equal(regret[i], ib.regret(instance, run.counts[i], against))
    assert (run.regret("integer") <= run.regret()).all()


def test_the_regret_is_the_loss_beyond_that_of_the_optimum(run):
    for i, instance in enumerate(run.instances):
        for n, horizon in enumerate(run.checkpoints):
            best = ib.optimum(instance, int(horizon)).loss
            excess = run.loss()[i, :, n] - best
            assert run.regret()[i, :, n] == pytest.approx(excess, rel=1e-6, abs=1e-6)


def test_an_unknown_benchmark_is_refused(run):
    with pytest.raises(ib.errors.InvalidInput, match="against must be"):
        run.regret("optimum")


def test_regret_says_that_it_needs_lasting_influence(fading):
    with pytest.raises(ib.errors.NotApplicable, match="memory = 1"):
        fading.regret()


def test_the_slope_is_that_of_the_mean_regret(run):
    mean = run.regret().mean(axis=(0, 1))
    assert run.slope(10, 1000) == ib.log_log_slope(run.checkpoints, mean, 10, 1000)
    integer = run.regret("integer").mean(axis=(0, 1))
    assert run.slope(10, 1000, "integer") == ib.log_log_slope(run.checkpoints, integer, 10, 1000)


def test_the_repr_says_who_played_how_long_and_how_often(run):
    assert repr(run) == (
        "Trajectory(InfluentialLCB(influence_bound=1.0, opening='pairs', noise_bound=0.0), "
        "GaussianNoise(sigma=1.0), horizon 1,000, 4 instances × 2 seeds × 10 checkpoints × 3 arms)"
    )


def as_columns(frame, library):
    if library == "pyarrow":
        assert isinstance(frame, pa.Table)
        return {name: frame[name].to_pylist() for name in frame.column_names}
    assert isinstance(frame, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library])
    return {name: frame[name].to_list() for name in frame.columns}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_has_a_row_for_each_instance_seed_and_checkpoint_in_this_order(run, library):
    columns = as_columns(run.to_frame(library), library)
    assert list(columns) == ["instance", "seed", "policy", "horizon", "loss", "regret"]
    rows = [(i, seed, t) for i in range(4) for seed in (5, 3) for t in run.checkpoints.tolist()]
    assert list(zip(columns["instance"], columns["seed"], columns["horizon"], strict=True)) == rows
    assert columns["loss"] == run.loss().ravel().tolist()
    assert columns["regret"] == run.regret().ravel().tolist()
    assert set(columns["policy"]) == {run.policy.label}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_may_have_the_counts_of_all_arms(library):
    instance = ib.Instance([[1, 1], [1, 2]], [1, 1], arm_names=["red", "green"])
    run = ib.simulate(instance, ib.LCB(), 100)
    columns = as_columns(run.to_frame(library, counts=True), library)
    assert columns["pulls_red"] == run.counts[0, 0, :, 0].tolist()
    assert columns["pulls_green"] == run.counts[0, 0, :, 1].tolist()


def test_a_frame_by_default_is_of_pandas(run):
    assert isinstance(run.to_frame(), pd.DataFrame)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_regret_of_a_frame_is_missing_where_it_is_not_defined(fading, library):
    columns = as_columns(fading.to_frame(library), library)
    assert list(columns) == ["instance", "seed", "policy", "horizon", "loss", "regret"]
    assert columns["loss"] == fading.loss().ravel().tolist()
    assert np.isnan(columns["regret"][: len(columns["regret"]) // 2]).all()
    assert not np.isnan(columns["regret"][len(columns["regret"]) // 2 :]).any()


def test_columns_keep_the_regrets_that_are_proved(monkeypatch):
    worlds = [ib.counterexample(), ib.Instance(np.eye(2), [0, 1], memory=0.5)]
    run = ib.simulate(worlds, ib.LCB(), 100, seeds=2, checkpoints=[10, 100])
    whole = run.to_columns()
    assert np.isnan(whole["regret"]).tolist() == [False] * 4 + [True] * 4
    proved = trajectory.regret

    def sometimes(instance, counts):
        if np.sum(counts) != 10:
            raise ib.errors.NotCertified("not this one")
        return proved(instance, counts)

    monkeypatch.setattr(trajectory, "regret", sometimes)
    some = run.to_columns()["regret"]
    assert np.isnan(some[1::2]).all()
    assert np.array_equal(some[:4:2], whole["regret"][:4:2])


def test_columns_have_no_regret_where_arms_were_not_on_offer():
    run = ib.simulate(ib.counterexample(), ib.LCB(), 20, scenario=ib.Scenario(eligible=0.5))
    assert np.isnan(run.to_columns()["regret"]).all()


@pytest.mark.parametrize("library", ["numpy", "", None, 1])
def test_a_frame_of_another_library_is_refused(run, library):
    with pytest.raises(
        ib.errors.InvalidInput, match="library must be one of pandas, polars, pyarrow"
    ):
        run.to_frame(library)


def test_a_plot_shows_the_mean_regret_and_its_interval_on_log_scales(run):
    ax = run.plot()
    (line,) = ax.lines
    assert line.get_xdata().tolist() == run.checkpoints.tolist()
    assert line.get_ydata().tolist() == run.regret().mean(axis=(0, 1)).tolist()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("horizon T", "regret")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["InfluentialLCB"]
    (band,) = ax.collections
    mean, half = run.regret().mean(axis=(0, 1)), 1.96 * run.regret().std(axis=(0, 1)) / 7**0.5
    low, high = np.maximum(mean - half, mean * 1e-3), mean + half
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(low.min())
    assert heights.max() == pytest.approx(high.max())


def test_several_runs_share_a_plot(run):
    _, ax = plt.subplots()
    assert run.plot(ax, label="first") is ax
    assert run.plot(ax, label="second") is ax
    assert [line.get_label() for line in ax.lines] == ["first", "second"]


def test_a_plot_of_one_run_has_no_band():
    ax = ib.simulate(ib.counterexample(), ib.LCB(), 100).plot()
    assert len(ax.lines) == 1
    assert len(ax.collections) == 0


def test_a_plot_of_no_regret_at_all_can_be_drawn(tmp_path):
    """A world of one arm has none; warnings are errors here."""
    run = ib.simulate(ib.Instance([[1.0]], [1.0]), ib.LCB(), 100)
    assert (run.regret() == 0).all()
    run.plot().figure.savefig(tmp_path / "nothing.png")


def test_a_plot_where_no_regret_is_defined_shows_the_mean_loss_of_a_round():
    run = ib.simulate(FADING, ib.LCB(), 100, NOISE, seeds=3)
    ax = run.plot()
    assert ax.get_ylabel() == "mean loss of a round"
    expected = (run.loss() / run.checkpoints).mean(axis=(0, 1))
    assert ax.lines[0].get_ydata().tolist() == expected.tolist()


# --- several policies ---


@pytest.mark.parametrize("world", [ib.counterexample(), FADING], ids=["lasting", "fading"])
def test_runs_of_several_policies_are_drawn_as_one_picture(world, tmp_path):
    runs = ib.simulate(world, {"mine": "LCB", "theirs": ib.Uniform()}, 100, NOISE, seeds=3)
    ax = runs.plot()
    assert [line.get_label() for line in ax.lines] == ["mine", "theirs"]
    assert len({line.get_color() for line in ax.lines}) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mine", "theirs"]
    _, given = plt.subplots()
    assert runs.plot(given) is given
    ax.figure.savefig(tmp_path / "runs.pdf")


def test_runs_of_several_policies_make_one_frame_under_the_names_that_were_given():
    runs = ib.simulate(ib.counterexample(), {"a": ib.LCB(), "b": ib.LCB()}, 10, seeds=2)
    frame = runs.to_frame()
    assert frame["policy"].tolist() == ["a"] * 8 + ["b"] * 8
    assert frame[frame["policy"] == "b"]["regret"].tolist() == runs["b"].regret().ravel().tolist()
    assert {"pulls_0", "pulls_1"} <= set(runs.to_columns(counts=True))
    assert runs.to_frame("pyarrow").num_rows == 16


def test_runs_of_several_policies_say_what_they_are():
    runs = ib.simulate(ib.counterexample(), ["LCB", ib.Uniform()], 100, seeds=2)
    assert repr(runs) == "Trajectories(LCB, Uniform: horizon 100, 1 instances × 2 seeds)"
    assert isinstance(runs, dict)
    html = runs._repr_html_()
    assert html.count("<tr>") == 3
    assert "<th>regret</th>" in html
    assert f"<td>{runs['LCB'].regret()[..., -1].mean():,.4g}</td>" in html


def test_policies_are_named_as_on_the_command_line(tmp_path):
    file = tmp_path / "mine_named.py"
    file.write_text("import influential_bandits as ib\n\nclass Own(ib.Uniform):\n    pass\n")
    world = ib.counterexample()
    run = ib.simulate(world, f"{file}:Own", 10)
    assert isinstance(run, ib.Trajectory)
    assert type(run.policy).__name__ == "Own"
    runs = ib.simulate(world, ["InfluentialLCB(influence_bound=2.0)", f"{file}:Own"], 10)
    assert list(runs) == ["InfluentialLCB(influence_bound=2.0)", "Own"]
    assert runs["Own"].counts.tolist() == run.counts.tolist()
    with pytest.raises(ib.errors.InvalidInput, match="unknown policy 'Nobody'"):
        ib.simulate(world, "Nobody", 10)


RUNS = {
    "plain": {},
    "several": {"seeds": [2**64 - 1, 7, 0], "noise": NOISE},
    "arms": {"record": "choices", "seeds": range(3), "noise": ib.UniformNoise(0.3)},
    "checkpoints": {"checkpoints": [7, 13], "seeds": range(2)},
    "one checkpoint": {"checkpoints": [40], "record": "choices"},
    "estimate": {"policy": ib.InfluentialLCB("estimate", opening="paper", noise_bound=0.25)},
    "scale": {"policy": ib.InfluentialLCB(influence_bound=0.1 + 0.2)},
    "recorded noise": {
        "noise": ib.RecordedNoise(np.random.default_rng(0).normal(size=(2, 50))),
        "seeds": range(2),
    },
    "own policy": {"policy": Alternating(period=3)},
    "oracle": {"policy": ib.FrankWolfeOracle()},
    "low rank": {"instances": ib.random_instance(5, seed=1, rank=2)},
    "one arm": {"instances": ib.Instance([[0.1]], [0.2]), "record": "choices"},
    "named arms": {"instances": ib.Instance([[1, 0], [0, 1]], [0, 0], arm_names=["ä", "b"])},
    "indefinite": {"instances": ib.Instance([[0, 1], [1, 0]], [0, 0], definite=False)},
    "fading": {
        "instances": ib.Instance([[1, 1], [1, 2]], [1, 1], memory=0.9),
        "noise": NOISE,
        "seeds": range(3),
        "record": "choices",
    },
    "fading and not": {
        "instances": [ib.counterexample(), ib.Instance(np.eye(2), [1, 1], memory=0.1)],
    },
}


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS.keys())
def test_a_saved_run_comes_back_to_the_last_bit(tmp_path, options):
    instances = [ib.random_instance(n_arms=3, seed=seed) for seed in range(2)]
    run = ib.simulate(**{"instances": instances, "policy": ib.LCB(), "horizon": 50} | options)
    run.save(tmp_path / "run.parquet")
    loaded = ib.Trajectory.load(str(tmp_path / "run.parquet"))
    assert same(run, loaded)
    assert np.array_equal(run.loss(), loaded.loss())


def test_runs_that_differ_in_anything_are_told_apart():
    """The comparison above can fail."""
    one = ib.simulate(ib.counterexample(), ib.LCB(), 50)
    assert same(one, ib.simulate(ib.counterexample(), ib.LCB(), 50))
    others = [{"record": "choices"}, {"policy": ib.Uniform()}, {"seeds": [1]}, {"noise": NOISE}]
    for other in others:
        options = {"instances": ib.counterexample(), "policy": ib.LCB(), "horizon": 50} | other
        assert not same(one, ib.simulate(**options))


@pytest.mark.parametrize(
    "options",
    [
        {"policy": Alternating(np.int64(2))},
        {"noise": ib.GaussianNoise(np.float32(0.5))},
        {"noise": ib.UniformNoise(np.int64(1))},
    ],
    ids=repr,
)
def test_a_run_with_numpy_parameters_can_be_saved(tmp_path, options):
    given = {"instances": ib.counterexample(), "policy": ib.LCB(), "horizon": 10} | options
    run = ib.simulate(**given)
    run.save(tmp_path / "run.parquet")
    loaded = ib.Trajectory.load(tmp_path / "run.parquet")
    assert (loaded.policy, loaded.noise) == (run.policy, run.noise)


def test_a_policy_that_cannot_be_imported_is_named(tmp_path):
    run = ib.simulate(ib.counterexample(), Alternating(), 10)
    path = tmp_path / "run.parquet"
    run.save(path)
    # A module that no other test has imported.
    rewrite(path, lambda settings: settings["policy"].update({"name": "gone_since:Forgotten"}))
    with pytest.raises(ib.errors.InvalidInput, match=r"gone_since:Forgotten cannot be imported"):
        ib.Trajectory.load(path)


def test_a_policy_may_be_given_with_the_file(run, tmp_path):
    path = tmp_path / "run.parquet"
    run.save(path)
    assert same(ib.Trajectory.load(path, run.policy), run)
    with pytest.raises(ib.errors.InvalidInput, match="does not fit"):
        ib.Trajectory.load(path, ib.LCB())


def test_a_parameter_may_be_called_name(tmp_path):
    @dataclass(frozen=True)
    class Labelled(ib.Policy):
        name: int = 0

        @staticmethod
        def select(c, s, t, eligible, rng):
            return c.name

    run = ib.simulate(ib.counterexample(), Labelled(1), 10)
    run.save(tmp_path / "run.parquet")
    assert ib.Trajectory.load(tmp_path / "run.parquet").policy == Labelled(1)


def test_a_policy_of_the_package_is_not_mistaken_for_one_of_the_user_with_its_name(tmp_path):
    run = ib.simulate(ib.counterexample(), ib.LCB(), 10)
    run.save(tmp_path / "run.parquet")
    mine = type("LCB", (ib.LCB,), {"__module__": "mine"})
    loaded = type(ib.Trajectory.load(tmp_path / "run.parquet").policy)
    found = f"{loaded.__module__}.{loaded.__name__}"
    del mine, loaded
    gc.collect()  # or other tests would meet this class
    assert found == "influential_bandits.policies.lcb.LCB"


def rewrite(path, change):
    """Change the settings that a file carries."""
    settings = files.read_about(path)
    change(settings)
    files.write_table(path, parquet.read_table(path), settings)


def damage(path, how):
    content = path.read_bytes()
    if how == "text":
        path.write_text("horizon,regret\n10,1.5\n", encoding="utf-8")
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "half":
        path.write_bytes(content[: len(content) // 2])
    elif how == "overwritten":
        path.write_bytes(content[:20] + b"\0" * 200 + content[220:])
    elif how == "another table":
        parquet.write_table(pa.table({"x": [1.0, math.pi]}), path)
    elif how == "another format":
        rewrite(path, lambda s: s.update(format="influential-bandits/trajectory/99"))


@pytest.mark.parametrize(
    "how", ["text", "empty", "half", "overwritten", "another table", "another format"]
)
def test_a_file_that_is_no_run_gets_a_clear_sentence(tmp_path, how):
    path = tmp_path / "run.parquet"
    ib.simulate(ib.counterexample(), ib.LCB(), 1000, seeds=range(20)).save(path)
    damage(path, how)
    with pytest.raises(ib.errors.InvalidInput, match=r"run\.parquet"):
        ib.Trajectory.load(path)


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ib.errors.MissingFile, match=r"missing\.parquet"):
        ib.Trajectory.load(tmp_path / "missing.parquet")


def test_what_is_missing_is_named_with_what_to_install(run, monkeypatch):
    for module, use in (
        ("pandas", run.to_frame),
        ("matplotlib.pyplot", run.plot),
        ("pyarrow", lambda: run.save("nowhere")),
    ):
        with monkeypatch.context() as context:
            context.setitem(sys.modules, module, None)
            with pytest.raises(
                ib.errors.MissingExtra, match=rf"pip install {module.partition('.')[0]}"
            ):
                use()


def test_counts_alone_make_a_trajectory():
    """A run from elsewhere can be measured, too."""
    run = ib.Trajectory(
        instances=(ib.counterexample(),),
        policy=ib.LCB(),
        noise=ib.NoNoise(),
        seeds=np.array([0], np.uint64),
        checkpoints=np.array([10]),
        counts=np.array([[[[7, 3]]]]),
    )
    assert run.regret("integer").tolist() == [[[3.0]]]


@pytest.mark.parametrize("scenario", [None, ib.Scenario(delay=7, delay_law="geometric", batch=3)])
def test_recorded_losses_are_those_of_the_environment_and_are_saved(scenario, tmp_path):
    worlds = [ib.random_instance(n_arms=3, seed=seed) for seed in range(2)]
    noise, seeds = ib.GaussianNoise(1.0), [4, 9]
    run = ib.simulate(
        worlds, ib.LCB(), 80, noise, seeds, record=("choices", "losses"), scenario=scenario
    )
    assert run.losses.shape == (2, 2, 80)
    for i, world in enumerate(worlds):
        for n, seed in enumerate(seeds):
            environment = ib.Environment(world, noise, seed, instance_number=i)
            pulled = [environment.pull(arm) for arm in run.choices[i, n]]
            assert pulled == run.losses[i, n].tolist()
    run.save(tmp_path / "run.parquet")
    loaded = ib.Trajectory.load(tmp_path / "run.parquet")
    assert np.array_equal(loaded.losses, run.losses)
    assert np.array_equal(loaded.choices, run.choices)


def test_each_record_is_kept_alone_too(tmp_path):
    arguments = (ib.counterexample(), ib.LCB(), 30, ib.GaussianNoise(1.0))
    both = ib.simulate(*arguments, record=["losses", "choices"])
    for record, kept, left_out in (
        ("losses", "losses", "choices"),
        ("choices", "choices", "losses"),
    ):
        run = ib.simulate(*arguments, record=record)
        assert np.array_equal(getattr(run, kept), getattr(both, kept))
        run.save(tmp_path / "run.parquet")
        loaded = ib.Trajectory.load(tmp_path / "run.parquet")
        assert np.array_equal(getattr(loaded, kept), getattr(both, kept))
        assert getattr(run, left_out) is None
        assert getattr(loaded, left_out) is None


@pytest.mark.parametrize("record", ["loss", "", [], ["choices", "time"], 3, True])
def test_an_unknown_record_is_refused(record, refused):
    with refused(InvalidInput, "record", "losses"):
        ib.simulate(ib.counterexample(), ib.LCB(), 30, record=record)


def test_a_plot_is_labelled_by_what_is_not_usual():
    run = ib.simulate(ib.counterexample(), ib.InfluentialLCB(influence_bound=2.0), 30)
    assert [line.get_label() for line in run.plot().lines] == [
        "InfluentialLCB(influence_bound=2.0)"
    ]


# What a file may hold


@pytest.fixture(scope="module")
def played():
    """Two instances whose numbers fall, three seeds, every choice."""
    instances = [ib.random_instance(n_arms=2, seed=seed) for seed in range(2)]
    return ib.simulate(
        instances,
        ib.LCB(),
        40,
        NOISE,
        [5, 1, 3],
        record="choices",
        checkpoints=[1, 10, 30],
        instance_numbers=[7, 4],
    )


def test_no_flipped_bit_gives_another_run(played, tmp_path):
    path = tmp_path / "run.parquet"
    played.save(path)
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        try:
            loaded = ib.Trajectory.load(path)
        except ib.errors.InvalidInput:
            continue
        assert same(played, loaded)


@pytest.mark.parametrize("column", ["choices", "expected_loss"])
def test_a_file_that_another_program_has_rewritten_is_refused(column, tmp_path):
    path = tmp_path / "run.parquet"
    fading = ib.Instance([[0.5, 0.1], [0.1, 0.2]], [0.0, 0.1], memory=0.9)
    ib.simulate(fading, ib.LCB(), 20, record="choices").save(path)
    parquet.write_table(parquet.read_table(path).drop_columns([column]), path)
    with pytest.raises(ib.errors.InvalidInput, match="it has no checksum"):
        ib.Trajectory.load(path)


def test_a_pipe_is_no_run_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ib.errors.InvalidInput, match="no regular file"):
        ib.Trajectory.load(tmp_path / "pipe")


@pytest.mark.parametrize("many", [10**12, 2**64])
def test_more_seeds_than_memory_holds_are_refused_before_anything_is_made(many):
    with pytest.raises(ib.errors.InvalidInput, match=rf"{many:,} seeds .* [GT]B"):
        ib.simulate(ib.counterexample(), ib.LCB(), 10, seeds=range(many))


def test_more_results_than_memory_holds_are_refused_before_anything_is_made():
    with pytest.raises(ib.errors.InvalidInput, match=r"[GT]B of memory"):
        ib.simulate(ib.counterexample(), ib.LCB(), 10**13, record="choices")
