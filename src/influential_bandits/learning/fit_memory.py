"""How much memory a fit takes, by its number of arms, said before it begins.

K arms have m = K(K+1)/2 interactions, and the equations of a fit are an m × m matrix: K⁴/4 numbers,
2 GB for 180 arms. Several such matrices are held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution, resolve_execution
from influential_bandits.learning.statistics.design import KINDS, interaction_size
from influential_bandits.memory import require_memory

if TYPE_CHECKING:
    from influential_bandits.learning.loss_model import LossModel

__all__ = [
    "FitMemory",
    "describe_fit",
    "fit_memory",
    "memory_of_fit",
    "require_fit_memory",
    "require_memory_for",
]

# Matrices held by a solution: the statistics, the same with penalty and without, the inverse and
# its factors, what is left after eliminating initial losses and the product that it comes from;
# with the cone, the same in its coordinates, two factors of it, and three of every Newton step.
PLAIN, CONE = 8, 12
TEST = 16  # of the test of influence: of its regressors, whitened and not, by units
SAMPLED = 300  # instances of which a partial pool holds the statistics
MERGE = (
    "merge rare arms into one (merge_rare_arms; --merge-arms-below), or give items the arms that "
    "they belong to (items=, or categories= of read_log; --categories)"
)
TOO_LARGE = f"fit interaction='diagonal' (--interaction diagonal), or {MERGE}"


class FitMemory(NamedTuple):
    """Bytes that a fit takes while it runs, and those that the fitted model holds afterwards."""

    work: float
    kept: float


def fit_memory(
    size: int, instances: int, workers: int, *, definite: bool, pooling: str
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
    pooling : "none", "partial" or "full"

    Examples
    --------
    >>> fit_memory(60 * 63 // 2, 20, 2, definite=True, pooling="full").work / 2**20
    329.1...
    """
    matrix = 8.0 * (size + 1) ** 2
    solving = CONE if definite else PLAIN
    several = max(min(workers, instances), 1)
    if pooling == "full":
        matrices = max(solving, workers + 3)
    elif pooling == "none":
        matrices = solving * several
    else:
        matrices = solving * several + min(instances, SAMPLED)
    columns = 8.0 * 3 * size * instances  # coefficients, the same without the cone, errors
    return FitMemory(matrices * matrix + 2.0 * columns, matrix + columns)


def memory_of_fit(
    model: LossModel, arms: int, instances: int, execution: Execution | int | None
) -> FitMemory:
    """Return how much memory a fit takes on this computer; that of a cluster is not known."""
    where = resolve_execution(execution)
    workers = where.threads if isinstance(where, LocalExecution) else 1
    size = arms + int(model.drift) + interaction_size(KINDS[model.interaction], arms)
    definite = model.interaction == "psd"
    return fit_memory(size, instances, workers, definite=definite, pooling=model.pooling)


def require_memory_for(
    models: Sequence[LossModel], arms: int, instances: int, execution: Execution | int | None
) -> None:
    """Raise unless there is room for models that are fitted one after the other, and all kept."""
    for model in models:
        model.check_settings()
    needs = [memory_of_fit(model, arms, instances, execution) for model in models]
    order = sorted(range(len(models)), key=lambda number: needs[number])
    if order:
        largest = describe_fit(models[order[-1]], arms, instances)
        require_fit_memory([needs[number] for number in order], *largest)


def describe_fit(model: LossModel, arms: int, instances: int) -> tuple[str, str]:
    """Return what a fit is, and what to do if it is too large."""
    size = interaction_size(KINDS[model.interaction], arms)
    what = f"the fit of {arms:,} arms" + (f" with {size:,} interactions" if size else "")
    what += f" to {instances:,} instances" if instances > 1 else ""
    return what, TOO_LARGE if size > arms else MERGE


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
