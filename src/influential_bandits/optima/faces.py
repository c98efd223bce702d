"""Indefinite instances: the exact optimum by searching all faces of the simplex, for few arms."""

from __future__ import annotations

import numpy as np

from influential_bandits.errors import NotApplicable, NotCertified
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.double_double import add, scale, two_product
from influential_bandits.optima.critical_line import enter, line_at, solve_support
from influential_bandits.world.dynamics import World
from influential_bandits.world.instance import Instance

LARGEST_K = 15  # 32,767 faces


def best_face(instance: Instance, horizon: float) -> tuple[Ints, Floats]:
    """Return the support of the global minimiser over TΔ, and its point with λ (support + 1, 2).

    A minimiser lies inside some face on which A is positive definite along the face (if it is only
    semi-definite there, a minimiser of the same loss lies on a smaller face). Each such face has
    one stationary point; the best of those from which no step to another arm helps is the minimum.
    """
    if instance.n_arms > LARGEST_K:
        raise NotApplicable(
            f"the interaction is indefinite, and searching all faces is possible up to {LARGEST_K} "
            f"arms, not {instance.n_arms}; use total_loss() or Trajectory.loss() instead of regret"
        )
    face, point = _search(instance.world, instance.linear_term, float(horizon))
    if face == 0:
        raise NotCertified(f"no face holds an optimum for T = {horizon:g} that can be proved")
    support = np.array([i for i in range(instance.n_arms) if face >> i & 1], np.int64)
    return support, point


@kernel
def _search(world: World, b: Floats, horizon: float) -> tuple[int, Floats]:
    n_arms = b.size
    best = 0
    best_point = np.zeros((1, 2))
    lowest = (np.inf, 0.0)
    inverse = np.zeros((n_arms + 2, n_arms + 2))
    support = np.empty(n_arms + 1, np.int64)
    for face in range(1, 1 << n_arms):
        size = 0
        definite = True
        for arm in range(n_arms):
            if definite and (face >> arm) & 1:
                definite = enter(world, inverse, support, size, arm)
                size += 1
        if not definite:
            continue
        p, q, rates, offsets, sound = solve_support(world, b, support[:size])
        point = line_at(p, q, horizon)
        gaps = line_at(rates, offsets, horizon)
        smallest = point[:size, 0].min()
        if not sound or smallest < 0.0 or gaps[:, 0].min() < -1e-12 * np.abs(gaps[:, 0]).max():
            continue
        loss = scale((point[size, 0], point[size, 1]), horizon)
        for m in range(size):
            product = two_product(b[support[m]], point[m, 0])
            loss = add(loss, add(product, (b[support[m]] * point[m, 1], 0.0)))
        if loss[0] < lowest[0] or (loss[0] == lowest[0] and loss[1] < lowest[1]):
            lowest = loss
            best = face
            best_point = point
    return best, best_point
