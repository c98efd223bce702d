"""Noise on the observed losses."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload

from influential_bandits.checks import (
    LARGEST_LOSS,
    abbreviate,
    real_number,
    require_losses,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.fingerprints import fingerprint
from influential_bandits.numerics.recompiling import compile_anew
from influential_bandits.numerics.streams import centred, normal, stream_at
from influential_bandits.numerics.tags import BETWEEN, INLINED, CodeTag
from influential_bandits.numerics.user_code import (
    plain_numbers,
    require_declared,
    require_function,
    require_reproducible,
)
from influential_bandits.references import name_class

NONE, GAUSSIAN, UNIFORM, RECORDED = 0, 1, 2, 3
NO_VALUES: Floats = np.empty((1, 0))
NO_VALUES.flags.writeable = False  # like all arrays of a world, so that types agree


# A float, even if the user's function returns a truth value.
OBSERVED = """
def observed_loss(source, expected, first_key, second_key, row, t, arm):
    rng = stream_at(first_key, second_key, t)
    return 1.0 * observe(Parameters({}), t, arm, expected, rng)
"""


class NoiseSource(NamedTuple):
    """A noise of the package as compiled code sees it."""

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


@inlined
def plain_loss(
    source: NoiseSource,
    expected: float,
    first_key: np.uint64,
    second_key: np.uint64,
    row: int,
    t: int,
    arm: int,
) -> float:
    """Return the loss that is observed with a noise of the package."""
    return expected + noise_at(source, first_key, second_key, row, t)


class NoiseTag(CodeTag):
    """Stands for the code of a user's noise in calls of compiled functions; see Tag of policies."""

    known: dict[str, NoiseTag] = {}  # noqa: RUF012 - the register of all tags of this process

    def __init__(self, digest: str, code: Callable[..., float], names: tuple[str, ...]) -> None:
        self.digest = digest
        self.parameters: Any = namedtuple("Parameters", names)  # type: ignore[misc]
        scope: dict[str, Any] = {
            "Parameters": self.parameters,
            "observe": compile_anew({"observe": code}, **INLINED)["observe"],
            "stream_at": stream_at,
        }
        values = ", ".join(f"source.values[{i}]" for i in range(len(names)))
        exec(OBSERVED.format(values), scope)
        self.observed_loss: Callable[..., float] = scope["observed_loss"]


class OwnSource(NamedTuple):
    """A noise of the user's as compiled code sees it."""

    tag: NoiseTag
    values: tuple[float, ...]  # of its parameters


Source = NoiseSource | OwnSource


def observed_loss(
    source: Source,
    expected: float,
    first_key: np.uint64,
    second_key: np.uint64,
    row: int,
    t: int,
    arm: int,
) -> float:
    """Return the loss that is observed where this one is expected."""
    if isinstance(source, NoiseSource):
        return plain_loss(source, expected, first_key, second_key, row, t, arm)
    return source.tag.observed_loss(source, expected, first_key, second_key, row, t, arm)


def _plain_loss(source, expected, first_key, second_key, row, t, arm):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    return plain_loss(source, expected, first_key, second_key, row, t, arm)


@overload(observed_loss, jit_options=BETWEEN)
def _observed_loss(source, expected, first_key, second_key, row, t, arm):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    if source.instance_class is NoiseSource:
        return _plain_loss
    return NoiseTag.known[source.types[0].digest].observed_loss


