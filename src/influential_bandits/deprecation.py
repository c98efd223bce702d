"""How public names and arguments are taken away: with a warning first, and never before 2.0."""

from __future__ import annotations

import warnings

__all__ = ["warn_deprecated"]


def warn_deprecated(what: str, *, since: str, instead: str, level: int = 3) -> None:
    """Warn that something will go, since when that is known, and what to use instead.

    Parameters
    ----------
    what : str
        A public name, an argument or an option, as users write it.
    since : str
        The version whose changelog says so. What was deprecated in 1.x is removed in 2.0.
    instead : str
        What to write in its place.
    level : int
        How far up the caller is: 3 for a function that a user calls and that calls this.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("compare(n=…)", since="1.1", instead="compare(seeds=…)")
    >>> print(told[0].message)
    compare(n=…) is deprecated since 1.1 and will be removed in 2.0; use compare(seeds=…)
    """
    removed = f"{int(since.partition('.')[0]) + 1}.0"
    warnings.warn(
        f"{what} is deprecated since {since} and will be removed in {removed}; use {instead}",
        DeprecationWarning,
        stacklevel=level,
    )
