"""Made-up click logs: sessions, hours, items, positions and personalisation, with a known truth.

What a log of a real shop is full of, one thing at a time: each setting is a way in which choices
and clicks go together without any influence between arms, and two of them are influence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats, Ints

DAY = 86400.0
HOUR = 3600.0
DAYS = 60.0  # within which users come for the first time
BREAK = 0.6  # days between two sessions, on average
PAUSE = 60.0  # seconds between two events of a session, on average
STAY = 6.0  # events of a session, on average
BASE = -1.0  # log odds of a click
ITEMS = 8  # of an arm that may be shown in a session


@dataclasses.dataclass(frozen=True)
class ClickWorld:
    """What moves choices and clicks; all sizes are log odds, and 0 switches a thing off.

    Parameters
    ----------
    taste : float
        Standard deviation of what users like, arm by arm.
    personalised : float
        How strongly choices follow that taste.
    steering : float
        How strongly choices follow a user's own clicks so far.
    retargeting : float
        Probability that an arm is shown again after a click.
    drift : float
        Standard deviation of a mood that changes slowly along a history.
    trend : float
        Change of all clicks over the calendar.
    arm_trends : float
        The same, for each arm another, while the mix of arms shifts as well.
    hours : float
        What the hour of the day does to each arm, while the mix of arms follows the hour.
    interest : float
        Of a session, in each arm: it moves choices and clicks together.
    best_items_first : float
        Standard deviation of the items of an arm, of which the best are shown first in a session.
    position : float
        What each further event of a session takes away from a click.
    leaving : float
        How much more often users leave after an event without a click.
    heavy_users : bool
        Whether lengths of histories differ widely.
    bots : float
        Share of users that click on nothing or on everything.
    duplicates : float
        Share of events that are logged twice.
    fatigue : float
        What a showing of an arm takes away from clicks on the same arm.
    tiring : int, optional
        How many arms have this fatigue, the first ones; by default all.
    common_fatigue : float
        What a showing takes away from clicks on any arm.
    half_life_days : float, optional
        Days after which half of the fatigue is left; by default it fades by events.
    memory : float
        How much of the fatigue is left after each event, without a half-life.

    Examples
    --------
    >>> ClickWorld(hours=0.7).hours
    0.7
    """

    taste: float = 0.5
    personalised: float = 0.0
    steering: float = 0.0
    retargeting: float = 0.0
    drift: float = 0.0
    trend: float = 0.0
    arm_trends: float = 0.0
    hours: float = 0.0
    interest: float = 0.0
    best_items_first: float = 0.0
    position: float = 0.0
    leaving: float = 0.0
    heavy_users: bool = False
    bots: float = 0.0
    duplicates: float = 0.0
    fatigue: float = 0.0
    tiring: int | None = None
    common_fatigue: float = 0.0
    half_life_days: float | None = None
    memory: float = 0.8

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and not (is_real(value) or isinstance(value, bool)):
                raise InvalidInput(f"{field.name} must be a number, got {abbreviate(value)}")
        if not 0.0 < self.memory <= 1.0:
            raise InvalidInput(f"memory must be a number in (0, 1], got {self.memory}")
        if self.half_life_days is not None and not self.half_life_days > 0.0:
            raise InvalidInput(f"half_life_days must be above 0, got {self.half_life_days}")


def draw_click_events(
    n_users: int = 600,
    n_events: int = 60,
    n_arms: int = 6,
    world: ClickWorld | None = None,
    seed: int = 0,
    caps: Iterable[Any] = (),
) -> dict[str, Any]:
    """Return the columns of a made-up click log, by name, in the order of time of each user.

    Parameters
    ----------
    n_users, n_events, n_arms : int
        Users, events of each user, and arms.
    world : ClickWorld, optional
        By default nothing but tastes.
    seed : int
        Of everything that is drawn.
    caps : iterable, optional
        How often arms may be shown at most, as :func:`advise_caps` has it: what it forbids goes to
        the arm that would have been shown next.

    Returns
    -------
    dict
        ``user``, ``time`` (seconds), ``arm``, ``item``, ``position`` in the session from 1,
        ``click`` (0 or 1), ``chance``, its probability, and ``lost``, what influence took from it.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> events = draw_click_events(50, 20, 3, ClickWorld(fatigue=0.5), seed=1)
    >>> ib.read_log(events, instance="user", arm="arm", reward="click")
    EventLog(1,000 events, 50 instances, 3 arms)
    """
    n_users = whole_number("n_users", n_users, 1, 10**7)
    n_events = whole_number("n_events", n_events, 1, 10**6)
    n_arms = whole_number("n_arms", n_arms, 1, 10**4)
    seed = whole_number("seed", seed)
    drawn = _Shop(n_users, n_events, n_arms, world or ClickWorld(), seed)
    drawn.caps = tuple(caps)
    rows = [drawn.show_next(n) for n in range(n_events)]
    columns = {name: np.stack([row[name] for row in rows], axis=1).ravel() for name in rows[0]}
    kept = np.flatnonzero(columns.pop("there"))
    if drawn.world.duplicates > 0.0:
        again = drawn.draw.random(len(kept)) < drawn.world.duplicates
        kept = np.repeat(kept, 1 + again)
    columns = {name: values[kept] for name, values in columns.items()}
    columns["arm"] = np.char.add("arm ", columns["arm"].astype(str))
    columns["item"] = np.char.add("item ", columns["item"].astype(str))
    return columns


class _Shop:
    """All users side by side, and what each of them has met so far."""

    def __init__(self, users: int, events: int, arms: int, world: ClickWorld, seed: int) -> None:
        self.world, self.arms, self.users = world, arms, users
        self.draw = draw = np.random.default_rng(seed)
        self.base = BASE + 0.3 * draw.standard_normal(arms)
        self.popularity = 0.5 * draw.standard_normal(arms)
        self.taste = world.taste * draw.standard_normal((users, arms))
        self.trends = world.arm_trends * draw.standard_normal(arms)
        self.phases = draw.uniform(0.0, 24.0, arms)
        self.quality = world.best_items_first * draw.standard_normal((arms, 5 * ITEMS))
        lengths = np.full(users, events)
        if world.heavy_users:
            lengths = np.clip(events * draw.lognormal(-0.7, 1.0, users), 2, events).astype(int)
        self.lengths = lengths
        kinds = draw.random(users)
        self.bot = np.where(kinds < world.bots, np.where(kinds < world.bots / 2, -1, 1), 0)
        # Habits: everybody has hours of the day at which sessions begin.
        self.habit = draw.uniform(0.0, 24.0, users)
        self.time = DAY * np.floor(draw.uniform(0.0, DAYS, users)) + HOUR * self.habit
        self.mood = world.drift * draw.standard_normal(users)
        self.there = np.ones(users, bool)
        self.position = np.zeros(users, np.int64)
        self.interest = np.zeros((users, arms))
        self.shelf = np.zeros((users, arms, ITEMS), np.int64)
        self.shown = np.zeros((users, arms), np.int64)  # since a user came last
        self.faded = np.zeros((users, arms))
        self.clicks = np.zeros((users, arms))
        self.met = np.zeros((users, arms))
        self.before = np.full(users, -1)
        self.clicked = np.zeros(users, bool)
        self.caps: tuple[Any, ...] = ()
        self.past: list[tuple[Ints, Floats]] = []  # arms and times of the events so far

    def show_next(self, n: int) -> dict[str, Any]:
        """Return the n-th event of every user."""
        world, draw, everybody = self.world, self.draw, np.arange(self.users)
        self._move_on(n)
        hour = self.time / HOUR % 24.0
        daytime = np.cos(2.0 * np.pi * (hour[:, None] - self.phases) / 24.0)
        season = self.time / (DAY * 2.0 * DAYS) - 0.5
        arm = self._choose(daytime, season)
        place = np.minimum(self.shown[everybody, arm], ITEMS - 1)
        item = self.shelf[everybody, arm, place]
        odds = self.base[arm] + self.taste[everybody, arm] + self.mood + world.trend * season
        odds += self.trends[arm] * season + world.hours * daytime[everybody, arm]
        odds += self.interest[everybody, arm] + self.quality[arm, item]
        odds -= world.position * (self.position - 1)
        tiring = arm < (self.arms if world.tiring is None else world.tiring)
        tired = world.fatigue * tiring * self.faded[everybody, arm]
        tired += world.common_fatigue * self.faded.sum(axis=1)
        chance, rested = _probability(odds - tired), _probability(odds)
        chance = np.where(self.bot == 0, chance, (1 + self.bot) / 2)
        self.clicked = draw.random(self.users) < chance
        there = self.there & (n < self.lengths)
        row = {
            "user": everybody.copy(),
            "time": np.floor(self.time),
            "arm": arm,
            "item": arm * self.quality.shape[1] + item,
            "position": self.position.copy(),
            "click": self.clicked.astype(np.int64),
            "chance": chance,
            "lost": np.where(self.bot == 0, rested - chance, 0.0),
            "there": there,
        }
        self._remember(arm)
        return row

    def _move_on(self, n: int) -> None:
        """Let time pass until the next event, and begin new sessions."""
        world, draw, users = self.world, self.draw, self.users
        begins = draw.random(users) < (1.0 if n == 0 else 1.0 / STAY)
        breaks = DAY * np.maximum(1.0, np.round(draw.exponential(BREAK, users)))
        jitter = HOUR * draw.normal(0.0, 3.0, users)
        morning = DAY * np.floor(self.time / DAY) + HOUR * self.habit
        start = np.maximum(morning + breaks + jitter, self.time + HOUR)
        passed = np.where(begins, start - self.time, draw.exponential(PAUSE, users) + 1.0)
        if n == 0:
            passed = np.maximum(jitter, 1.0)
        self.time = self.time + passed
        if world.half_life_days is not None:
            self.faded *= 2.0 ** (-passed / (DAY * world.half_life_days))[:, None]
        self.mood = 0.95 * self.mood + np.sqrt(1.0 - 0.95**2) * world.drift * draw.normal(
            size=users
        )
        self.position = np.where(begins, 1, self.position + 1)
        self.interest[begins] = world.interest * draw.standard_normal((begins.sum(), self.arms))
        self.shown[begins] = 0
        many = self.quality.shape[1]
        shelf = draw.random((begins.sum(), self.arms, many)).argsort(axis=2)[:, :, :ITEMS]
        worth = np.take_along_axis(
            np.broadcast_to(self.quality, (*shelf.shape[:2], many)), shelf, 2
        )
        self.shelf[begins] = np.take_along_axis(shelf, (-worth).argsort(axis=2), 2)
        quits = draw.random(users) < world.leaving * ~self.clicked
        self.there &= ~(quits & (n > 0))

    def _choose(self, daytime: Floats, season: Floats) -> Ints:
        world, draw = self.world, self.draw
        wish = self.popularity + world.personalised * self.taste + 2.0 * self.interest
        if world.hours > 0.0:
            wish = wish + daytime
        if world.arm_trends > 0.0:
            wish = wish + 3.0 * season[:, None] * np.sign(self.trends)
        if world.steering > 0.0:
            wish = wish + world.steering * (self.clicks / (self.met + 2.0) - 0.25)
        wish = wish + draw.gumbel(size=wish.shape)
        arm = wish.argmax(axis=1)
        again = self.clicked & (draw.random(self.users) < world.retargeting)
        arm = np.where(again & (self.before >= 0), self.before, arm)
        if self.caps:
            forbidden = self._find_forbidden()
            instead = np.where(forbidden, -np.inf, wish).argmax(axis=1)
            capped = forbidden[np.arange(self.users), arm] & ~forbidden.all(axis=1)
            arm = np.where(capped, instead, arm)
            self.past.append((arm, self.time.copy()))
        return arm

    def _find_forbidden(self) -> npt.NDArray[np.bool_]:
        """Return which arms caps forbid to whom, (users, arms)."""
        out = np.zeros((self.users, self.arms), bool)
        for cap in self.caps:
            arm = int(str(cap.arm).removeprefix("arm "))
            recent = self.past if cap.showings is None else self.past[1 - cap.showings :]
            recent = [] if cap.showings == 1 else recent
            seen = np.zeros(self.users, np.int64)
            for shown, when in recent:
                near = cap.days is None or self.time - when < DAY * cap.days
                seen += (shown == arm) & near
            out[:, arm] = seen >= cap.times
        return out

    def _remember(self, arm: Ints) -> None:
        everybody = np.arange(self.users)
        if self.world.half_life_days is None:
            self.faded *= self.world.memory
        self.faded[everybody, arm] += 1.0
        self.met[everybody, arm] += 1.0
        self.clicks[everybody, arm] += self.clicked
        self.shown[everybody, arm] += 1
        self.before = arm


def _probability(odds: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-odds))
