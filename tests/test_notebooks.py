"""In a notebook: policies of a cell, pictures and progress bars, with a real kernel."""

import json

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from python_process import run_python

import influential_bandits as ib
from influential_bandits.learning.impact import Estimate
from influential_bandits.learning.influence_test_result import PairEstimate

HOSTILE = "<b>$x^{$</b>"  # no formula


def results():
    """Something of each kind that shows itself; small, and with names that could be formulas."""
    world = ib.Instance([[1.0, 0.2], [0.2, 0.5]], [0.0, 0.1], arm_names=[HOSTILE, "tea"])
    log = ib.data.synthetic_log(20, 30, 2, seed=0)
    cost = Estimate(0.1, 0.05, 0.15)
    impact = ib.Impact("clicks", cost, {HOSTILE: cost}, {}, cost, cost, "half", 1.0, 0.95)
    return [
        world,
        ib.simulate(world, ib.LCB(), 20, seeds=2),
        ib.InfluenceModel("diagonal", pooling="full").fit(log),
        impact,
        ib.compare([ib.LCB(), ib.Uniform()], world, [10, 20], seeds=2),
    ]


@pytest.mark.long
def test_results_draw_on_axes():
    for result in results():
        name = type(result).__name__
        ax = result.plot()
        assert isinstance(ax, mpl.axes.Axes), name
        ax.figure.savefig("/dev/null", format="png")
        other = plt.subplots()[1]
        assert result.plot(other) is other, name
        assert result.plot(ax=other) is other, name
        plt.close("all")


def test_pairs_of_a_test_are_drawn():
    pair = PairEstimate("a", HOSTILE, 0.1, 0.0, 0.2, 0.01)
    test = object.__new__(ib.InfluenceTest)
    object.__setattr__(test, "pairs", (pair, pair))
    ax = test.plot()
    assert len(ax.get_yticklabels()) == 2
    plt.close("all")


def test_too_many_arms_are_not_drawn(refused):
    with refused(ib.errors.NotApplicable, "1,000 arms"):
        ib.Instance(ib.LowRankInteraction(np.ones((1000, 1))), np.zeros(1000)).plot()


CELLS = [
    "import influential_bandits as ib",
    """
class First(ib.Policy):
    @staticmethod
    def select(c, s, t, eligible, rng):
        return 0

run = ib.simulate(ib.counterexample(), First(), 10)
run
""",
    "print(run.counts[0, 0, -1].tolist())",
    """
from influential_bandits.execution.progress import Progress
bar = Progress("<work>", 2, wanted=True)
bar.show()
bar.count_one()
bar.close()
""",
    "%matplotlib inline\nib.counterexample().plot();",
]


@pytest.mark.long
def test_a_real_kernel_plays_a_policy_of_a_cell_and_shows_results(tmp_path, monkeypatch):
    script = f"""
import json, nbformat
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(cell) for cell in {CELLS!r}]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
print(json.dumps([cell.outputs for cell in notebook.cells]))
"""
    monkeypatch.chdir(tmp_path)
    _, shown, printed, progress, picture = json.loads(run_python(script))
    (result,) = [output for output in shown if output["output_type"] == "execute_result"]
    assert result["data"]["text/plain"].startswith("Trajectory(First()")
    assert printed[0]["text"] == "[10, 0]\n"
    bars = [output for output in progress if "data" in output]
    assert [bar["data"]["text/html"] for bar in bars] == [""], "removed in the end"
    assert not [output for output in progress if output["output_type"] == "stream"], "no warning"
    assert any("image/png" in output.get("data", {}) for output in picture)
