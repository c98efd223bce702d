"""Checks of arguments that several rooms share: what was given, what was expected."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

import numpy as np

from influential_bandits.errors import InvalidInput, MissingExtra

__all__ = [
    "LARGEST_HORIZON",
    "Closing",
    "Frozen",
    "checked_horizon",
    "is_real",
    "make_frame",
    "optional_module",
    "require_packages",
    "whole_number",
]

FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
PACKAGES = {"sklearn": "scikit-learn"}  # what to install, where the module has another name
EXTRAS = {  # of the default install's other packages: which extra brings them
    "dask": "dask",
    "distributed": "dask",
    "fsspec": "dask",
    "gymnasium": "gym",
    "pandas": "frame",
}
LARGEST_HORIZON = 2**53  # counts are exact in double precision up to here


class Closing:
    """Base of what is closed in the end: a context manager that calls ``close``."""

    def close(self) -> None:
        """Let go of what is held; by default nothing is."""

    def __enter__(self) -> Self:
        """Return the object, which is closed in the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class Frozen:
    """Base of objects that never change: attributes are set once, by ``_set`` in ``__init__``."""

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make a new one")


def is_real(value: object) -> bool:
    """Tell whether a value is a real number, and not a truth value."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def whole_number(what: str, value: object, least: int = 0, below: int = 2**64) -> int:
    """Return a whole number in [least, below), or say why it is none; 1e6 counts as whole."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidInput(f"{what} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidInput(f"{what} must be at least {least}, got {value}")
    if value >= below:
        raise InvalidInput(f"{what} must be below {below:.4g}, got {value}")
    return int(value)


def arm_number(arm: object, arms: int) -> int:
    """Return the number of an arm, or say which there are."""
    try:
        return whole_number("arm", arm, 0, arms)
    except InvalidInput:
        raise InvalidInput(f"arm must be one of 0 … {arms - 1}, got {arm!r}") from None


def checked_horizon(horizon: object) -> int:
    """Return a horizon as a whole number of at least 1, or say why it is none."""
    return whole_number("horizon", horizon, 1, LARGEST_HORIZON)


def optional_module(module: str) -> Any:
    """Import a module that not every installation has, or say which package to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or module).partition(".")[0] == module.partition(".")[0]:
            raise _missing([module]) from None
        raise MissingExtra(f"{module} is installed, but cannot be imported: {error}") from None
    except ImportError as error:
        raise MissingExtra(f"{module} is installed, but cannot be imported: {error}") from None


def require_packages(*modules: str) -> None:
    """Raise before any work is done if modules are not installed; all of them are named at once."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        raise _missing(missing)


def _is_installed(module: str) -> bool:
    """Tell whether a module can be found, without importing it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def make_frame(columns: Mapping[str, Any], library: str) -> Any:
    """Return equally long columns as a data frame of pandas or Polars, or as an Arrow table."""
    if library not in FRAMES:
        raise InvalidInput(f"library must be one of {', '.join(FRAMES)}, got {library!r}")
    return getattr(optional_module(library), FRAMES[library])(dict(columns))


def _missing(modules: list[str]) -> MissingExtra:
    tops = dict.fromkeys(module.partition(".")[0] for module in modules)
    packages = [PACKAGES.get(top, top) for top in tops]
    extras = sorted({EXTRAS[top] for top in tops if top in EXTRAS})
    hint = f" (the extra {' and '.join(extras)} of influential-bandits)" if extras else ""
    names = " and ".join(filter(None, [", ".join(packages[:-1]), packages[-1]]))
    return MissingExtra(
        f"{names} {'is' if len(packages) == 1 else 'are'} not installed; "
        f"try: pip install {' '.join(packages)}{hint}"
    )
