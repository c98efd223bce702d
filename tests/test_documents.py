"""Every Python example of the README and of docs/ runs, each document as one script."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
WITH_EXAMPLES = {"README.md", "learning.md", "policies.md"}


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_run_without_a_warning(document, tmp_path):
    examples = python_blocks(document.read_text(encoding="utf-8"))
    assert examples.strip() or document.name not in WITH_EXAMPLES, f"{document} lost its examples"

    # A file of its own, because compiled policies and pickling look up the source of what they run.
    script = tmp_path / "example.py"
    script.write_text(examples, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
