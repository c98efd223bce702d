"""How results show themselves: the two pictures that most need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.packages import optional_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, DARK = "#0072B2", "#333333"


@dataclass(frozen=True, eq=False)
class Bars:
    """Named numbers with intervals, side by side: the picture of a result, wherever it is shown."""

    name: str  # file name
    title: str
    labels: list[str]
    values: npt.ArrayLike  # (labels,)
    x: str  # what the numbers are
    low: npt.ArrayLike | None = None
    high: npt.ArrayLike | None = None
    caption: str = ""

    def draw(self, ax: Axes | None = None, *, titled: bool = True) -> Axes:
        """Draw them on matplotlib axes, by default in a new figure."""
        title = self.title if titled else ""
        return draw_bars(ax, self.labels, self.values, self.low, self.high, x=self.x, title=title)


def take_axes(ax: Axes | None) -> Axes:
    """Return the axes that are given, or those of a new figure."""
    if ax is None:
        ax = optional_module("matplotlib.pyplot").subplots(layout="constrained")[1]
    assert ax is not None
    return ax


def draw_bars(
    ax: Axes | None,
    labels: Sequence[str],
    values: npt.ArrayLike,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
    *,
    x: str,
    title: str = "",
) -> Axes:
    """Draw named numbers from top to bottom, with their intervals if there are any."""
    ax = take_axes(ax)
    numbers: Any = np.asarray(values, float)
    places: Any = np.arange(len(numbers))
    ax.barh(places, numbers, color=BLUE, height=0.7)
    if low is not None and high is not None:
        ends = np.abs(np.array([numbers - low, np.asarray(high, float) - numbers]))
        ax.errorbar(numbers, places, xerr=ends, fmt="none", ecolor=DARK, capsize=3)
    ax.set_yticks(places, escape_formulas(labels))
    ax.invert_yaxis()
    ax.set_xlabel(x)
    ax.axvline(0.0, color=DARK, linewidth=0.8)
    ax.grid(True, axis="x", alpha=0.3)
    if title:
        ax.set_title(title.replace("$", r"\$"))
    return ax


def draw_matrix(
    ax: Axes | None, labels: Sequence[str], values: npt.ArrayLike, *, title: str = ""
) -> Axes:
    """Draw a matrix: red above zero, blue below."""
    ax = take_axes(ax)
    numbers: Any = np.asarray(values, float)
    most = float(np.abs(numbers).max(initial=0.0)) or 1.0
    image = ax.imshow(numbers, cmap="RdBu_r", vmin=-most, vmax=most)
    ax.set_xticks(range(len(labels)), escape_formulas(labels), rotation=90, fontsize=8)
    ax.set_yticks(range(len(labels)), escape_formulas(labels), fontsize=8)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    if title:
        ax.set_title(title.replace("$", r"\$"))
    return ax


def escape_formulas(labels: Iterable[str]) -> list[str]:
    """Return names that matplotlib does not take for formulas."""
    return [label.replace("$", r"\$") for label in labels]
