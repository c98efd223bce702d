"""Choices by estimates: the lowest bound, computed exactly only where estimates leave it open.

The exact division and the exact root take some fifty instructions of a graphics processor, and one
instruction gives a root to some ten digits. Where only the order of numbers matters, an estimate
with a known error decides almost always. The choice is the same to the last case, and so are all
bits that depend on it: bounds themselves are kept nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types as numba_types

from influential_bandits.gpu.toolkit import jit
from influential_bandits.packages import optional_module

types: Any = numba_types  # made of registries, which type checkers cannot see into

# One step of Newton's method turns an error e of the inverse root into 3/2·e². The instruction
# reads and writes the upper 20 bits of a mantissa, so that e < 2⁻¹⁹; measured, 2⁻³⁹ is left.
ROOT_ERROR = 2.0**-36  # relative
ROUNDING = 2.0**-50  # of sums and differences, generously


@cache
def root_estimate() -> Any:
    """Return the device function from x/4 and n to √(x/n), but for a part of ROOT_ERROR."""
    return jit(make_root(_inverse_root()), device=True, forceinline=True)


def make_root(inverse_root: Callable[[float], float]) -> Callable[[float, float], float]:
    """Return that function, for something that gives 1/√x to 19 bits."""

    def root(quarter: float, n: float) -> float:
        x = quarter * n
        rough = inverse_root(x)  # 2/√(x·n), nearly
        return (quarter * rough) * (3.0 - (x * rough) * rough)

    return root


def _inverse_root() -> Any:
    extending = optional_module("numba.cuda.extending")

    @extending.intrinsic
    def inverse_root(typing_context, x):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
            return builder.asm(kind, "rsqrt.approx.ftz.f64 $0, $1;", "=d,d", arguments, False)

        return types.float64(types.float64), generate

    return inverse_root


def choose_by_estimates(
    exact: Callable[..., int], waiting: Callable[..., int], root: Callable[[float, float], float]
) -> Callable[..., int]:
    """Return what stands for ``lowest_bound``, given that, ``waiting_arm``, and the estimate."""

    def lowest_bound(c: Any, s: Any, radius: float, eligible: Any) -> int:
        if eligible is not None:
            return exact(c, s, radius, eligible)
        arm = waiting(s, None)
        if arm >= 0:
            return arm
        quarter = 0.25 * radius
        best = 0
        lowest = s.mean[0] - root(quarter, float(s.seen[0]))
        if c.n_arms == 1:
            return 0
        second = s.mean[1] - root(quarter, float(s.seen[1]))
        if second < lowest:
            best, lowest, second = 1, second, lowest
        for arm in range(2, c.n_arms):
            value = s.mean[arm] - root(quarter, float(s.seen[arm]))
            if value < lowest:
                best, lowest, value = arm, value, lowest
            second = min(second, value)
        # Roots are at most √radius, as every arm was seen, and that is below 1 + radius.
        doubt = 2.0 * ROOT_ERROR * (1.0 + radius) + ROUNDING * abs(lowest)
        if second - lowest > doubt:  # false as well where a number is none
            return best
        return exact(c, s, radius, eligible)

    return lowest_bound
