"""Serve the users of a family in pieces: each is a player on one population."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.optima.fading import fading_lower_bound
from influential_bandits.optima.path import optimum
from influential_bandits.studies.compare.players import Player
from influential_bandits.studies.compare.populations import FIRST_POPULATION, PopulationFamily
from influential_bandits.studies.runner.rows import Rows
from influential_bandits.studies.runner.study import Piece, hash_inputs, make_file_name
from influential_bandits.world.noise import Noise
from influential_bandits.world.population import Population

OPTIMUM, BOUND = "optimum", "lower bound"  # benchmarks where memory lasts, and where it fades


def cut_into_pieces(
    family: PopulationFamily, players: Sequence[Player], n_users: int, numbers: Iterable[int]
) -> Iterator[Piece]:
    """Yield every player on each population, and the benchmark.

    The name of a piece hashes every input, and the source of the package, which decides what a
    fleet does.
    """
    for number in numbers:
        population = family.make(number)
        noise = family.noise
        inputs = (package_digest(), population.to_json(), noise, noise.code_digest, n_users)
        task = (population, n_users, noise, FIRST_POPULATION + number, number)
        name = f"benchmark-{hash_inputs(*inputs)}-{number:05d}"
        yield Piece(name, partial(_find_optima, *task), range(number, number + 1))
        for player in players:
            digest = hash_inputs(*inputs, player.digest)
            name = f"{make_file_name(player.label)}-{digest}-{number:05d}"
            yield Piece(name, partial(_serve, player, *task), range(number, number + 1))


def _serve(
    player: Player,
    population: Population,
    n_users: int,
    noise: Noise,
    seed: int,
    number: int,
    threads: int | None,
) -> Rows:
    losses = player.serve(population, n_users, noise, seed, threads)
    return _make_rows(player.label, number, population.draw(n_users, seed).stays, losses)


def _find_optima(
    population: Population,
    n_users: int,
    noise: Noise,
    seed: int,
    number: int,
    threads: int | None,
) -> Rows:
    """Return the smallest loss that each user could have had; where memory fades, a bound on it."""
    users = population.draw(n_users, seed)
    lasting = population.memory == 1.0
    losses = [
        optimum(world, stay).loss if lasting else stay * fading_lower_bound(world, stay)
        for world, stay in zip(users.instances(), users.stays.tolist(), strict=True)
    ]
    return _make_rows(OPTIMUM if lasting else BOUND, number, users.stays, losses)


def _make_rows(
    policy: str, number: int, stays: npt.ArrayLike, losses: Sequence[float] | npt.ArrayLike
) -> Rows:
    many = len(np.asarray(losses))
    return {
        "instance": np.full(many, number),
        "policy": np.array([policy] * many, object),
        "user": np.arange(many),
        "rounds": np.asarray(stays),
        "loss": np.asarray(losses),
    }
