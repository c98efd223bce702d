"""GpuExecution: runs on a graphics processor of NVIDIA, to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from influential_bandits.checks import whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution, Outcome, Task, Work, attempt
from influential_bandits.execution.local import count_threads, map_in_order, run_tasks
from influential_bandits.execution.progress import Progress
from influential_bandits.numerics.gpu.toolkit import free_memory, require_device

__all__ = ["GpuExecution"]

SHARE = 0.8  # of the memory that is free: the rest is for kernels and for others


class GpuExecution(Execution):
    """Play runs on a graphics processor, one a thread; needs the extra ``gpu``.

    It pays for many runs: 10,000 keep a large graphics processor busy, and ten do not. Policies,
    worlds and noises are the same functions as on processors, and give the same bits, as long as
    they keep to + − × ÷ √ and the functions of the package (those of ``math``, such as ``log``,
    come from another library there).

    Parameters
    ----------
    device : int
        Which one, if there are several.
    memory : int, optional
        Bytes to use of its memory, at most; by default four fifths of what is free.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> world = ib.random_instance(n_arms=3, seed=0)
    >>> with GpuExecution() as gpu:  # doctest: +SKIP
    ...     run = ib.simulate(world, ib.LCB(), 10**6, seeds=100_000, execution=gpu)
    """

    def __init__(self, device: int = 0, memory: int | None = None) -> None:
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

    @property
    def threads(self) -> int:
        """How many threads this computer has for what is not played: all cores."""
        return count_threads(None)

    def __repr__(self) -> str:
        """Say which device it is."""
        return f"GpuExecution(device={self.number})"

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Work off pieces one after the other; what they simulate is played there."""
        return (Outcome(task, *attempt(work, task, self)) for task in tasks)

    def map(
        self,
        work: Callable[[Any], Any],
        tasks: Iterable[Any],
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        """Compute on this computer's threads: parts of fits are not for graphics processors."""
        return map_in_order(work, tasks, self.threads, progress)

    def run(self, tasks: Sequence[Task], progress: Progress) -> None:
        """Work off tasks one after the other, each of which fills the graphics processor."""
        run_tasks(tasks, 1, progress)
