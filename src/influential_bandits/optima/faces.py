"""Indefinite instances: the exact optimum by searching all faces of the simplex, for few arms."""

from __future__ import annotations

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.critical_line import enter, line
from influential_bandits.world.dynamics import Floats, World
from influential_bandits.world.instance import Instance

LARGEST_K = 15  # 32,767 faces


def best_face(instance: Instance, horizon: int) -> tuple[Floats, float]:
    """Return the global minimiser over TΔ and its multiplier.

    A minimiser lies inside some face on which A is positive definite along the face (if it is only
    semi-definite there, a minimiser of the same loss lies on a smaller face). Each such face has
    one stationary point; the best of those that are feasible is the global minimum.
    """
    if instance.n_arms > LARGEST_K:
        raise NotApplicable(
            f"the interaction is indefinite, and searching all faces is possible up to {LARGEST_K} "
            f"arms, not {instance.n_arms}; use total_loss() or Trajectory.loss() instead of regret"
        )
    x, multiplier = _search(instance.world, instance.linear_term, float(horizon))
    return x, multiplier


@kernel
def _search(world: World, b: Floats, horizon: float) -> tuple[Floats, float]:
    arms = b.size
    best = np.zeros(arms)
    best_multiplier = 0.0
    lowest = np.inf
    inverse = np.zeros((arms + 2, arms + 2))
    support = np.empty(arms + 1, np.int64)
    for face in range(1, 1 << arms):
        size = 0
        definite = True
        for arm in range(arms):
            if definite and (face >> arm) & 1:
                definite = enter(world, inverse, support, size, arm)
                size += 1
        if not definite:
            continue
        p, q = line(inverse, support[:size], b)
        feasible = True
        loss = horizon * (q[size] + horizon * p[size])
        for m in range(size):
            x = q[m] + horizon * p[m]
            feasible = feasible and x >= -1e-12 * horizon
            loss += b[support[m]] * x
        loss *= 0.5
        if feasible and loss < lowest:
            lowest = loss
            best_multiplier = q[size] + horizon * p[size]
            best[:] = 0.0
            for m in range(size):
                best[support[m]] = max(q[m] + horizon * p[m], 0.0)
    return best, best_multiplier
