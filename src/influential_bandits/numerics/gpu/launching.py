"""Launch a kernel: compiled once for each game, with its arrays on the graphics processor."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.gpu.toolkit import cuda, jit, without_contraction

__all__ = ["Launcher"]


class Source(Protocol):
    """What a kernel is made from."""

    @property
    def digest(self) -> str:
        """What tells it from all others."""

    def function(self) -> Any:
        """Return the function that numba-cuda compiles."""


made: dict[str, Any] = {}


class Launcher:
    """Launches the kernel of a source."""

    def __init__(self, source: Source, threads_per_block: int) -> None:
        self.threads = threads_per_block
        if source.digest not in made:
            made[source.digest] = jit(source.function())
        self.kernel = made[source.digest]

    def send(self, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
        """Return arrays on the graphics processor; read-only ones are as good as others there."""
        return {name: cuda().to_device(_writeable(array)) for name, array in arrays.items()}

    def launch(self, runs: int, arguments: list[Any], first: int, last: int) -> None:
        """Play rounds ``first`` … ``last``, and wait for them."""
        blocks = -(-runs // self.threads)
        with without_contraction():
            self.kernel[blocks, self.threads](np.int64(first), np.int64(last), *arguments)
        cuda().synchronize()


def _writeable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = np.ascontiguousarray(array)
    return kept if kept.flags.writeable else kept.copy()
