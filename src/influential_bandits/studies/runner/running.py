"""Run studies: piece by piece, resumable, with progress; then analyse and report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
from influential_bandits.errors import InvalidPolicy, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import chosen_execution
from influential_bandits.files import write_json
from influential_bandits.memory import require_memory
from influential_bandits.studies.report.html import write_report
from influential_bandits.studies.report.static import draw
from influential_bandits.studies.runner.store import StudyFolder, provenance
from influential_bandits.studies.runner.study import (
    Columns,
    Piece,
    Section,
    Settings,
    Study,
    stacked,
)

__all__ = [
    "Failure",
    "draw_all",
    "finished_rows",
    "progress_bar",
    "report_failures",
    "reproduce",
    "summary_rows",
    "write_results",
]

TITLE = "Influential bandits: the paper's synthetic results"
INTRODUCTION = "What Sato and Ito (TMLR 2025) report, and what this software measures."


MOST_LEFT_OUT = 0.5  # of the instances: with more of them failed there is nothing to analyse
MOST_NAMED = 20  # failures
BYTES_PER_INSTANCE = 1000  # of rows in memory, at the least: policies × checkpoints × columns


def reproduce(
    studies: Iterable[Study],
    out: Path,
    size: str = "full",
    seeds: int | None = None,
    max_horizon: int | None = None,
    execution: Execution | None = None,
    console: Console | None = None,
) -> list[Section]:
    """Run studies into a folder; finished pieces found there are taken as they are.

    Pieces that fail do not stop the others: they are named in the end, by :class:`Unfinished`.
    """
    where = chosen_execution(execution)
    results: list[Section] = []
    failures: list[Failure] = []
    jobs = [(study, _changed(study.settings[size], seeds, max_horizon)) for study in studies]
    folders = [StudyFolder(out, study, settings) for study, settings in jobs]
    with progress_bar(console) as bar:
        for (study, settings), folder in zip(jobs, folders, strict=True):
            rows, failed = finished_rows(
                study.name, partial(study.pieces, settings), folder, bar, where
            )
            failures += failed
            if rows is None:
                continue
            analysis = study.analyse(settings, rows)
            analysis.notes.extend(left_out(failed))
            folder.write_rows(rows)
            results.append(Section(study.name, study.line, dataclasses.asdict(settings), analysis))
            draw_all(results[-1], folder.path)
    if results:
        write_results(out, results, TITLE, INTRODUCTION)
    report_failures(failures, out, results)
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
    write_json(out / "summary.json", summary_rows(sections) if rows is None else rows, indent=2)


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
        number = whole_number("seeds", seeds, 2)
        require_memory(number * BYTES_PER_INSTANCE, f"{number:,} random instances", "ask for fewer")
        settings = dataclasses.replace(settings, seeds=number)
    if max_horizon is not None:
        horizon = whole_number("max-horizon", max_horizon, 10**4)
        settings = dataclasses.replace(settings, max_horizon=horizon)
    return settings


@dataclasses.dataclass(frozen=True)
class Failure:
    """A piece that could not be computed, and why."""

    study: str
    piece: Piece
    error: Exception

    def __str__(self) -> str:
        return f"{self.study}: {self.piece.name}: {type(self.error).__name__}: {self.error}"


def finished_rows(
    name: str,
    pieces: Callable[[], Iterable[Piece]],
    folder: StudyFolder,
    bar: Progress,
    execution: Execution,
    most_left_out: float = MOST_LEFT_OUT,
) -> tuple[dict[str, Any] | None, list[Failure]]:
    """Compute and keep the pieces that the folder does not have; return all rows, and failures.

    Where a piece of several instances fails, each of them is tried on its own. Instances that fail
    alone are left out of the rows; there are no rows if too many do, or if a piece fails that is
    not of single instances.
    """
    task = bar.add_task(name, total=sum(1 for _ in pieces()))
    broken: list[Piece] = []  # pieces to be tried instance by instance

    def missing() -> Iterator[Piece]:
        for piece in pieces():
            if folder.has(piece.name):
                bar.advance(task)
            elif piece.split and any(folder.has(part.name) for part in piece.split()):
                broken.append(piece)
            else:
                yield piece

    failures = []
    for piece, error in _failing(missing(), folder, execution):
        bar.advance(task)
        if error is None:
            continue
        if piece.split is None or isinstance(error, InvalidPolicy):  # no single instance's fault
            failures.append(Failure(name, piece, error))
        else:
            broken.append(piece)
    singles = (part for piece in broken if piece.split for part in piece.split())
    waiting = (part for part in singles if not folder.has(part.name))
    for part, error in _failing(waiting, folder, execution):
        if error is not None:
            failures.append(Failure(name, part, error))
    return _rows_without(failures, _kept(pieces(), folder), most_left_out), failures


def _kept(pieces: Iterable[Piece], folder: StudyFolder) -> Iterator[Columns]:
    """Yield the rows of all finished pieces in order, or of their single instances."""
    for piece in pieces:
        rows = folder.piece(piece.name)
        if rows is not None:
            size = len(next(iter(rows.values())))
            yield {n: np.array([x] * size) for n, x in (piece.labels or {}).items()} | rows
        elif piece.split is not None:
            singles = (folder.piece(part.name) for part in piece.split())
            yield from (rows for rows in singles if rows is not None)


def _rows_without(
    failures: list[Failure], parts: Iterable[Columns], most_left_out: float
) -> dict[str, Any] | None:
    """Return the rows of all instances but those that failed, if enough are left."""
    if any(failure.piece.instances is None for failure in failures):
        return None
    bad = {number for failure in failures for number in failure.piece.instances or ()}
    rows = stacked(parts)
    if bad and rows:
        good = ~np.isin(rows["instance"], sorted(bad))
        rows = {name: values[good] for name, values in rows.items()}
    if len(bad) > most_left_out * (len(bad) + len(np.unique(rows.get("instance", ())))):
        return None
    return rows


def left_out(failures: list[Failure]) -> list[str]:
    """Say in the report which instances are not in it."""
    if not failures:
        return []
    return [f"Left out, as they failed: {'; '.join(map(str, failures[:MOST_NAMED]))}"]


def report_failures(failures: list[Failure], out: Path, results: Any = None) -> None:
    """Raise an error that names what failed, if anything did, and has the results of the rest."""
    if failures:
        more = len(failures) - MOST_NAMED
        number = "1 piece" if len(failures) == 1 else f"{len(failures)} pieces"
        error = Unfinished(
            f"{number} failed; all others are kept in {out}, and the same command "
            "tries what failed again:\n"
            + "\n".join(f"  {failure}" for failure in failures[:MOST_NAMED])
            + (f"\n  … and {more} more" if more > 0 else "")
        )
        error.results = results
        raise error


def _failing(
    pieces: Iterable[Piece], folder: StudyFolder, execution: Execution
) -> Iterator[tuple[Piece, Exception | None]]:
    """Compute pieces, keep each on disk as it comes, and yield it with its error, if any."""
    for piece, rows, error in execution.outcomes(_rows_of, pieces):
        if error is None:
            folder.keep(piece.name, rows)
        yield piece, error


def _rows_of(piece: Piece, threads: int | None) -> Columns:
    return piece.rows(threads)


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
