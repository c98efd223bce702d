"""LossPrior: what a log says about levels and influence before the first pull."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_LOSS,
    abbreviate,
    is_real,
    require_half_life,
    require_losses,
    whole_number,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.world.fading import Fading
from influential_bandits.world.values import Value, freeze

FORMAT = "influential-bandits/prior/1"
LEAST = 1e-100  # sigma and memory of a prior: its covariance is divided by the noise's square
SHARPEST = 1e-3  # deviation of a prior, in units of the noise: what is less counts as that much
ASYMMETRY = 1e-9  # relative to the standard deviations: what rounding may leave


class LossPrior(Value):
    """A normal distribution of (l1, A), what is known of the noise, and how users differ.

    The unknowns lie arm by arm: l1_0, A_00, l1_1, A_01, A_11, l1_2, A_02, ….

    Parameters
    ----------
    mean : array (unknowns,)
    covariance : array (unknowns, unknowns)
    sigma : float
        Standard deviation σ of the noise.
    events : int
        How many losses that is known from: the policy goes on counting from there.
    memory : float in (0, 1]
        γ of the world.
    half_life : float, optional
        Hours after which half of a pull's influence is gone, by the clock.
    taste : float
        Standard deviation of a user's levels around l1: an agent starts that much less sure, and a
        fleet expects its users to differ so.

    Examples
    --------
    >>> LossPrior.around([[0.5]], [1.0], sd=0.1, sigma=1.0)
    LossPrior(1 arm, sigma 1.0, memory 1.0)
    """

    n_arms: int
    mean: Floats
    covariance: Floats
    sigma: float
    events: int
    memory: float
    half_life: float | None
    taste: float

    def __init__(
        self,
        mean: npt.ArrayLike,
        covariance: npt.ArrayLike,
        sigma: float,
        events: int = 100,
        memory: float = 1.0,
        half_life: float | None = None,
        taste: float = 0.0,
    ) -> None:
        mean, covariance = _numbers(mean), _numbers(covariance)
        size = mean.size
        n_arms = next((k for k in range(1, size + 1) if unknowns(k) == size), 0)
        if mean.ndim != 1 or not n_arms or covariance.shape != (size, size):
            raise InvalidInput(
                "a prior has K + K(K + 1)/2 means and a square of as many covariances, got shapes "
                f"{mean.shape} and {covariance.shape}"
            )
        require_losses("the mean of a prior", mean, InvalidInput)
        require_losses("the covariance of a prior", covariance, InvalidInput)
        deviations = np.sqrt(np.abs(np.diag(covariance)))
        gap = np.abs(covariance - covariance.T)
        if (gap > ASYMMETRY * np.outer(deviations, deviations)).any():
            raise InvalidInput("the covariance of a prior must be symmetric")
        for name, value, top in (("sigma", sigma, LARGEST_LOSS), ("memory", memory, 1.0)):
            if not is_real(value) or not LEAST <= float(value) <= top:
                raise InvalidInput(
                    f"{name} must be above 0 ({LEAST:g} or more) and at most {top:g}, got "
                    f"{abbreviate(value)}"
                )
        sigma = float(sigma)
        if np.abs(covariance).max() > LARGEST_LOSS * sigma**2:
            raise InvalidInput(
                f"the deviations of a prior must be at most {math.sqrt(LARGEST_LOSS):g} times the "
                f"noise of {sigma:g}, got one of {deviations.max():g}"
            )
        if not is_real(taste) or not 0.0 <= float(taste) <= math.sqrt(LARGEST_LOSS):
            raise InvalidInput(f"taste must be a standard deviation, got {abbreviate(taste)}")
        self._set(
            mean=freeze(mean),
            covariance=freeze(covariance),
            n_arms=n_arms,
            sigma=sigma,
            events=whole_number("events", events, 1, 2**53),
            memory=float(memory),
            half_life=require_half_life(half_life),
            taste=float(taste),
        )

    @property
    def fading(self) -> Fading:
        """How influence fades, as one value to hand on."""
        return Fading(self.memory, self.half_life)

    @classmethod
    def around(
        cls,
        interaction: npt.ArrayLike,
        initial_loss: npt.ArrayLike,
        sd: float,
        sigma: float,
        *,
        memory: float = 1.0,
        half_life: float | None = None,
        taste: float = 0.0,
    ) -> LossPrior:
        """Return the prior that is ``sd`` wide around an interaction and initial losses."""
        matrix, loss = _numbers(interaction), _numbers(initial_loss)
        if loss.ndim != 1 or matrix.shape != (loss.size, loss.size):
            raise InvalidInput(
                f"the interaction must be {loss.size} × {loss.size}, got shape {matrix.shape}"
            )
        if not is_real(sd) or not 0.0 <= float(sd) <= math.sqrt(LARGEST_LOSS):
            raise InvalidInput(f"sd must be a number from 0 to 1e50, got {abbreviate(sd)}")
        gap = np.abs(matrix - matrix.T)
        if (gap > 0.0).any():
            i, j = np.unravel_index(gap.argmax(), gap.shape)
            raise InvalidInput(
                f"interaction is not symmetric: |A[{i},{j}] − A[{j},{i}]| = {gap[i, j]:.3g}"
            )
        mean = in_order(matrix, loss)
        covariance = sd**2 * np.eye(mean.size)
        return cls(mean, covariance, sigma, memory=memory, half_life=half_life, taste=taste)

    def sums(self, n_arms: int, taste: float = 0.0) -> tuple[Floats, Floats, float, Ints]:
        """Return the prior as losses seen before, in the sums of an agent with so many arms.

        Returns
        -------
        products : array (arms, pairs)
            σ² times the inverse of the covariance of each arm's level and of what others do to it.
        moments : array (arms, arms + 1)
        squares : float
            Of these losses, and of as much noise as ``events`` have.
        seen : array (arms,)
            How many losses of each arm it counts as.
        """
        size, told = self.n_arms + 1, n_arms + 1
        products, moments = np.zeros((n_arms, told * (told + 1) // 2)), np.zeros((n_arms, told))
        seen = np.zeros(n_arms, np.int64)
        seen[: self.n_arms] = -(-self.events // self.n_arms)
        squares = self.events * self.sigma**2
        least = SHARPEST * max(1.0, float(np.abs(self.mean).max()) / self.sigma)
        lower = np.tril_indices(size)
        for arm in range(self.n_arms):
            spots = [unknowns(arm), *(place(arm, j) for j in range(self.n_arms))]
            covariance = self.covariance[np.ix_(spots, spots)] / self.sigma**2
            covariance[0, 0] += (taste / self.sigma) ** 2
            covariance += least**2 * np.eye(size)
            try:
                root = np.linalg.inv(np.linalg.cholesky(covariance))
            except np.linalg.LinAlgError:
                raise InvalidInput("the covariance of a prior must be positive definite") from None
            precision, mean = root.T @ root, self.mean[spots]
            products[arm, : lower[0].size] = precision[lower]
            moments[arm, :size] = precision @ mean
            squares += float(mean @ moments[arm, :size])
        return products, moments, squares, seen

    def to_json(self) -> dict[str, Any]:
        """Return the prior as JSON data."""
        data = {
            "format": FORMAT,
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "sigma": self.sigma,
            "events": self.events,
            "memory": self.memory,
            "taste": self.taste,
        }
        return data if self.half_life is None else {**data, "half_life": self.half_life}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LossPrior:
        """Return the prior that :meth:`to_json` described."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInput(f'this is no prior: expected "format": "{FORMAT}"')
        try:
            settings = {k: v for k, v in data.items() if k != "format"}
            return cls(**settings)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"the prior is damaged: {error}") from None

    def _parts(self) -> tuple[Any, ...]:
        numbers = (self.sigma, self.events, self.memory, self.half_life, self.taste)
        return self.mean, self.covariance, *numbers

    def __repr__(self) -> str:
        """Say how many arms it is about."""
        arms = f"{self.n_arms} arm{'s' * (self.n_arms > 1)}"
        clock = "" if self.half_life is None else f", half-life {self.half_life:g} hours"
        return f"LossPrior({arms}, sigma {self.sigma}, memory {self.memory}{clock})"


def _numbers(values: npt.ArrayLike) -> Floats:
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"a prior is made of numbers, got {abbreviate(values)}") from None


def unknowns(n_arms: int) -> int:
    """Return how many unknowns so many arms have, and where the level of the next arm lies."""
    return n_arms * (n_arms + 3) // 2


def place(i: int, j: int) -> int:
    """Return where A_ij lies among the unknowns.

    Examples
    --------
    >>> [place(1, 0), place(1, 1), place(0, 2)], unknowns(2)
    ([3, 4, 6], 5)
    """
    i, j = max(i, j), min(i, j)
    return unknowns(i) + 1 + j


def in_order(matrix: Floats, loss: Floats) -> Floats:
    """Return (l1, A) in the order of the unknowns."""
    n_arms = loss.size
    mean = np.zeros(unknowns(n_arms))
    for i in range(n_arms):
        mean[unknowns(i)] = loss[i]
        for j in range(i + 1):
            mean[place(i, j)] = matrix[i, j]
    return mean
