"""Families of instances on which policies meet: numbered, so that every policy plays the same."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import require_horizon, whole_number
from influential_bandits.datasets.movielens import movielens
from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.streams import uniform
from influential_bandits.optima.difficulty import difficulty
from influential_bandits.references import find_object, split_reference
from influential_bandits.world.generators import (
    block_instance,
    counterexample,
    indefinite_instance,
    linear_lower_bound,
    random_instance,
    recovery_instance,
)
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise, Noise, NoNoise, require_noise

FIRST_INSTANCE = 1_000_000  # seeds below are free for tuning: comparisons never play them
LEARNED = "movielens"
INSTANCES = "instances"  # the family of those that a user gave
UNIT = GaussianNoise(1.0)
LEARNED_DESCRIPTION = (
    "Learned from MovieLens: genres are arms, users of the release the instances; γ = 0.8"
)
HOW_TO_GET = (
    "it is learned from data: pass the folder or zip of a MovieLens release (ml-latest-small of "
    "grouplens.org will do) as --data (in Python data=), or name it in MOVIELENS_DATA"
)


@dataclass(frozen=True)
class Family:
    """Instances of one kind, with their noise, on which policies are compared.

    Parameters
    ----------
    name : str
        For the command line and for folders: letters, digits, ``_``, ``.`` and ``-``.
    description : str
        What it is, in one line.
    make : function
        From the instance's number 0, 1, 2, … to an :class:`Instance`, always the same one; all
        with the same number of arms.
    n_instances : int
        How many are played by default.
    largest_horizon : int
        How far runs may go.
    noise : Noise
        On the losses; by default normal with σ = 1.
    source : str
        The data that it was learned from, if any.
    seeds : int
        Runs of each instance, each with noise of its own.

    Examples
    --------
    In a file of your own, for ``influential-bandits compare --families mine.py:tiring``:

    >>> import numpy as np
    >>> import influential_bandits as ib
    >>> def make(number):
    ...     return ib.Instance(np.diag([1.0, 0.5]), [0.0, 0.1 * (number + 1)])
    >>> tiring = ib.Family("tiring", "Two arms that tire by themselves", make)
    >>> tiring.make(1).initial_loss
    array([0. , 0.2])
    """

    name: str
    description: str
    make: Callable[[int], Instance] = field(repr=False)
    n_instances: int = 30
    largest_horizon: int = 10**5
    noise: Noise = UNIT
    source: str = ""
    seeds: int = 1

    @property
    def is_own(self) -> bool:
        """Whether it is the user's, so that its code may change from one run to the next."""
        return self.name not in FAMILIES and self.name != LEARNED


@dataclass(frozen=True)
class BinaryLosses(Noise):
    """Losses of 0 or 1, with the expected loss as probability: an advert is clicked, or not."""

    @staticmethod
    def observe(c: Any, t: int, arm: int, expected: float, rng: Any) -> float:
        return 1.0 if uniform(rng, 0) < expected else 0.0


class OfVerdict:
    """The n-th of the paper's random instances with K = 3 whose difficulty is of one verdict."""

    def __init__(self, verdict: str) -> None:
        self.verdict = verdict
        self._found: list[int] = []  # seeds

    def __call__(self, number: int) -> Instance:
        """Return the instance of this number."""
        seeds = list(self._found)  # a copy: several threads may look for more
        while len(seeds) <= number:
            seed = seeds[-1] + 1 if seeds else FIRST_INSTANCE
            while difficulty(random_instance(3, seed)).verdict != self.verdict:
                seed += 1
            seeds.append(seed)
            self._found = seeds
        return random_instance(3, seeds[number])


def _make_random(arms: int, rank: int | None = None) -> Callable[[int], Instance]:
    return lambda number: random_instance(arms, FIRST_INSTANCE + number, rank)


def _make_changed(factor: float = 1.0, memory: float = 1.0) -> Callable[[int], Instance]:
    """Return the paper's random instances with K = 3, A times a factor, and fading memory."""

    def make(number: int) -> Instance:
        paper = random_instance(3, FIRST_INSTANCE + number)
        return Instance(factor * paper.interaction.to_dense(), paper.initial_loss, memory=memory)

    return make


def _make_clicks(memory: float) -> Callable[[int], Instance]:
    """Return five adverts of two brands, clicked in 12 to 18 of 100 showings when rested.

    An advert that is shown all the time loses up to ten of these clicks, whatever the memory.
    """

    def make(number: int) -> Instance:
        blocks = block_instance(5, 2, FIRST_INSTANCE + number, within=0.5)
        matrix = 0.1 * (1.0 - memory) * blocks.interaction.to_dense()
        return Instance(matrix, 0.85 + 0.015 * np.clip(blocks.initial_loss, -2, 2), memory=memory)

    return make


