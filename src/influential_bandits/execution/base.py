"""The seam between what is to be done and where: this computer, or a cluster (``dask.py``).

Work comes in three shapes, and every execution knows all of them: *pieces* of a study, each worth
seconds or minutes, of which one may fail without the others (``outcomes``); *parts* of one
computation, which needs them all and in order (``map``); and *chains* of compiled calls that
report after each (``run``). Results are functions of the tasks alone, never of the place.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Event
from typing import Any, NamedTuple, Protocol, TypeAlias

from influential_bandits.bases import Closing
from influential_bandits.errors import InfluentialBanditsError, MissingExtra
from influential_bandits.execution.progress import Progress


class Steps(Protocol):
    """Work that can stop between two steps."""

    def steps(self) -> Iterable[int]:
        """Do the work; yield how much was done after each step."""


class Task(Steps, Protocol):
    """Work in steps that can be sent away, and its results brought back."""

    def results(self) -> Any:
        """Return the results, to be sent to whoever asked for them."""

    def accept(self, results: Any) -> None:
        """Take the results of the same task, done elsewhere."""


class Cuttable(Protocol):
    """A simulation, which can be cut into tasks."""

    def tasks_for_cores(self, threads: int) -> Sequence[Task]:
        """Return tasks for the cores of a computer."""


# A task, and what it may use → its result: so many threads, all of them, or another execution.
Work: TypeAlias = Callable[[Any, Any], Any]
Attempt: TypeAlias = tuple[Any, Exception | None]  # a result, or an error


class Outcome(NamedTuple):
    """What became of a task: a result, or an error."""

    task: Any
    result: Any = None
    error: Exception | None = None


class Execution(Closing, ABC):
    """Where work is done; made once, used for everything, closed in the end (a context manager).

    ``work`` and tasks must be picklable, as they may be sent to other processes.
    """

    @property
    @abstractmethod
    def threads(self) -> int:
        """How many threads there are at the moment, of all processes."""

    def for_study(self, runs: int | None = None) -> Execution:
        """Return where pieces of a study are worked on best, if a policy has so many runs in it."""
        return self

    @abstractmethod
    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Yield what became of each task, as they finish; one that fails does not stop the others.

        ``work(task, threads)`` is told how many threads it may use, or where it may simulate: it
        passes that on as ``execution``. Tasks are taken from the
        iterable when there is room for them, so that neither tasks nor results pile up.
        """

    @abstractmethod
    def map(
        self,
        work: Callable[[Any], Any],
        tasks: Iterable[Any],
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        """Yield ``work(task)`` of each task, in order, computed a few ahead; errors are raised."""

    def cut(self, simulation: Cuttable) -> Sequence[Steps]:
        """Return the tasks of a simulation that are played best here."""
        return simulation.tasks_for_cores(self.threads)

    @abstractmethod
    def run(self, tasks: Sequence[Any], progress: Progress) -> None:
        """Work off all tasks; the first error, or Ctrl-C, stops the others before it is raised."""


class Stoppable:
    """Work in steps that ends early once nobody waits for it."""

    def __init__(self, task: Steps, stopped: Event) -> None:
        self.task, self.stopped = task, stopped

    def steps(self) -> Iterator[int]:
        """Do the work, unless it was stopped."""
        for amount in self.task.steps():
            yield amount
            if self.stopped.is_set():
                raise InfluentialBanditsError("stopped")


def attempt(work: Work, task: Any, threads: Any) -> Attempt:
    """Do a piece of work; return its result, or the error, unless the installation lacks something.

    Errors travel, so that one which cannot be pickled is replaced by its words.
    """
    try:
        return work(task, threads), None
    except MissingExtra:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the other pieces go on
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - an error of any kind may come from its own methods
            return None, RuntimeError(f"{type(error).__name__}: {error}")
        return None, error
