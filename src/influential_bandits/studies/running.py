"""Run studies: piece by piece, resumable, with progress; then analyse and report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from influential_bandits.checks import whole_number
from influential_bandits.studies.report.html import write_report
from influential_bandits.studies.report.static import draw
from influential_bandits.studies.store import StudyFolder, provenance, write_atomically
from influential_bandits.studies.study import Piece, Section, Settings, Study, stacked

__all__ = [
    "draw_all",
    "finished_rows",
    "progress_bar",
    "reproduce",
    "summary_rows",
    "write_json",
    "write_results",
]

TITLE = "Influential bandits: the paper's synthetic results"
INTRODUCTION = "What Sato and Ito (TMLR 2025) report, and what this software measures."


def reproduce(
    studies: Iterable[Study],
    out: Path,
    size: str = "full",
    seeds: int | None = None,
    max_horizon: int | None = None,
    threads: int | None = None,
    console: Console | None = None,
) -> list[Section]:
    """Run studies into a folder; finished pieces found there are taken as they are."""
    if threads is not None:
        threads = whole_number("jobs", threads, 1)
    results: list[Section] = []
    jobs = [(study, _changed(study.settings[size], seeds, max_horizon)) for study in studies]
    folders = [StudyFolder(out, study, settings) for study, settings in jobs]
    with progress_bar(console) as bar:
        for (study, settings), folder in zip(jobs, folders, strict=True):
            rows = finished_rows(study.name, study.pieces(settings, threads), folder, bar)
            analysis = study.analyse(settings, rows)
            folder.write_table(folder.path / "data.parquet", rows)
            results.append(Section(study.name, study.line, dataclasses.asdict(settings), analysis))
            draw_all(results[-1], folder.path)
    write_results(out, results, TITLE, INTRODUCTION)
    return results


def draw_all(section: Section, folder: Path) -> None:
    """Write the figures of a section for print."""
    for figure in section.analysis.figures:
        draw(figure, folder, section.settings)


def write_results(
    out: Path,
    sections: list[Section],
    title: str,
    introduction: str,
    rows: list[dict[str, Any]] | None = None,
) -> None:
    """Write the report for readers, and the summary for programs: rows, by default the findings."""
    write_report(out / "report.html", sections, provenance(), title, introduction)
    write_json(out / "summary.json", summary_rows(sections) if rows is None else rows)


def write_json(path: Path, data: Any) -> None:
    """Write strict JSON."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def summary_rows(sections: list[Section]) -> list[dict[str, Any]]:
    """Return the summary table for programs."""
    keys = ("claim", "paper", "ours", "low", "high", "verdict")
    return [
        {"study": section.name} | {key: getattr(finding, key) for key in keys}
        for section in sections
        for finding in section.analysis.findings
    ]


def _changed(settings: Settings, seeds: int | None, max_horizon: int | None) -> Settings:
    if seeds is not None:
        settings = dataclasses.replace(settings, seeds=whole_number("seeds", seeds, 2))
    if max_horizon is not None:
        horizon = whole_number("max-horizon", max_horizon, 10**4)
        settings = dataclasses.replace(settings, max_horizon=horizon)
    return settings


def finished_rows(
    name: str, pieces: Iterable[Piece], folder: StudyFolder, bar: Progress
) -> dict[str, Any]:
    """Return the rows of all pieces; compute and keep those that the folder does not have."""
    pieces = list(pieces)
    task = bar.add_task(name, total=len(pieces))
    for piece in pieces:
        if not folder.has(piece.name):
            folder.keep(piece.name, piece.rows())
        bar.advance(task)
    return stacked(folder.piece(piece.name) for piece in pieces)


def progress_bar(console: Console | None = None) -> Progress:
    """Return a bar for several tasks, shown on terminals only."""
    console = console or Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:15}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
