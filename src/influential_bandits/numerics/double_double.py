"""Numbers of about 32 digits as unevaluated sums of two doubles.

The benchmark's x*(T) = q + T·p meets counts that differ from it by less than one part in 10⁹;
the difference is only as good as q and p. Algorithms: Dekker (1971) and Knuth, without fused
multiply-add, so that every machine gives the same bits.
"""

from __future__ import annotations

from influential_bandits.numerics.compiling import inlined

Pair = tuple[float, float]


@inlined
def two_sum(a: float, b: float) -> Pair:
    """Return (s, e) with s = fl(a + b) and s + e = a + b exactly."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


@inlined
def two_product(a: float, b: float) -> Pair:
    """Return (p, e) with p = fl(a·b) and p + e = a·b exactly (|a|, |b| < 2⁹⁹⁶)."""
    p = a * b
    t = 134217729.0 * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = 134217729.0 * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@inlined
def add(x: Pair, y: Pair) -> Pair:
    """Return x + y."""
    s, e = two_sum(x[0], y[0])
    t, f = two_sum(x[1], y[1])
    e += t
    s, e = two_sum(s, e)
    return two_sum(s, e + f)


@inlined
def scale(x: Pair, factor: float) -> Pair:
    """Return x times a double."""
    p, e = two_product(x[0], factor)
    return two_sum(p, e + x[1] * factor)


@inlined
def add_product(total: Pair, a: float, b: float) -> Pair:
    """Return total + a·b for doubles a and b."""
    return add(total, two_product(a, b))


@inlined
def divide(x: Pair, y: Pair) -> Pair:
    """Return x / y."""
    first = x[0] / y[0]
    rest = add(x, scale(y, -first))
    second = rest[0] / y[0]
    rest = add(rest, scale(y, -second))
    high, low = two_sum(first, second)
    return two_sum(high, low + rest[0] / y[0])
