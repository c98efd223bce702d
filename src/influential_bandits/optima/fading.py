"""Bound the loss of every schedule where memory fades (proof: docs/explanation/fading.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from influential_bandits.checks import require_horizon
from influential_bandits.errors import NotApplicable
from influential_bandits.optima.bounded import Shares, bounded_optimum, require_shares
from influential_bandits.optima.path import optimal_path
from influential_bandits.world.instance import (
    Instance,
    remember,
    require_instance,
    require_no_clock,
)


def fading_lower_bound(
    instance: Instance,
    horizon: int | None = None,
    *,
    shares: Mapping[str, Sequence[float]] | Shares | None = None,
) -> float:
    """Return a loss per round that no schedule can go below, with memory γ < 1.

    The minimum over p in the simplex of l1·p + 2·pᵀAp/(1 − γ²) − diag(A)·p/(1 + γ).

    Parameters
    ----------
    instance : Instance
        With memory < 1 and a positive semi-definite interaction.
    horizon : int, optional
        Bound schedules of so many rounds from a fresh start, whose first rounds are spared the
        influence that has built up later. By default the long run: the average loss of any infinite
        schedule comes, in the limit, not below the bound.
    shares : mapping of str to (least, most), optional
        Bound schedules alone whose arms keep to these shares of the rounds.

    Returns
    -------
    float
        Expected loss per round; with a horizon T, the total is at least T times it.

    Notes
    -----
    With H = 4·T/((1 − γ²)·T + e), where e = (1 + γ)² for odd T, (1 + γ)³·T/((1 + γ)·T + 1 − γ) for
    even T, the bound for T rounds is the smallest b·x + ½·xᵀAx over x ≥ 0, Σx = H, divided by H,
    with b = l1 − diag(A)/(1 + γ). So a fading world is bounded by a lasting one played for H
    rounds; for all horizons together this takes one optimal path. In the limit T → ∞,
    H = 4/(1 − γ²). For γ = 1 it would be H = T and the benchmark of the paper.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> instance = ib.Instance([[1, 0], [0, 1]], [0, 0], memory=0.5)
    >>> bound = fading_lower_bound(instance)  # in turn, each meets ½ + ½³ + ½⁵ + … of itself
    >>> round(bound, 12), round(fading_lower_bound(instance, horizon=10), 12)
    (0.666666666667, 0.366666666667)
    """
    memory = require_instance(instance).memory
    require_no_clock(instance, "fading_lower_bound")
    if memory == 1.0:
        raise NotApplicable(
            "fading_lower_bound needs memory < 1; with lasting influence losses may grow for ever, "
            "and optimum(instance, horizon) is the exact benchmark"
        )
    if not instance.definite:
        raise NotApplicable("fading_lower_bound needs a positive semi-definite interaction")
    lasting = remember(instance, "lasting_counterpart", lambda: _lasting(instance))
    rounds = _lasting_rounds(memory, None if horizon is None else require_horizon(horizon))
    if not isinstance(shares, Shares):
        shares = require_shares(shares, instance.arm_names)
    if shares is not None:
        return bounded_optimum(lasting, rounds, shares).loss / rounds
    return optimal_path(lasting).optimum(rounds).loss / rounds


def _lasting(instance: Instance) -> Instance:
    """Return the world without fading whose linear term is l1 − diag(A)/(1 + γ)."""
    memory = instance.memory
    own = instance.interaction.diagonal * (0.5 * (1.0 - memory) / (1.0 + memory))
    return Instance(instance.interaction, instance.initial_loss - own)


def _lasting_rounds(memory: float, horizon: int | None) -> float:
    """Return H, for how many rounds the lasting world is played."""
    minus, plus = 1.0 - memory, 1.0 + memory
    if horizon is None:
        return 4.0 / (minus * plus)
    odd = horizon % 2 == 1
    edge = plus**2 if odd else plus**3 * horizon / (plus * horizon + minus)
    return 4.0 * horizon / (minus * plus * horizon + edge)
