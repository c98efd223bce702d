"""GpuExecution: runs on a graphics processor of NVIDIA, to the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from influential_bandits.checks import whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import (
    Attempt,
    Execution,
    Outcome,
    Steps,
    Stoppable,
    Work,
    attempt,
)
from influential_bandits.execution.local import LocalExecution, run_tasks, work_off
from influential_bandits.execution.progress import Progress
from influential_bandits.gpu.gathering import Gathering
from influential_bandits.gpu.tasks import Batch, gpu_tasks, require_playable
from influential_bandits.gpu.toolkit import free_memory, is_simulated, require_device

SHARE = 0.8  # of the memory that is free: the rest is for kernels and for others
PIECES_AT_ONCE = 1024  # of a study: one alone leaves most of a graphics processor idle
FEW_RUNS = 8  # below, cores are faster: one thread of a graphics processor is slow
RUNS_PER_CORE = 64  # of a study: with fewer, all cores together are faster as well


class GpuExecution(LocalExecution):
    """Play runs on a graphics processor, one a thread; needs the extra ``gpu``.

    It pays for many runs: 100,000 keep a large graphics processor busy, and ten do not. Fewer than
    eight at a time are played on this computer's cores, and so is a study of fewer than 64 runs for
    each core; scenarios are refused. Policies,
    worlds and noises are the same functions as on processors, and give the same bits, as long as
    they keep to + − × ÷ √ and the functions of the package (those of ``math``, such as ``log``,
    come from another library there).

    Parameters
    ----------
    device : int
        Which one, if there are several.
    memory : int, optional
        Bytes to use of its memory at a time, at most; by default four fifths of what is free.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> world = ib.random_instance(n_arms=3, seed=0)
    >>> with GpuExecution() as gpu:  # doctest: +SKIP
    ...     run = ib.simulate(world, ib.LCB(), 10**6, seeds=100_000, execution=gpu)
    """

    def __init__(self, device: int = 0, memory: int | None = None) -> None:
        super().__init__()
        self.number = whole_number("device", device, 0)
        self.device = require_device(self.number)
        free = int(SHARE * free_memory())
        if memory is not None:
            asked = whole_number("memory", memory, 1)
            if asked > free:
                raise InvalidInput(
                    f"memory must be at most what is free on the graphics processor, {free:,} "
                    f"bytes, got {asked:,}"
                )
            free = asked
        self.memory = free
        self._gathering: Gathering | None = None  # of pieces that are worked on
        self._cores = LocalExecution()

    @property
    def room(self) -> int:
        """Bytes for one batch of runs: several are played at a time where there are pieces."""
        return self.memory if self._gathering is None else self._gathering.room

    def for_study(self, runs: int | None = None) -> Execution:
        """Return this computer's cores for a study of few runs: they are through sooner."""
        if runs is None or runs >= RUNS_PER_CORE * self.threads or is_simulated():
            return self
        return self._cores

    def __repr__(self) -> str:
        return f"GpuExecution(device={self.number})"

    def cut(self, simulation: Any) -> Sequence[Steps]:
        """Return batches for the graphics processor; few runs are left to the cores."""
        if simulation.runs < FEW_RUNS and not is_simulated():
            return simulation.tasks_for_cores(self.threads)
        require_playable(simulation)
        return gpu_tasks(simulation, self.number, self.room)

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Work off many pieces side by side; what they simulate is joined and played there."""
        pool = ThreadPoolExecutor(PIECES_AT_ONCE, thread_name_prefix="influential-bandits-piece")
        gathering = self._gathering = Gathering(self.memory, self._stopped)

        def compute(task: Any) -> Attempt:
            try:
                with gathering.desks:
                    return attempt(work, task, self)
            finally:
                gathering.end()

        def submit(task: Any) -> Future[Attempt]:
            gathering.begin()
            return pool.submit(compute, task)

        try:
            yield from work_off(tasks, submit, PIECES_AT_ONCE, gathering.handing_out)
        finally:
            self._stopped.set()  # pieces that nobody waits for end between two launches
            gathering.close()
            pool.shutdown(wait=True, cancel_futures=True)
            self._stopped.clear()
            self._gathering = None

    def run(self, tasks: Sequence[Any], progress: Progress) -> None:
        """Work off batches one after the other, or with those of other pieces of a study."""
        gathering = self._gathering
        batches = [task for task in tasks if isinstance(task, Batch)]
        if gathering is not None and len(batches) == len(tasks):
            gathering.play(batches)
        else:
            threads = 1 if batches else self.threads
            run_tasks([Stoppable(task, self._stopped) for task in tasks], threads, progress)
