"""Play a family: pieces of rows, each a policy on some instances, kept under what made them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from influential_bandits import __version__
from influential_bandits.errors import NotApplicable, NotCertified
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.fading import fading_lower_bound
from influential_bandits.optima.regret import regret
from influential_bandits.optima.schedules import best_schedule, schedule_loss
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.oracles import (
    EachArmOnceOracle,
    FrankWolfeOracle,
    OptimalOracle,
)
from influential_bandits.policies.registry import code_digest, known_policies
from influential_bandits.simulation.engine import log_spaced, simulate
from influential_bandits.studies.arena.families import FIRST_INSTANCE, Family
from influential_bandits.studies.runner.study import Piece, piece_of_instances, short_name
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise

__all__ = ["applies", "default_policies", "marks_of", "pieces"]

CHUNK = 10  # instances in a piece
REFERENCES = (FrankWolfeOracle(), EachArmOnceOracle())
SCHEDULE, BOUND = "best schedule found", "lower bound"  # what fading worlds are compared with


def default_policies() -> list[Policy]:
    """Return the package's own policies as they come, and the oracles that serve as references."""
    own = "influential_bandits."
    players = [
        code()
        for code in known_policies().values()
        if code.__module__.startswith(own)
        and code.select is not Policy.select
        and not code.privileged
        and not any(_required(field) for field in dataclasses.fields(code))
    ]
    return [*players, *REFERENCES]


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def marks_of(horizons: Sequence[int]) -> list[int]:
    """Return the rounds whose counts are kept: the horizons, and what makes a curve."""
    marks = {int(mark) for mark in log_spaced(max(horizons)) if mark >= 10}
    return sorted(marks | set(horizons))


def applies(policy: Policy, instance: Instance) -> bool:
    """Tell whether an oracle has an answer in such a world; everybody else can always play."""
    if not policy.privileged:
        return True
    try:
        policy.knowledge(instance, instance.n_arms + 1)
    except NotApplicable:
        return False
    return True


def pieces(
    family: Family,
    policies: Sequence[Policy],
    horizons: Sequence[int],
    instances: int,
) -> Iterator[Piece]:
    """Yield every policy on the same instances and the same noise.

    A piece is named after all that decides its rows, the policy's code among it: with another
    policy, more instances or other horizons, what was played already is not played again. The
    instances of a user's family are among it, since its code may be edited. A piece holds its
    instances, since what makes them may be large, or know of its earlier ones.
    """
    marks = marks_of(horizons)
    for start in range(0, instances, CHUNK):
        numbers = range(start, min(start + CHUNK, instances))
        where = f"{numbers.start:05d}-{numbers.stop:05d}"
        worlds = {n: family.make(n) for n in numbers}
        made = ""
        if family.is_own:
            made = _digest([world.to_json() for world in worlds.values()], family.noise.code_digest)
        if worlds[start].memory < 1.0:
            name = f"benchmarks-{_digest(marks)}{made}"
            rows = partial(_benchmark_rows, worlds, marks)
            yield piece_of_instances(f"{name}-{where}", name, numbers, rows)
        for policy in policies:
            name = _file_name(policy, horizons, marks) + made
            kept = horizons if policy.horizon_aware else marks
            rows = partial(_policy_rows, family.noise, policy, worlds, kept)
            yield piece_of_instances(f"{name}-{where}", name, numbers, rows)


def _file_name(policy: Policy, horizons: Sequence[int], marks: Sequence[int]) -> str:
    kept = horizons if policy.horizon_aware else marks
    digest = _digest(__version__, repr(policy), code_digest(policy), list(kept))
    return f"{short_name(policy.label)}-{digest}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _policy_rows(
    noise: Noise,
    policy: Policy,
    worlds: Mapping[int, Instance],
    marks: Sequence[int],
    numbers: range,
    threads: int | None,
) -> dict[str, Any]:
    chosen = [worlds[n] for n in numbers]
    counts, losses = _played(noise, policy, chosen, numbers, marks, threads)
    regrets = [_regrets(world, x) for world, x in zip(chosen, counts, strict=True)]
    return _rows(policy.label, numbers, marks, losses, np.array(regrets))


def _played(
    noise: Noise,
    policy: Policy,
    worlds: list[Instance],
    numbers: range,
    marks: Sequence[int],
    threads: int | None,
) -> tuple[Ints, Floats]:
    """Return counts (instances, marks, arms) and expected total losses (instances, marks)."""
    if isinstance(policy, OptimalOracle):  # its plan is what it plays, for each horizon another
        plans = [[policy.knowledge(world, mark)["plan"] for mark in marks] for world in worlds]
        pairs = zip(worlds, plans, strict=True)
        return np.array(plans), np.array([world.total_loss(plan) for world, plan in pairs])
    ways = [[mark] for mark in marks] if policy.horizon_aware else [list(marks)]
    runs = [
        simulate(
            worlds,
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
    return (
        np.concatenate([run.counts[:, 0] for run in runs], axis=1),
        np.concatenate([run.loss()[:, 0] for run in runs], axis=1),
    )


def _regrets(world: Instance, counts: Ints) -> Floats:
    """Return the regret of each row of counts; NaN where no optimum is defined or proved."""
    if world.memory < 1.0:
        return np.full(len(counts), np.nan)
    try:
        return np.asarray(regret(world, counts))
    except NotCertified:
        return np.array([_regret_if_proved(world, row) for row in counts])


def _regret_if_proved(world: Instance, counts: Ints) -> float:
    try:
        return float(regret(world, counts))
    except NotCertified:
        return float("nan")


def _benchmark_rows(
    worlds: Mapping[int, Instance], marks: Sequence[int], numbers: range, threads: int | None
) -> dict[str, Any]:
    """Return what fading worlds are compared with, as if it were played."""
    parts = []
    for n in numbers:
        world, best = worlds[n], best_schedule(worlds[n])
        losses = {
            SCHEDULE: [[schedule_loss(world, best, mark) for mark in marks]],
            BOUND: [[mark * fading_lower_bound(world, mark) for mark in marks]],
        }
        unknown = np.full((1, len(marks)), np.nan)
        parts += [
            _rows(name, range(n, n + 1), marks, np.array(x), unknown) for name, x in losses.items()
        ]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _rows(
    policy: str, numbers: range, marks: Sequence[int], losses: Floats, regrets: Floats
) -> dict[str, Any]:
    return {
        "instance": np.repeat(np.asarray(numbers), len(marks)),
        "policy": np.array([policy] * (len(numbers) * len(marks)), object),
        "horizon": np.tile(np.asarray(marks), len(numbers)),
        "loss": losses.ravel(),
        "regret": regrets.ravel(),
    }
