"""Every Python example of the README runs, in order, as one script."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def python_blocks(markdown: str) -> str:
    """Blank out all but the examples, so that tracebacks show the README's own line numbers."""
    inside = False
    lines = []
    for line in markdown.splitlines():
        fence = re.match(r"```(\w*)", line)
        lines.append(line if inside and not fence else "")
        if fence:
            inside = not inside and fence[1] == "python"
    return "\n".join(lines)


def test_readme_examples_run_without_a_warning(tmp_path):
    examples = python_blocks(README.read_text(encoding="utf-8"))
    assert examples.strip(), "README.md has no ```python block"

    # A file of its own, because compiled policies and pickling look up the source of what they run.
    script = tmp_path / "readme.py"
    script.write_text(examples, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
