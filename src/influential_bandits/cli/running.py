"""Where a command's work is done, and how a command ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from influential_bandits.cli.options import (
    Engine,
    EngineName,
    Jobs,
    Scheduler,
    takes,
)
from influential_bandits.errors import ClusterLost, InvalidInput, Unfinished

REPORT = ("jinja2", "matplotlib", "pyarrow", "sklearn")
CLUSTER = ("dask", "distributed")
GRAPHICS = ("numba_cuda",)
CONTINUES = "finished pieces are kept in {}: run the same command again to continue"


@dataclass(frozen=True)
class Where:
    """Where a command's work is done, as its options say."""

    jobs: Jobs = None
    engine: EngineName = Engine.local
    scheduler: Scheduler = None

    def require_installed(self, *modules: str) -> None:
        """Say what is missing before any work is done, not after it."""
        more = {Engine.dask: CLUSTER, Engine.gpu: GRAPHICS}.get(self.engine, ())
        require_installed(*modules, *more)

    def open(self) -> Any:
        """Return the execution."""
        if self.jobs is not None and self.jobs < 1:
            raise InvalidInput(f"jobs must be at least 1, got {self.jobs}")
        if self.engine is not Engine.dask and self.scheduler is not None:
            raise InvalidInput("--scheduler is for --engine dask")
        if self.engine is Engine.gpu:
            if self.jobs is not None:
                raise InvalidInput("--jobs is for --engine local")
            from influential_bandits.gpu.execution import GpuExecution

            return GpuExecution()
        if self.engine is Engine.local:
            from influential_bandits.execution.local import LocalExecution

            return LocalExecution(self.jobs)
        return self._open_cluster()

    def _open_cluster(self) -> Any:
        if self.scheduler is not None and self.jobs is not None:
            raise InvalidInput("--jobs is for this computer: a running cluster has its own workers")
        from influential_bandits.execution.dask import DaskExecution

        cluster = DaskExecution(self.scheduler, self.jobs)
        for name in ("distributed", "distributed.client"):  # our own words say what went wrong
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return cluster


works_anywhere = takes("where", Where)


def require_installed(*modules: str) -> None:
    """Say what is missing before any work is done, not after it."""
    from influential_bandits.packages import require_packages

    require_packages(*modules)


@contextmanager
def print_rest_first(tell: Callable[[Any], None]) -> Iterator[None]:
    """If some pieces failed, tell what the others gave before the error is shown."""
    try:
        yield
    except Unfinished as error:
        if error.results:
            tell(error.results)
        raise


def print_results(text: str, out: Path) -> None:
    """Print results, and where the report is."""
    typer.echo(text)
    print_report_place(out)


def print_report_place(out: Path) -> None:
    """Print where the report is."""
    typer.echo(f"\nReport: {out / 'report.html'}  (numbers for programs: {out / 'summary.json'})")


@contextmanager
def explain_stop(afterwards: str) -> Iterator[None]:
    """Let Ctrl-C, or a lost cluster, end a command with one line that says what now."""
    try:
        yield
    except ClusterLost as lost:
        raise ClusterLost(f"{lost}; {afterwards}") from None
    except KeyboardInterrupt as stopped:
        typer.echo(f"\n{str(stopped) or 'stopped by Ctrl-C'}; {afterwards}", err=True)
        raise typer.Exit(130) from None
