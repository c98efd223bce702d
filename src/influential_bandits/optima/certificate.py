"""What proves that counts are optimal."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 1e-11  # far above the rounding of sums over many arms, far below what data mean


@dataclass(frozen=True)
class Certificate:
    """Residuals of the optimality conditions, each relative to the size of its own terms.

    For convex problems a small duality gap alone proves optimality: no feasible point has a total
    loss lower by more than ``gap`` times Σ x_i·(|b_i| + Σ_j |A_ij|·x_j).

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.optimum(ib.counterexample(), 100).certificate.is_optimal()
    True
    """

    primal: float  # violation of x ≥ 0 and Σx = T, over T
    dual: (
        float  # how far some ∇_i lies below λ, over its terms |b_i| + Σ_j |A_ij|·x_j and their mean
    )
    gap: float  # ∇·x − T·min ∇, the Frank-Wolfe gap, over Σ x_i·(|b_i| + Σ_j |A_ij|·x_j)
    method: str = "optimality conditions"  # or "all faces", for indefinite instances

    def is_optimal(self, tolerance: float = TOLERANCE) -> bool:
        """Tell whether every residual is within the tolerance."""
        residuals = (self.primal, self.dual, self.gap)
        return all(residual <= tolerance for residual in residuals)  # nan proves nothing
