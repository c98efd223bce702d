"""What instances, interactions, populations and recorded noise have in common as values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from influential_bandits.bases import Frozen
from influential_bandits.errors import InvalidInput, InvalidInstance
from influential_bandits.files import read_json, write_json


class Value(Frozen):
    """Base of what never changes, and is equal to another if all that they are made of is."""

    @abstractmethod
    def _parts(self) -> tuple[Any, ...]:
        """Return what it is made of: arrays, and what can be hashed."""

    def _key(self) -> tuple[Any, ...]:
        parts = self._parts()
        return tuple((p.shape, p.tobytes()) if isinstance(p, np.ndarray) else p for p in parts)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class StoredValue(Value):
    """Base of values that have a file of their own, in JSON."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; floats are written exactly."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` described; an indefinite interaction stays so."""

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read it from a JSON file written by :meth:`save`."""
        data = read_json(path, InvalidInstance)
        try:
            return cls.from_json(data)
        except InvalidInput as error:
            raise InvalidInstance(f"{path}: {error}") from None


def freeze(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that cannot be changed."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array
