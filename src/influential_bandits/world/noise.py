"""Noise on the observed losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import LARGEST_LOSS, is_real, require_losses, shown
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.streams import centred, normal, stream_at
from influential_bandits.world.dynamics import Floats

__all__ = ["GaussianNoise", "NoNoise", "Noise", "RecordedNoise", "UniformNoise"]

NONE, GAUSSIAN, UNIFORM, RECORDED = 0, 1, 2, 3
NO_VALUES: Floats = np.empty((1, 0))
NO_VALUES.flags.writeable = False  # like all arrays of a world, so that types agree


class NoiseSource(NamedTuple):
    """A noise as compiled code sees it."""

    kind: int
    scale: float
    values: Floats  # recorded: (rows, rounds), otherwise empty


@inlined
def noise_at(
    source: NoiseSource, first_key: np.uint64, second_key: np.uint64, row: int, t: int
) -> float:
    """Return the noise of round t ≥ 1 in the stream with these keys (recorded: in this row)."""
    if source.kind == GAUSSIAN:
        return source.scale * normal(stream_at(first_key, second_key, t), 0)
    if source.kind == UNIFORM:
        return source.scale * (2.0 * centred(stream_at(first_key, second_key, t), 0))
    if source.kind == RECORDED:
        return source.values[row % source.values.shape[0], t - 1]
    return 0.0


@dataclass(frozen=True)
class Noise:
    """Base of the noises; zero mean, independent from round to round."""

    kind: ClassVar[int]

    def source(self) -> NoiseSource:
        """Return what compiled code needs."""
        return NoiseSource(self.kind, 0.0, NO_VALUES)

    def require_rounds(self, horizon: int, seeds: int) -> None:
        """Raise if this noise cannot serve so many rounds and seeds."""

    def to_json(self) -> dict[str, Any]:
        """Return the noise as JSON data."""
        return {"name": type(self).__name__, **vars(self)}


@dataclass(frozen=True)
class NoNoise(Noise):
    """Losses are observed exactly.

    Examples
    --------
    >>> NoNoise()
    NoNoise()
    """

    kind = NONE


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Normal noise of standard deviation ``scale`` (unbounded: outside Assumption 2.5).

    Examples
    --------
    >>> GaussianNoise(0.1)
    GaussianNoise(scale=0.1)
    """

    kind = GAUSSIAN
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _not_negative("scale", self.scale))

    def source(self) -> NoiseSource:
        """Return what compiled code needs."""
        return NoiseSource(self.kind, self.scale, NO_VALUES)


@dataclass(frozen=True)
class UniformNoise(Noise):
    """Noise uniform in (−bound, bound), as Assumption 2.5 asks.

    Examples
    --------
    >>> UniformNoise(1.0)
    UniformNoise(bound=1.0)
    """

    kind = UNIFORM
    bound: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", _not_negative("bound", self.bound))

    def source(self) -> NoiseSource:
        """Return what compiled code needs."""
        return NoiseSource(self.kind, self.bound, NO_VALUES)


@dataclass(frozen=True, eq=False)
class RecordedNoise(Noise):
    """Noise given in advance, for tests and comparisons.

    Parameters
    ----------
    values : array (rounds,) or (seeds, rounds)
        The noise of each round; one row for all runs, or a row for each seed.

    Examples
    --------
    >>> RecordedNoise([0.1, -0.2])
    RecordedNoise(values=array([[ 0.1, -0.2]]))
    """

    kind = RECORDED
    values: npt.ArrayLike

    def __post_init__(self) -> None:
        try:
            values = np.atleast_2d(np.array(self.values, dtype=np.float64)) + 0.0
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput("recorded noise must be an array of numbers") from None
        if values.ndim != 2 or not np.isfinite(values).all() or len(values) == 0:
            raise InvalidInput(
                "recorded noise must be finite numbers of shape (rounds,) or (seeds, rounds), "
                f"got shape {np.shape(self.values)}"
            )
        require_losses("recorded noise", values, InvalidInput)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def source(self) -> NoiseSource:
        """Return what compiled code needs."""
        return NoiseSource(self.kind, 1.0, np.ascontiguousarray(self.values))

    def require_rounds(self, horizon: int, seeds: int) -> None:
        """Raise if this noise is too short, or its rows do not fit the seeds."""
        rows, rounds = np.shape(self.values)
        if rounds < horizon:
            raise InvalidInput(
                f"recorded noise has {rounds:,} rounds, but the horizon is {horizon:,}"
            )
        if rows not in (1, seeds):
            raise InvalidInput(f"recorded noise has {rows:,} rows, but there are {seeds:,} seeds")

    def to_json(self) -> dict[str, Any]:
        """Return the noise as JSON data."""
        return {"name": type(self).__name__, "values": np.asarray(self.values).tolist()}

    def __eq__(self, other: object) -> bool:
        """Compare the recorded numbers."""
        return isinstance(other, RecordedNoise) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        """Hash by the numbers, like equality."""
        return hash(np.asarray(self.values).tobytes())


def require_noise(given: object) -> Noise:
    """Return a noise, by default none, or say that this is no noise."""
    if given is None:
        return NoNoise()
    if not isinstance(given, Noise):
        raise InvalidInput(f"noise must be a Noise such as GaussianNoise(1.0), got {shown(given)}")
    return given


def noise_from_json(data: dict[str, Any]) -> Noise:
    """Return the noise that :meth:`Noise.to_json` described."""
    classes = {c.__name__: c for c in (NoNoise, GaussianNoise, UniformNoise, RecordedNoise)}
    name = data["name"]
    if name not in classes:
        raise InvalidInput(f"unknown noise {name!r}; known: {', '.join(classes)}")
    return classes[name](**{key: value for key, value in data.items() if key != "name"})


def _not_negative(what: str, value: object) -> float:
    if not is_real(value):
        raise InvalidInput(f"noise {what} must be a number, got {shown(value)}")
    number = float(value)  # type: ignore[arg-type]
    if not 0.0 <= number <= LARGEST_LOSS:
        raise InvalidInput(
            f"noise {what} must not be negative, and at most {LARGEST_LOSS:g}, got {shown(value)}"
        )
    return number
