"""Labels as numbers (codes): texts are hashed and looked up in compiled code, column by column.

Labels are told apart by 128 bits of hash: among a billion different ones, two would be taken for
the same with a probability of about 10⁻²⁰.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.logs.columns import arrow
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import kernel

__all__ = [
    "DistinctHashes",
    "Hashes",
    "LabelCodes",
    "find_repeated_keys",
    "hash_labels",
    "hash_rows",
]

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
        self.labels: list[str] = []
        self._keys: Hashes = np.zeros((1 << 10, 2), np.uint64)
        self._slots: Codes = np.full(1 << 10, -1, np.int32)
        self.encode(arrow().array(list(labels), arrow().string()))

    def __len__(self) -> int:
        """Return the number of different labels."""
        return len(self.labels)

    def encode(self, texts: Any) -> Codes:
        """Return the code of each text of an Arrow column without nulls, (rows,)."""
        keys = hash_rows([texts])
        codes = np.empty(len(keys), np.int32)
        fresh = np.empty(len(keys), np.int64)
        done = news = 0
        while True:
            done, news = _look_up(
                keys, self._keys, self._slots, codes, fresh, done, news, len(self.labels)
            )
            if done == len(keys):
                break
            self._grow()
        self.labels += texts.take(arrow().array(fresh[:news])).to_pylist()
        return codes

    def _grow(self) -> None:
        size = 4 * len(self._slots)
        keys, slots = np.zeros((size, 2), np.uint64), np.full(size, -1, np.int32)
        _rehash(self._keys, self._slots, keys, slots)
        self._keys, self._slots = keys, slots


@kernel
def _look_up(
    wanted: Hashes,
    keys: Hashes,
    slots: Codes,
    codes: Codes,
    fresh: Ints,
    done: int,
    news: int,
    known: int,
) -> tuple[int, int]:
    """Number rows from ``done`` on; stop early if the table gets half full.

    New keys are entered, and the rows that brought them noted in ``fresh``. Returns how many rows
    are done, and how many of them brought new keys.
    """
    mask = np.uint64(slots.size - 1)
    for n in range(done, len(wanted)):
        place = wanted[n, 0] & mask
        while slots[place] >= 0 and (
            keys[place, 0] != wanted[n, 0] or keys[place, 1] != wanted[n, 1]
        ):
            place = (place + np.uint64(1)) & mask
        if slots[place] < 0:
            if 2 * (known + news) >= slots.size:
                return n, news
            slots[place] = known + news
            keys[place] = wanted[n]
            fresh[news] = n
            news += 1
        codes[n] = slots[place]
    return len(wanted), news


@kernel
def _rehash(keys: Hashes, slots: Codes, new_keys: Hashes, new_slots: Codes) -> None:
    mask = np.uint64(new_slots.size - 1)
    for old in range(slots.size):
        if slots[old] >= 0:
            place = keys[old, 0] & mask
            while new_slots[place] >= 0:
                place = (place + np.uint64(1)) & mask
            new_slots[place] = slots[old]
            new_keys[place] = keys[old]


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

    def add(self, values: Hashes64) -> bool:
        """Add hashes, in any order; tell whether all are sorted now."""
        self._added.append(_sort_different(values.copy()))
        self._size += len(self._added[-1])
        if self._size > max(self.waiting, len(self._sorted)):
            self.values()
        return not self._added

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
