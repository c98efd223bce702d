"""Serve the users of a family in pieces: each is a player on one population."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.optima.fading import fading_lower_bound
from influential_bandits.optima.path import optimum
from influential_bandits.studies.compare.players import Player
from influential_bandits.studies.compare.populations import FIRST_POPULATION, PopulationFamily
from influential_bandits.studies.runner.rows import Rows
from influential_bandits.studies.runner.study import Piece, hash_inputs, make_file_name
from influential_bandits.world.noise import Noise
from influential_bandits.world.population import Population, Users

OPTIMUM, BOUND = "optimum", "lower bound"  # benchmarks where memory lasts, and where it fades


def cut_into_pieces(
    family: PopulationFamily, players: Sequence[Player], n_users: int, numbers: Iterable[int]
) -> Iterator[Piece]:
    """Yield every player on each population, and the benchmark.

    The name of a piece hashes every input, and the source of the package, which decides what a
    fleet does.
    """
    for number in numbers:
        population, noise = family.make(number), family.noise
        users = _Users(population, n_users, noise, FIRST_POPULATION + number, number)
        inputs = (package_digest(), population.to_json(), noise, noise.code_digest, n_users)
        name = f"benchmark-{hash_inputs(*inputs)}-{number:05d}"
        yield Piece(name, partial(_find_optima, users), range(number, number + 1))
        for player in players:
            digest = hash_inputs(*inputs, player.digest)
            name = f"{make_file_name(player.label)}-{digest}-{number:05d}"
            yield Piece(name, partial(_serve, player, users), range(number, number + 1))


class _Users(NamedTuple):
    """Who is served in a piece."""

    population: Population
    many: int
    noise: Noise
    seed: int
    number: int  # of the population

    def draw(self) -> Users:
        """Return the users, the same ones for everybody."""
        return self.population.draw(self.many, self.seed)


def _serve(player: Player, users: _Users, threads: int | None) -> Rows:
    losses = player.serve(users.population, users.many, users.noise, users.seed, threads)
    return _make_rows(player.label, users.number, users.draw().stays, losses)


def _find_optima(users: _Users, threads: int | None) -> Rows:
    """Return the smallest loss that each user could have had; where memory fades, a bound on it."""
    drawn, lasting = users.draw(), users.population.memory == 1.0
    losses = [
        optimum(world, stay).loss if lasting else stay * fading_lower_bound(world, stay)
        for world, stay in zip(drawn.instances(), drawn.stays.tolist(), strict=True)
    ]
    return _make_rows(OPTIMUM if lasting else BOUND, users.number, drawn.stays, losses)


def _make_rows(policy: str, number: int, stays: Ints, losses: npt.ArrayLike) -> Rows:
    many = len(stays)
    return {
        "instance": np.full(many, number),
        "policy": np.array([policy] * many, object),
        "user": np.arange(many),
        "rounds": stays,
        "loss": np.asarray(losses),
    }
