"""Play a family of instances in pieces: each is a policy on some instances."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from influential_bandits import __version__
from influential_bandits.errors import NotApplicable
from influential_bandits.optima.fading import fading_lower_bound
from influential_bandits.optima.schedules import best_schedule, schedule_loss
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.oracles import (
    EachArmOnceOracle,
    FrankWolfeOracle,
    OptimalOracle,
)
from influential_bandits.policies.registry import code_digest, known_policies
from influential_bandits.simulation.engine import log_spaced, simulate
from influential_bandits.simulation.trajectory import Trajectory
from influential_bandits.studies.compare.families import FIRST_INSTANCE, Family
from influential_bandits.studies.runner.rows import Rows, concatenate, tidy
from influential_bandits.studies.runner.study import Piece, hash_inputs, make_file_name
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise

CHUNK = 10  # runs in a piece
REFERENCES = (FrankWolfeOracle(), EachArmOnceOracle())
SCHEDULE, BOUND = "best schedule found", "lower bound"  # benchmarks where memory fades


def list_default_policies() -> list[Policy]:
    """Return the package's own policies as they come, and the oracles that serve as references."""
    own = "influential_bandits."
    players = [
        code()
        for code in known_policies().values()
        if code.__module__.startswith(own)
        and code.select is not Policy.select
        and not code.privileged
        and not any(_is_required(field) for field in dataclasses.fields(code))
    ]
    return [*players, *REFERENCES]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def choose_checkpoints(horizons: Sequence[int]) -> list[int]:
    """Return the rounds whose counts are kept: the horizons, and what makes a curve."""
    marks = {int(mark) for mark in log_spaced(max(horizons)) if mark >= 10}
    return sorted(marks | set(horizons))


def can_play(policy: Policy, instance: Instance) -> bool:
    """Tell whether an oracle has an answer in such a world; everybody else can always play."""
    if not policy.privileged:
        return True
    try:
        policy.knowledge(instance, instance.n_arms + 1)
    except NotApplicable:
        return False
    return True


def count_pieces(n_runs: int, n_policies: int, fading: bool) -> int:
    """Return how many pieces a family is cut into."""
    return -(-n_runs // CHUNK) * (n_policies + fading)


def cut_into_pieces(
    family: Family,
    policies: Sequence[Policy],
    horizons: Sequence[int],
    instances: int,
) -> Iterator[Piece]:
    """Yield every policy on the same instances and the same noise, some runs at a time.

    Run n is of instance n // seeds, with noise of its own.

    The name of a piece hashes every input: the policy's parameters and code, the checkpoints and,
    of a user's family, the instances. So with another policy, more instances or other horizons,
    finished pieces are not computed again. A piece holds its instances and not the function that
    makes them, which may be large.
    """
    marks = choose_checkpoints(horizons)
    runs = instances * family.seeds
    for start in range(0, runs, CHUNK):
        numbers = range(start, min(start + CHUNK, runs))
        place = f"{numbers.start:05d}-{numbers.stop:05d}"
        worlds = {n: family.make(n // family.seeds) for n in numbers}
        own = ""
        if family.is_own:
            own = hash_inputs(
                [world.to_json() for world in worlds.values()], family.noise.code_digest
            )
        elif family.seeds > 1:
            own = hash_inputs(family.seeds)
        if worlds[start].memory < 1.0:
            name = f"benchmarks-{hash_inputs(marks)}{own}"
            compute = partial(_compute_benchmarks, worlds, marks)
            yield Piece.of_instances(f"{name}-{place}", numbers, compute)
        for policy in policies:
            kept = list(horizons if policy.horizon_aware else marks)
            name = name_piece(policy, kept) + own
            play = partial(_play_instances, family.noise, policy, worlds, kept)
            yield Piece.of_instances(f"{name}-{place}", numbers, play)


def name_piece(policy: Policy, marks: list[int]) -> str:
    """Return the name of a policy's pieces: another one for other parameters, code or marks."""
    digest = hash_inputs(__version__, repr(policy), code_digest(policy), marks)
    return f"{make_file_name(policy.label)}-{digest}"


def _play_instances(
    noise: Noise,
    policy: Policy,
    worlds: Mapping[int, Instance],
    marks: list[int],
    numbers: range,
    threads: int | None,
) -> Rows:
    chosen = [worlds[n] for n in numbers]
    if isinstance(policy, OptimalOracle):  # its plan is what it plays, for each horizon another
        runs = [_follow_plan(noise, policy, chosen, marks)]
    else:
        ways = [[mark] for mark in marks] if policy.horizon_aware else [marks]
        runs = [
            simulate(
                chosen,
                policy,
                way[-1],
                noise,
                checkpoints=way,
                execution=threads,
                progress=False,
                instance_numbers=[FIRST_INSTANCE + number for number in numbers],
            )
            for way in ways
        ]
    rows = concatenate(tidy(run, numbers) for run in runs)
    del rows["seed"]  # one of each instance
    order = np.argsort(rows["instance"], kind="stable")
    return {name: values[order] for name, values in rows.items()}


def _follow_plan(
    noise: Noise, policy: OptimalOracle, worlds: list[Instance], marks: list[int]
) -> Trajectory:
    plans = [[policy.knowledge(world, mark)["plan"] for mark in marks] for world in worlds]
    seeds = np.zeros(1, np.uint64)
    counts = np.array(plans)[:, None]
    return Trajectory(tuple(worlds), policy, noise, seeds, np.array(marks), counts)


def _compute_benchmarks(
    worlds: Mapping[int, Instance], marks: list[int], numbers: range, threads: int | None
) -> Rows:
    """Return what policies are compared with where memory fades, as if it were played."""
    tables = []
    for n in numbers:
        world, best = worlds[n], best_schedule(worlds[n])
        losses = {
            SCHEDULE: [schedule_loss(world, best, mark) for mark in marks],
            BOUND: [mark * fading_lower_bound(world, mark) for mark in marks],
        }
        tables += [
            {
                "instance": np.full(len(marks), n),
                "policy": np.array([name] * len(marks), object),
                "horizon": np.array(marks),
                "loss": np.array(values),
                "regret": np.full(len(marks), np.nan),
            }
            for name, values in losses.items()
        ]
    return concatenate(tables)
