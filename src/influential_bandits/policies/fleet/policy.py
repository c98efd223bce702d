"""FleetLCB: learn one interaction from all users, and each user's taste from its own losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from influential_bandits.checks import (
    LARGEST_LOSS,
    abbreviate,
    is_real,
    require_half_life,
    whole_number,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.choices import nearest_trial
from influential_bandits.policies.fleet.levels import (
    DRIFTS,
    find_steady_variance,
    tabulate_drifts,
)
from influential_bandits.policies.fleet.room import Room, make_room
from influential_bandits.policies.fleet.states import (
    ARM,
    COMMON,
    EFFECT,
    EXACT_ARMS,
    MEMORIES,
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
MOST_DRIFT = 100.0  # σ
MOVES = ("drift", "drift_memory")
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
    drift : float
        Variance of the drift of a user's level, in units of σ²; 0: levels stay as they are.
    drift_memory : float in [0, 1)
        Correlation of a user's level from one of its losses to the next.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> shared = ib.LossPrior.around([[0.1]], [0.5], sd=0.05, sigma=1.0)
    >>> FleetPrior(shared, arm=0.5)
    FleetPrior(shared=LossPrior(1 arm, sigma 1.0, memory 1.0), arm=0.5, common=0.0, spread=0.0, ...)
    """

    shared: LossPrior
    arm: float
    common: float = 0.0
    spread: float = 0.0
    drift: float = 0.0
    drift_memory: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.shared, LossPrior):
            raise InvalidInput(f"shared must be a LossPrior, got {abbreviate(self.shared)}")
        object.__setattr__(self, "drift_memory", _require_drift_memory(self.drift_memory))
        for name in ("arm", "common", "spread", "drift"):
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
            **({name: getattr(self, name) for name in MOVES} if self.drift > 0.0 else {}),
        }

    @classmethod
    def from_json(cls, data: Any) -> FleetPrior:
        """Return the prior that :meth:`to_json` described; without drift, it does not say so."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInput(f'this is no prior of a fleet: expected "format": "{FORMAT}"')
        try:
            moves = {name: data[name] for name in MOVES if name in data}
            shared = LossPrior.from_json(data["shared"])
            return cls(shared, data["arm"], data["common"], data["spread"], **moves)
        except KeyError as missing:
            raise InvalidInput(f"the prior of the fleet has no {missing} entry") from None


def _require_drift_memory(value: object) -> float:
    if not is_real(value) or not 0.0 <= float(value) < 1.0:  # type: ignore[arg-type]
        raise InvalidInput(f"drift_memory must lie in [0, 1), got {abbreviate(value)}")
    return float(value)  # type: ignore[arg-type]


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
    half_life : float, optional
        Hours after which half of a pull's influence is gone, by the clock; ``memory`` is then 1
        unless it is given, and pulls must have times (``Fleet.pull(user, at=…)``). A prior says
        what it is.
    drift : float or "estimate"
        Standard deviation of the drift of a user's level, in units of σ: what is added to its
        losses whatever the arm, and moves from loss to loss. It is followed once losses speak for
        it, as a new fleet would take influence for drift. 0, the default: levels stay as they are.
        A prior says what it is, and is believed at once.
    drift_memory : float in [0, 1)
        Correlation of a user's level from one of its losses to the next. Estimated with ``drift``.

    Examples
    --------
    >>> FleetLCB(memory=0.9)
    FleetLCB(memory=0.9, boldness=1.0, exact=None, prior=None, half_life=None, drift=0.0, ...)
    """

    memory: float | str = "estimate"
    boldness: float = 1.0
    exact: bool | None = None
    prior: FleetPrior | None = None
    half_life: float | None = None
    drift: float | str = 0.0
    drift_memory: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "drift_memory", _require_drift_memory(self.drift_memory))
        if self.drift != "estimate":
            if not is_real(self.drift) or not 0.0 <= float(self.drift) <= MOST_DRIFT:
                raise InvalidInput(
                    f'drift must be a standard deviation in 0 … {MOST_DRIFT:g}, or "estimate", got '
                    f"{abbreviate(self.drift)}"
                )
            object.__setattr__(self, "drift", float(self.drift))
        object.__setattr__(self, "half_life", require_half_life(self.half_life))
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
            if self.half_life is not None:
                raise InvalidInput("a prior says what the half-life is; drop half_life")
            if self.drift != 0.0:
                raise InvalidInput("a prior says how levels drift; drop drift")

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
        half_life = self.effective_half_life or 0.0
        boldness = float(self.boldness)
        return Rules(n_arms, self.memories, exact, boldness, True, half_life, self._drifts())

    def _drifts(self) -> Floats:
        """Return candidates for how levels drift.

        A fleet that knows nothing of A yet would take influence for drift: it starts without, even
        if it is told. One that starts from a log does not.
        """
        if self.prior is not None:
            told = (self.prior.drift, self.prior.drift_memory)
            return tabulate_drifts([told] if self.prior.drift > 0.0 else [])
        if isinstance(self.drift, str):
            return tabulate_drifts([(deviation**2, keep) for deviation, keep in DRIFTS])
        told = (self.drift**2, self.drift_memory)
        return tabulate_drifts([(0.0, 0.0), told] if self.drift > 0.0 else [])

    @property
    def by_clock(self) -> bool:
        """Whether it has a half-life, its own or its prior's, so that pulls must have times."""
        return self.effective_half_life is not None

    @property
    def effective_half_life(self) -> float | None:
        """Hours after which half of a pull's influence is gone: its own, or its prior's."""
        return self.half_life if self.prior is None else self.prior.shared.half_life

    @property
    def memories(self) -> Floats:
        """Candidates for γ."""
        if self.prior is not None:
            return np.array([self.prior.shared.memory])
        if isinstance(self.memory, str):
            return np.array([1.0] if self.by_clock else MEMORIES)
        return np.array([self.memory])

    def start(self, n_arms: int) -> tuple[Shared, Room]:
        """Return what is shared before the first user, and room to compute in."""
        memories, room, drifts = len(self.memories), make_room(n_arms), len(self._drifts())
        if self.prior is None:
            shared = make_shared(memories, n_arms, drifts=drifts)
        else:
            prior = self.prior.shared
            unit = 1.0 + find_steady_variance(self.prior.drift, self.prior.drift_memory)
            variance = prior.sigma**2 * unit
            covariance = prior.covariance / variance
            scale = max(float(np.trace(covariance)) / len(covariance), 1e-300)
            precision = np.linalg.inv(covariance + 1e-9 * scale * np.eye(len(covariance)))
            told = prior.mean, 0.5 * (precision + precision.T)
            shared = make_shared(memories, n_arms, told, drifts)
            arm, common = self.prior.arm / unit, self.prior.common / unit
            shared.scales[[ARM, COMMON]] = arm, common
            shared.scales[[SPREAD, NOISE_VARIANCE]] = self.prior.spread / unit, variance
            shared.numbers[EFFECT] = nearest_trial(arm, common, n_arms)
            shared.tried[0] = min(prior.events, 100)
            shared.trials[:, 0] = shared.tried[0] * variance
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
            "half_life": self.half_life,
            "drift": self.drift,
            "drift_memory": self.drift_memory,
        }

    @classmethod
    def from_json(cls, data: Any) -> FleetLCB:
        """Return the settings that :meth:`to_json` described; older ones have no drift."""
        expected, later = {"memory", "boldness", "exact", "prior"}, {"half_life", *MOVES}
        if not isinstance(data, Mapping) or set(data) - later != expected:
            raise InvalidInput(f"these are no settings of a fleet: {abbreviate(data)}")
        return cls(**data)