# name: (how to make an instance, instances by default, largest horizon, noise)
_SETTINGS: dict[str, tuple[Callable[[int], Instance], int, int, Noise]] = {
    "random-3": (_make_random(3), 100, 10**6, UNIT),
    "random-3-quiet": (_make_random(3), 30, 10**6, GaussianNoise(0.1)),
    "random-3-exact": (_make_random(3), 30, 10**6, NoNoise()),
    "random-10": (_make_random(10), 50, 10**5, UNIT),
    "random-20": (_make_random(20), 20, 10**5, UNIT),
    "random-50": (_make_random(50), 20, 10**4, UNIT),
    "low-rank": (_make_random(10, rank=3), 30, 10**5, UNIT),
    "block": (lambda number: block_instance(20, 4, FIRST_INSTANCE + number), 20, 10**5, UNIT),
    "recovery": (lambda number: recovery_instance(10, FIRST_INSTANCE + number), 30, 10**5, UNIT),
    "easy": (OfVerdict("easy"), 50, 10**6, UNIT),
    "hard": (OfVerdict("hard"), 50, 10**6, UNIT),
    "stationary": (_make_changed(0.0), 30, 10**6, UNIT),
    "nearly-stationary": (_make_changed(0.001), 30, 10**6, UNIT),
    "indefinite": (lambda number: indefinite_instance(3, FIRST_INSTANCE + number), 30, 10**6, UNIT),
    "fading-0.5": (_make_changed(memory=0.5), 30, 10**6, UNIT),
    "fading-0.9": (_make_changed(memory=0.9), 30, 10**6, UNIT),
    "fading-0.9-noisy": (_make_changed(memory=0.9), 30, 10**6, GaussianNoise(5.0)),
    "fading-0.99": (_make_changed(memory=0.99), 30, 10**6, UNIT),
    "clicks-0.5": (_make_clicks(0.5), 30, 10**5, BinaryLosses()),
    "clicks-0.8": (_make_clicks(0.8), 30, 10**5, BinaryLosses()),
    "clicks-0.95": (_make_clicks(0.95), 30, 10**5, BinaryLosses()),
    "prop-2.2": (lambda number: counterexample(), 10, 10**6, NoNoise()),
    "prop-2.3": (lambda number: linear_lower_bound(number % 2), 10, 10**6, NoNoise()),
}
_DESCRIPTIONS = {
    "random-3": "The paper's random instances, K = 3, σ = 1",
    "random-3-quiet": "The paper's random instances, K = 3, with little noise: σ = 0.1",
    "random-3-exact": "The paper's random instances, K = 3, without noise",
    "random-10": "Random instances, K = 10",
    "random-20": "Random instances, K = 20",
    "random-50": "Random instances, K = 50",
    "low-rank": "Random instances of rank 3, K = 10: some arms can stand in for others",
    "block": "Twenty arms in four blocks that tire together, as genres may",
    "recovery": "Ten arms: a pull tires its own arm and lets all others recover",
    "easy": "Those of the paper's random instances, K = 3, that are certified easy",
    "hard": "Those of the paper's random instances, K = 3, that are certified hard",
    "stationary": "No influence: A = 0, K = 3",
    "nearly-stationary": "Little influence: max|A| = 0.001, K = 3",
    "indefinite": "Indefinite A, K = 3: some mixes of arms reinforce themselves (Sec. 5.1)",
    "fading-0.5": "Influence that fades fast, γ = 0.5: the paper's random instances otherwise",
    "fading-0.9": "Influence that fades, γ = 0.9: the paper's random instances otherwise",
    "fading-0.9-noisy": "Influence that fades, γ = 0.9, in much noise: σ = 5",
    "fading-0.99": "Influence that fades slowly, γ = 0.99: the paper's random instances otherwise",
    "clicks-0.5": "Five adverts that tire a little, losses of 0 or 1; fatigue fades fast, γ = 0.5",
    "clicks-0.8": "Five adverts that tire a little, losses of 0 or 1; fatigue fades, γ = 0.8",
    "clicks-0.95": "Five adverts that tire a little, losses of 0 or 1; it fades slowly, γ = 0.95",
    "prop-2.2": "The counterexample on which LCB is nearly quadratic (Prop. 2.2), without noise",
    "prop-2.3": "The two instances of which one is linear for any policy (Prop. 2.3), in turn, "
    "without noise",
}
FAMILIES = {
    name: Family(name, _DESCRIPTIONS[name], *settings) for name, settings in _SETTINGS.items()
}


def fit_worlds(log: EventLog) -> InfluenceModel:
    """Fit one interaction for all users, positive semi-definite and fading by the event.

    Drift is fitted too, so that it is not mistaken for influence; worlds leave it out as noise.
    """
    return InfluenceModel("psd", fading=0.8, drift=True, ridge=100.0, pooling="full").fit(log)


def learn_family(path: Path) -> Family:
    """Return the worlds of a MovieLens release's users, the busiest first.

    Each film has one genre, drawn once, as in the paper: a pull is the rating of one film.
    """
    log = movielens(path, choose="random", progress=False)
    model = fit_worlds(log)
    busiest = [log.instances[i] for i in np.argsort(-log.lengths, kind="stable")]

    def make(number: int) -> Instance:
        return model.instance(busiest[number % len(busiest)], without_drift=True)

    source = f"{log.about['release']}, {len(log):,} ratings"
    return Family(LEARNED, LEARNED_DESCRIPTION, make, 20, 10**5, model.noise(), source)


