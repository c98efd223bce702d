"""The world one pull at a time."""

from __future__ import annotations

import numpy as np

from influential_bandits.checks import arm_number, count_hours, require_time, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.portable import halve
from influential_bandits.numerics.streams import NOISE, stream_keys
from influential_bandits.world.dynamics import (
    Progress,
    World,
    advance,
    elapse,
    expected_loss,
    start_progress,
)
from influential_bandits.world.instance import Instance, require_instance
from influential_bandits.world.noise import Noise, Source, observed_loss, require_noise


class Environment:
    """An instance being played: pull an arm, see its noisy loss, and all losses move.

    The losses are those that :func:`simulate` produces for the same seed, to the last bit.

    Parameters
    ----------
    instance : Instance
    noise : Noise, optional
        By default none.
    seed, instance_number : int
        Choose the stream of the noise.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> environment = Environment(ib.counterexample())
    >>> environment.pull(1), environment.pull(1), environment.pull(0)
    (1.0, 3.0, 3.0)
    >>> environment.expected_losses()
    array([4., 6.])

    Where influence fades by the clock, pulls have times; here half of it is gone overnight:

    >>> evening, morning = 20 * 3600.0, 32 * 3600.0
    >>> tiring = Environment(ib.Instance([[1.0]], [0.0], half_life=12))
    >>> tiring.pull(0, at=evening), tiring.pull(0, at=evening), tiring.pull(0, at=morning)
    (0.0, 1.0, 1.0)
    """

    def __init__(
        self,
        instance: Instance,
        noise: Noise | None = None,
        seed: int = 0,
        instance_number: int = 0,
    ) -> None:
        self.instance = require_instance(instance)
        self.noise = require_noise(noise)
        self.round = 0  # pulls so far
        self.time: float | None = None  # of the latest pull, in seconds
        seed = whole_number("seed", seed)
        instance_number = whole_number("instance_number", instance_number)
        keys = stream_keys(np.uint64(seed), np.uint64(instance_number), NOISE)
        self._keys = np.uint64(keys[0]), np.uint64(keys[1])
        self._progress = start_progress(instance.world)
        self._source = self.noise.source()

    def __repr__(self) -> str:
        rounds = f"{self.round} round{'s' * (self.round != 1)} played"
        return f"Environment({self.instance!r}, {self.noise!r}, {rounds})"

    @property
    def counts(self) -> Ints:
        """How often each arm was pulled, (arms,); a copy."""
        return self._progress.counts.copy()

    def expected_losses(self, at: float | None = None) -> Floats:
        """Return the losses, before noise, that the arms would have in the next round, (arms,).

        Parameters
        ----------
        at : float, optional
            When that round would be, in seconds; by default at the time of the latest pull.
        """
        out, progress = np.empty(self.instance.n_arms), self._progress
        if at is not None:
            weights, low = progress.weights.copy(), progress.low.copy()
            progress = progress._replace(weights=weights, low=low)
            self._let_pass(progress, require_time(at))
        _all_losses(self.instance.world, progress, self.round + 1, out)
        return out

    def pull(self, arm: int, at: float | None = None) -> float:
        """Pull an arm and return its observed loss.

        Parameters
        ----------
        arm : int
        at : float, optional
            When, in seconds; an instance with a half-life must be told. A time before that of the
            latest pull counts as that one.
        """
        arm = arm_number(arm, self.instance.n_arms)
        self.noise.require_rounds(self.round + 1, 1)
        if at is not None:
            at = require_time(at)
            self._let_pass(self._progress, at)
            self.time = at if self.time is None else max(at, self.time)
        elif self.instance.half_life is not None:
            raise InvalidInput(
                "influence fades by the clock here, so that a pull has a time: say at=, in seconds"
            )
        self.round += 1
        loss = _pull(
            self.instance.world, self._progress, self._source, *self._keys, self.round, arm
        )
        return float(loss)

    def _let_pass(self, progress: Progress, at: float) -> None:
        """Let the time from the latest pull to ``at`` pass."""
        hours = count_hours(self.time, at)
        if self.instance.half_life is not None and hours > 0.0:
            _wait(progress, hours, self.instance.half_life)


@kernel
def _wait(progress: Progress, hours: float, half_life: float) -> None:
    elapse(progress, halve(hours / half_life))


@kernel
def _pull(
    world: World,
    progress: Progress,
    noise: Source,
    first_key: np.uint64,
    second_key: np.uint64,
    t: int,
    arm: int,
) -> float:
    expected = expected_loss(world, progress, arm, t)
    loss = observed_loss(noise, expected, first_key, second_key, 0, t, arm)
    advance(world, progress, arm, t)
    return loss


@kernel
def _all_losses(world: World, progress: Progress, t: int, out: Floats) -> None:
    for arm in range(out.size):
        out[arm] = expected_loss(world, progress, arm, t)
