"""Run studies: piece by piece, resumable, with progress; then analyse and report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.checks import whole_number
from influential_bandits.errors import Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress, is_watched
from influential_bandits.free_memory import require_memory
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.results import draw_figures, write_results
from influential_bandits.studies.report.text import measured, number
from influential_bandits.studies.runner.rows import Columns, Rows, concatenate
from influential_bandits.studies.runner.store import RowStore, StudyFolder, write_rows
from influential_bandits.studies.runner.study import Piece, Settings, Study

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
        pieces = list(study.pieces(settings))
        job = Job(study.name, pieces, len(pieces), folder, settings.seeds)
        ((rows, failed),) = compute_jobs([job], where, progress)
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
    pieces: Iterable[Piece]  # looked at once, in order: a piece may hold large instances
    n_pieces: int
    store: RowStore
    runs: int | None = None  # of each policy, where that is known
    most_left_out: float = MOST_LEFT_OUT


class Computed(NamedTuple):
    """What became of a job."""

    rows: Rows | None  # of all instances but those that failed; none if too many did
    failures: list[Failure]


def compute_jobs(
    jobs: Sequence[Job], execution: Execution, progress: bool | None = None
) -> list[Computed]:
    """Compute the pieces that the stores lack and write them there; return what became of each job.

    All in one go: nobody waits for the end of a job. Instances whose piece fails are left out of
    the rows; there are no rows if these are too many, or if a piece fails that is not of instances.
    """
    shown = is_watched() if progress is None else progress
    bar = Progress(jobs[0].name, sum(job.n_pieces for job in jobs), shown)
    running = [_RunningJob(job) for job in jobs]
    try:
        bar.show()
        for where, own in _assign(running, execution).items():
            missing = (task for each in own for task in each.find_missing(bar))
            for task, error in _compute_and_keep(missing, where):
                bar.label = task.owner.job.name
                bar.count_one()
                if error is not None:
                    failure = Failure(task.owner.job.name, task.piece, error)
                    task.owner.failures.append(failure)
    finally:
        bar.close()
    return [each.join() for each in running]


class _RunningJob:
    """A job that is worked on: the rows of its finished pieces, and the pieces that failed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows: dict[int, Columns] = {}  # by the place of the piece
        self.failures: list[Failure] = []

    def find_missing(self, bar: Progress) -> Iterator[_Task]:
        """Yield the pieces that are to be computed, and take those that the store has."""
        for place, piece in enumerate(self.job.pieces):
            rows = self.job.store.read(piece.name)
            if rows is None:
                yield _Task(self, place, piece)
            else:
                self.keep(place, piece, rows)
                bar.count_one()

    def keep(self, place: int, piece: Piece, rows: Columns) -> None:
        """Keep the rows of a piece, with the columns that are not in its file."""
        size = len(next(iter(rows.values())))  # type: ignore[arg-type]
        labels = {name: np.array([x] * size) for name, x in (piece.labels or {}).items()}
        self.rows[place] = labels | dict(rows)

    def join(self) -> Computed:
        """Return all rows in the order of the pieces, if enough are left."""
        if any(failure.piece.instances is None for failure in self.failures):
            return Computed(None, self.failures)
        bad = {number for failure in self.failures for number in failure.piece.instances or ()}
        rows = concatenate(self.rows[place] for place in sorted(self.rows))
        if bad and rows:
            good = ~np.isin(rows["instance"], sorted(bad))
            rows = {name: values[good] for name, values in rows.items()}
        instances = len(bad) + len(np.unique(rows.get("instance", ())))
        enough = len(bad) <= self.job.most_left_out * instances
        return Computed(rows if enough else None, self.failures)


class _Task(NamedTuple):
    owner: _RunningJob
    place: int
    piece: Piece


def _assign(
    running: Iterable[_RunningJob], execution: Execution
) -> dict[Execution, list[_RunningJob]]:
    """Return which jobs are worked on where."""
    assigned: dict[Execution, list[_RunningJob]] = {}
    for each in running:
        assigned.setdefault(execution.for_study(each.job.runs), []).append(each)
    return assigned


def _compute_and_keep(
    tasks: Iterable[_Task], execution: Execution
) -> Iterator[tuple[_Task, Exception | None]]:
    """Compute pieces, write each as soon as it is finished, and yield it with its error, if any."""
    waiting: dict[int, _Task] = {}  # those worked on: stores stay here

    def hand_out() -> Iterator[tuple[int, Piece]]:
        for ticket, task in enumerate(tasks):
            waiting[ticket] = task
            yield ticket, task.piece

    for (ticket, piece), rows, error in execution.outcomes(_compute, hand_out()):
        task = waiting.pop(ticket)
        if error is None:
            task.owner.job.store.write(piece.name, rows)
            task.owner.keep(task.place, piece, rows)
        yield task, error


def _compute(numbered: tuple[int, Piece], threads: int | None) -> Columns:
    _, piece = numbered
    return piece.compute(threads)


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
