"""The command line, as users meet it."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import forked
import numpy as np
import pyarrow.parquet as pq
import pytest
import typer.main
from command_line import PLAIN
from command_line import run_command as run

import influential_bandits as ib
from influential_bandits.cli import app

COMMAND = (sys.executable, "-m", "influential_bandits.cli")
COMMANDS = typer.main.get_command(app).commands
CONTINUE = ("reproduce", "compare", "compare-fleets", "simulate")  # after an interruption
STUDIES = ("figure-1a", "figure-1b", "figure-4", "lower-bounds", "easy-instances")
# A Ctrl-C that works however the tests were started.
INTERRUPTIBLE = """
import signal
from influential_bandits.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


def start(*arguments, command=COMMAND, cwd=None):
    """Run a command in a process of its own; one that looks at imports must import by itself."""
    run = forked.run if command is COMMAND else subprocess.run
    return run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | PLAIN,
        cwd=cwd,
        check=False,
    )


def refused(done):
    """The one sentence of a refusal."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert done.stdout == ""
    return line


def table(text):
    """The rows of a Markdown table: first cell to the other cells."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {first: rest for first, *rest in cells}


def losses(out, policy):
    """The losses that simulate saved of a policy."""
    rows = pq.read_table(out / "runs" / "data.parquet").to_pylist()
    return [row["loss"] for row in rows if row["policy"] == repr(policy)]


@pytest.fixture
def counterexample(tmp_path):
    ib.counterexample().save(tmp_path / "counterexample.json")
    return tmp_path / "counterexample.json"


@pytest.fixture
def fading(tmp_path):
    ib.Instance(np.eye(2), [0.0, 1.0], memory=0.5).save(tmp_path / "fading.json")
    return tmp_path / "fading.json"


# --- help ---


def test_help_lists_the_commands():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"{command}\s+\w+", done.stdout)
    assert "--install-completion" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    parameters = COMMANDS[command].params
    for parameter in parameters:
        if parameter.param_type_name == "option":
            assert re.search(rf"{parameter.opts[0]}\b.*[a-z]{{4}}", done.stdout), parameter.name
    assert f"influential-bandits {command} " in done.stdout or not parameters, "an example"
    assert "continues" in done.stdout or command not in CONTINUE


@pytest.mark.parametrize("command", [(), ("movielens",), ("diagnose",), ("compare",), ("plan",)])
def test_help_does_not_wait_for_heavy_imports(command):
    done = start(*command, "--help", command=(sys.executable, "-X", "importtime", *COMMAND[1:]))
    assert done.returncode == 0
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    heavy = {"numba", "scipy", "matplotlib", "pandas", "gymnasium", "pyarrow", "jinja2"}
    assert not imported & (heavy | {"numpy", "sklearn", "selenium"})


def test_version_is_that_of_the_package():
    done = start("--version")
    assert (done.returncode, done.stdout) == (0, f"influential-bandits {ib.__version__}\n")


def test_the_studies_are_listed_with_one_line_each():
    done = run("studies")
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert sorted(lines) == sorted(STUDIES)
    assert all(len(line) > 10 for line in lines.values())


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["demo"],
        ["reproduce", "--nonsense"],
        ["reproduce", "--seeds", "many"],
        ["reproduce", "--out"],
        ["simulate"],
        ["simulate", "x.json", "--noise", "loud"],
        ["simulate", "x.json", "--delay-law", "never"],
        ["fit"],
        ["fit", "x.csv", "--memory", "much"],
        ["diagnose", "x.csv", "--permutations", "1.5"],
        ["plan", "x.json", "--log", "x.csv", "--horizon", "long"],
        ["movielens", "--min-ratings", "many"],
    ],
    ids=" ".join,
)
def test_an_unknown_command_or_option_gets_an_error_and_no_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


# --- reproduce ---


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """Two cheap studies, into a folder that has to be made."""
    out = tmp_path_factory.mktemp("reproduced") / "deep" / "results"
    return out, run("reproduce", "figure-1b", "figure-1a", "--tiny", "--out", out)


