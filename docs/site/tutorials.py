"""Run the tutorials, scripts in cells, and write them as pages with what they print and draw."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

# A cell begins with `# %%`; in those marked [markdown] every line is a comment.
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
# Rich and pytest may ask for colours and widths; pages have neither.
PLAIN = {"NO_COLOR": "1", "COLUMNS": "88", "TERM": "dumb"}


def write_page(script: Path, page: Path, images: Path) -> int:
    """Run a script cell by cell, and write the page; return the number of pictures."""
    import matplotlib as mpl

    mpl.use("Agg")
    source = script.read_text(encoding="utf-8")
    pieces = CELL.split(source)
    line = pieces[0].count("\n")
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    lines: list[str] = []
    drawn = 0
    page.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, working_in(folder):
        for marked, text in zip(pieces[1::2], pieces[2::2], strict=True):
            line += 1
            if marked:
                lines += uncomment(text)
            else:
                # The cell keeps its place in the file: compiled policies look up their source.
                code = compile("\n" * line + text, str(script), "exec")
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(code, namespace)
                lines += ["```python", text.strip(), "```", ""]
                if printed.getvalue().strip():
                    lines += ["```text", printed.getvalue().rstrip(), "```", ""]
                for picture in save_pictures(script.stem, images, drawn):
                    drawn += 1
                    there = os.path.relpath(picture, page.parent)
                    lines += [f"![{describe_picture(text)}]({there})", ""]
            line += text.count("\n")
    lines += ["---", "", f"This page is a script that you can run: [{script.name}]({script.name})."]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (page.parent / script.name).write_text(source, encoding="utf-8")
    return drawn


@contextlib.contextmanager
def working_in(folder: str) -> Any:
    """Run in a folder and without colours, as long as it takes."""
    before, place = dict(os.environ), Path.cwd()
    os.environ.update(PLAIN)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)


def uncomment(text: str) -> list[str]:
    """Return the text of a cell of comments."""
    lines = [line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines()]
    return [*lines, ""]


def save_pictures(name: str, images: Path, drawn: int) -> list[Path]:
    """Save and close the figures that a cell has opened."""
    import matplotlib.pyplot as plt

    images.mkdir(parents=True, exist_ok=True)
    pictures = []
    for offset, number in enumerate(plt.get_fignums()):
        picture = images / f"{name}-{drawn + offset + 1}.png"
        plt.figure(number).savefig(picture, dpi=140, bbox_inches="tight", facecolor="white")
        pictures.append(picture)
    plt.close("all")
    return pictures


def describe_picture(code: str) -> str:
    """Return what is said in place of a picture: the title that the cell gives it."""
    title = re.search(r'set_title\(\s*"([^"]+)"', code) or re.search(r'title="([^"]+)"', code)
    if title is None:
        raise ValueError(f"a cell draws a picture and gives it no title:\n{code}")
    return title[1].replace("\\n", " ")
