"""Arrays that compiled code of a fleet computes in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.model_lcb.posterior import unknowns


class Room(NamedTuple):
    """Arrays to compute in."""

    exposures: Floats  # (arms, arms)
    sums: Floats  # (arms,)
    weighed: Floats  # (arms,)
    mean: Floats  # (arms,): expected loss of each arm now
    variance: Floats  # (arms,): of it, in units of σ²
    effect: Floats  # (arms,): the user's initial losses less the population's
    doubt: Floats  # (arms,): variance of these
    bound: Floats  # (arms,)
    interaction: Floats  # (arms, arms)
    allowed: Floats  # (arms,)
    plan: Floats  # (arms,)
    slope: Floats  # (arms,)
    x: Floats  # (p,)
    gain: Floats  # (p,)
    factor: Floats  # (p, p)
    solved: Floats  # (p,)
    root: Floats  # (p, p)
    spots: Ints  # (p,): where x is not zero


def make_room(n_arms: int) -> Room:
    """Return arrays to compute in."""
    size = unknowns(n_arms)
    square, line = (n_arms, n_arms), n_arms
    shapes: list[Any] = [square, *7 * [line], square, *3 * [line]]
    shapes += [size, size, (size, size), size, (size, size)]
    arrays: list[Any] = [*map(np.zeros, shapes), np.zeros(size, np.int64)]
    return Room(*arrays)
