"""Kernels on disk, so that the next process need not compile them again."""

from __future__ import annotations

from typing import Any

from influential_bandits.numerics.code_cache import CodeCache, read_entry, write_entry
from influential_bandits.packages import optional_module


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
