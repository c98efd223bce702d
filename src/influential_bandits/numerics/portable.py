"""Logarithm, exponential, normal quantile and powers from + − × ÷ √ and integer operations only.

Library versions of these functions differ in the last bit between NumPy, libm, SIMD and GPU
libraries. Written out in a fixed order without contraction, they are the same everywhere, and
so are the trajectories that depend on them.
"""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.compiling import inlined

LN2_HIGH = 6.93147180369123816490e-01  # ln 2 to 32 bits, so that exponent · LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
SQRT_TWO_MANTISSA = 0x6A09E667F3BCD  # mantissa bits of √2: above it the exponent is rounded up
MANTISSA_MASK = 0xFFFFFFFFFFFFF
INVERSE_LN2 = 1.44269504088896338700
SMALLEST_EXPONENT = -708.0  # below it e^x is no normal double
CENTRAL = 0.425  # up to here |Φ − ½| needs no logarithm in the normal quantile


@inlined
def log(x: float) -> float:
    """Return the natural logarithm of a positive normal double, within one unit in the last place.

    With x = 2ᵉ·m, √½ ≤ m < √2 and s = (m − 1)/(m + 1), the series is log m = 2 artanh(s); its
    tail is the minimax polynomial in s² of fdlibm's ``e_log.c``.

    Examples
    --------
    >>> log(1.0), log(2.0)
    (0.0, 0.6931471805599453)
    """
    bits = np.float64(x).view(np.int64)
    mantissa = bits & MANTISSA_MASK
    exponent = (bits >> 52) - 1023
    if mantissa >= SQRT_TWO_MANTISSA:
        exponent += 1
        m = np.int64(mantissa | (1022 << 52)).view(np.float64)
    else:
        m = np.int64(mantissa | (1023 << 52)).view(np.float64)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = w * (
        3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)
    )
    even = z * (
        6.666666666666735130e-01
        + w
        * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half_square = 0.5 * f * f
    e = np.float64(exponent)
    return e * LN2_HIGH - ((half_square - (s * (half_square + (even + odd)) + e * LN2_LOW)) - f)


@inlined
def log_of_round(t: int) -> float:
    """Return log t of the round that is played: the same for all runs that are played side by side.

    Graphics processors look it up, once computed for many runs.

    Examples
    --------
    >>> log_of_round(1)
    0.0
    """
    return log(float(t))


@inlined
def exp(x: float) -> float:
    """Return eˣ for x ≤ 709, within one unit in the last place; 0 for x < −708.

    With x = k·ln 2 + r, |r| ≤ ½ ln 2, it is 2ᵏ·eʳ; eʳ is the rational approximation of fdlibm's
    ``e_exp.c``.

    Examples
    --------
    >>> exp(0.0), round(exp(1.0), 14)
    (1.0, 2.71828182845905)
    """
    if x < SMALLEST_EXPONENT:
        return 0.0
    k = math.floor(x * INVERSE_LN2 + 0.5)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    z = r * r
    c = -1.65339022054652515390e-06 + z * 4.13813679705723846039e-08
    c = -2.77777777770155933842e-03 + z * (6.61375632143793436117e-05 + z * c)
    c = r - z * (1.66666666666666019037e-01 + z * c)
    y = 1.0 - ((low - r * c / (2.0 - c)) - high)
    return y * np.int64((int(k) + 1023) << 52).view(np.float64)


@inlined
def power_of_two(exponent: int) -> float:
    """Return 2ᵏ for a whole k, −1022 ≤ k ≤ 1023, exactly.

    Examples
    --------
    >>> power_of_two(-2), power_of_two(3)
    (0.25, 8.0)
    """
    return np.int64((np.int64(exponent) + 1023) << 52).view(np.float64)


@inlined
def halve(times: float) -> float:
    """Return 2^(−x) for x ≥ 0, exactly for whole x; 0 beyond 1022, where no normal double is left.

    It is what is left of something after x half-lives.

    Examples
    --------
    >>> halve(0.0), halve(2.0), round(halve(0.5), 12), halve(1e9)
    (1.0, 0.25, 0.707106781187, 0.0)
    """
    if not times <= 1022.0:
        return 0.0
    whole = math.floor(times + 0.5)
    return power_of_two(-int(whole)) * exp((whole - times) * (LN2_HIGH + LN2_LOW))


@inlined
def whole_power(base: float, exponent: int) -> float:
    """Return base to a non-negative whole power by squaring.

    Examples
    --------
    >>> whole_power(3.0, 4), whole_power(0.5, 0)
    (81.0, 1.0)
    """
    result = 1.0
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@inlined
def normal_quantile(q: float) -> float:
    """Return z with Φ(z) = ½ + q for −½ < q < ½, by Wichura's AS 241 (PPND16).

    Taking q = p − ½ instead of p keeps both tails equally exact.

    Examples
    --------
    >>> normal_quantile(0.0)
    0.0
    >>> round(normal_quantile(0.475), 12)
    1.95996398454
    """
    if abs(q) <= CENTRAL:
        return central_quantile(q)
    return tail_quantile(q)


@inlined
def central_quantile(q: float) -> float:
    """Return the normal quantile of ½ + q for |q| ≤ 0.425."""
    r = 0.180625 - q * q
    num = r * 2.5090809287301226727e3 + 3.3430575583588128105e4
    num = num * r + 6.7265770927008700853e4
    num = num * r + 4.5921953931549871457e4
    num = num * r + 1.3731693765509461125e4
    num = num * r + 1.9715909503065514427e3
    num = num * r + 1.3314166789178437745e2
    num = num * r + 3.3871328727963666080e0
    den = r * 5.2264952788528545610e3 + 2.8729085735721942674e4
    den = den * r + 3.9307895800092710610e4
    den = den * r + 2.1213794301586595867e4
    den = den * r + 5.3941960214247511077e3
    den = den * r + 6.8718700749205790830e2
    den = den * r + 4.2313330701600911252e1
    den = den * r + 1.0
    return q * num / den


@inlined
def tail_quantile(q: float) -> float:
    """Return the normal quantile of ½ + q for 0.425 < |q| < ½."""
    r = math.sqrt(-log(0.5 - abs(q)))
    if r <= 5.0:
        r -= 1.6
        num = r * 7.74545014278341407640e-4 + 2.27238449892691845833e-2
        num = num * r + 2.41780725177450611770e-1
        num = num * r + 1.27045825245236838258e0
        num = num * r + 3.64784832476320460504e0
        num = num * r + 5.76949722146069140550e0
        num = num * r + 4.63033784615654529590e0
        num = num * r + 1.42343711074968357734e0
        den = r * 1.05075007164441684324e-9 + 5.47593808499534494600e-4
        den = den * r + 1.51986665636164571966e-2
        den = den * r + 1.48103976427480074590e-1
        den = den * r + 6.89767334985100004550e-1
        den = den * r + 1.67638483018380384940e0
        den = den * r + 2.05319162663775882187e0
        den = den * r + 1.0
    else:
        r -= 5.0
        num = r * 2.01033439929228813265e-7 + 2.71155556874348757815e-5
        num = num * r + 1.24266094738807843860e-3
        num = num * r + 2.65321895265761230930e-2
        num = num * r + 2.96560571828504891230e-1
        num = num * r + 1.78482653991729133580e0
        num = num * r + 5.46378491116411436990e0
        num = num * r + 6.65790464350110377720e0
        den = r * 2.04426310338993978564e-15 + 1.42151175831644588870e-7
        den = den * r + 1.84631831751005468180e-5
        den = den * r + 7.86869131145613259100e-4
        den = den * r + 1.48753612908506148525e-2
        den = den * r + 1.36929880922735805310e-1
        den = den * r + 5.99832206555887937690e-1
        den = den * r + 1.0
    return math.copysign(num / den, q)