@dataclass(frozen=True)
class Noise:
    """Base of the noises; independent from round to round. Subclass it for one of your own.

    A noise is a frozen dataclass of numbers with a static method ``observe(c, t, arm, expected,
    rng)`` in plain Python, which the package compiles. It returns the loss that is observed when
    ``arm`` is pulled in round t ≥ 1 and the loss before noise is ``expected``. ``c`` has the fields
    of the dataclass; ``rng`` is the stream of this round, for ``ib.random.uniform(rng, i)`` and
    ``ib.random.normal(rng, i)``, i = 0, 1, 2, …. For the regret to mean what it says, observed
    losses should have the mean ``expected``.

    The same function runs in :func:`simulate`, :class:`Environment` and Gymnasium, to the same
    bits; after an edit the new code runs, as with policies.

    Examples
    --------
    Noise with heavy tails, and clicks: losses of 0 or 1 with the expected loss as probability.

    >>> from dataclasses import dataclass
    >>> from math import log
    >>> import influential_bandits as ib
    >>> from influential_bandits.random import uniform
    >>> @dataclass(frozen=True)
    ... class Laplace(ib.Noise):
    ...     scale: float = 1.0
    ...
    ...     @staticmethod
    ...     def observe(c, t, arm, expected, rng):
    ...         u = uniform(rng, 0)
    ...         if u < 0.5:
    ...             return expected + c.scale * log(2 * u)
    ...         return expected - c.scale * log(2 - 2 * u)
    >>> @dataclass(frozen=True)
    ... class Clicks(ib.Noise):
    ...     @staticmethod
    ...     def observe(c, t, arm, expected, rng):
    ...         return 1.0 if uniform(rng, 0) < expected else 0.0
    >>> world = ib.Instance([[0.0, 0.0], [0.0, 0.0]], [0.2, 0.6])
    >>> environment = ib.Environment(world, Clicks(), seed=1)
    >>> [environment.pull(1) for _ in range(6)]
    [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """

    @staticmethod
    def observe(c: Any, t: int, arm: int, expected: float, rng: Any) -> float:
        """Return the loss that is observed where ``expected`` is the loss before noise."""
        raise InvalidInput("a noise must define observe(c, t, arm, expected, rng)")

    @property
    def code_digest(self) -> str:
        """Digest of the code of a user's noise; empty for those of the package."""
        if type(self).observe is Noise.observe:
            return ""
        return fingerprint(type(self).observe)

    def source(self) -> Source:
        """Return what compiled code needs."""
        return self._own_source() if self.code_digest else self._plain_source()

    def _plain_source(self) -> NoiseSource:
        raise InvalidInput(
            f"{type(self).__name__} does not say what is observed: define the static method "
            "observe(c, t, arm, expected, rng)"
        )

    def _own_source(self) -> OwnSource:
        settings = self._settings()
        names = tuple(settings)
        digest = hashlib.sha256(f"{self.code_digest}{names}".encode()).hexdigest()
        new = digest not in NoiseTag.known
        if new:
            observe = type(self).observe
            require_reproducible(f"{type(self).__name__}.observe", observe, InvalidInput)
            NoiseTag.known[digest] = NoiseTag(digest, observe, names)
        source = OwnSource(NoiseTag.known[digest], tuple(settings.values()))
        if new:
            self._try_out(source)
        return source

    def _try_out(self, source: OwnSource) -> None:
        """Compile on its own, so that mistakes are not taken for those of a policy."""
        tag, stream = source.tag, stream_at(np.uint64(1), np.uint64(1), 1)
        try:
            alone = numba.njit(**INLINED)(type(self).observe)
            loss = alone(tag.parameters(*source.values), 1, 0, 0.5, stream)
        except numba.core.errors.NumbaError as error:
            del NoiseTag.known[tag.digest]
            lines = [line.strip() for line in str(error).splitlines()[1:] if line.strip()]
            raise InvalidInput(
                f"{type(self).__name__}.observe could not be compiled; it may use numbers, math, "
                f"and functions decorated with numba.njit. Numba says: {'; '.join(lines[:2]):.160}"
            ) from error
        if not isinstance(loss, (bool, int, float, np.bool_, np.number)):
            del NoiseTag.known[tag.digest]
            raise InvalidInput(
                f"{type(self).__name__}.observe must return the observed loss, a number, got "
                f"{loss!r:.60}"
            )

    def require_rounds(self, horizon: int, seeds: int) -> None:
        """Raise if this noise cannot serve so many rounds and seeds."""

    def to_json(self) -> dict[str, Any]:
        """Return the noise as JSON data."""
        return {"name": name_class(type(self)), **self._settings()}

    def _settings(self) -> dict[str, bool | int | float]:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain_numbers(type(self).__name__, given, InvalidInput)


@dataclass(frozen=True)
class NoNoise(Noise):
    """Losses are observed exactly.

    Examples
    --------
    >>> NoNoise()
    NoNoise()
    """

    def _plain_source(self) -> NoiseSource:
        return NoiseSource(NONE, 0.0, NO_VALUES)


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Normal noise of standard deviation ``sigma`` (unbounded: outside Assumption 2.5).

    Examples
    --------
    >>> GaussianNoise(0.1)
    GaussianNoise(sigma=0.1)
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", real_number("noise sigma", self.sigma, 0.0, LARGEST_LOSS))

    def _plain_source(self) -> NoiseSource:
        return NoiseSource(GAUSSIAN, self.sigma, NO_VALUES)


@dataclass(frozen=True)
class UniformNoise(Noise):
    """Noise uniform in (−bound, bound), as Assumption 2.5 asks.

    Examples
    --------
    >>> UniformNoise(1.0)
    UniformNoise(bound=1.0)
    """

    bound: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", real_number("noise bound", self.bound, 0.0, LARGEST_LOSS))

    def _plain_source(self) -> NoiseSource:
        return NoiseSource(UNIFORM, self.bound, NO_VALUES)


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

    def _plain_source(self) -> NoiseSource:
        return NoiseSource(RECORDED, 1.0, np.ascontiguousarray(self.values))

    def require_rounds(self, horizon: int, seeds: int) -> None:
        rows, rounds = np.shape(self.values)
        if rounds < horizon:
            raise InvalidInput(
                f"recorded noise has {rounds:,} rounds, but the horizon is {horizon:,}"
            )
        if rows not in (1, seeds):
            raise InvalidInput(f"recorded noise has {rows:,} rows, but there are {seeds:,} seeds")

    def to_json(self) -> dict[str, Any]:
        return {"name": name_class(type(self)), "values": np.asarray(self.values).tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedNoise) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(np.asarray(self.values).tobytes())


def require_noise(given: object) -> Noise:
    """Return a noise, by default none, or say that this is no noise."""
    if given is None:
        return NoNoise()
    if not isinstance(given, Noise):
        hint = "; construct it, as in NoNoise()" if isinstance(given, type) else ""
        raise InvalidInput(
            f"noise must be a Noise such as GaussianNoise(1.0), got {abbreviate(given)}{hint}"
        )
    if given.code_digest:
        require_function(type(given), Noise, "observe", InvalidInput)
        require_declared(type(given), InvalidInput)
    given.source()
    return given
