"""Small pictures that a page carries as they are: SVG without scripts and styles of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from influential_bandits.live.words import count_digits, write_decimal

SHADES = 8  # of each sign
SURE = 2.0  # standard deviations


def draw_spark(values: Sequence[float | None], width: int = 160, height: int = 28) -> Markup:
    """Return a line of values, the largest on top and zero at the bottom."""
    known = [value or 0.0 for value in values]
    top = max(known, default=0.0)
    if len(known) < 2 or top <= 0.0:
        points = f"0,{height - 1} {width},{height - 1}"
    else:
        step = width / (len(known) - 1)
        points = " ".join(
            f"{place * step:.1f},{(height - 2) * (1.0 - value / top) + 1:.1f}"
            for place, value in enumerate(known)
        )
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">'
        '<polyline points="{}"/></svg>'
    ).format(width, height, points)


def draw_interval(
    low: float, middle: float, high: float, ends: tuple[float, float], kind: str = ""
) -> Markup:
    """Return a dot with whiskers on an axis from one end to the other."""
    first, last = ends
    size = (last - first) or 1.0

    def place(value: float) -> str:
        return f"{4.0 + 192.0 * min(max((value - first) / size, 0.0), 1.0):.1f}"

    zero = (
        Markup('<line class="zero" x1="{0}" x2="{0}" y1="0" y2="16"/>').format(place(0.0))
        if first < 0.0 < last
        else ""
    )
    return Markup(
        '<svg class="interval {}" viewBox="0 0 200 16" aria-hidden="true">{}'
        '<line x1="{}" x2="{}" y1="8" y2="8"/><circle cx="{}" cy="8" r="4"/></svg>'
    ).format(kind, zero, place(low), place(high), place(middle))


class Cell(NamedTuple):
    """An entry of a heat map."""

    value: str
    error: str
    shade: str  # class of its colour
    is_sure: bool  # whether it is told from zero


def shade_matrix(
    values: Sequence[Sequence[float]], errors: Sequence[Sequence[float]]
) -> list[list[Cell]]:
    """Return a matrix with the shade of each entry: colours in proportion to the largest one.

    Entries within two standard deviations of zero are not told from it, and are marked.
    """
    largest = max((abs(value) for row in values for value in row), default=0.0)
    digits = count_digits([largest], 2)
    cells = []
    for row, deviations in zip(values, errors, strict=True):
        line = []
        for value, error in zip(row, deviations, strict=True):
            steps = math.ceil(SHADES * abs(value) / largest) if largest else 0
            sign = "worse" if value > 0.0 else "better"
            shade = f"{sign}-{steps}" if steps else "none"
            least = 10.0**-digits
            deviation = f"{error:.{digits}f}" if error >= least / 2 else f"below {least:.{digits}f}"
            line.append(
                Cell(
                    write_decimal(value, digits), f"± {deviation}", shade, abs(value) > SURE * error
                )
            )
        cells.append(line)
    return cells
