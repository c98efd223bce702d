"""Labels as numbers (codes), and hashes to bring instances together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.compiling import kernel

Codes = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]  # (rows,)

FNV_OFFSET = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)


class LabelCodes:
    """Different labels, coded in the order of their first appearance.

    Parameters
    ----------
    labels : iterable of str
        Labels that are known from the beginning.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self.labels = list(labels)
        self._codes = {label: code for code, label in enumerate(self.labels)}

    def encode(self, texts: Any) -> Codes:
        """Return the code of each text of an Arrow column without nulls, (rows,)."""
        coded, codes, known = texts.dictionary_encode(), self._codes, len(self._codes)
        labels = coded.dictionary.to_pylist()
        each = [codes.setdefault(label, len(codes)) for label in labels]
        self.labels += [label for label, code in zip(labels, each, strict=True) if code >= known]
        return np.array(each, np.int32)[coded.indices.to_numpy()]


def hash_labels(texts: Any) -> Hashes:
    """Return 64 bits that stand for each text of an Arrow column, (rows,)."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return _hash_texts(ends, np.frombuffer(data or b"\0", np.uint8))


@kernel
def _hash_texts(ends: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> Hashes:
    """Hash the text of each row by FNV-1a, then avalanche."""
    out = np.empty(ends.size - 1, np.uint64)
    for n in range(ends.size - 1):
        state = FNV_OFFSET
        for place in range(ends[n], ends[n + 1]):
            state = (state ^ np.uint64(data[place])) * FNV_PRIME
        state = (state ^ np.uint64(255)) * FNV_PRIME
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[n] = state ^ (state >> np.uint64(31))
    return out


class DistinctHashes:
    """Different hashes of many; sorted now and then, when there are twice as many.

    Parameters
    ----------
    waiting : int
        How many wait at least until they are sorted into the others.
    """

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self._sorted: Hashes = np.zeros(0, np.uint64)
        self._added: list[Hashes] = []
        self._size = 0

    def add(self, values: Hashes) -> None:
        """Add hashes, in any order."""
        self._added.append(_sort_different(values.copy()))
        self._size += len(self._added[-1])
        if self._size > max(self.waiting, len(self._sorted)):
            self.values()

    def values(self) -> Hashes:
        """Return those met so far, ascending."""
        if self._added:
            self._sorted = _sort_different(np.concatenate([self._sorted, *self._added]))
            self._added, self._size = [], 0
        return self._sorted


def _sort_different(values: Hashes) -> Hashes:
    """Sort values where they are, and return each once; NumPy's own way is many times slower."""
    values.sort()
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]
