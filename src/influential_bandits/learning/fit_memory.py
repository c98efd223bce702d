"""How much memory a fit takes, by its number of arms, said before it begins.

K arms have m = K(K+1)/2 interactions, and the equations of a fit are an m × m matrix: K⁴/4 numbers,
2 GB for 180 arms. Several such matrices are held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from influential_bandits.errors import NotApplicable
from influential_bandits.memory import require_memory

__all__ = ["FitMemory", "fit_memory", "require_fit_memory"]

# Matrices held by a solution: the statistics, the same with penalty and without, the inverse and
# its factors, what is left after eliminating initial losses and the product that it comes from;
# with the cone, the same in its coordinates, two factors of it, and three of every Newton step.
PLAIN, CONE = 8, 12
TEST = 16  # of the test of influence: of its regressors, whitened and not, by units
SAMPLED = 300  # instances of which a partial pool holds the statistics


class FitMemory(NamedTuple):
    """Bytes that a fit takes while it runs, and those that the fitted model holds afterwards."""

    work: float
    kept: float


def fit_memory(
    size: int, instances: int, workers: int, *, definite: bool, pooled: bool | str
) -> FitMemory:
    """Return what a fit takes.

    Parameters
    ----------
    size : int
        Coefficients: initial losses, level and interaction.
    instances : int
        Whose coefficients are kept in memory.
    workers : int
        Threads that fit instances at the same time.
    definite : bool
        Whether the interaction has to be positive semi-definite.
    pooled : bool or "partial"

    Examples
    --------
    >>> fit_memory(60 * 63 // 2, 20, 2, definite=True, pooled=True).work / 2**20
    329.1...
    """
    matrix = 8.0 * (size + 1) ** 2
    solving = CONE if definite else PLAIN
    several = max(min(workers, instances), 1)
    if pooled is True:
        matrices = max(solving, workers + 3)
    elif pooled is False:
        matrices = solving * several
    else:
        matrices = solving * several + min(instances, SAMPLED)
    columns = 8.0 * 3 * size * instances  # coefficients, the same without the cone, errors
    return FitMemory(matrices * matrix + 2.0 * columns, matrix + columns)


def require_fit_memory(needs: Iterable[FitMemory], what: str, instead: str) -> None:
    """Raise unless fits, one after the other, go into the memory that there is.

    Parameters
    ----------
    what : str
        What is to be fitted, for the message.
    instead : str
        What to do if there is too little.
    """
    fits = list(needs)
    need = max((fit.work for fit in fits), default=0.0) + sum(fit.kept for fit in fits[:-1])
    require_memory(need, what, instead, NotApplicable)