def test_reproduce_prints_the_table_of_the_summary_and_where_the_report_is(reproduced):
    out, done = reproduced
    assert (done.returncode, done.stderr) == (0, ""), "quiet when not a terminal"
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| figure")]
    assert [(row[0][2:], row[1], row[-1][:-2]) for row in rows] == [
        (row["study"], row["claim"], row["verdict"]) for row in summary
    ]
    assert [row["study"] for row in summary] == ["figure-1b"] * 3 + ["figure-1a"] * 2
    assert str(out / "report.html") in done.stdout
    assert str(out / "summary.json") in done.stdout


def test_reproduce_writes_data_figures_and_report(reproduced):
    out, _ = reproduced
    assert {p.name for p in out.iterdir()} == {
        "figure-1a",
        "figure-1b",
        "report.html",
        "summary.json",
    }
    assert {p.name for p in (out / "figure-1a").iterdir()} == {
        "data.parquet",
        "local-slope.png",
        "local-slope.svg",
        "pieces",
        "regret.png",
        "regret.svg",
        "settings.json",
    }
    about = json.loads(
        pq.read_schema(out / "figure-1a" / "data.parquet").metadata[b"influential_bandits"]
    )
    assert about["provenance"]["command"].startswith("influential-bandits reproduce figure-1b")


def test_the_same_command_again_is_fine_and_changes_no_number(reproduced):
    out, first = reproduced
    before = (out / "summary.json").read_bytes()
    again = run("reproduce", "figure-1b", "figure-1a", "--tiny", "--out", out, "--jobs", 1)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert (out / "summary.json").read_bytes() == before


def test_an_unknown_study_gets_one_sentence_with_the_known_ones(tmp_path):
    line = refused(start("reproduce", "figure-1a", "figure-2", cwd=tmp_path))
    assert all(name in line for name in ("'figure-2'", *STUDIES))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value"), [("--seeds", 0), ("--seeds", -3), ("--max-horizon", 0), ("--jobs", 0)]
)
def test_nothing_to_do_gets_one_sentence(option, value, tmp_path):
    line = refused(run("reproduce", "figure-1b", option, value, cwd=tmp_path))
    assert option.strip("-") in line
    assert str(value) in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file", "file/results"])
def test_a_folder_that_cannot_be_made_gets_one_sentence(out, tmp_path):
    (tmp_path / "file").touch()
    line = refused(run("reproduce", "figure-1a", "--out", tmp_path / out))
    assert f"cannot write to {tmp_path / out}" in line


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_gets_one_sentence(tmp_path):
    tmp_path.chmod(0o555)
    assert str(tmp_path) in refused(run("reproduce", "figure-1a", "--out", tmp_path))


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
@pytest.mark.parametrize(("sent", "told"), [("SIGINT", "Ctrl-C"), ("SIGTERM", "SIGTERM")])
def test_a_signal_ends_reproduce_at_once_and_the_same_command_continues(sent, told, tmp_path):
    out = tmp_path / "results"
    options = ("reproduce", "figure-1b", "--quick", "--seeds", "40", "--max-horizon", "100000")
    command = (sys.executable, "-c", INTERRUPTIBLE, *options, "--out", str(out))
    process = forked.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=os.environ | PLAIN,
    )
    pieces = out / "figure-1b" / "pieces"
    try:
        deadline = time.monotonic() + 120
        while not list(pieces.glob("[!.]*.parquet")):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(getattr(signal, sent))
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, err
    (line,) = filter(None, err.splitlines())
    assert f"stopped by {told}" in line
    assert str(out) in line
    assert "run the same command again to continue" in line
    assert not (out / "summary.json").exists()
    finished = {path: path.stat().st_mtime_ns for path in pieces.iterdir()}
    assert 1 <= len(finished) < 8
    assert not [path for path in finished if path.name.startswith(".")]

    again = run(*options, "--out", out)
    assert again.returncode == 0, again.stderr
    assert len(list(pieces.iterdir())) == 8
    assert {path: path.stat().st_mtime_ns for path in finished} == finished


# --- simulate ---


