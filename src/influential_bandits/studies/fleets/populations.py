"""Families of populations on which fleets meet: numbered, so that everybody serves the same users.

The interaction of population n is that of ``random_instance(arms, 1_000_000 + n)`` times the stated
size, and the mean of its initial losses is half of that instance's: μ ~ N(0, 0.5²). Users' initial
losses are N(μ, 0.7²) and the noise has σ = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from influential_bandits.datasets.movielens import movielens
from influential_bandits.errors import InvalidInput
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.studies.arena.families import (
    FIRST_INSTANCE,
    HOW_TO_GET,
    LEARNED,
    UNIT,
    find_data,
)
from influential_bandits.world.generators import random_instance
from influential_bandits.world.noise import Noise
from influential_bandits.world.population import Population

__all__ = [
    "FIRST_POPULATION",
    "POPULATIONS",
    "PopulationFamily",
    "choose_populations",
    "describe_populations",
    "learn_population",
]

FIRST_POPULATION = FIRST_INSTANCE  # seeds below are free for tuning: populations here have others
SCALE_OF_MEAN = 0.5  # of μ
VARIANCE = 0.7**2  # of a user's initial losses around μ
SMALL, STRONG = 0.1, 1.0  # largest entry of A, in units of σ
LATE = {"concurrency": 20, "returning": 0.05, "delay": 20}
STAY_OF_LEARNED = 100
LEARNED_DESCRIPTION = "Learned from MovieLens: genres are arms; γ = 0.8, 100 rounds"


@dataclass(frozen=True)
class PopulationFamily:
    """Populations of one kind, with the noise of their losses, which fleets serve.

    Parameters
    ----------
    name : str
        For the command line and for folders.
    description : str
        What it is, in one line.
    make : function
        From the number 0, 1, 2, … to a :class:`Population`, always the same one.
    populations : int
        How many are served by default.
    noise : Noise
        On the losses; by default normal with σ = 1.
    source : str
        The data that it was learned from, if any.
    """

    name: str
    description: str
    make: Callable[[int], Population] = field(repr=False)
    populations: int = 10
    noise: Noise = UNIT
    source: str = ""


def _make(
    number: int,
    arms: int,
    size: float,
    memory: float = 1.0,
    spread: float = 0.0,
    unlike: bool = False,
    stay: int = 100,
    late: bool = False,
    drift: float = 0.0,
) -> Population:
    """Return population ``number`` of a family; see the top of this file."""
    typical = random_instance(arms, FIRST_POPULATION + number)
    law = "geometric" if late else "fixed"
    return Population(
        size * typical.interaction.to_dense(),
        SCALE_OF_MEAN * typical.initial_loss,
        VARIANCE,
        interaction_spread=spread,
        unlike=unlike,
        stay=stay,
        stay_law=law,
        delay_law=law,
        memory=memory,
        drift=drift,
        **(LATE if late else {}),  # type: ignore[arg-type]
    )


def _repeat(population: Population, number: int) -> Population:
    """Return the same population again: only its users differ from number to number."""
    return population


def _family(name: str, description: str, **settings: object) -> PopulationFamily:
    return PopulationFamily(name, description, partial(_make, **settings))  # type: ignore[arg-type]


_ALL = (
    _family("none-5x30", "No influence: A = 0; K = 5, 30 rounds", arms=5, size=0.0, stay=30),
    _family("none-5x100", "No influence: A = 0; K = 5, 100 rounds", arms=5, size=0.0),
    _family("none-10x100", "No influence: A = 0; K = 10, 100 rounds", arms=10, size=0.0),
    _family("small-5x30", "max A = 0.1; K = 5, 30 rounds", arms=5, size=SMALL, stay=30),
    _family("small-5x100", "max A = 0.1; K = 5, 100 rounds", arms=5, size=SMALL),
    _family("small-10x100", "max A = 0.1; K = 10, 100 rounds", arms=10, size=SMALL),
    _family("strong-5x30", "max A = 1; K = 5, 30 rounds", arms=5, size=STRONG, stay=30),
    _family("strong-5x100", "max A = 1; K = 5, 100 rounds", arms=5, size=STRONG),
    _family("strong-10x100", "max A = 1; K = 10, 100 rounds", arms=10, size=STRONG),
    _family(
        "spread-5x100",
        "max A = 0.1, and users' own entries differ from it by 0.03; K = 5, 100 rounds",
        arms=5,
        size=SMALL,
        spread=0.03,
    ),
    _family(
        "unlike-5x30",
        "Users who have no interaction in common, max A = 0.1; K = 5, 30 rounds",
        arms=5,
        size=SMALL,
        unlike=True,
        stay=30,
    ),
    _family(
        "unlike-5x100",
        "Users who have no interaction in common, max A = 0.1; K = 5, 100 rounds",
        arms=5,
        size=SMALL,
        unlike=True,
    ),
    _family(
        "unlike-strong-5x100",
        "Users who have no interaction in common, max A = 1; K = 5, 100 rounds",
        arms=5,
        size=STRONG,
        unlike=True,
    ),
    _family(
        "fading-5x100",
        "Influence that fades, γ = 0.9, max A = 0.1; K = 5, 100 rounds",
        arms=5,
        size=SMALL,
        memory=0.9,
    ),
    _family(
        "fading-strong-5x100",
        "Influence that fades, γ = 0.9, max A = 1; K = 5, 100 rounds",
        arms=5,
        size=STRONG,
        memory=0.9,
    ),
    _family(
        "drifting-5x100",
        "Levels of users drift by 0.5 with a memory of 0.95, max A = 0.1; K = 5, 100 rounds",
        arms=5,
        size=SMALL,
        drift=0.5,
    ),
    _family(
        "late-5x30",
        "20 users at a time who come and go, 30 rounds on average, losses 20 rounds of the fleet "
        "late on average; max A = 0.1, K = 5",
        arms=5,
        size=SMALL,
        stay=30,
        late=True,
    ),
    _family(
        "late-strong-5x100",
        "20 users at a time who come and go, 100 rounds on average, losses 20 rounds of the fleet "
        "late on average; max A = 1, K = 5",
        arms=5,
        size=STRONG,
        late=True,
    ),
)
POPULATIONS = {family.name: family for family in _ALL}


def learn_population(log: EventLog, stay: int = STAY_OF_LEARNED) -> tuple[Population, Noise]:
    """Return the population of a log's users, and the noise of their losses, from a pooled fit.

    One interaction is fitted to all users, as for the family "movielens" of ``compare``. Mean and
    covariance of the initial losses are those of the users' fitted ones, weighed by their events;
    as these are estimates, the covariance is a little too large.
    """
    model = InfluenceModel("psd", fading=0.8, drift=True, ridge=100.0, pooling="full").fit(log)
    worlds = [model.instance(user, without_drift=True) for user in log.instances]
    losses: Floats = np.stack([world.initial_loss for world in worlds])
    weights = log.lengths / log.lengths.sum()
    mean = weights @ losses
    spread = (losses - mean) * np.sqrt(weights)[:, None]
    population = Population(
        worlds[0].interaction.to_dense(),
        mean,
        spread.T @ spread,
        stay=stay,
        memory=worlds[0].memory,
        arm_names=worlds[0].arm_names,
    )
    return population, model.noise()


def _learn_family(path: Path) -> PopulationFamily:
    log = movielens(path, choose="random", progress=False)
    population, noise = learn_population(log)
    source = f"{log.about['release']}, {len(log):,} ratings"
    make = partial(_repeat, population)
    return PopulationFamily(LEARNED, LEARNED_DESCRIPTION, make, 2, noise, source)


def choose_populations(
    wanted: Iterable[str | Population | PopulationFamily], data: Path | None = None
) -> tuple[list[PopulationFamily], list[str]]:
    """Return these families, or all, and a line for each that had to be left out."""
    named = list(wanted)
    path = find_data(data) if LEARNED in named or not named else None
    if LEARNED in named and path is None:
        raise InvalidInput(f"the family {LEARNED} is not at hand: {HOW_TO_GET}")
    found: list[PopulationFamily] = []
    own = 0
    for each in named or (*POPULATIONS, *([LEARNED] if path else ())):
        if isinstance(each, PopulationFamily):
            found.append(each)
        elif isinstance(each, Population):
            own += 1
            make = partial(_repeat, each)
            found.append(PopulationFamily(f"population-{own}", repr(each), make))
        elif each == LEARNED and path is not None:
            found.append(_learn_family(path))
        elif each in POPULATIONS:
            found.append(POPULATIONS[each])
        else:
            raise InvalidInput(
                f"unknown family {each!r}; there are {', '.join(describe_populations())}"
            )
    names = [family.name for family in found]
    twice = [name for n, name in enumerate(names) if name in names[:n]]
    if twice:
        raise InvalidInput(f"two families are called {twice[0]!r}; name each once")
    return found, [] if named or path else [f"{LEARNED} was left out: {HOW_TO_GET}"]


def describe_populations() -> dict[str, str]:
    """Return what each family is, in one line."""
    known = {name: family.description for name, family in POPULATIONS.items()}
    return known | {LEARNED: f"{LEARNED_DESCRIPTION} (needs --data)"}
