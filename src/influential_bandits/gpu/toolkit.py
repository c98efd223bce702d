"""numba-cuda, and what has to be different about it here: no contraction, clear errors.

Everything that touches numba-cuda's own modules is in this package, so that another version of it
is a change of a few lines here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from influential_bandits.errors import GpuError
from influential_bandits.packages import optional_module, require_packages

HEAP_SHARE = 16  # one part in so many of the free memory is for the heap, at most
LARGEST_HEAP = 1 << 32  # bytes

compiling = threading.RLock()


@cache
def cuda() -> Any:
    """Return numba-cuda, or say what to install."""
    require_packages("numba_cuda")
    # Kernels that share a queue wait for each other; the driver looks when it starts.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    if not hasattr(np, "row_stack"):  # numba-cuda 0.30 asks for it; NumPy 2.5 has it no longer
        setattr(np, "row_stack", np.vstack)  # noqa: B010 - type checkers know that there is none
    module = optional_module("numba.cuda")
    if not is_simulated():
        module.config.CUDA_LOW_OCCUPANCY_WARNINGS = False  # few runs are no mistake to warn of
    return module


def is_simulated() -> bool:
    """Tell whether numba's CUDA simulator plays the part of the graphics processor."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def require_device(number: int = 0) -> Any:
    """Return a graphics processor, or say why there is none."""
    numba_cuda = cuda()
    if is_simulated():
        return numba_cuda.get_current_device()
    try:
        found = len(numba_cuda.gpus)
    except Exception as error:  # noqa: BLE001 - whatever the driver says, there is none
        words = " ".join(str(error).split())
        raise GpuError(
            f"no graphics processor of NVIDIA can be used here ({words:.160}); play on this "
            "computer's cores: leave execution out, or --engine gpu"
        ) from None
    if number >= found:
        raise GpuError(f"there is no graphics processor {number}; this computer has {found}")
    numba_cuda.select_device(number)
    return numba_cuda.get_current_device()


def jit(function: Any, **options: Any) -> Any:
    """Return a kernel or a device function, compiled before it is linked.

    The linker's own optimisation would fuse operations, whatever the compiler was told. The
    function goes first: as a decorator with options, numba-cuda 0.30 forgets this one.
    """
    if is_simulated():
        return cuda().jit(function, device=options.get("device", False))
    return cuda().jit(function, lto=False, **options)


def require_no_linker(kernel: Any) -> None:
    """Raise if a kernel was optimised, and perhaps contracted, by the linker."""
    if any(overload.library._lto for overload in kernel.overloads.values()):
        raise GpuError("numba-cuda left the compiling to its linker, which fuses operations")


def free_memory() -> int:
    """Return how many bytes of the graphics processor's memory nobody uses."""
    if is_simulated():
        return 1 << 30
    return int(cuda().current_context().get_memory_info().free)


@contextmanager
def without_contraction() -> Iterator[None]:
    """Compile a·b + c as two operations, each rounded, as processors do.

    NVVM fuses them unless told otherwise, and numba-cuda has no option to tell it.
    """
    if is_simulated():
        yield
        return
    nvvm = optional_module("numba.cuda.cudadrv.nvvm")
    with compiling:
        fused: Callable[..., bytes] = nvvm.compile_ir
        nvvm.compile_ir = lambda code, **options: fused(code, **options | {"fma": 0})
        try:
            yield
        finally:
            nvvm.compile_ir = fused


@contextmanager
def with_heap() -> Iterator[None]:
    """Compile code that may make arrays on the heap of the graphics processor."""
    config = cuda().config
    with compiling:
        before = getattr(config, "CUDA_ENABLE_NRT", False)
        config.CUDA_ENABLE_NRT = True
        _enlarge_heap()
        try:
            yield
        finally:
            config.CUDA_ENABLE_NRT = before


def _enlarge_heap() -> None:
    """Give the heap a part of the memory; it has 8 MB otherwise, and threads fail without a word.

    It can no longer be changed once a kernel has used it.
    """
    driver = optional_module("cuda.bindings.driver")
    limit = driver.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE
    driver.cuCtxSetLimit(limit, min(free_memory() // HEAP_SHARE, LARGEST_HEAP))


def cuda_errors() -> tuple[type[Exception], ...]:
    """Return what numba-cuda raises when a call of the driver fails."""
    if is_simulated():
        return ()
    error = optional_module("numba.cuda.cudadrv.error")
    return optional_module("numba.cuda.cudadrv.driver").CudaAPIError, error.CudaSupportError
