"""Launch kernels: compiled once for each source, kept on disk, with arrays on the card."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, Protocol

import numba
import numpy as np
import numpy.typing as npt

from influential_bandits.errors import GpuError, InvalidPolicy
from influential_bandits.gpu.kernel_cache import KernelCache
from influential_bandits.gpu.toolkit import (
    compiling,
    cuda,
    cuda_errors,
    is_simulated,
    jit,
    require_no_linker,
    with_heap,
    without_contraction,
)


class Source(Protocol):
    """What a kernel is made from."""

    @property
    def digest(self) -> str:
        """What tells it from all others."""

    @property
    def heap(self) -> bool:
        """Whether its code may make arrays on the heap."""

    @property
    def shared_bytes(self) -> int:
        """How much memory the threads of a block share beyond what the kernel states."""

    @property
    def max_registers(self) -> int | None:
        """How many registers a thread may take; fewer of them let more threads run."""

    def function(self) -> Any:
        """Return the function that numba-cuda compiles."""


made: dict[tuple[str, Any], Any] = {}


class Launcher:
    """Launches the first of several kernels for the same work that can be compiled."""

    def __init__(
        self, name: str, sources: Iterable[Source], threads_per_block: int, device: int
    ) -> None:
        self.name, self.sources, self.threads = name, sources, threads_per_block
        if not is_simulated():
            cuda().select_device(device)  # of this thread
        self.stream = cuda().stream()  # so that others do not wait for this work

    def send(self, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
        """Return arrays on the card."""
        try:
            sent = {
                name: cuda().to_device(_writeable(array), stream=self.stream)
                for name, array in arrays.items()
            }
            self.stream.synchronize()  # what was sent may be gone after this
        except cuda_errors() as error:
            raise _lost(error) from error
        return sent

    def reserve(self, arrays: dict[str, tuple[tuple[int, ...], Any]]) -> dict[str, Any]:
        """Return arrays on the card of these shapes and types; they hold anything."""
        try:
            return {
                name: cuda().device_array(shape, dtype, stream=self.stream)
                for name, (shape, dtype) in arrays.items()
            }
        except cuda_errors() as error:
            raise _lost(error) from error

    def compile(self, arguments: list[Any]) -> None:
        """Compile for the types of these arguments."""
        problem: Exception | None = None
        for source in self.sources:
            try:
                self.kernel = _compiled(source, arguments)
                self.shared_bytes = source.shared_bytes
            except numba.core.errors.NumbaError as error:
                problem = error
            else:
                return
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        raise InvalidPolicy(
            f"{self.name} could not be compiled for graphics processors, where less of Python is "
            f"understood than on processors; play it without. Numba says: {'; '.join(lines):.300}"
        ) from problem

    def launch(self, runs: int, arguments: list[Any]) -> float:
        """Play, and wait for it; return the seconds it took, but those it waited for others."""
        blocks = -(-runs // self.threads)
        if is_simulated():
            started = time.perf_counter()
            with compiling:  # it plays one kernel at a time
                self.kernel[blocks, self.threads, 0, self.shared_bytes](*arguments)
            return time.perf_counter() - started
        try:
            before, after = cuda().event(), cuda().event()
            before.record(self.stream)
            self.kernel[blocks, self.threads, self.stream, self.shared_bytes](*arguments)
            after.record(self.stream)
            self.stream.synchronize()
            return float(before.elapsed_time(after)) / 1000.0
        except cuda_errors() as error:
            raise _lost(error) from error

    def fetch(self, array: Any) -> npt.NDArray[Any]:
        """Return an array of the card here."""
        try:
            found: npt.NDArray[Any] = array.copy_to_host(stream=self.stream)
            self.stream.synchronize()
        except cuda_errors() as error:
            raise _lost(error) from error
        return found


def _compiled(source: Source, arguments: list[Any]) -> Any:
    """Return the kernel of a source, from memory, from disk, or compiled now."""
    if is_simulated():
        return jit(source.function())
    key = source.digest, cuda().get_current_device().id
    with compiling:
        if key not in made:
            kernel = jit(source.function(), max_registers=source.max_registers)
            kernel._cache = KernelCache(source.digest)
            with without_contraction(), with_heap() if source.heap else nullcontext():
                kernel.compile(tuple(kernel.typeof_pyval(argument) for argument in arguments))
            require_no_linker(kernel)
            for overload in kernel.overloads.values():
                overload.bind()  # loads it, which two threads must not do at the same time
            kernel.disable_compile()  # for other types it would be compiled with contraction
            made[key] = kernel
    return made[key]


def _writeable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = np.ascontiguousarray(array)
    return kept if kept.flags.writeable else kept.copy()


def _lost(error: Exception) -> GpuError:
    words = " ".join(str(error).split())
    return GpuError(
        f"the graphics processor gave up ({words:.160}); if it is short of memory, pass "
        "GpuExecution(memory=…) less than there is, or keep less at a time"
    )
