"""How much memory a fit takes, by its number of arms, said before it begins.

K arms have m = K(K+1)/2 interactions, and the equations of a fit are an m × m matrix: K⁴/4 numbers,
2 GB for 180 arms. Several such matrices are held at a time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from influential_bandits.errors import NotApplicable

__all__ = ["FitMemory", "available_memory", "fit_memory", "require_memory"]

# Matrices held by a solution: the statistics, the same with penalty and without, the inverse and
# its factors, what is left after eliminating initial losses and the product that it comes from;
# with the cone, the same in its coordinates, two factors of it, and three of every Newton step.
PLAIN, CONE = 8, 12
TEST = 16  # of the test of influence: of its regressors, whitened and not, by units
SAMPLED = 300  # instances of which a partial pool holds the statistics
SHARE = 0.8  # of the memory that is available
UNKNOWN = 8 << 30  # bytes, where the system does not say
CGROUPS = Path("/sys/fs/cgroup")


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


def require_memory(needs: Iterable[FitMemory], what: str, instead: str) -> None:
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
    there = available_memory()
    if need > SHARE * there:
        raise NotApplicable(
            f"{what} would take about {_gigabytes(need)} of memory, and {_gigabytes(there)} are "
            f"available here: {instead}"
        )


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:,.1f} GB" if size < 2**40 else f"{size / 2**40:,.0f} TB"


def available_memory() -> float:
    """Return how many bytes this process may still take: of the computer, or of its container."""
    found = [_of_system(), *_of_containers(), _of_limit()]
    return float(min((size for size in found if size is not None), default=UNKNOWN))


def _of_system() -> float | None:
    fields = _fields(Path("/proc/meminfo"))
    if "MemAvailable:" in fields:
        return 1024.0 * fields["MemAvailable:"]
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return None


def _of_containers() -> list[float]:
    """Return what the control groups of this process leave it, its own and those above."""
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return []
    own = next((line[3:] for line in text.splitlines() if line.startswith("0::")), "/")
    folder = CGROUPS / own.strip("/")
    left = []
    for group in (folder, *folder.parents):
        limit, used = group / "memory.max", _fields(group / "memory.stat").get("anon")
        most = _number(limit)
        if most is not None and used is not None:
            left.append(max(most - used, 0.0))
        if group == CGROUPS:
            break
    older = _number(CGROUPS / "memory" / "memory.limit_in_bytes")
    return left if older is None else [*left, older]


def _of_limit() -> float | None:
    """Return what the limit on addresses of this process leaves it, if there is one."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return None
    return max(most - float(pages) * os.sysconf("SC_PAGE_SIZE"), 0.0)


def _fields(path: Path) -> dict[str, float]:
    """Return the numbers of a file of names and numbers; none if there is no such file."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        return {words[0]: float(words[1]) for words in lines if len(words) > 1}
    except (OSError, ValueError):
        return {}


def _number(path: Path) -> float | None:
    try:
        value = float(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # "max": no limit
        return None
    return value if math.isfinite(value) else None
