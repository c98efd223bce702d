"""Influential bandits: pulling one arm changes the future losses of all arms.

What is used daily is here; more is in ``data`` (logs to try things on), ``live`` (decisions over
HTTP), ``logs`` (reading logs of any size), ``optima`` (what the benchmarks return), ``random``
(streams for policies of one's own), ``testing`` and ``errors``. Other modules may change. Names are
loaded when first used, so that importing the package, and ``influential-bandits --help``, is
instant. What needs a package that is not installed is not listed, and says what to install when it
is asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import lazy_loader

__version__ = "1.0.0"

_NEEDS = {  # classes that an optional package is the base of
    "InfluentialBanditEnv": "gymnasium",
}

_load, _, _names = lazy_loader.attach_stub(__name__, __file__)


def _is_loadable(name: str) -> bool:
    """Tell whether a name can be had in this installation; others must not break ``import *``."""
    try:
        return name not in _NEEDS or find_spec(_NEEDS[name]) is not None
    except ImportError:
        return False


__all__ = [*filter(_is_loadable, _names), "__version__"]  # noqa: PLE0604 - all are strings


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    _register_environment()
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _register_environment() -> None:
    """Register the Gymnasium environment if Gymnasium is in use; never import it for nothing."""
    in_use = sys.modules.get("gymnasium") is not None
    if in_use and "influential_bandits.world.gym" not in sys.modules:
        import_module("influential_bandits.world.gym")


_register_environment()
