"""Make room in a fleet for one more arm; what is known of the others stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.foresight.cholesky import place
from influential_bandits.policies.foresight.hypotheses import MOST_ARMS
from influential_bandits.policies.foresight.posterior import choose_hypotheses
from influential_bandits.policies.foresight.rule import EXACT_ARMS
from influential_bandits.policies.foresight.users import (
    FLEET_FIELDS,
    Own,
    Rules,
    Shared,
    make_own,
    make_shared,
)


def add_arm(rules: Rules, wider: Rules, shared: Shared, own: Own) -> tuple[Shared, Own]:
    """Return what a fleet with ``rules`` knows, with the room of one with ``wider`` ones."""
    widened = _widen_shared(rules, wider, shared)
    if widened.observations[0] > 0:
        choose_hypotheses(wider, widened)
    return widened, _widen_own(rules, wider, own)


def _widen_shared(rules: Rules, wider: Rules, shared: Shared) -> Shared:
    widened = make_shared(wider)
    for name in (*FLEET_FIELDS, "observations", "next_choice", "noise"):
        getattr(widened, name)[:] = getattr(shared, name)
    widened.seen[: rules.n_arms] = shared.seen
    variants = shared.squares.size
    kept = np.arange(0, variants, rules.differences // wider.differences)
    widened.squares[:] = shared.squares[kept]
    widened.log_widths[:] = shared.log_widths[kept]
    if rules.n_arms > MOST_ARMS:
        _copy(shared.coarse_products, widened.coarse_products)
        _copy(shared.coarse_moments, widened.coarse_moments)
        return widened
    products = shared.products.reshape(rules.n_arms, -1, variants)[:, :, kept]
    moments = shared.moments.reshape(rules.n_arms, -1, variants)[:, :, kept]
    if wider.n_arms <= MOST_ARMS:
        _copy(products.reshape(rules.n_arms, -1), widened.products)
        _copy(moments.reshape(rules.n_arms, -1), widened.moments)
        return widened
    for arm in range(rules.n_arms):
        merged = _merge_others(arm, products[arm], moments[arm])
        widened.coarse_products[arm], widened.coarse_moments[arm] = merged
    return widened


def _widen_own(rules: Rules, wider: Rules, own: Own) -> Own:
    widened = make_own(wider, len(own.first))
    for name in ("pulls", "seen", "counts", "total", "first", "last", "time"):
        _copy(getattr(own, name), getattr(widened, name))
    if (rules.n_arms <= EXACT_ARMS) == (wider.n_arms <= EXACT_ARMS):
        _copy(own.products, widened.products)
        _copy(own.moments, widened.moments)
        return widened
    shape = (len(own.first), rules.n_arms, -1, rules.memories)
    products, moments = own.products.reshape(shape), own.moments.reshape(shape)
    for arm in range(rules.n_arms):
        exposures = [products[:, arm, place(j + 1, 0)] for j in range(rules.n_arms)]
        others = sum(exposures) - exposures[arm]
        widened.products[:, arm] = np.concatenate([exposures[arm], others], axis=1)
        widened.moments[:, arm] = moments[:, arm, 0]
    return widened


def _merge_others(arm: int, products: Floats, moments: Floats) -> tuple[Any, Any]:
    """Return an arm's sums of its level, its own pulls and those of all others, as rows."""
    size, variants = moments.shape
    groups = np.zeros((3, size))
    groups[0, 0] = groups[1, arm + 1] = 1.0
    groups[2, 1:] = 1.0 - groups[1, 1:]
    square = np.empty((size, size, variants))
    for j in range(size):
        for k in range(j + 1):
            square[j, k] = square[k, j] = products[place(j, k)]
    merged = np.einsum("aj,jkv,bk->abv", groups, square, groups)
    rows = [merged[j, k] for j in range(3) for k in range(j + 1)]
    return np.concatenate(rows), (groups @ moments).ravel()


def _copy(values: Any, room: Any) -> None:
    """Copy an array to where there is more room along any axis."""
    room[tuple(map(slice, values.shape))] = values