def test_simulate_prints_the_mean_regrets(counterexample):
    done = run("simulate", counterexample, "--horizon", 1000, "--noise", "none", "--seeds", 1)
    assert (done.returncode, done.stderr) == (0, "")
    rows = table(done.stdout)
    assert rows["mean regret"] == ["T = 10", "T = 100", "T = 1,000"]
    assert rows["LCB"] == ["6.125", "210.1", "8385"]  # n₂(n₂ − 1)/2 + 1/8
    assert rows["InfluentialLCB"][1:] == ["153.1", "1830"]


def test_simulate_plays_the_policies_and_the_noise_that_were_asked_for(counterexample):
    options = ("--horizon", 100, "--seeds", 3, "--noise", "uniform", "--sigma", 0.5)
    policies = ("--policy", "InfluentialLCB(influence_bound=2.0)", "--policy", "Uniform")
    done = run("simulate", counterexample, *options, *policies)
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    for policy in (ib.InfluentialLCB(influence_bound=2.0), ib.Uniform()):
        played = ib.simulate(ib.counterexample(), policy, 100, ib.UniformNoise(0.5), range(3))
        assert float(rows[policy.label][-1]) == pytest.approx(
            played.regret().mean(axis=(0, 1))[-1], rel=1e-3
        )


def test_simulate_saves_runs_and_a_plot(counterexample, tmp_path):
    out = tmp_path / "deep" / "out"
    done = run("simulate", counterexample, "--horizon", 100, "--seeds", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"Saved to {out / 'runs' / 'data.parquet'}" in done.stdout
    assert sorted(path.name for path in out.iterdir()) == ["regret.png", "runs"]
    for policy in (ib.LCB(), ib.InfluentialLCB()):
        played = ib.simulate(ib.counterexample(), policy, 100, ib.GaussianNoise(1.0), range(2))
        assert losses(out, policy) == played.loss().ravel().tolist()
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_simulate_prints_the_loss_where_there_is_no_regret(fading, tmp_path):
    out = tmp_path / "out"
    done = run("simulate", fading, "--horizon", 100, "--policy", "LCB", "--out", out)
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    assert rows["mean loss"] == ["T = 10", "T = 100"]
    instance = ib.Instance.load(fading)
    played = ib.simulate(instance, ib.LCB(), 100, ib.GaussianNoise(1.0), range(10))
    assert float(rows["LCB"][-1]) == pytest.approx(played.loss().mean(axis=(0, 1))[-1], rel=1e-3)
    assert [path.name for path in out.iterdir()] == ["runs"]


def test_simulate_plays_scenarios(counterexample, tmp_path):
    options = ("--horizon", 100, "--policy", "LCB", "--seeds", 2)
    out = tmp_path / "out"
    done = run("simulate", counterexample, *options, "--delay", 10, "--batch", 5, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "mean regret" in table(done.stdout)
    late = ib.Scenario(delay=10, batch=5)
    noise = ib.GaussianNoise(1.0)
    played = ib.simulate(ib.counterexample(), ib.LCB(), 100, noise, range(2), scenario=late)
    assert losses(out, ib.LCB()) == played.loss().ravel().tolist()
    done = run("simulate", counterexample, *options, "--eligible", 0.7, "--delay-law", "uniform")
    assert "mean loss" in table(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        (["--policy", "Nonsense"], ["'Nonsense'", "InfluentialLCB"]),
        (["--policy", "LCB(scale=2)"], ["LCB(scale=2)"]),
        (["--policy", "__import__('os').system('x')"], ["__import__"]),
        (["--horizon", "0"], ["horizon", "0"]),
        (["--seeds", "0"], ["seeds"]),
        (["--sigma=-1"], ["-1"]),
        (["--jobs", "0"], ["jobs"]),
        (["--delay=-1"], ["delay", "-1"]),
        (["--batch", "0"], ["batch", "0"]),
        (["--eligible", "1.5"], ["eligible", "1.5"]),
    ],
)
def test_simulate_refuses_what_it_cannot_play(options, mentions, counterexample):
    line = refused(run("simulate", counterexample, *options))
    assert all(mention in line for mention in mentions)


# --- policies of one's own ---

OWN = """
from dataclasses import dataclass
import influential_bandits as ib

@dataclass(frozen=True)
class Favourite(ib.Policy):
    arm: int = 0

    @staticmethod
    def select(c, s, t, eligible, rng):
        return c.arm
"""


@pytest.fixture
def own_policy(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "favourites.py").write_text(OWN)
    return "own/favourites.py:Favourite"


@pytest.fixture
def several(counterexample, tmp_path):
    """Two instances, so that runs may be sent to other processes."""
    (tmp_path / "again.json").write_bytes(counterexample.read_bytes())
    return ("counterexample.json", "again.json", "--horizon", 100, "--seeds", 1)


@pytest.mark.long
def test_a_policy_of_ones_own_plays_here_and_in_other_processes(own_policy, several, tmp_path):
    policies = ("--policy", own_policy, "--policy", f"{own_policy}(arm=1)")
    plain = ("simulate", several[0], *several[2:], "--noise", "none", *policies)
    rows = table(start(*plain, cwd=tmp_path).stdout)
    best = ib.optimum(ib.counterexample(), 100).loss
    only = [ib.counterexample().total_loss([100, 0]), ib.counterexample().total_loss([0, 100])]
    labels = ["Favourite", "Favourite(arm=1)"]
    assert [float(rows[label][-1]) for label in labels] == pytest.approx(
        [loss - best for loss in only], rel=1e-3
    )

    # The file goes along: workers start elsewhere, and could not import it.
    options = ("--noise", "none", *policies, "--engine", "dask", "--jobs", 1, "--out", "out")
    done = start("simulate", *several, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wide = [line.split(" | ") for line in done.stdout.splitlines() if "all 2" in line]
    assert [(cells[0][2:], cells[-1][:-2]) for cells in wide] == [
        (label, rows[label][-1]) for label in labels
    ]


@pytest.mark.long
def test_an_edited_policy_is_played_again(own_policy, several, tmp_path):
    options = ("simulate", *several, "--policy", own_policy, "--noise", "none", "--out", "out")
    first = start(*options, cwd=tmp_path)
    kept = set((tmp_path / "out" / "runs" / "pieces").iterdir())
    assert start(*options, cwd=tmp_path).stdout == first.stdout
    assert set((tmp_path / "out" / "runs" / "pieces").iterdir()) == kept
    (tmp_path / "own" / "favourites.py").write_text(OWN.replace("return c.arm", "return 1 - c.arm"))
    again = start(*options, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout != first.stdout
    assert len(set((tmp_path / "out" / "runs" / "pieces").iterdir())) == 2 * len(kept)


@pytest.mark.long
def test_a_policy_of_ones_own_that_cannot_play_gets_one_sentence(
    own_policy, counterexample, tmp_path
):
    """How it may be named wrongly: tests/policies/test_registry.py."""
    policy = f"{own_policy}(arm=5)"
    done = start("simulate", counterexample, "--policy", policy, "--horizon", 10, cwd=tmp_path)
    assert "chose arm 5" in refused(done)


# --- what is not installed ---


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("reproduce",), "jinja2 scikit-learn"),
        (("compare", "--engine", "dask"), "jinja2 scikit-learn dask distributed"),
        (("diagnose", "nowhere.csv"), "jinja2 scikit-learn"),
        (("movielens", "--data", "nowhere"), "jinja2 scikit-learn"),
        (("fit", "s3://nowhere", "--by-partition"), "scikit-learn fsspec"),
        (("plan", "nowhere.json", "--log", "nowhere.csv"), "scikit-learn"),
        (("simulate", "nowhere.json", "--engine", "dask"), "dask distributed"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_is_missing_is_said_before_any_work_and_all_at_once(arguments, missing, tmp_path):
    hidden = {"jinja2", "sklearn", "dask", "distributed", "fsspec"}
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {hidden}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from influential_bandits.cli import main\n"
        "main()\n"
    )
    line = refused(start(*arguments, command=(sys.executable, "-c", code), cwd=tmp_path))
    assert f"try: pip install {missing}" in line
    assert list(tmp_path.iterdir()) == []
