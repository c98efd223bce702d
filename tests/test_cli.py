"""The command line, as users meet it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import influential_bandits as ib

COMMAND = (sys.executable, "-m", "influential_bandits.cli")
# The demo with little to do, and with a Ctrl-C that works however the tests were started.
QUICK = """
import signal, sys
from dataclasses import replace
from influential_bandits.cli import main
from influential_bandits.studies import demo

signal.signal(signal.SIGINT, signal.default_int_handler)
horizon = int(sys.argv.pop(1))
demo.SETTINGS = tuple(
    replace(setting, instances=setting.instances[:2], horizon=horizon, fitted=(100, 1000))
    for setting in demo.SETTINGS
)
main()
"""


def run(*arguments, command=COMMAND, cwd=None):
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        cwd=cwd,
        check=False,
    )


def quick_demo(out, horizon=1000):
    return run(horizon, "demo", "--out", out, command=(sys.executable, "-c", QUICK))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo, run once into a folder that it has to make."""
    out = tmp_path_factory.mktemp("demo") / "deep" / "results"
    return out, run("demo", "--out", out)


def test_help_lists_the_commands():
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr == ""


def test_the_demo_explains_itself():
    done = run("demo", "--help")
    assert done.returncode == 0
    assert "--out" in done.stdout


def test_help_does_not_wait_for_heavy_imports():
    done = run("--help", command=(sys.executable, "-X", "importtime", *COMMAND[1:]))
    assert done.returncode == 0
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & {"numba", "scipy", "matplotlib", "pandas", "gymnasium", "pyarrow"}


def test_version_is_that_of_the_package():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"influential-bandits {ib.__version__}\n")


def test_the_demo_prints_the_slopes_of_the_paper(demo):
    _, done = demo
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"│ (\w+) +│(.*)│", done.stdout)
    names = [name for name, _ in rows]
    slopes = [numbers.split("│")[-1].strip() for _, numbers in rows]
    assert names == ["LCB", "InfluentialLCB"] * 2
    assert slopes[:2] == ["1.735", "1.020"]
    assert float(slopes[2]) > 1.5  # the paper: 1.72 and 1.14, to 10⁷ and with other instances
    assert float(slopes[3]) < 1.25
    assert "slope over 10² … 10⁷" in done.stdout


def test_the_demo_prints_the_regrets_of_the_facts_sheet(demo):
    _, done = demo
    assert re.search(r"LCB +│ 210 │ +8.39e3 │ +4.02e5 │ +2.26e7 │ +1.42e9 │", done.stdout)
    assert re.search(r"InfluentialLCB │ 153 │ +1.83e3 │ +1.95e4 │ +1.98e5 │", done.stdout)


def test_the_demo_says_what_lies_outside_the_assumptions(demo):
    _, done = demo
    assert "outside Assumption 2.4" in done.stdout
    assert "outside Assumption 2.5" in done.stdout


def test_the_demo_saves_the_picture_and_nothing_else(demo):
    out, done = demo
    assert done.stderr == ""
    assert [path.name for path in out.iterdir()] == ["regret.png"]
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_demo_prints_the_path_of_the_picture_in_one_piece(tmp_path):
    """Also if it is long, and looks like markup."""
    out = tmp_path / ("[red] results of a demonstration " + "x" * 60)
    done = quick_demo(out)
    assert done.returncode == 0, done.stderr
    assert (out / "regret.png").exists()
    assert str(out / "regret.png") in done.stdout


def refused(done):
    """The one sentence of a refusal."""
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_folder_that_cannot_be_made_gets_one_sentence_before_anything_is_played(tmp_path):
    (tmp_path / "file").touch()
    done = run("demo", "--out", tmp_path / "file" / "results")
    assert f"cannot write to {tmp_path}" in refused(done)
    assert done.stdout == ""


def test_an_output_folder_that_is_a_file_gets_one_sentence(tmp_path):
    (tmp_path / "results").touch()
    assert "results" in refused(run("demo", "--out", tmp_path / "results"))


def test_a_picture_that_cannot_be_written_gets_one_sentence(tmp_path):
    (tmp_path / "regret.png").mkdir()
    assert "regret.png" in refused(quick_demo(tmp_path))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_gets_one_sentence(tmp_path):
    tmp_path.chmod(0o555)
    assert str(tmp_path) in refused(quick_demo(tmp_path))


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--nonsense"], ["demo", "--out"]])
def test_an_unknown_command_or_option_gets_an_error_and_no_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_ends_the_demo_at_once_with_one_line(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", QUICK, str(10**10), "demo", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    try:
        assert process.stdout.readline().startswith("Playing"), process.stderr.read()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=5)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    (line,) = filter(None, err.splitlines())
    assert re.search(r"stopped by Ctrl-C after \d+ % of LCB", line)
    assert list(Path(tmp_path).iterdir()) == []
