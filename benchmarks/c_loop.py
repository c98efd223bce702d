"""The yardstick: influential LCB as a plain C loop, compiled here if there is a compiler."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from influential_bandits.numerics.streams import NOISE, key_table

SOURCE = Path(__file__).with_name("influential_lcb.c")


@cache
def compiled(optimisation):
    """Return ``play(instance, horizon, noise, seeds) -> counts (seeds, arms)``, or None.

    Contraction is off because the library's arithmetic is never fused either: bits must agree.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    flags = [optimisation, "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "influential_lcb.so"
        command = [compiler, *flags, str(SOURCE), "-o", str(library), "-lm"]
        if subprocess.run(command, check=False).returncode != 0:
            return None  # it has said why
        loop = ctypes.CDLL(str(library)).influential_lcb
    whole, word, address = ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
    loop.argtypes = [whole, whole, address, address, ctypes.c_int, ctypes.c_double]
    loop.argtypes += [word, word, address]
    loop.restype = None

    def play(instance, horizon, noise, seeds):
        matrix, initial_loss = instance.interaction.values, instance.initial_loss
        source = noise.source()
        counts = np.empty((len(seeds), instance.n_arms), np.int64)
        keys = key_table(np.array(seeds, np.uint64), np.uint64(0), NOISE)
        for row, (first, second) in zip(counts, keys.tolist(), strict=True):
            loop(
                instance.n_arms,
                horizon,
                matrix.ctypes.data,
                initial_loss.ctypes.data,
                source.kind,
                source.scale,
                first,
                second,
                row.ctypes.data,
            )
        return counts

    return play
