"""What a scenario does to a run, compiled: losses that come late, arms on offer, times of rounds.

The loop of `kernels.py` calls this. Without a scenario, or without times, None is passed, and
nothing that concerns them is compiled. Fleets keep late losses in the same lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import HOUR
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import halve, log
from influential_bandits.numerics.streams import SESSIONS, stream_at, stream_keys, uniform
from influential_bandits.policies.compiled import Tag, elapsed, observed, pulled, select
from influential_bandits.world.dynamics import Progress, elapse

Bools = npt.NDArray[np.bool_]

FIXED, UNIFORM, GEOMETRIC = 0, 1, 2  # delay laws
END = -1  # of a list


class Rules(NamedTuple):
    """A scenario as compiled code sees it."""

    law: int  # FIXED, UNIFORM or GEOMETRIC
    delay: int
    log_ratio: float  # geometric: log(delay/(delay + 1))
    batch: int
    eligible: float
    horizon: int


class Flight(NamedTuple):
    """Losses under way: the pull of round t lies in place t mod places, in the list of its arrival.

    Lists are kept in the order of the pulls, one for each round to come.
    """

    first: Ints  # (runs, places) head of the list of the losses that arrive in a round, or END
    last: Ints  # (runs, places) its end
    after: Ints  # (runs, places) the next one of the same list, or END
    pull: Ints  # (runs, places) the round of the pull, or the user of a fleet whose pull it was
    arm: Ints  # (runs, places)
    loss: Floats  # (runs, places)
    memo: Floats  # (runs, places, memo)
    keys: Any  # (runs, 2) uint64 of the scenario's random numbers


def make_flight(keys: npt.NDArray[np.uint64], places: int, memo: int) -> Flight:
    """Return room for so many losses of each run; none is under way."""
    shape = (len(keys), places)
    first, last, after = (np.full(shape, END, np.int64) for _ in range(3))
    pull, arm = (np.zeros(shape, np.int64) for _ in range(2))
    return Flight(first, last, after, pull, arm, np.zeros(shape), np.zeros((*shape, memo)), keys)


@inlined
def put_off(flight: Flight, run: int, t: int, due: int, pull: int, arm: int, loss: float) -> None:
    """Put the loss of round t on its way; it is due fewer rounds later than there are places."""
    places = flight.loss.shape[1]
    place, when = t % places, due % places
    flight.pull[run, place], flight.arm[run, place] = pull, arm
    flight.loss[run, place] = loss
    flight.after[run, place] = END
    if flight.first[run, when] == END:
        flight.first[run, when] = place
    else:
        flight.after[run, flight.last[run, when]] = place
    flight.last[run, when] = place


@inlined
def take_due(flight: Flight, run: int, t: int) -> int:
    """Return the place of the first loss that arrives in round t, or END; forget the list."""
    when = t % flight.loss.shape[1]
    place = flight.first[run, when]
    flight.first[run, when] = END
    return place


class Clock(NamedTuple):
    """When rounds are, and how fast the world forgets."""

    times: Floats  # (rounds,) seconds; empty where rounds come in sessions
    session: int
    geometric: bool
    gap: float  # seconds between two rounds of a session
    pause: float  # seconds between two sessions
    half_life: float  # of the world, in hours; infinite if nothing fades by the clock
    keys: Any  # (runs, 2) uint64 of where sessions end


class Course(NamedTuple):
    """A scenario of runs side by side, between two changes of the arms that there are."""

    rules: Rules
    flight: Flight
    in_use: Bools  # (arms known to the policy,)
    offer: Bools  # the same size: which of them can be pulled in a round
    restricts: bool  # whether some may not be on offer
    memo_size: int


@inlined
def let_time_pass(
    tag: Tag, c: Any, s: Any, progress: Progress, run: int, t: int, clock: Clock | None
) -> None:
    """Let the time between round t − 1 and round t pass, for the world and for the policy."""
    if clock is not None:
        if t > 1:
            hours = count_hours(clock, run, t)
            elapse(progress, halve(hours / clock.half_life))
            elapsed(tag, c, s, hours)


@inlined
def count_hours(clock: Clock, run: int, t: int) -> float:
    """Return the hours between round t − 1 and round t."""
    if clock.times.size > 0:
        return (clock.times[t - 1] - clock.times[t - 2]) / HOUR
    keys = clock.keys[run]
    ended = ends_before(clock.session, clock.geometric, keys[0], keys[1], t)
    return (clock.pause if ended else clock.gap) / HOUR


@inlined
def ends_before(
    session: int, geometric: bool, first_key: np.uint64, second_key: np.uint64, t: int
) -> bool:
    """Tell whether a session ended after round t − 1, so that a pause comes before round t."""
    if geometric:
        return uniform(stream_at(first_key, second_key, t), 0) * session < 1.0
    return (t - 1) % session == 0


@kernel
def fill_times(
    seed: np.uint64,
    instance: np.uint64,
    session: int,
    geometric: bool,
    gap: float,
    pause: float,
    times: Floats,
) -> None:
    """Write when each round of a run is, in seconds."""
    first_key, second_key = stream_keys(seed, instance, SESSIONS)
    for t in range(2, times.size + 1):
        ended = ends_before(session, geometric, first_key, second_key, t)
        times[t - 1] = times[t - 2] + (pause if ended else gap)


@inlined
def arrival(rules: Rules, keys: Any, t: int) -> int:
    """Return the round after which the loss of the pull of round t is handed over."""
    wait = rules.delay
    if wait > 0 and rules.law != FIXED:
        u = uniform(stream_at(keys[0], keys[1], t), 0)
        if rules.law == UNIFORM:
            wait = min(int(u * (wait + 1)), wait)
        else:
            wait = int(log(u) / rules.log_ratio)
    there = t + wait
    late = there % rules.batch
    return there if late == 0 else there + rules.batch - late


@inlined
def make_offer(course: Course, run: int, t: int) -> None:
    """Write into ``offer`` which arms can be pulled in round t."""
    rules, in_use, offer = course.rules, course.in_use, course.offer
    stream = stream_at(course.flight.keys[run, 0], course.flight.keys[run, 1], t)
    closest, smallest, several = -1, 2.0, False
    for arm in range(in_use.size):
        offer[arm] = in_use[arm]
        if in_use[arm] and rules.eligible < 1.0:
            u = uniform(stream, arm + 1)
            offer[arm] = u < rules.eligible
            several |= offer[arm]
            if u < smallest:
                closest, smallest = arm, u
    if closest >= 0 and not several:
        offer[closest] = True


@inlined
def choose(
    tag: Tag, c: Any, s: Any, run: int, t: int, rng: Any, course: Course | None
) -> tuple[int, bool]:
    """Return the arm that a policy selects for round t, and whether it is on offer."""
    if course is not None:
        if course.restricts:
            make_offer(course, run, t)
            arm = select(tag, c, s, t, course.offer, rng)
            return arm, 0 <= arm < c.n_arms and course.offer[arm]
    arm = select(tag, c, s, t, None, rng)
    return arm, 0 <= arm < c.n_arms


@inlined
def tell(
    tag: Tag,
    c: Any,
    s: Any,
    run: int,
    t: int,
    arm: int,
    loss: float,
    memo: Floats,
    course: Course | None,
) -> None:
    """Tell a policy of the pull of round t, and of the losses that have come by then."""
    if course is None:
        for k in range(memo.size):
            memo[k] = 0.0
        pulled(tag, c, s, t, arm, memo)
        observed(tag, c, s, t, arm, memo, loss)
    else:
        tell_late(tag, c, s, run, t, arm, loss, course)


@inlined
def tell_late(
    tag: Tag, c: Any, s: Any, run: int, t: int, arm: int, loss: float, course: Course
) -> None:
    """Put the loss of a pull on its way, and hand over those that have arrived."""
    rules, flight = course.rules, course.flight
    memo = flight.memo[run, t % flight.loss.shape[1], : course.memo_size]
    for k in range(memo.size):
        memo[k] = 0.0
    pulled(tag, c, s, t, arm, memo)
    due = arrival(rules, flight.keys[run], t)
    if due <= rules.horizon:  # others would never be seen
        put_off(flight, run, t, due, t, arm, loss)
    place = take_due(flight, run, t)
    while place != END:
        pull, chosen = flight.pull[run, place], flight.arm[run, place]
        noted = flight.memo[run, place, : course.memo_size]
        observed(tag, c, s, pull, chosen, noted, flight.loss[run, place])
        place = flight.after[run, place]
