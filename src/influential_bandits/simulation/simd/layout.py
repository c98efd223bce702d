"""Where the numbers of a group of runs lie: slots of one float64 for each lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

Words = npt.NDArray[np.uint64]

WIDE_ARMS = 5  # up to here the registers hold what a round of 16 lanes needs, beyond of 8
ROUNDS_PER_BLOCK = 64  # whose noise is drawn at once; it stays in the first-level cache
ALIGNMENT = 64  # bytes of a vector register


# The slots of a group of K arms: A (K·K), initial losses (K), counts (K), the numbers that choose
# (K; last loss + bound · round, or mean loss), sums of losses (K; LCB only).


@register_jitable
def lanes_for(n_arms: int) -> int:
    """Return how many runs a group has."""
    return 16 if n_arms <= WIDE_ARMS else 8


@register_jitable
def slots_for(n_arms: int) -> int:
    """Return how many slots a group needs."""
    return n_arms * (n_arms + 4)


@register_jitable
def weight_slot(n_arms: int, arm: int) -> int:
    """Return the slot in which the pulls of an arm are counted."""
    return n_arms * (n_arms + 1) + arm


def allocate_aligned(shape: tuple[int, int], dtype: type) -> npt.NDArray[Any]:
    """Return zeros that start where a vector register can be loaded in one piece."""
    size = shape[0] * shape[1]
    spare = ALIGNMENT // 8
    flat: npt.NDArray[Any] = np.zeros(size + spare, dtype)
    start = (-flat.ctypes.data % ALIGNMENT) // 8
    return flat[start : start + size].reshape(shape)
