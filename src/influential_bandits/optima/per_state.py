"""What regret is not: comparing each pull with the best arm in the very state it was made in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.world.dynamics import (
    Progress,
    World,
    advance,
    expected_loss,
    start_progress,
)
from influential_bandits.world.instance import Instance


def per_state_excess(
    instance: Instance, choices: npt.ArrayLike, checkpoints: npt.ArrayLike
) -> Floats:
    """Return Σ (loss of the pulled arm − smallest loss in that state) up to each checkpoint.

    The paper (Sec. 2) warns of taking this for regret: an early mistake that raises all later
    losses does not show in it. ``choices`` (rounds,) are the arms that were
    pulled, and ``checkpoints`` increase within 1 … rounds; neither is checked.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> per_state_excess(ib.linear_lower_bound(), [0, 1, 1, 1], [4])
    array([0.375])
    >>> ib.regret(ib.linear_lower_bound(), [1, 3])
    1.125
    """
    marks = np.asarray(checkpoints, np.int64)
    pulls = np.asarray(choices, np.int64)
    return _excess(instance.world, start_progress(instance.world), pulls, marks)


@kernel
def _excess(world: World, progress: Progress, choices: Ints, checkpoints: Ints) -> Floats:
    out = np.empty(checkpoints.size)
    total = 0.0
    mark = 0
    for n in range(choices.size):
        lowest = np.inf
        for arm in range(world.initial_loss.size):
            lowest = min(lowest, expected_loss(world, progress, arm, n + 1))
        total += expected_loss(world, progress, choices[n], n + 1) - lowest
        advance(world, progress, choices[n], n + 1)
        while mark < checkpoints.size and checkpoints[mark] == n + 1:
            out[mark] = total
            mark += 1
    return out
