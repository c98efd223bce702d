"""Families of populations on which fleets meet: numbered, so that everybody serves the same users.

The interaction of population n is that of ``random_instance(arms, 1_000_000 + n)`` times the stated
size, and the mean of its initial losses is half of that instance's: μ ~ N(0, 0.5²). Users' initial
losses are N(μ, 0.7²) and the noise has σ = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from influential_bandits.errors import InvalidInput
from influential_bandits.studies.compare.families import (
    FIRST_INSTANCE,
    UNIT,
    refuse_namesakes,
)
from influential_bandits.world.generators import random_instance
from influential_bandits.world.noise import Noise
from influential_bandits.world.population import Population

FIRST_POPULATION = FIRST_INSTANCE  # seeds below are free for tuning: populations here have others
SCALE_OF_MEAN = 0.5  # of μ
VARIANCE = 0.7**2  # of a user's initial losses around μ
SMALL, STRONG = 0.1, 1.0  # largest entry of A, in units of σ
LATE = {"concurrency": 20, "returning": 0.05, "delay": 20}


@dataclass(frozen=True)
class PopulationFamily:
    """Populations of one kind, with the noise of their losses, which fleets serve.

    ``make`` goes from the number 0, 1, 2, … to a :class:`Population`, always the same one;
    ``populations`` of them are served by default. For the rest see :class:`Family`.
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
    stay: int,
    size: float,
    memory: float = 1.0,
    spread: float = 0.0,
    unlike: bool = False,
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


# Kind: what it is, the settings of its populations, and their arms × rounds.
_KINDS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "none": ("No influence: A = 0", {"size": 0.0}, ("5x30", "5x100", "10x100")),
    "small": ("max A = 0.1", {"size": SMALL}, ("5x30", "5x100", "10x100")),
    "strong": ("max A = 1", {"size": STRONG}, ("5x30", "5x100", "10x100")),
    "spread": (
        "max A = 0.1, and users' own entries differ from it by 0.03",
        {"size": SMALL, "spread": 0.03},
        ("5x100",),
    ),
    "unlike": (
        "Users who have no interaction in common, max A = 0.1",
        {"size": SMALL, "unlike": True},
        ("5x30", "5x100"),
    ),
    "unlike-strong": (
        "Users who have no interaction in common, max A = 1",
        {"size": STRONG, "unlike": True},
        ("5x100",),
    ),
    "fading": (
        "Influence that fades, γ = 0.9, max A = 0.1",
        {"size": SMALL, "memory": 0.9},
        ("5x100",),
    ),
    "fading-strong": (
        "Influence that fades, γ = 0.9, max A = 1",
        {"size": STRONG, "memory": 0.9},
        ("5x100",),
    ),
    "drifting": (
        "Levels of users drift by 0.5 with a memory of 0.95, max A = 0.1",
        {"size": SMALL, "drift": 0.5},
        ("5x100",),
    ),
    "late": (
        "20 users at a time, losses 20 rounds of the fleet late on average, max A = 0.1",
        {"size": SMALL, "late": True},
        ("5x30",),
    ),
    "late-strong": (
        "20 users at a time, losses 20 rounds of the fleet late on average, max A = 1",
        {"size": STRONG, "late": True},
        ("5x100",),
    ),
}


def _families() -> Iterator[PopulationFamily]:
    for kind, (description, settings, shapes) in _KINDS.items():
        for shape in shapes:
            arms, stay = map(int, shape.split("x"))
            rounds = f"{stay} rounds{' on average' if 'late' in settings else ''}"
            words = f"{description}; K = {arms}, {rounds}"
            make = partial(_make, arms=arms, stay=stay, **settings)
            yield PopulationFamily(f"{kind}-{shape}", words, make)


POPULATIONS = {family.name: family for family in _families()}


def choose_populations(
    wanted: Iterable[str | Population | PopulationFamily],
) -> list[PopulationFamily]:
    """Return these families, or all."""
    families: list[PopulationFamily] = []
    own = 0
    for each in list(wanted) or POPULATIONS:
        if isinstance(each, PopulationFamily):
            families.append(each)
        elif isinstance(each, Population):
            own += 1
            make = partial(_repeat, each)
            families.append(PopulationFamily(f"population-{own}", repr(each), make))
        elif each in POPULATIONS:
            families.append(POPULATIONS[each])
        else:
            raise InvalidInput(f"unknown family {each!r}; there are {', '.join(POPULATIONS)}")
    refuse_namesakes(families)
    return families


def describe_populations() -> dict[str, str]:
    """Return what each family is, in one line."""
    return {name: family.description for name, family in POPULATIONS.items()}
