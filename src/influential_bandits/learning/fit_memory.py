"""How much memory a fit takes, by its number of arms, said before it begins.

K arms have m = K(K+1)/2 interactions, and the equations of a fit are an m × m matrix: K⁴/4 numbers,
2 GB for 180 arms. Several such matrices are held at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution, resolve_execution
from influential_bandits.free_memory import require_memory
from influential_bandits.learning.statistics.design import KINDS, interaction_size

if TYPE_CHECKING:
    from influential_bandits.learning.loss_model import LossModel

# Matrices held by a solution: the statistics, the same with penalty and without, the inverse and
# its factors, what is left after eliminating initial losses and the product that it comes from;
# with the cone, the same in its coordinates, two factors of it, and three of every Newton step.
PLAIN, CONE = 8, 12
MERGE = (
    "merge rare arms into one (merge_rare_arms; --merge-arms-below), or give items the arms that "
    "they belong to (items=, or categories= of read_log; --categories)"
)
TOO_LARGE = f"fit interaction='diagonal' (--interaction diagonal), or {MERGE}"


def measure_fit(
    model: LossModel, arms: int, instances: int, execution: Execution | int | None
) -> float:
    """Return how many bytes a fit takes on this computer; those of a cluster are not known.

    ``instances`` are those whose coefficients are kept.
    """
    where = resolve_execution(execution)
    workers = where.threads if isinstance(where, LocalExecution) else 1
    size = arms + int(model.drift) + interaction_size(KINDS[model.interaction], arms)
    matrix = 8.0 * (size + 1) ** 2
    solving = CONE if model.interaction == "psd" else PLAIN
    matrices = solving * max(min(workers, instances), 1)
    if model.pooling == "full":
        matrices = max(solving, workers + 3)
    columns = 8.0 * 3 * size * instances  # coefficients, the same without the cone, errors
    return matrices * matrix + 2.0 * columns


def require_memory_for(
    model: LossModel, arms: int, instances: int, execution: Execution | int | None
) -> None:
    """Raise unless there is room for a fit."""
    model.check_settings()
    need = measure_fit(model, arms, instances, execution)
    require_memory(need, *describe_fit(model, arms, instances), NotApplicable)


def describe_fit(model: LossModel, arms: int, instances: int) -> tuple[str, str]:
    """Return what a fit is, and what to do if it is too large."""
    size = interaction_size(KINDS[model.interaction], arms)
    words = f"the fit of {arms:,} arms" + (f" with {size:,} interactions" if size else "")
    words += f" to {instances:,} instances" if instances > 1 else ""
    return words, TOO_LARGE if size > arms else MERGE
