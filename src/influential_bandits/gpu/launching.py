"""Launch kernels: compiled once for each game, kept on disk, with arrays on the card."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from influential_bandits.errors import GpuError, InvalidPolicy
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
from influential_bandits.numerics.code_cache import CodeCache, read_entry, write_entry
from influential_bandits.packages import optional_module

if TYPE_CHECKING:
    from influential_bandits.gpu.kernels import Game


made: dict[tuple[str, Any], Any] = {}


class Launcher:
    """Launches the first of several kernels for the same work that can be compiled."""

    def __init__(
        self, name: str, games: Iterable[Game], threads_per_block: int, device: int
    ) -> None:
        self.name, self.games, self.threads = name, games, threads_per_block
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
        for game in self.games:
            try:
                self.kernel = _compiled(game, arguments)
                self.shared_bytes = game.shared_bytes
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


def _compiled(game: Game, arguments: list[Any]) -> Any:
    """Return the kernel of a game, from memory, from disk, or compiled now."""
    if is_simulated():
        return jit(game.function())
    key = game.digest, cuda().get_current_device().id
    with compiling:
        if key not in made:
            kernel = jit(game.function(), max_registers=game.max_registers)
            kernel._cache = KernelCache(game.digest)
            with without_contraction(), with_heap() if game.heap else nullcontext():
                kernel.compile(tuple(kernel.typeof_pyval(argument) for argument in arguments))
            require_no_linker(kernel)
            for overload in kernel.overloads.values():
                overload.bind()  # loads it, which two threads must not do at the same time
            kernel.disable_compile()  # for other types it would be compiled with contraction
            made[key] = kernel
    return made[key]


class KernelCache(CodeCache):
    """Where the dispatcher of one kernel keeps what it has compiled.

    Entries lie beside those of processors, under the same rules. They are named after the digest of
    the kernel's source and of all code that it calls, the types of its arguments, the graphics
    processor and the versions.
    """

    def __init__(self, digest: str) -> None:
        self.name = f"gpu-{digest[:24]}"
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        file = self._name(sig)
        return read_entry(file, _rebuilt) if self.enabled else None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not self.enabled:
            return
        try:
            payload = optional_module("numba.cuda.serialize").dumps(data._reduce_states())
        except RuntimeError:  # linked with code of numba-cuda's own, as for reshape: not kept
            return
        write_entry(self._name(sig), payload)

    def _name(self, sig: Any) -> str:
        numba_cuda = optional_module("numba.cuda")
        version = optional_module("numba_cuda").__version__
        capability = numba_cuda.get_current_device().compute_capability
        return self.file_name(f"{sig} {capability} {version}")


def _rebuilt(states: Any) -> Any:
    return optional_module("numba.cuda.dispatcher")._Kernel._rebuild(**states)


def _writeable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    contiguous = np.ascontiguousarray(array)
    return contiguous if contiguous.flags.writeable else contiguous.copy()


def _lost(error: Exception) -> GpuError:
    words = " ".join(str(error).split())
    return GpuError(
        f"the graphics processor gave up ({words:.160}); if it is short of memory, pass "
        "GpuExecution(memory=…) less than there is, or keep less at a time"
    )
