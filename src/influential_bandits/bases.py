"""Bases of classes: what is closed in the end, and what never changes."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class Closing:
    """Base of what is closed in the end: a context manager that calls ``close``."""

    def close(self) -> None:
        """Let go of what is held; by default nothing is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Frozen:
    """Base of objects that never change: attributes are set once, by ``_set`` in ``__init__``."""

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make a new one")
