"""Packages that not every installation has: imported, or named with what installs them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from influential_bandits.errors import InvalidInput, MissingExtra

FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
PACKAGES = {
    "numba_cuda": "numba-cuda[cu13]",
    "prometheus_client": "prometheus-client",
    "sklearn": "scikit-learn",
}  # what to install, where the module has another name
EXTRAS = {  # of the default install's other packages: which extra brings them
    "cryptography": "dask",
    "dask": "dask",
    "distributed": "dask",
    "fsspec": "dask",
    "gymnasium": "gym",
    "numba_cuda": "gpu",
    "pandas": "frame",
    "psycopg": "postgres",
}


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
