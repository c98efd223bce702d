"""The command line, as users meet it."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import forked
import pyarrow.parquet as pq
import pytest
import typer.main
from command_line import PLAIN
from command_line import run_command as run

import influential_bandits as ib
from influential_bandits.cli import app

COMMAND = (sys.executable, "-m", "influential_bandits.cli")
COMMANDS = typer.main.get_command(app).commands
CONTINUE = ("reproduce", "compare", "compare-fleets")  # after an interruption
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


def play_own(policy, out, *more, cwd):
    chosen = ("--families", "prop-2.2", "--horizons", 100, "--instances", 2)
    done = start("compare", "--policies", policy, *chosen, "--out", out, *more, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return table(done.stdout)


@pytest.mark.long
def test_a_policy_of_ones_own_plays_here_and_in_other_processes(own_policy, tmp_path):
    policies = f"{own_policy},{own_policy}(arm=1)"
    rows = play_own(policies, "here", cwd=tmp_path)
    best = ib.optimum(ib.counterexample(), 100).loss
    only = [ib.counterexample().total_loss([100, 0]), ib.counterexample().total_loss([0, 100])]
    labels = ["Favourite (own)", "Favourite(arm=1) (own)"]
    assert [float(rows[label][0].replace(",", "")) for label in labels] == pytest.approx(
        [loss - best for loss in only], rel=1e-3
    )
    # The file goes along: workers start elsewhere, and could not import it.
    assert play_own(policies, "far", "--engine", "dask", "--jobs", 1, cwd=tmp_path) == rows


@pytest.mark.long
def test_an_edited_policy_is_played_again(own_policy, tmp_path):
    pieces = tmp_path / "out" / "prop-2.2" / "pieces"
    first = play_own(own_policy, "out", cwd=tmp_path)
    kept = set(pieces.iterdir())
    assert play_own(own_policy, "out", cwd=tmp_path) == first
    assert set(pieces.iterdir()) == kept
    (tmp_path / "own" / "favourites.py").write_text(OWN.replace("return c.arm", "return 1 - c.arm"))
    assert play_own(own_policy, "out", cwd=tmp_path) != first
    assert len(set(pieces.iterdir())) == 2 * len(kept)


@pytest.mark.long
def test_a_policy_of_ones_own_that_cannot_play_gets_one_sentence(own_policy, tmp_path):
    """How it may be named wrongly: tests/policies/test_registry.py."""
    done = start("compare", "--policies", f"{own_policy}(leg=1)", cwd=tmp_path)
    assert "'leg'" in refused(done)


# --- what is not installed ---


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("reproduce",), "jinja2 scikit-learn"),
        (("compare", "--engine", "dask"), "jinja2 scikit-learn dask distributed"),
        (("diagnose", "nowhere.csv"), "jinja2 scikit-learn"),
        (("movielens", "--data", "nowhere"), "jinja2 scikit-learn"),
        (("fit", "nowhere.csv"), "scikit-learn"),
        (("plan", "nowhere.json", "--log", "nowhere.csv"), "scikit-learn"),
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
