"""How much memory there is, and what is refused before it is taken."""

from __future__ import annotations

import math
import os
from pathlib import Path

from influential_bandits.errors import InvalidInput, NotApplicable

SHARE = 0.8  # of the memory that is available
UNKNOWN = 8 << 30  # bytes, where the system does not say


def require_memory(
    needed: float,
    what: str,
    instead: str,
    error: type[InvalidInput | NotApplicable] = InvalidInput,
) -> None:
    """Raise, before anything is allocated, if something takes more bytes than there are.

    Parameters
    ----------
    needed : float
    what : str
        What takes them, for the message.
    instead : str
        What to do if there are too few.
    error : type
    """
    available = available_memory()
    if needed > SHARE * available:
        raise error(
            f"{what} would take about {_gigabytes(needed)} of memory, and {_gigabytes(available)} "
            f"are available here: {instead}"
        )


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:,.1f} GB" if size < 2**40 else f"{size / 2**40:,.0f} TB"


def available_memory(control_groups: Path = Path("/sys/fs/cgroup")) -> float:
    """Return how many bytes this process may still take: of the computer, or of its container."""
    limits = [_of_system(), *_of_containers(control_groups), _of_limit()]
    return float(min((size for size in limits if size is not None), default=UNKNOWN))


def _of_system() -> float | None:
    fields = _fields(Path("/proc/meminfo"))
    if "MemAvailable:" in fields:
        return 1024.0 * fields["MemAvailable:"]
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return None


def _of_containers(top: Path) -> list[float]:
    """Return what the control groups of this process leave it, its own and those above."""
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return []
    own = next((line[3:] for line in text.splitlines() if line.startswith("0::")), "/")
    folder = top / own.strip("/")
    left = []
    for group in (folder, *folder.parents):
        limit, used = group / "memory.max", _fields(group / "memory.stat").get("anon")
        most = _number(limit)
        if most is not None and used is not None:
            left.append(max(most - used, 0.0))
        if group == top:
            break
    older = _number(top / "memory" / "memory.limit_in_bytes")
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
