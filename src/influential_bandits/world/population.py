"""Population: the users that a fleet serves: what they share, how they differ, when they come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    HOUR,
    LARGEST_HORIZON,
    LARGEST_LOSS,
    abbreviate,
    real_number,
    whole_number,
)
from influential_bandits.errors import InvalidInput, InvalidInstance
from influential_bandits.free_memory import require_memory
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.world.factorisation import pivoted_ldl
from influential_bandits.world.instance import Instance
from influential_bandits.world.interaction import DenseInteraction, check_numbers
from influential_bandits.world.population_draws import (
    draw_around,
    draw_delays,
    draw_levels,
    draw_losses,
    draw_stays,
    draw_unlike,
    order_visits,
)
from influential_bandits.world.values import StoredValue, freeze

FORMAT = "influential-bandits/population/1"
OF_INSTANCES = ("interaction", "initial_loss", "memory", "half_life", "arm_names")
OWN = (  # what a population has beyond an instance
    "covariance",
    "interaction_spread",
    "unlike",
    "stay",
    "stay_law",
    "concurrency",
    "returning",
    "delay",
    "delay_law",
    "rounds_per_hour",
    "open_hours",
    "drift",
    "drift_memory",
)
DAY_HOURS = 24.0
FEWEST_AN_HOUR = 1e-9
LAWS = ("fixed", "geometric")
LARGEST_SPREAD = LARGEST_LOSS**0.5  # eight of them beside the largest entry are no loss too large
MOST_USERS = 2**31  # their numbers fit 32 bits
BYTES_PER_ROUND = 12  # of a fleet: whose it is, and the delay of its loss


class Users(NamedTuple):
    """Users drawn from a population, and the rounds of the fleet that serves them."""

    initial_loss: Floats  # (users, arms)
    interaction: Floats  # (users, arms, arms), or (1, arms, arms) where all share it
    stays: Ints  # (users,) rounds that each stays
    visits: npt.NDArray[np.int32]  # (rounds,) the user of each round of the fleet
    delays: Ints  # (rounds,) further rounds of the fleet until the loss is told; 0: before the next
    memory: float
    arm_names: tuple[str, ...] | None  # None: arms have numbers only
    times: Floats  # (rounds,) seconds; empty where rounds have no times
    half_life: float  # hours; infinite if influence does not fade by the clock
    levels: Floats  # (rounds,) of the user, added to its loss whatever the arm; empty: no drift

    @property
    def fades(self) -> bool:
        """Whether influence fades, by rounds or by the clock."""
        return self.memory < 1.0 or self.half_life < math.inf

    def instances(self) -> tuple[Instance, ...]:
        """Return the world of each user."""
        matrices = [DenseInteraction(matrix) for matrix in self.interaction]
        shared = len(matrices) == 1
        return tuple(
            Instance(
                matrices[0 if shared else user],
                loss,
                self.arm_names,
                self.memory,
                definite=False,
                half_life=self.half_life,
            )
            for user, loss in enumerate(self.initial_loss)
        )


class Population(StoredValue):
    """Users who react alike to what they are shown, and differ in what they like.

    Each user is an :class:`Instance` of its own: pulling arm i for a user adds row i of the
    interaction to the losses of this user, and of nobody else. A fleet serves them in one order of
    rounds.

    Parameters
    ----------
    interaction : array (arms, arms)
        The symmetric interaction matrix A that users share.
    initial_loss : array (arms,)
        Mean μ of the users' initial losses.
    covariance : array (arms, arms) or float
        Covariance of the initial losses between users; a number is the variance of each arm. With
        0, the default, users are all alike. Initial losses are normal.
    interaction_spread : float
        Standard deviation of each entry of a user's own interaction around the shared one, normal
        and symmetric. If A is positive semi-definite, so are the users': their eigenvalues below 0
        become 0. Where A is nearly singular this makes their mean a little larger than A, and the
        spread a little smaller than stated.
    unlike : bool
        True: users have no interaction in common. Each has its own A = BᵀB with entries of
        B ~ N(0, 1), scaled so that its largest entry is that of ``interaction``, as in
        :func:`random_instance`.
    stay : int
        Rounds that a user stays, at least 1.
    stay_law : {"fixed", "geometric"}
        "fixed": every user stays ``stay`` rounds. "geometric": after each round a user leaves with
        probability 1/stay, so that ``stay`` is the mean.
    concurrency : int
        How many users are there at a time. Each round is that of one of them, all equally likely.
        With 1, users come one after the other.
    returning : float in [0, 1]
        Probability that a user who has rounds left pauses after a round. Up to ``concurrency``
        users are away like that, and a newcomer takes the place; beyond, or once there are no more
        newcomers, the one who has been away longest comes back instead.
    delay : int
        Further rounds of the whole fleet until a loss is told. With 0 it is known before the next
        round.
    delay_law : {"fixed", "geometric"}
        "fixed": every loss takes ``delay`` rounds. "geometric": 0, 1, 2, … rounds, ``delay`` on
        average, so that losses come out of order.
    memory : float in (0, 1]
        γ, how much of the past influence is left after each of the user's own rounds.
    half_life : float, optional
        Hours after which half of a pull's influence is gone, by the clock. Needs
        ``rounds_per_hour``.
    rounds_per_hour : float, optional
        How many rounds of the whole fleet an hour has: round r = 0, 1, … is at
        r/rounds_per_hour hours, while somebody may come.
    open_hours : float in [1, 24]
        Hours of each day in which users come. With less than 24, nights lie between days.
    drift : float
        Standard deviation of a user's level, which moves from round to round of the user and is
        added to its losses whatever the arm. It counts in no regret, as nobody can do anything
        about it.
    drift_memory : float in [0, 1)
        Correlation of a user's level from one of its rounds to the next.
    arm_names : sequence of str, optional
        Names of the arms, unique; by default "0", "1", ….
    definite : bool
        False admits an indefinite interaction, as :class:`Instance` does.

    Examples
    --------
    >>> population = Population([[0.1, 0.05], [0.05, 0.1]], [0.0, 0.2], 0.49, stay=30)
    >>> population
    Population(2 arms, max|A| = 0.1, stay = 30)
    >>> users = population.draw(1000, seed=0)
    >>> users.initial_loss.shape, users.visits[:3].tolist(), len(users.visits)
    ((1000, 2), [0, 0, 0], 30000)
    >>> users.instances()[999]
    Instance(2 arms, dense interaction, max|A| = 0.1)
    """

    def __init__(
        self,
        interaction: npt.ArrayLike,
        initial_loss: npt.ArrayLike,
        covariance: npt.ArrayLike = 0.0,
        *,
        interaction_spread: float = 0.0,
        unlike: bool = False,
        stay: int = 100,
        stay_law: str = "fixed",
        concurrency: int = 1,
        returning: float = 0.0,
        delay: int = 0,
        delay_law: str = "fixed",
        memory: float = 1.0,
        arm_names: Sequence[str] | None = None,
        definite: bool = True,
        half_life: float | None = None,
        rounds_per_hour: float | None = None,
        open_hours: float = DAY_HOURS,
        drift: float = 0.0,
        drift_memory: float = 0.95,
    ) -> None:
        matrix = DenseInteraction(interaction)
        # An instance checks whatever a population has in common with one.
        typical = Instance(
            matrix, initial_loss, arm_names, memory, definite=definite, half_life=half_life
        )
        between = _check_covariance(covariance, typical.n_arms)
        spread = real_number("interaction_spread", interaction_spread, 0.0, LARGEST_SPREAD)
        if not isinstance(unlike, (bool, np.bool_)):
            raise InvalidInput(f"unlike must be true or false, got {abbreviate(unlike)}")
        if unlike and spread > 0.0:
            raise InvalidInput(
                f"unlike users share no interaction to spread around: drop unlike, or "
                f"interaction_spread = {interaction_spread}"
            )
        for what, law in (("stay_law", stay_law), ("delay_law", delay_law)):
            if not isinstance(law, str) or law not in LAWS:
                raise InvalidInput(f"{what} must be one of {', '.join(LAWS)}, got {law!r:.80}")
        self._set(
            rounds_per_hour=_check_rate(rounds_per_hour, typical.half_life),
            open_hours=real_number("open_hours", open_hours, 1.0, DAY_HOURS),
            drift=real_number("drift", drift, 0.0, LARGEST_SPREAD),
            drift_memory=real_number("drift_memory", drift_memory, 0.0, 1.0, below=True),
            _typical=typical,
            _named=arm_names is not None,
            covariance=freeze(between.values),
            interaction_spread=spread,
            unlike=bool(unlike),
            stay=whole_number("stay", stay, 1, LARGEST_HORIZON),
            stay_law=stay_law,
            concurrency=whole_number("concurrency", concurrency, 1, MOST_USERS),
            returning=real_number("returning", returning, 0.0, 1.0),
            delay=whole_number("delay", delay, 0, LARGEST_HORIZON),
            delay_law=delay_law,
        )

    _typical: Instance
    _named: bool
    covariance: Floats  # (arms, arms) of initial losses between users; read-only
    interaction_spread: float
    unlike: bool
    stay: int
    stay_law: str
    concurrency: int
    returning: float
    delay: int
    delay_law: str
    rounds_per_hour: float | None
    open_hours: float
    drift: float
    drift_memory: float

    @property
    def interaction(self) -> Floats:
        """The interaction A that users share, (arms, arms); read-only."""
        return self._typical.interaction.values

    @property
    def initial_loss(self) -> Floats:
        """Mean μ of the users' initial losses, (arms,); read-only."""
        return self._typical.initial_loss

    @property
    def memory(self) -> float:
        """γ, how much of the past influence is left after each round of a user."""
        return self._typical.memory

    @property
    def half_life(self) -> float | None:
        """Hours after which half of the influence of a pull is gone; None: it stays."""
        return self._typical.half_life

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self._typical.arm_names

    @property
    def n_arms(self) -> int:
        """Number of arms K."""
        return self._typical.n_arms

    @property
    def definite(self) -> bool:
        """Whether the shared interaction is positive semi-definite."""
        return self._typical.definite

    @cached_property
    def shares_interaction(self) -> bool:
        """Whether all users have the same interaction."""
        return not self.unlike and self.interaction_spread == 0.0

    @cached_property
    def _root(self) -> Floats:
        """R (arms, rank) with RRᵀ = covariance."""
        factor, weights = pivoted_ldl(self.covariance, self.n_arms * np.finfo(float).eps)
        return np.ascontiguousarray(factor * np.sqrt(weights))

    def draw(self, n_users: int, seed: int = 0) -> Users:
        """Return users, and the order in which a fleet serves them.

        User u is the same whatever ``n_users`` is. The rounds of fewer users are those of more
        until the first newcomer is missing; the delay of a round is the same in both.

        Parameters
        ----------
        n_users : int
        seed : int
            Of everything random here; the noise of losses is not drawn here.

        Returns
        -------
        Users
            With ``initial_loss`` (users, arms), ``interaction`` (users, arms, arms), or
            (1, arms, arms) where all share it, ``stays`` (users,), ``visits`` (rounds,),
            ``delays`` (rounds,), ``times`` (rounds,) in seconds or empty, ``levels`` (rounds,) or
            empty, and ``instances()``.
        """
        n_users = whole_number("n_users", n_users, 1, MOST_USERS)
        seed = whole_number("seed", seed, 0)
        n_arms = self.n_arms
        own = 0 if self.shares_interaction else n_arms**2
        needed = n_users * (8 * (n_arms + own + 2) + BYTES_PER_ROUND * self.stay)
        require_memory(needed, f"the rounds of {n_users:,} users", "draw fewer, or shorter stays")
        key = np.uint64(seed)
        losses = np.empty((n_users, n_arms))
        draw_losses(key, self.initial_loss, self._root, losses)
        stays = np.full(n_users, self.stay, np.int64)
        if self.stay_law == "geometric" and self.stay > 1:
            draw_stays(key, self.stay, stays)
        visits = self._order(key, stays)
        delays = np.zeros(visits.size, np.int64)
        if self.delay_law == "geometric" and self.delay > 0:
            draw_delays(key, self.delay, delays)
        elif self.delay > 0:
            delays.fill(self.delay)
        return Users(
            losses,
            self._draw_interactions(key, n_users),
            stays,
            visits,
            delays,
            self.memory,
            self.arm_names if self._named else None,
            self._clock(visits.size),
            math.inf if self.half_life is None else self.half_life,
            self._draw_levels(key, visits),
        )

    def _draw_levels(self, key: np.uint64, visits: npt.NDArray[np.int32]) -> Floats:
        """Return the level of the user of each round; empty if levels do not drift."""
        levels = np.zeros(visits.size if self.drift > 0.0 else 0)
        if levels.size > 0:
            draw_levels(key, visits, self.drift, self.drift_memory, levels)
        return levels

    def _clock(self, rounds: int) -> Floats:
        """Return when the rounds of the fleet are, in seconds; empty if they have no times."""
        if self.rounds_per_hour is None:
            return np.zeros(0)
        hours = np.arange(rounds) / self.rounds_per_hour
        days = np.floor(hours / self.open_hours)
        return HOUR * (DAY_HOURS * days + (hours - self.open_hours * days))

    def _order(self, key: np.uint64, stays: Ints) -> npt.NDArray[np.int32]:
        if self.concurrency == 1 and self.returning == 0.0:
            return np.repeat(np.arange(stays.size, dtype=np.int32), stays)
        visits = np.empty(int(stays.sum()), np.int32)
        order_visits(key, stays, self.concurrency, self.returning, visits)
        return visits

    def _draw_interactions(self, key: np.uint64, n_users: int) -> Floats:
        if self.shares_interaction:
            return self.interaction[None].copy()
        matrices = np.empty((n_users, self.n_arms, self.n_arms))
        if self.unlike:
            draw_unlike(key, self._typical.interaction.max_abs, matrices)
        else:
            draw_around(key, self.interaction, self.interaction_spread, self.definite, matrices)
        return matrices

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in (*OF_INSTANCES, *OWN)}
        for name in ("interaction", "initial_loss", "covariance"):
            values[name] = values[name].tolist()
        values["arm_names"] = list(self.arm_names) if self._named else None
        return {"format": FORMAT, **values}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Population:
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInstance(f'this is no population file: expected "format": "{FORMAT}"')
        entries = {name: value for name, value in data.items() if name != "format"}
        known = {*OF_INSTANCES, *OWN}
        missing, unknown = known - entries.keys(), entries.keys() - known
        if missing:
            raise InvalidInstance(f"the population file has no {min(missing)!r} entry")
        if unknown:
            raise InvalidInstance(
                f"the population file has an entry that means nothing: {abbreviate(min(unknown))}"
            )
        population = cls(**entries, definite=False)
        for name in ("interaction", "covariance"):
            matrix = np.array(entries[name], np.float64)
            if matrix.ndim == 2 and not np.array_equal(matrix, matrix.T):  # not even by rounding
                raise InvalidInstance(f"the {name} of the population file is not symmetric")
        return population

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by making it again, so that a copy cannot be changed either."""
        return Population.from_json, (self.to_json(),)

    def _parts(self) -> tuple[Any, ...]:
        return self._typical, *(getattr(self, name) for name in OWN)

    def __repr__(self) -> str:
        parts = [f"{self.n_arms} arms", f"max|A| = {self._typical.interaction.max_abs:.4g}"]
        if self.unlike:
            parts.append("unlike users")
        if self.interaction_spread > 0.0:
            parts.append(f"spread {self.interaction_spread:.4g} of A")
        if not self.definite:
            parts.append("indefinite")
        parts.append(f"stay = {self.stay}{_law(self.stay_law)}")
        if self.concurrency > 1:
            parts.append(f"{self.concurrency} at a time")
        if self.returning > 0.0:
            parts.append(f"returning = {self.returning:.4g}")
        if self.delay > 0:
            parts.append(f"delay = {self.delay}{_law(self.delay_law)}")
        if self.memory < 1.0:
            parts.append(f"memory = {self.memory:.4g}")
        if self.half_life is not None:
            parts.append(f"half-life = {self.half_life:.4g} hours")
        if self.rounds_per_hour is not None:
            parts.append(f"{self.rounds_per_hour:.4g} rounds an hour")
        if self.drift > 0.0:
            parts.append(f"drift = {self.drift:.4g} (memory {self.drift_memory:.4g})")
        return f"Population({', '.join(parts)})"


def _check_rate(rounds_per_hour: object, half_life: float | None) -> float | None:
    """Return how many rounds an hour has; raise where they need times and have none."""
    if rounds_per_hour is not None:
        return real_number("rounds_per_hour", rounds_per_hour, FEWEST_AN_HOUR, math.inf, below=True)
    if half_life is not None:
        raise InvalidInput(
            "influence that fades by the clock needs times: say how many rounds of the whole fleet "
            "an hour has, rounds_per_hour="
        )
    return None


def _law(law: str) -> str:
    return "" if law == "fixed" else f" ({law})"


def _check_covariance(given: npt.ArrayLike, n_arms: int) -> DenseInteraction:
    """Return the covariance of initial losses as a symmetric matrix, or say why it is none."""
    array = check_numbers(given, "covariance")
    if array.ndim == 0:
        array = float(array) * np.eye(n_arms)
    if array.shape != (n_arms, n_arms):
        raise InvalidInstance(
            f"covariance must be a number or a matrix of {n_arms} × {n_arms}, got shape "
            f"{array.shape}"
        )
    try:
        matrix = DenseInteraction(array)
    except InvalidInstance as error:
        raise InvalidInstance(str(error).replace("interaction", "covariance", 1)) from None
    if not matrix.definite:
        raise InvalidInstance(
            "covariance is not positive semi-definite: its smallest eigenvalue is "
            f"{matrix.smallest_eigenvalue:.3g}"
        )
    return matrix
