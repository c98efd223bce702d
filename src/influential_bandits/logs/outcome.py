"""What losses were made of: clicks, stars or losses, as those who kept the log know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from influential_bandits.logs.column_names import name_unit


class Outcome(NamedTuple):
    """The unit of a log's losses, and how an outcome follows from a loss.

    Examples
    --------
    >>> Outcome("clicks", 0.0).of_loss(-0.25), Outcome("stars", 5.0).of_loss(1.5)
    (0.25, 3.5)
    >>> Outcome().of_loss(1.5)
    1.5
    """

    unit: str = "loss"
    best: float | None = None  # outcome + loss, where more is better; None: losses themselves

    @property
    def more_is_better(self) -> bool:
        """Whether more of it is wanted: clicks, not losses."""
        return self.best is not None

    def of_loss(self, loss: float) -> float:
        """Return the outcome of a loss."""
        return loss if self.best is None else self.best - loss

    def relative(self, gain: float, loss: float) -> float | None:
        """Return a gain as a share of the outcome that it is over; None if that is not positive."""
        level = self.of_loss(loss)
        return gain / level if level > 0.0 else None

    def in_percent(self, gain: float, loss: float) -> str:
        """Say a gain in percent of what it is over: more clicks, less loss; nothing if unknown.

        Examples
        --------
        >>> Outcome("clicks", 0.0).in_percent(0.017, -0.25), Outcome().in_percent(0.25, 2.0)
        (', +6.8 % clicks', ', -12 % loss')
        """
        share = self.relative(gain, loss)
        if share is None:
            return ""
        return f", {100.0 * share * (1 if self.more_is_better else -1):+.2g} % {self.unit}"


def read_outcome(about: Mapping[str, Any]) -> Outcome:
    """Return what the losses of a log were made of, from what is kept beside it.

    Examples
    --------
    >>> read_outcome({"conversion": "loss = −is_click"}), read_outcome({})
    (Outcome(unit='clicks', best=0.0), Outcome(unit='loss', best=None))
    """
    _, equals, made_of = str(about.get("conversion", "")).partition("loss = ")
    if equals and made_of.startswith("−"):
        return Outcome(name_unit(made_of.removeprefix("−")), 0.0)
    best, minus, rating = made_of.partition(" − ")
    if minus:
        unit = "stars" if "star" in rating.lower() else f"points of {rating}"
        return Outcome(unit, float(best))
    return Outcome()
