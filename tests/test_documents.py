"""Every Python example of the README and of docs/ runs, each document as one script."""

import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
WITH_EXAMPLES = {
    "README.md",
    "fleets.md",
    "index.md",
    "learning.md",
    "read_a_log.md",
    "run_on_a_cluster.md",
    "run_on_a_gpu.md",
    "serve_decisions.md",
    "write_a_policy.md",
}


def python_blocks(markdown: str) -> str:
    """Blank out all but the examples, so that tracebacks show the document's own line numbers."""
    inside = False
    lines = []
    for line in markdown.splitlines():
        fence = re.match(r"```(\w*)", line)
        lines.append(line if inside and not fence else "")
        if fence:
            inside = not inside and fence[1] == "python"
    return "\n".join(lines)


# The README's twice, in one namespace, as a reader does who runs the cells of a notebook again.
RUN = """
import sys
from pathlib import Path

path, times = sys.argv[1:]
del sys.argv[1:]
code = compile(Path(path).read_text(encoding="utf-8"), path, "exec")
for _ in range(int(times)):
    print("--- run")
    exec(code)
"""


def run_examples(document, folder, times):
    """Run all examples in one namespace; return what was printed each time."""
    examples = python_blocks(document.read_text(encoding="utf-8"))
    if not examples.strip():
        assert document.name not in WITH_EXAMPLES, f"{document} lost its examples"
        return []

    # A file of its own, because compiled policies and pickling look up the source of what they run.
    script = folder / "example.py"
    script.write_text(examples, encoding="utf-8")
    # Who reads the README has imported nothing yet.
    run = subprocess.run if document.name == "README.md" else forked.run
    done = run(
        [sys.executable, "-W", "error", "-c", RUN, script, str(times)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("--- run\n")[1:]


@pytest.mark.long
@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=lambda path: path.name)
def test_examples_run_without_a_warning(document, tmp_path):
    run_examples(document, tmp_path, times=1)


def test_the_readme_runs_twice_and_tells_what_is_measured(tmp_path):
    first, second = run_examples(DOCUMENTS[0], tmp_path, times=2)
    assert first == second
    text = DOCUMENTS[0].read_text(encoding="utf-8")
    told = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    title, rule = "instances:", "|---"
    printed = [line for line in first.splitlines() if not line.startswith((title, rule))]
    printed = list(filter(None, printed))
    assert len(printed) == 5
    assert set(printed) <= set(told), "the figures of the README are those that are measured"
    regrets = [int(line.split()[1].replace(",", "")) for line in printed[:2]]
    assert regrets[0] > 5 * regrets[1], "influential LCB is what is shown to be better"
