"""Trajectory: what follows from the counts, tables, pictures and files."""

import sys

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


@pytest.mark.parametrize("world", [ib.counterexample(), FADING], ids=["lasting", "fading"])
def test_a_saved_run_is_a_table_that_any_program_reads(world, tmp_path):
    run = ib.simulate(world, ib.LCB(), 50, NOISE, seeds=[2**64 - 1, 7])
    run.save(tmp_path / "run.parquet")
    saved = parquet.read_table(tmp_path / "run.parquet").to_pandas()
    pd.testing.assert_frame_equal(saved, run.to_frame(counts=True))
    assert files.read_about(tmp_path / "run.parquet") == {"run": repr(run)}


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
def test_recorded_losses_are_those_of_the_environment(scenario):
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


def test_each_record_is_kept_alone_too():
    arguments = (ib.counterexample(), ib.LCB(), 30, ib.GaussianNoise(1.0))
    both = ib.simulate(*arguments, record=["losses", "choices"])
    for record, kept, left_out in (
        ("losses", "losses", "choices"),
        ("choices", "choices", "losses"),
    ):
        run = ib.simulate(*arguments, record=record)
        assert np.array_equal(getattr(run, kept), getattr(both, kept))
        assert getattr(run, left_out) is None


@pytest.mark.parametrize("record", ["loss", "", [], ["choices", "time"], 3, True])
def test_an_unknown_record_is_refused(record, refused):
    with refused(InvalidInput, "record", "losses"):
        ib.simulate(ib.counterexample(), ib.LCB(), 30, record=record)


# Memory


@pytest.mark.parametrize("many", [10**12, 2**64])
def test_more_seeds_than_memory_holds_are_refused_before_anything_is_made(many):
    with pytest.raises(ib.errors.InvalidInput, match=rf"{many:,} seeds .* [GT]B"):
        ib.simulate(ib.counterexample(), ib.LCB(), 10, seeds=range(many))


def test_more_results_than_memory_holds_are_refused_before_anything_is_made():
    with pytest.raises(ib.errors.InvalidInput, match=r"[GT]B of memory"):
        ib.simulate(ib.counterexample(), ib.LCB(), 10**13, record="choices")