def find_data(given: Path | None) -> Path | None:
    """Return the MovieLens release to learn from: the one given, or what the environment names."""
    if given is not None:
        if not given.exists():
            raise MissingFile(f"there is no MovieLens release at {given}")
        return given
    named = os.environ.get("MOVIELENS_DATA")
    if not named or not Path(named).exists():
        return None
    small = sorted(Path(named).glob("ml-latest-small*"))
    return small[-1] if small else Path(named)


def choose_families(
    wanted: Iterable[str | Family], data: Path | None = None
) -> tuple[list[Family], list[str]]:
    """Return these families, or all, and a line for each that had to be left out.

    A text is a name of the package, or ``module:name`` or ``file.py:name`` of the user's.
    """
    named = list(dict.fromkeys(wanted))
    path, notes = find_release(named, data)
    families = [
        family if isinstance(family, Family) else _find_family(family, path)
        for family in (named or (*FAMILIES, *([LEARNED] if path else ())))
    ]
    families = [_check_family(family) for family in families]
    refuse_namesakes(families)
    return families, notes


def find_release(named: Sequence[object], data: Path | None) -> tuple[Path | None, list[str]]:
    """Return the release that the family "movielens" is learned from, if it is among those named.

    Where none are named it is one of them, but left out, with a line, if there is no release.
    """
    path = find_data(data) if LEARNED in named or not named else None
    if LEARNED in named and path is None:
        raise InvalidInput(f"the family {LEARNED} is not at hand: {HOW_TO_GET}")
    return path, [] if named or path else [f"{LEARNED} was left out: {HOW_TO_GET}"]


def refuse_namesakes(families: Sequence[Any]) -> None:
    """Raise an error if two families have one name."""
    names = [family.name for family in families]
    twice = [name for n, name in enumerate(names) if name in names[:n]]
    if twice:
        raise InvalidInput(f"two families are called {twice[0]!r}; name each once")


def _find_family(text: str, path: Path | None) -> Family:
    """Return a family of the package, or the user's: a :class:`Family`, or its ``make`` alone."""
    if text == LEARNED and path is not None:
        return learn_family(path)
    if text in FAMILIES:
        return FAMILIES[text]
    reference = split_reference(text)
    if reference is None:
        raise InvalidInput(
            f"unknown family {text!r}; there are {', '.join(describe_families())}; one of your own "
            "is named with its file or module, as in mine.py:tiring"
        )
    home, name = reference
    if not name.isidentifier():
        raise InvalidInput(f"name the family itself, as in {home}:tiring, got {text!r}")
    named = find_object(home, name)
    if isinstance(named, Family):
        return named
    if not callable(named) or isinstance(named, type):
        raise InvalidInput(
            f"{text} is no family but {named!r:.60}; expected a Family, or a function from the "
            "number 0, 1, 2, … to an Instance"
        )
    description = (inspect.getdoc(named) or f"{name} of {home}").splitlines()[0]
    return Family(name.replace("_", "-"), description, named)


def _check_family(family: Family) -> Family:
    """Return a family that can be played: one of the user's with checks of what it makes."""
    if family is FAMILIES.get(family.name) or family.name == LEARNED:
        return family
    if re.fullmatch(r"\w[\w.-]*", str(family.name), re.ASCII) is None:
        raise InvalidInput(
            f"a family is called {family.name!r}, but its name becomes a folder: take letters, "
            "digits, _, . and -"
        )
    if not family.is_own:
        raise InvalidInput(
            f"a family of yours is called {family.name!r}, like a family of the package"
        )
    return replace(
        family,
        make=_CheckedMake(family.name, family.make),
        n_instances=whole_number(f"n_instances of {family.name}", family.n_instances, 1),
        largest_horizon=require_horizon(family.largest_horizon),
        noise=require_noise(family.noise),
        seeds=whole_number(f"seeds of {family.name}", family.seeds, 1),
    )


class _CheckedMake:
    """Makes the user's instances, and says which one could not be made, and why."""

    def __init__(self, family: str, make: Callable[[int], Instance]) -> None:
        self.family, self.make = family, make
        self.n_arms: int | None = None

    def __call__(self, number: int) -> Instance:
        """Return the instance of this number."""
        try:
            instance = self.make(number)
        except Exception as error:
            raise InvalidInput(
                f"{self.family} could not make instance {number}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(instance, Instance):
            raise InvalidInput(
                f"{self.family} must make an Instance for each number, got {instance!r:.60} for "
                f"{number}"
            )
        self.n_arms = self.n_arms or instance.n_arms
        if instance.n_arms != self.n_arms:
            raise InvalidInput(
                f"{self.family} must make instances of one number of arms, got {self.n_arms}, and "
                f"{instance.n_arms} for instance {number}"
            )
        return instance


def describe_families() -> dict[str, str]:
    """Return what each family is, by name."""
    own = {family.name: family.description for family in FAMILIES.values()}
    return own | {LEARNED: LEARNED_DESCRIPTION}
