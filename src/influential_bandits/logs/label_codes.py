"""Labels as numbers (codes), and hashes to compare keys and to bring instances together.

Keys are told apart by 128 bits: among a billion different ones, two would be taken for the same
with a probability of about 10⁻²⁰.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import kernel

Codes = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]  # (rows, 2)
Hashes64 = npt.NDArray[np.uint64]  # (rows,)

FNV_OFFSET = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)
OTHER_OFFSET = np.uint64(0x9E3779B97F4A7C15)
OTHER_PRIME = np.uint64(0xD6E8FEB86659FD93)


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


def hash_rows(columns: Sequence[Any]) -> Hashes:
    """Return 128 bits that stand for the texts of each row of several Arrow columns, (rows, 2)."""
    state = np.empty((len(columns[0]), 2), np.uint64)
    state[:] = FNV_OFFSET, OTHER_OFFSET
    for texts in columns:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        _absorb(state, ends, np.frombuffer(data or b"\0", np.uint8))
    return state


def hash_labels(texts: Any) -> Hashes64:
    """Return 64 bits that stand for each text of an Arrow column, (rows,)."""
    return hash_rows([texts])[:, 0]


@kernel
def _absorb(state: Hashes, ends: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
    """Mix the text of each row into its state: FNV-1a and a sister of it, then avalanche."""
    for n in range(ends.size - 1):
        one, two = state[n, 0], state[n, 1]
        for place in range(ends[n], ends[n + 1]):
            byte = np.uint64(data[place])
            one = (one ^ byte) * FNV_PRIME
            two = (two ^ (two >> np.uint64(32)) ^ byte) * OTHER_PRIME
        # No text contains the byte 255, so that columns cannot run into one another.
        one = (one ^ np.uint64(255)) * FNV_PRIME
        one = (one ^ (one >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        one = (one ^ (one >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state[n, 0] = one ^ (one >> np.uint64(31))
        two = (two ^ np.uint64(255)) * OTHER_PRIME
        state[n, 1] = two ^ (two >> np.uint64(29))


def find_repeated_keys(keys: Hashes) -> Ints:
    """Return the rows, in order, whose key (rows, 2) an earlier row has."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: the first occurrence comes first
    ranked = keys[order]
    return np.sort(order[1:][(ranked[1:] == ranked[:-1]).all(axis=1)])


class DistinctHashes:
    """Different hashes of many; sorted now and then, when there are twice as many.

    Parameters
    ----------
    waiting : int
        How many wait at least until they are sorted into the others.
    """

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self._sorted: Hashes64 = np.zeros(0, np.uint64)
        self._added: list[Hashes64] = []
        self._size = 0

    def add(self, values: Hashes64) -> None:
        """Add hashes, in any order."""
        self._added.append(_sort_different(values.copy()))
        self._size += len(self._added[-1])
        if self._size > max(self.waiting, len(self._sorted)):
            self.values()

    def values(self) -> Hashes64:
        """Return those met so far, ascending."""
        if self._added:
            self._sorted = _sort_different(np.concatenate([self._sorted, *self._added]))
            self._added, self._size = [], 0
        return self._sorted


def _sort_different(values: Hashes64) -> Hashes64:
    """Sort values where they are, and return each once; NumPy's own way is many times slower."""
    values.sort()
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]
