"""Roots to some ten digits, from an instruction of graphics processors, for choices among numbers.

The exact division and the exact root take some fifty instructions. Where only the order of numbers
matters, an estimate with a known error decides almost always.
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
