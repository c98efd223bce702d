"""Scenario: what practice does to a run: late losses, arms on and off offer, times of rounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from influential_bandits.checks import (
    LARGEST_HORIZON,
    abbreviate,
    real_array,
    real_number,
    require_horizon,
    whole_number,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.simulation.scenario_kernels import fill_times

DELAY_LAWS = ("fixed", "uniform", "geometric")
SESSION_LAWS = ("fixed", "geometric")
LARGEST_PAUSE = 10**9  # seconds; sums of them are exact for 10⁶ rounds and more

Rounds = Mapping[int, int] | Iterable[tuple[int, int]]


class Event(NamedTuple):
    """An arm that comes or goes before the choice of a round."""

    round: int
    retires: bool  # False: it arrives
    arm: int


@dataclass(frozen=True)
class Scenario:
    """What makes a run harder than the paper's: pass it to :func:`simulate`.

    All policies with the same seed meet the same delays and the same offers.

    Parameters
    ----------
    delay : int
        Rounds that a loss is under way. With 0 it is known before the next choice.
    delay_law : {"fixed", "uniform", "geometric"}
        "fixed": every loss takes ``delay`` rounds. "uniform": each takes 0 … ``delay`` rounds, all
        equally likely. "geometric": any number of rounds, ``delay`` on average. Under the last two,
        losses come out of order.
    batch : int
        Losses are handed over after rounds batch, 2·batch, 3·batch, …, all together that are there
        by then, in the order of their pulls.
    eligible : float in (0, 1]
        Each arm is on offer in a round with this probability, independently. If none would be, the
        one that came closest (whose random number is smallest) is.
    arrivals : mapping of int to int
        Arm → the first round in which it can be pulled, at least 2. These must be the last arms of
        the instance, in the order in which they come. Pulls influence an arm also before it comes.
    retirements : mapping of int to int
        Arm → the first round in which it can no longer be pulled, at least 2. Losses under way are
        still handed over.
    times : sequence of float, optional
        When each round is, in seconds, for all runs alike; not decreasing, and at least as many as
        there are rounds. Instances and policies with a half-life need times.
    session : int, optional
        Instead of ``times``: rounds come in sessions of so many, as when people visit a site.
    session_law : {"fixed", "geometric"}
        "fixed": every session has ``session`` rounds. "geometric": after each round a session ends
        with probability 1/session, for each seed and instance at other times.
    gap, pause : int
        Whole seconds between two rounds of a session, and between two sessions. By default a minute
        and 12 hours.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> late = Scenario(delay=50, delay_law="geometric", batch=10)
    >>> runs = [
    ...     ib.simulate(ib.counterexample(), ib.InfluentialLCB(), 10_000, scenario=scenario)
    ...     for scenario in (None, late)
    ... ]
    >>> [float(run.regret()[0, 0, -1]) for run in runs]
    [19503.125, 217470.125]

    Where influence fades by the clock, rounds need times:

    >>> daily = Scenario(session=2, gap=60, pause=86_400)
    >>> daily.when(4).tolist()
    [0.0, 60.0, 86460.0, 86520.0]
    >>> tiring = ib.Instance([[1.0]], [0.0], half_life=2)
    >>> ib.simulate(tiring, ib.LCB(), 4, scenario=daily, record="losses").losses.round(2)
    array([[[0.  , 0.99, 0.  , 0.99]]])
    """

    delay: int = 0
    delay_law: str = "fixed"
    batch: int = 1
    eligible: float = 1.0
    arrivals: Rounds = ()
    retirements: Rounds = ()
    times: Sequence[float] | None = field(default=None, repr=False)
    session: int | None = None
    session_law: str = "fixed"
    gap: int = 60
    pause: int = 43_200

    def __post_init__(self) -> None:
        if self.delay_law not in DELAY_LAWS:
            raise InvalidInput(
                f"delay_law must be one of {', '.join(DELAY_LAWS)}, got {self.delay_law!r}"
            )
        self._set("delay", whole_number("delay", self.delay, 0, LARGEST_HORIZON))
        self._set("batch", whole_number("batch", self.batch, 1, LARGEST_HORIZON))
        self._set("eligible", real_number("eligible", self.eligible, 0.0, 1.0, above=True))
        self._set("arrivals", _rounds("arrivals", self.arrivals))
        self._set("retirements", _rounds("retirements", self.retirements))
        self._check_times()
        arrivals = dict(self.arrivals)
        for (arm, come), (later, comes) in itertools.pairwise(arrivals.items()):
            if later != arm + 1 or comes < come:
                raise InvalidInput(
                    f"arms must arrive in the order of their numbers, but arm {arm} comes in round "
                    f"{come} and arm {later} in round {comes}"
                )
        for arm, gone in dict(self.retirements).items():
            if gone <= arrivals.get(arm, 1):
                raise InvalidInput(
                    f"arm {arm} retires in round {gone}, but comes in round {arrivals[arm]}"
                )

    def _check_times(self) -> None:
        """Raise unless times never run backwards, and sessions can be."""
        if self.session_law not in SESSION_LAWS:
            raise InvalidInput(
                f"session_law must be one of {', '.join(SESSION_LAWS)}, got {self.session_law!r}"
            )
        for name in ("gap", "pause"):
            self._set(name, whole_number(name, getattr(self, name), 0, LARGEST_PAUSE))
        if self.session is not None:
            self._set("session", whole_number("session", self.session, 1, LARGEST_HORIZON))
        if self.times is None:
            return
        if self.session is not None:
            raise InvalidInput("give times, or a session from which they follow, not both")
        times = real_array("times", self.times)
        if times.ndim != 1 or not np.isfinite(times).all() or (np.diff(times) < 0.0).any():
            raise InvalidInput(
                "times must be seconds, one for each round, that never decrease, got "
                f"{abbreviate(self.times)}"
            )
        self._set("times", tuple(times.tolist()))

    @property
    def has_times(self) -> bool:
        """Whether rounds have times."""
        return self.times is not None or self.session is not None

    def when(self, horizon: int, seed: int = 0, instance_number: int = 0) -> Floats:
        """Return when the rounds of a run are, in seconds, (rounds,); raise if there are no times.

        Parameters
        ----------
        horizon : int
        seed, instance_number : int
            Of the run, where sessions end at random.
        """
        horizon = require_horizon(horizon)
        if not self.has_times:
            raise InvalidInput("the rounds of this scenario have no times: give times or session")
        if self.times is not None:
            require_times(self.times, horizon)
            return np.array(self.times[:horizon])
        seed = whole_number("seed", seed)
        instance_number = whole_number("instance_number", instance_number)
        times = np.zeros(horizon)
        fill_times(
            np.uint64(seed),
            np.uint64(instance_number),
            self.session or 1,
            self.session_law == "geometric",
            float(self.gap),
            float(self.pause),
            times,
        )
        return times

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def restricts_arms(self) -> bool:
        """Whether some arms cannot be pulled in some rounds; regret is then not defined."""
        return self.eligible < 1.0 or bool(self.arrivals) or bool(self.retirements)

    @property
    def events(self) -> list[Event]:
        """Arms that come and go, in order; in one round they come before others go."""
        come = [Event(rounds, False, arm) for arm, rounds in dict(self.arrivals).items()]
        gone = [Event(rounds, True, arm) for arm, rounds in dict(self.retirements).items()]
        return sorted(come + gone)

    def arms_at_start(self, n_arms: int) -> int:
        """Return how many of the arms of an instance are there in the first round.

        Raises if the scenario speaks of other arms, or leaves a round without any.
        """
        start = n_arms - len(dict(self.arrivals))
        if self.arrivals and [*dict(self.arrivals)] != [*range(start, n_arms)]:
            raise InvalidInput(
                f"arrivals must be the last of the {n_arms} arms, as the policy counts its arms in "
                f"the order in which they come; got {[*dict(self.arrivals)]}"
            )
        unknown = [arm for arm in dict(self.retirements) if arm >= n_arms]
        if unknown:
            raise InvalidInput(f"retirements name arm {unknown[0]}, but there are {n_arms} arms")
        in_use = start
        if start < 1:
            raise InvalidInput("arrivals must leave at least one arm for the first round")
        for event in self.events:
            in_use += -1 if event.retires else 1
            if in_use < 1:
                raise InvalidInput(f"no arm would be left in round {event.round}")
        return start


def require_times(times: Sequence[float], horizon: int) -> None:
    """Raise unless there is a time for each round."""
    if len(times) < horizon:
        raise InvalidInput(f"times must be given for {horizon:,} rounds, got {len(times):,}")


def require_scenario(given: object) -> Scenario | None:
    """Return a scenario or None, or say that this is neither."""
    if given is not None and not isinstance(given, Scenario):
        raise InvalidInput(f"scenario must be a Scenario such as Scenario(delay=5), got {given!r}")
    return given


def _rounds(what: str, given: Rounds) -> tuple[tuple[int, int], ...]:
    """Return pairs (arm, round) in the order of arms."""
    items = given.items() if isinstance(given, Mapping) else given
    try:
        pairs = [(arm, start) for arm, start in items]
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{what} must say a round for each arm, as in {{3: 100}}, got {abbreviate(given)}"
        ) from None
    checked = sorted(
        (
            whole_number(f"arm of {what}", arm),
            whole_number(f"round of {what}", start, 2, LARGEST_HORIZON),
        )
        for arm, start in pairs
    )
    if len(dict(checked)) < len(checked):
        raise InvalidInput(f"{what} name an arm twice: {abbreviate(given)}")
    return tuple(checked)
