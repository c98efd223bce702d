"""How influence fades: by events, by the clock, or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from influential_bandits.checks import abbreviate, is_real, real_number, require_half_life
from influential_bandits.errors import InvalidInput

NO_CLOCK = (
    "fading by the clock needs the time of each event, and the log has none: name its column of "
    "times, or let influence fade by events, as in fading=0.8"
)
HOURS_A_DAY, SECONDS_AN_HOUR = 24.0, 3600.0


@dataclass(frozen=True, repr=False)
class Fading:
    """How much of a pull's influence is left later: by events, by the clock, or all of it.

    What a test has found, a model is fitted with and a policy plays by: hand it on as it is.

    Parameters
    ----------
    memory : float in (0, 1]
        γ: how much is left after each further event. 1: it does not fade by events.
    half_life : float, optional
        Hours after which half is left. None: it does not fade by the clock.

    Examples
    --------
    >>> print(Fading(half_life=48))
    half of it is gone after 2 days
    >>> print(Fading(0.8), "·", Fading())
    half of it is gone after 3.1 events · it does not fade
    """

    memory: float = 1.0
    half_life: float | None = None

    def __post_init__(self) -> None:
        memory = real_number("memory", self.memory, 0.0, 1.0, above=True)
        object.__setattr__(self, "memory", memory)
        object.__setattr__(self, "half_life", require_half_life(self.half_life))

    @property
    def by_clock(self) -> bool:
        """Whether it fades by the clock."""
        return self.half_life is not None

    @property
    def seconds(self) -> float:
        """The half-life in seconds; 0 where it does not fade by the clock."""
        return 0.0 if self.half_life is None else SECONDS_AN_HOUR * self.half_life

    def left_after(self, days: float) -> float:
        """Return how much is left after so many days, if it fades by the clock."""
        if self.half_life is None:
            return 1.0
        return max(float(2.0 ** (-HOURS_A_DAY * days / self.half_life)), 1e-12)

    def __repr__(self) -> str:
        parts = [f"memory={self.memory!r}"] if self.memory < 1.0 else []
        parts += [] if self.half_life is None else [f"half_life={self.half_life!r}"]
        return f"Fading({', '.join(parts)})"

    def __str__(self) -> str:
        spans = []
        if self.half_life is not None:
            days = self.half_life / HOURS_A_DAY
            spans.append(f"{days:.3g} days" if days >= 2.0 else f"{self.half_life:.3g} hours")
        if self.memory < 1.0:
            spans.append(f"{math.log(0.5) / math.log(self.memory):.2g} events")
        spans = [span.removesuffix("s") if span.startswith("1 ") else span for span in spans]
        return f"half of it is gone after {' or '.join(spans)}" if spans else "it does not fade"


Fades: TypeAlias = float | Fading


def require_fading(value: object) -> Fading:
    """Return how influence fades; a number is the share that is left after each event.

    Examples
    --------
    >>> require_fading(0.8)
    Fading(memory=0.8)
    """
    if isinstance(value, Fading):
        return value
    if is_real(value) and 0.0 < float(value) <= 1.0:  # type: ignore[arg-type]
        return Fading(float(value))  # type: ignore[arg-type]
    raise InvalidInput(
        "fading must be the share of influence that is left after each event, in (0, 1], or "
        f"Fading(half_life=…) with the hours after which half is gone, got {abbreviate(value)}"
    )


def require_one_fading(value: object) -> Fading:
    """Return how influence fades by events or by the clock, as a fit knows it: not by both."""
    fading = require_fading(value)
    if fading.by_clock and fading.memory < 1.0:
        raise InvalidInput(
            f"influence fades by events or by the clock in a fit, not by both as in {fading!r}"
        )
    return fading
