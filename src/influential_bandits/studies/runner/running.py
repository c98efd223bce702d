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
        draw_figures(results[-1], out)
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
    finished: list[dict[int, Columns]] = [{} for _ in jobs]  # rows by the place of the piece
    failures: list[list[Failure]] = [[] for _ in jobs]
    assigned: dict[Execution, list[int]] = {}
    for n, job in enumerate(jobs):
        assigned.setdefault(execution.for_study(job.runs), []).append(n)

    def find_missing(numbers: list[int]) -> Iterator[tuple[int, int, Piece]]:
        """Yield the pieces of these jobs that are to be computed, and take the finished ones."""
        for n in numbers:
            for place, piece in enumerate(jobs[n].pieces):
                rows = jobs[n].store.read(piece.name)
                if rows is None:
                    yield n, place, piece
                else:
                    finished[n][place] = rows
                    bar.count_one()

    try:
        bar.show()
        for where, numbers in assigned.items():
            for task, rows, error in where.outcomes(_compute, find_missing(numbers)):
                n, place, piece = task
                bar.label = jobs[n].name
                bar.count_one()
                if error is None:
                    jobs[n].store.write(piece.name, rows)
                    finished[n][place] = rows
                else:
                    failures[n].append(Failure(jobs[n].name, piece, error))
    finally:
        bar.close()
    return [_join(*parts) for parts in zip(jobs, finished, failures, strict=True)]


def _compute(task: tuple[int, int, Piece], threads: int | None) -> Columns:
    return task[-1].compute(threads)


def _join(job: Job, finished: dict[int, Columns], failures: list[Failure]) -> Computed:
    """Return all rows of a job in the order of its pieces, if enough are left."""
    if any(failure.piece.instances is None for failure in failures):
        return Computed(None, failures)
    bad = {number for failure in failures for number in failure.piece.instances or ()}
    rows = concatenate(finished[place] for place in sorted(finished))
    if bad and rows:
        good = ~np.isin(rows["instance"], sorted(bad))
        rows = {name: values[good] for name, values in rows.items()}
    instances = len(bad) + len(np.unique(rows.get("instance", ())))
    enough = len(bad) <= MOST_LEFT_OUT * instances
    return Computed(rows if enough else None, failures)


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
