"""Run studies: piece by piece, resumable, with progress; then analyse and report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.checks import whole_number
from influential_bandits.errors import InvalidPolicy, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress, is_watched
from influential_bandits.memory import require_memory
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.results import draw_figures, write_results
from influential_bandits.studies.report.text import measured, number
from influential_bandits.studies.runner.rows import Columns, Rows, concatenate
from influential_bandits.studies.runner.store import RowStore, StudyFolder, write_rows
from influential_bandits.studies.runner.study import Piece, Settings, Study

__all__ = [
    "Failure",
    "Job",
    "compute_pieces",
    "compute_rows",
    "describe_failures",
    "raise_if_failed",
    "read_rows",
    "reproduce",
]

TITLE = "Influential bandits: the paper's synthetic results"
PICTURE = "figure-1b"  # the study whose first figure says most
SHORTER = ", in games shorter than the paper's, whose slopes are others"
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
    execution: Execution | int | None = None,
    progress: bool | None = None,
) -> list[Section]:
    """Run studies into a folder; finished pieces found there are not computed again.

    Pieces that fail do not stop the others: :class:`Unfinished` names them in the end.
    """
    where = resolve_execution(execution)
    results: list[Section] = []
    failures: list[Failure] = []
    jobs = [
        (study, _change_settings(study.settings[size], seeds, max_horizon)) for study in studies
    ]
    folders = [StudyFolder(out, study.name, dataclasses.asdict(chosen)) for study, chosen in jobs]
    for (study, settings), folder in zip(jobs, folders, strict=True):
        pieces = partial(study.pieces, settings)
        rows, failed = compute_rows(
            study.name, pieces, folder, where, progress, runs=settings.seeds
        )
        failures += failed
        if rows is None:
            continue
        analysis = study.analyse(settings, rows)
        analysis.notes.extend(describe_failures(failed))
        data = dataclasses.asdict(settings)
        write_rows(out, study.name, data, rows)
        results.append(Section(study.name, study.description, data, analysis))
        draw_figures(results[-1], folder.path)
    if results:
        small = size == "tiny" or max_horizon is not None
        opening = open_report(results, SHORTER if small else "")
        write_results(out, results, TITLE, opening, INTRODUCTION)
    raise_if_failed(failures, out, results)
    return results


def open_report(sections: Sequence[Section], aside: str = "") -> Opening:
    """Say how many claims of the paper hold, the most telling numbers, and what differs."""
    findings = [finding for section in sections for finding in section.analysis.findings]
    claims = [finding for finding in findings if finding.paper is not None]
    same = [finding for finding in claims if finding.verdict == "reproduced"]
    other = [finding for finding in claims if finding.verdict == "differs"]
    sentences = []
    if claims:
        sentences.append(
            f"{len(same)} of {len(claims)} claims of the paper were reproduced here{aside}"
        )
    slopes = [finding for finding in claims if finding.claim.startswith("slope")]
    if slopes:
        parts = [f"the {f.claim} is {measured(f)} (paper: {number(f.paper)})" for f in slopes[-2:]]
        text = " and ".join(parts)
        sentences.append(text[0].upper() + text[1:])
    if other:
        sentences.append(f"What differs: {'; '.join(finding.claim for finding in other)}")
    shown = [section for section in sections if section.analysis.figures]
    if not shown:
        return Opening(sentences)
    best = next((section for section in shown if section.name == PICTURE), shown[0])
    return Opening(sentences, best.name, best.analysis.figures[0].name)


def _change_settings(settings: Settings, seeds: int | None, max_horizon: int | None) -> Settings:
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


class Job(NamedTuple):
    """Pieces that belong together, and where their rows are kept."""

    name: str
    pieces: Callable[[], Iterable[Piece]]
    store: RowStore
    runs: int | None = None  # of each policy, where that is known


def compute_rows(
    name: str,
    pieces: Callable[[], Iterable[Piece]],
    store: RowStore,
    execution: Execution,
    progress: bool | None = None,
    most_left_out: float = MOST_LEFT_OUT,
    runs: int | None = None,
) -> tuple[Rows | None, list[Failure]]:
    """Compute the pieces that the store lacks and write them there; return all rows, and failures.

    Where a piece of several instances fails, each of them is tried on its own. Instances that fail
    alone are left out of the rows; there are no rows if too many do, or if a piece fails that is
    not of single instances.
    """
    job = Job(name, pieces, store, runs)
    failures = compute_pieces([job], execution, progress)
    return read_rows(job, failures, most_left_out), failures


def compute_pieces(
    jobs: Sequence[Job], execution: Execution, progress: bool | None = None
) -> list[Failure]:
    """Compute the pieces that the stores lack, all in one go: nobody waits for the end of a job."""
    shown = is_watched() if progress is None else progress
    bar = Progress(jobs[0].name, sum(1 for job in jobs for _ in job.pieces()), shown)
    broken: list[_Owned] = []  # pieces to be tried instance by instance
    failures = []

    def find_missing(jobs: Iterable[Job]) -> Iterator[_Owned]:
        for job in jobs:
            for piece in job.pieces():
                if job.store.has(piece.name):
                    bar.count_one()
                elif piece.split and any(job.store.has(part.name) for part in piece.split()):
                    broken.append(_Owned(job, piece))
                else:
                    yield _Owned(job, piece)

    try:
        bar.show()
        for where, own in _assign(jobs, execution).items():
            for owned, error in _compute_and_write(find_missing(own), where):
                bar.label = owned.job.name
                bar.count_one()
                if error is None:
                    continue
                if owned.piece.split is None or isinstance(error, InvalidPolicy):
                    failures.append(Failure(owned.job.name, owned.piece, error))
                else:  # perhaps the fault of one instance
                    broken.append(owned)
        for owned, error in _compute_and_write(_split_up(broken), execution):
            if error is not None:
                failures.append(Failure(owned.job.name, owned.piece, error))
    finally:
        bar.close()
    return failures


def read_rows(
    job: Job, failures: Iterable[Failure], most_left_out: float = MOST_LEFT_OUT
) -> Rows | None:
    """Return the rows of all instances of a job but those that failed, if enough are left."""
    own = [failure for failure in failures if failure.study == job.name]
    return _leave_out_failed(own, _read_finished(job.pieces(), job.store), most_left_out)


def _assign(jobs: Iterable[Job], execution: Execution) -> dict[Execution, list[Job]]:
    """Return which jobs are worked on where."""
    found: dict[Execution, list[Job]] = {}
    for job in jobs:
        found.setdefault(execution.for_study(job.runs), []).append(job)
    return found


class _Owned(NamedTuple):
    job: Job
    piece: Piece


def _split_up(broken: Iterable[_Owned]) -> Iterator[_Owned]:
    """Yield the single instances of pieces that are not yet in their stores."""
    for job, piece in broken:
        for part in piece.split() if piece.split else ():
            if not job.store.has(part.name):
                yield _Owned(job, part)


def _compute_and_write(
    pieces: Iterable[_Owned], execution: Execution
) -> Iterator[tuple[_Owned, Exception | None]]:
    """Compute pieces, write each as soon as it is finished, and yield it with its error, if any."""
    owners: dict[int, Job] = {}  # of pieces that are worked on: stores stay here

    def hand_out() -> Iterator[tuple[int, Piece]]:
        for place, (job, piece) in enumerate(pieces):
            owners[place] = job
            yield place, piece

    for (place, piece), rows, error in execution.outcomes(_compute, hand_out()):
        owned = _Owned(owners.pop(place), piece)
        if error is None:
            owned.job.store.write(piece.name, rows)
        yield owned, error


def _compute(numbered: tuple[int, Piece], threads: int | None) -> Columns:
    _, piece = numbered
    return piece.compute(threads)


def _read_finished(pieces: Iterable[Piece], store: RowStore) -> Iterator[Columns]:
    """Yield the rows of all finished pieces in order, or of their single instances."""
    for piece in pieces:
        rows = store.read(piece.name)
        if rows is not None:
            size = len(next(iter(rows.values())))
            yield {n: np.array([x] * size) for n, x in (piece.labels or {}).items()} | rows
        elif piece.split is not None:
            singles = (store.read(part.name) for part in piece.split())
            yield from (rows for rows in singles if rows is not None)


def _leave_out_failed(
    failures: list[Failure], parts: Iterable[Columns], most_left_out: float
) -> Rows | None:
    """Return the rows of all instances but those that failed, if enough are left."""
    if any(failure.piece.instances is None for failure in failures):
        return None
    bad = {number for failure in failures for number in failure.piece.instances or ()}
    rows = concatenate(parts)
    if bad and rows:
        good = ~np.isin(rows["instance"], sorted(bad))
        rows = {name: values[good] for name, values in rows.items()}
    if len(bad) > most_left_out * (len(bad) + len(np.unique(rows.get("instance", ())))):
        return None
    return rows


def describe_failures(failures: list[Failure]) -> list[str]:
    """Say in the report which instances are not in it."""
    if not failures:
        return []
    return [f"Left out, as they failed: {'; '.join(map(str, failures[:MOST_NAMED]))}"]


def raise_if_failed(failures: list[Failure], out: Path | None, results: Any = None) -> None:
    """Raise an error that names what failed, if anything did, and has the results of the rest."""
    if not failures:
        return
    more = len(failures) - MOST_NAMED
    number = "1 piece" if len(failures) == 1 else f"{len(failures)} pieces"
    others = f"; all others are kept in {out}, and the same command tries what failed again"
    error = Unfinished(
        f"{number} failed{'' if out is None else others}:\n"
        + "\n".join(f"  {failure}" for failure in failures[:MOST_NAMED])
        + (f"\n  … and {more} more" if more > 0 else "")
    )
    error.results = results
    raise error
