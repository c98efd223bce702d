"""FleetLCB: learn one interaction from all users, and each user's taste from its own losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from influential_bandits.checks import LARGEST_LOSS, abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.room import Room, make_room
from influential_bandits.policies.fleet.states import (
    ARM,
    COMMON,
    EXACT_ARMS,
    MEMORIES,
    NEXT_CHOICE,
    NOISE_VARIANCE,
    SPREAD,
    Rules,
    Shared,
    make_shared,
)
from influential_bandits.policies.fleet.updates import compute_shared
from influential_bandits.policies.model_lcb.prior import LossPrior

__all__ = ["FleetLCB", "FleetPrior"]

MOST_ARMS = 64  # p = K(K + 3)/2 unknowns are shared, and a loss takes p² operations
FORMAT = "influential-bandits/fleet-prior/1"


@dataclass(frozen=True)
class FleetPrior:
    """What a log says about a population: (μ, A) and how users differ.

    Parameters
    ----------
    shared : LossPrior
        Of (μ, A), with their covariance as estimates; σ and memory.
    arm, common : float
        Variances of users' initial losses around μ, in units of σ²: from arm to arm, and of a
        user's level.
    spread : float
        Variance of the entries of users' own interactions around A, in units of σ².

    Examples
    --------
    >>> import influential_bandits as ib
    >>> shared = ib.LossPrior.around([[0.1]], [0.5], sd=0.05, sigma=1.0)
    >>> FleetPrior(shared, arm=0.5)
    FleetPrior(shared=LossPrior(1 arm, sigma 1.0, memory 1.0), arm=0.5, common=0.0, spread=0.0)
    """

    shared: LossPrior
    arm: float
    common: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.shared, LossPrior):
            raise InvalidInput(f"shared must be a LossPrior, got {abbreviate(self.shared)}")
        for name in ("arm", "common", "spread"):
            value = getattr(self, name)
            if not is_real(value) or not 0.0 <= float(value) <= LARGEST_LOSS:
                raise InvalidInput(f"{name} must be a variance, got {abbreviate(value)}")
            object.__setattr__(self, name, float(value))
        if self.arm == 0.0:
            raise InvalidInput("arm must be above 0: users differ at least a little")

    def to_json(self) -> dict[str, Any]:
        """Return the prior as JSON data."""
        return {
            "format": FORMAT,
            "shared": self.shared.to_json(),
            "arm": self.arm,
            "common": self.common,
            "spread": self.spread,
        }

    @classmethod
    def from_json(cls, data: Any) -> FleetPrior:
        """Return the prior that :meth:`to_json` described."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInput(f'this is no prior of a fleet: expected "format": "{FORMAT}"')
        try:
            return cls(
                LossPrior.from_json(data["shared"]), data["arm"], data["common"], data["spread"]
            )
        except KeyError as missing:
            raise InvalidInput(f"the prior of the fleet has no {missing} entry") from None


