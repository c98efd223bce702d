"""The paper's upper bound on the regret of influential LCB (Theorem 2.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.world.instance import Instance, require_instance, require_lasting_memory


def regret_bound(
    instance: Instance,
    horizon: npt.ArrayLike,
    influence_bound: float = 1.0,
    noise_bound: float = 1.0,
) -> Any:
    """Return the bound of Theorem 2.6 for InfluentialLCB with noise of at most noise_bound.

    ((5K + 3)·B/2 + 2‖l1‖∞)·T + (2K·B + 2B + 2N + 2‖l1‖∞)·T·log T, with B the policy's
    influence_bound and N = noise_bound; B = N = 1 is the paper's statement, and its proof gives
    the general one.

    Parameters
    ----------
    instance : Instance
        With max|A| ≤ influence_bound, positive semi-definite, memory = 1.
    horizon : int or array of int

    Examples
    --------
    >>> import influential_bandits as ib
    >>> round(regret_bound(ib.random_instance(n_arms=3, seed=0), 1000), 1)
    103333.3
    """
    require_lasting_memory(require_instance(instance), "Theorem 2.6")
    if not instance.definite:
        raise NotApplicable("Theorem 2.6 needs a positive semi-definite interaction")
    if not is_real(influence_bound) or not 0.0 < influence_bound < np.inf:
        raise InvalidInput(f"influence_bound must be positive, got {abbreviate(influence_bound)}")
    if not is_real(noise_bound) or not 0.0 <= noise_bound < np.inf:
        raise InvalidInput(f"noise_bound must not be negative, got {abbreviate(noise_bound)}")
    if instance.interaction.max_abs > influence_bound * (1 + 1e-12):
        raise NotApplicable(
            f"Theorem 2.6 needs max|A| ≤ influence_bound (Assumption 2.4), but max|A| = "
            f"{instance.interaction.max_abs:.4g} and influence_bound = {influence_bound:g}"
        )
    try:
        t = np.asarray(horizon, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"horizon must be a whole number, got {abbreviate(horizon)}") from None
    if not (np.isfinite(t) & (t >= 1) & (t == np.floor(t))).all():
        raise InvalidInput(
            f"horizon must be a whole number of at least 1, got {abbreviate(horizon)}"
        )
    k = instance.n_arms
    loss = float(np.abs(instance.initial_loss).max())
    linear = (5 * k + 3) * influence_bound / 2 + 2 * loss
    logarithmic = 2 * k * influence_bound + 2 * influence_bound + 2 * noise_bound + 2 * loss
    bound = linear * t + logarithmic * t * np.log(t)
    return float(bound) if np.ndim(horizon) == 0 else bound
