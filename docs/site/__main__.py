"""Build the documentation: ``python -m docs.site``, or ``make docs``.

Pages are gathered in one folder, those of docs/ and those that are made: tutorials, which are run,
and the reference, from docstrings, the command line and the service. Zensical turns them into a
site, in which every link is then checked.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from docs.site import command_reference, links, python_reference, service_reference, tutorials

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
# The theme asks another host for it, so that search works in pages opened as files.
SHIM = "https://unpkg.com/iframe-worker/shim"
# Where a type says all, the theme leaves a dash before nothing.
NO_DESCRIPTION = re.compile(r'\s+–\s*<div class="doc-md-description">\s*</div>')


def main() -> int:
    """Build the site; return the number of things that are wrong with it."""
    parser = argparse.ArgumentParser(description="Build the documentation.")
    parser.add_argument("--out", type=Path, default=Path("build/site"), help="folder of the site")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    work = out.with_name(f"{out.name}-pages")
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)

    began = time.perf_counter()
    gather_pages(work / "docs")
    for script in sorted(DOCS.glob("tutorials/*.py")):
        started = time.perf_counter()
        page = work / "docs" / "tutorials" / f"{script.stem}.md"
        drawn = tutorials.write_page(script, page, work / "docs" / "images" / "tutorials")
        print(f"{script.name}: {drawn} pictures, {time.perf_counter() - started:.0f} s", flush=True)
    documented = write_reference(work / "docs" / "reference")
    print(f"reference: {len(documented)} names", flush=True)
    build(work, out, documented)
    problems = links.check_site(out)
    print(*problems, sep="\n")
    pages = sum(1 for _ in out.rglob("*.html"))
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    seconds = time.perf_counter() - began
    print(f"{pages} pages, {size:.1f} MB, {seconds:.0f} s: {out / 'index.html'}")
    return len(problems)


def gather_pages(folder: Path) -> None:
    """Copy what lies in docs/ as it is: pages, pictures, and the files of formulas and looks."""
    for page in (*DOCS.rglob("*.md"), *DOCS.rglob("*.schema.json")):
        target = folder / page.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    shutil.copytree(DOCS / "images", folder / "images")
    shutil.copytree(HERE / "assets", folder / "assets")
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (DOCS.parent / f"{name}.md").read_text(encoding="utf-8")
        (folder / f"{name.lower()}.md").write_text(text.replace("](docs/", "]("), encoding="utf-8")


def write_reference(folder: Path) -> list[str]:
    """Write all pages of the reference; return the public names."""
    documented = python_reference.write_pages(folder)
    command_reference.write_page(folder / "commands.md")
    service_reference.write_page(folder)
    return documented


def build(work: Path, out: Path, documented: list[str]) -> None:
    """Run zensical; any warning of it is an error."""
    settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
    public = ", ".join(f'"{name}"' for name in documented)
    settings = settings.replace("SOURCE", str(DOCS.parent / "src"))
    settings = settings.replace("MARKUP", str(HERE / "docstring_markup.py"))
    settings = settings.replace("PUBLIC", public)
    (work / "zensical.toml").write_text(settings, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent / "src")},
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    shutil.move(work / "site", out)
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(out).parts) - 1)
        text = text.replace(SHIM, f"{up}assets/iframe_worker_shim.js")
        text = NO_DESCRIPTION.sub("", text)
        # An empty address of the site would make each page fetch its icon by a path of its own.
        page.write_text(re.sub(r'<link rel="canonical"[^>]*>', "", text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
