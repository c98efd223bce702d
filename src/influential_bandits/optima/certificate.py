"""What proves that counts are optimal."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Certificate"]

TOLERANCE = 1e-11  # relative; a gap of that size at T = 10⁶ moves a slope in the eleventh digit


@dataclass(frozen=True)
class Certificate:
    """Residuals of the optimality conditions, relative to the scale of the problem.

    For convex problems a small duality gap alone proves optimality: no feasible point has a total
    loss lower than ``gap`` times the scale T·(max|b| + T·max|A|).
    """

    primal: float  # violation of x ≥ 0 and Σx = T, over T
    dual: float  # how far a gradient entry lies below λ, over max|b| + T·max|A|
    gap: float  # (∇·x − T·min ∇) over T·(max|b| + T·max|A|), the Frank-Wolfe gap
    method: str = "optimality conditions"  # or "all faces", for indefinite instances

    def is_optimal(self, tolerance: float = TOLERANCE) -> bool:
        """Tell whether every residual is within the tolerance."""
        return max(self.primal, self.dual, self.gap) <= tolerance