@dataclass(frozen=True)
class FleetLCB:
    """For each user, pull the arm with the smallest lower bound among those with a use.

    Users share (μ, A): the mean of their initial losses, and how pulls influence losses. All losses
    of all users teach it, in sums whose size does not depend on how many users there are. A user
    has a taste of its own, b ~ N(0, σ²·(arm·I + common·11ᵀ)), learned from its own losses. An arm's
    lower bound is its expected loss less ``boldness`` standard deviations, of taste and of (μ, A)
    together. Of the arms that the best mix of the rounds to come has a use for, the one with the
    smallest bound is pulled. How many rounds are to come is learned from how long others stayed.

    An early pull teaches about everybody, and the rule knows this only by the deviation of (μ, A)
    in the bound: there is no further bonus for the sake of others (docs/explanation/fleets.md).

    Where users are found to differ in A, those at play get posteriors of their own around the
    shared one. All variances, the scale of μ and A, and memory are estimated on the way.

    Parameters
    ----------
    memory : float in (0, 1] or "estimate"
        γ: how much of a pull's influence is left after each further pull of the same user.
        Estimated, it is one of 1, 0.99, 0.97, 0.9 and 0.7.
    boldness : float
        How many standard deviations an arm is given the benefit of the doubt.
    exact : bool, optional
        Keep what each user was exposed to arm by arm: K² numbers of a user. Then sums of residuals
        follow new knowledge about A exactly. Otherwise two numbers for each arm are kept, and the
        rest is approximated (docs/explanation/fleets.md). By default exact up to 8 arms.
    prior : FleetPrior, optional
        Where to start from, as :meth:`InfluenceModel.fleet` makes it.

    Examples
    --------
    >>> FleetLCB(memory=0.9)
    FleetLCB(memory=0.9, boldness=1.0, exact=None, prior=None)
    """

    memory: float | str = "estimate"
    boldness: float = 1.0
    exact: bool | None = None
    prior: FleetPrior | None = None

    def __post_init__(self) -> None:
        if self.memory != "estimate":
            if not is_real(self.memory) or not 0.0 < float(self.memory) <= 1.0:
                raise InvalidInput(
                    'memory must be a number above 0 and at most 1, or "estimate", got '
                    f"{abbreviate(self.memory)}"
                )
            object.__setattr__(self, "memory", float(self.memory))
        if not is_real(self.boldness) or not 0.0 <= float(self.boldness) <= 100.0:
            raise InvalidInput(f"boldness must lie in 0 … 100, got {abbreviate(self.boldness)}")
        object.__setattr__(self, "boldness", float(self.boldness))
        if self.exact is not None and not isinstance(self.exact, (bool, np.bool_)):
            raise InvalidInput(f"exact must be true or false, got {abbreviate(self.exact)}")
        if isinstance(self.prior, Mapping):
            object.__setattr__(self, "prior", FleetPrior.from_json(self.prior))
        if self.prior is not None:
            if not isinstance(self.prior, FleetPrior):
                raise InvalidInput(f"prior must be a FleetPrior, got {abbreviate(self.prior)}")
            if self.memory != "estimate":
                raise InvalidInput("a prior says what memory is; drop memory")

    @property
    def label(self) -> str:
        """The policy in short."""
        return "FleetLCB"

    def rules(self, n_arms: int) -> Rules:
        """Return the settings as compiled code sees them."""
        n_arms = whole_number("arms", n_arms, 1)
        if n_arms > MOST_ARMS:
            raise InvalidInput(
                f"a fleet has at most {MOST_ARMS} arms, got {n_arms:,}: merge those that are alike"
            )
        if self.prior is not None and self.prior.shared.n_arms != n_arms:
            raise InvalidInput(
                f"the prior is about {self.prior.shared.n_arms} arms, and there are {n_arms}"
            )
        exact = n_arms <= EXACT_ARMS if self.exact is None else bool(self.exact)
        return Rules(n_arms, self.memories, exact, float(self.boldness), True)

    @property
    def memories(self) -> Floats:
        """Candidates for γ."""
        if self.prior is not None:
            return np.array([self.prior.shared.memory])
        return np.array(MEMORIES if isinstance(self.memory, str) else [self.memory])

    def start(self, n_arms: int) -> tuple[Shared, Room]:
        """Return what is shared before the first user, and room to compute in."""
        memories, room = len(self.memories), make_room(n_arms)
        if self.prior is None:
            shared = make_shared(memories, n_arms)
        else:
            prior = self.prior.shared
            covariance = prior.covariance / prior.sigma**2
            scale = max(float(np.trace(covariance)) / len(covariance), 1e-300)
            precision = np.linalg.inv(covariance + 1e-9 * scale * np.eye(len(covariance)))
            shared = make_shared(memories, n_arms, (prior.mean, 0.5 * (precision + precision.T)))
            shared.scales[[ARM, COMMON]] = self.prior.arm, self.prior.common
            shared.scales[[SPREAD, NOISE_VARIANCE]] = self.prior.spread, prior.sigma**2
            shared.numbers[NEXT_CHOICE] = max(prior.events, shared.numbers[NEXT_CHOICE])
            shared.tried[0] = min(prior.events, 100)
            shared.trials[:, 0] = shared.tried[0] * prior.sigma**2
        compute_shared(shared, room)
        shared.epochs[0] = shared.theta
        return shared, room

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON data."""
        return {
            "memory": self.memory,
            "boldness": self.boldness,
            "exact": self.exact,
            "prior": None if self.prior is None else self.prior.to_json(),
        }

    @classmethod
    def from_json(cls, data: Any) -> FleetLCB:
        """Return the settings that :meth:`to_json` described."""
        if not isinstance(data, Mapping) or set(data) != {"memory", "boldness", "exact", "prior"}:
            raise InvalidInput(f"these are no settings of a fleet: {abbreviate(data)}")
        return cls(**data)
