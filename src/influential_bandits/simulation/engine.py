"""simulate: many instances × many seeds on all cores, the same bits whatever the cores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, require_horizon, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.free_memory import require_memory
from influential_bandits.policies.contract import Policy, require_labels, require_policy
from influential_bandits.policies.registry import take_policy
from influential_bandits.simulation.kernels import Output
from influential_bandits.simulation.scenario import Scenario, require_scenario, require_times
from influential_bandits.simulation.tasks import Simulation
from influential_bandits.simulation.trajectory import Trajectories, Trajectory
from influential_bandits.world.instance import Instance, require_no_clock
from influential_bandits.world.noise import Noise, require_noise

if TYPE_CHECKING:
    from influential_bandits.numerics.arrays import Ints

BYTES_PER_SEED = 100  # of memory at the least: a number, its counts


@overload
def simulate(  # type: ignore[overload-overlap] # a text is a sequence of texts too
    instances: Instance | Sequence[Instance],
    policy: Policy | str,
    horizon: int,
    noise: Noise | None = None,
    seeds: int | Iterable[int] = 1,
    checkpoints: Iterable[int] | None = None,
    *,
    record: str | Iterable[str] | None = None,
    progress: bool | None = None,
    instance_numbers: Iterable[int] | None = None,
    scenario: Scenario | None = None,
    execution: Execution | int | None = None,
    check: bool = False,
) -> Trajectory: ...


@overload
def simulate(
    instances: Instance | Sequence[Instance],
    policy: Sequence[Policy | str] | Mapping[str, Policy | str],
    horizon: int,
    noise: Noise | None = None,
    seeds: int | Iterable[int] = 1,
    checkpoints: Iterable[int] | None = None,
    *,
    record: str | Iterable[str] | None = None,
    progress: bool | None = None,
    instance_numbers: Iterable[int] | None = None,
    scenario: Scenario | None = None,
    execution: Execution | int | None = None,
    check: bool = False,
) -> Trajectories: ...


def simulate(
    instances: Instance | Sequence[Instance],
    policy: Policy | str | Sequence[Policy | str] | Mapping[str, Policy | str],
    horizon: int,
    noise: Noise | None = None,
    seeds: int | Iterable[int] = 1,
    checkpoints: Iterable[int] | None = None,
    *,
    record: str | Iterable[str] | None = None,
    progress: bool | None = None,
    instance_numbers: Iterable[int] | None = None,
    scenario: Scenario | None = None,
    execution: Execution | int | None = None,
    check: bool = False,
) -> Trajectory | Trajectories:
    """Play a policy on every instance with every seed, and keep the counts at checkpoints.

    Parameters
    ----------
    instances : Instance or sequence of Instance
        All with the same number of arms.
    policy : Policy or str, or several
        A text is as on the command line: ``"LCB"``, ``"mine.py:Greedy"``. A list of policies, or a
        dictionary of them by name, are played one after the other: they meet the same noise.
    horizon : int
        Number of rounds T ≥ 1.
    noise : Noise, optional
        Noise on the observed losses; by default none.
    seeds : int or iterable of int
        How many seeds, 0, 1, 2, …, or which. Each run's noise is a function of (seed, instance
        number, round). Policies with the same seed meet the same noise.
    checkpoints : iterable of int, optional
        Rounds after which the counts are kept; by default 1, 2, 5, 10, 20, 50, …, horizon.
    record : {"choices", "losses"} or both, optional
        Also keep every choice, or the observed loss of every pull.
    progress : bool, optional
        Show a progress bar on the terminal; by default for runs that take long.
    instance_numbers : iterable of int, optional
        What tells the instances' random streams apart; by default 0, 1, 2, …. A study that is cut
        into pieces numbers its instances here.
    scenario : Scenario, optional
        Late or batched losses, arms that are not always on offer, arms that come and go, and times
        of rounds.
    execution : Execution or int, optional
        Where to play: on so many threads of this computer (by default all cores), or on a
        :class:`LocalExecution` or :class:`DaskExecution`. Does not change a bit of the result.
    check : bool
        Check every index in the policy's functions, which takes longer: one out of range is then
        an error that names the round, where it would otherwise read or write elsewhere.

    Returns
    -------
    Trajectory or Trajectories
        Of several policies a dictionary with ``plot()`` and ``to_frame()``: from their names, or
        their labels such as ``LCB`` and ``InfluentialLCB(influence_bound=2.0)``, to trajectories.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> instance = ib.random_instance(n_arms=3, seed=0)
    >>> run = simulate(instance, ib.InfluentialLCB(), 1000, ib.GaussianNoise(1.0), seeds=5)
    >>> run.counts.shape  # instances, seeds, checkpoints, arms
    (1, 5, 10, 3)
    >>> policies = ["LCB", ib.InfluentialLCB(influence_bound=2.0)]
    >>> runs = simulate(instance, policies, 100, record="losses")
    >>> {label: run.losses.shape for label, run in runs.items()}  # instances, seeds, rounds
    {'LCB': (1, 1, 100), 'InfluentialLCB(influence_bound=2.0)': (1, 1, 100)}
    """
    settings: dict[str, Any] = {  # iterators would be empty for a second policy
        "seeds": _keep(seeds),
        "checkpoints": _keep(checkpoints),
        "record": _keep(record),
        "progress": progress,
        "instance_numbers": _keep(instance_numbers),
        "scenario": scenario,
        "execution": execution,
        "check": check,
    }
    if isinstance(policy, (Sequence, Mapping)) and not isinstance(policy, str):
        players = _label(policy)
        world = _check_instances(instances)
        return Trajectories(
            (label, simulate_policy(world, player, horizon, noise, **settings))
            for label, player in players.items()
        )
    return simulate_policy(instances, take_policy(policy), horizon, noise, **settings)


def simulate_policy(
    instances: Instance | Sequence[Instance],
    policy: Policy,
    horizon: int,
    noise: Noise | None = None,
    *,
    seeds: int | Iterable[int] = 1,
    checkpoints: Iterable[int] | None = None,
    record: str | Iterable[str] | None = None,
    progress: bool | None = None,
    instance_numbers: Iterable[int] | None = None,
    scenario: Scenario | None = None,
    execution: Execution | int | None = None,
    check: bool = False,
    rounds_per_step: int = 1 << 21,
    lanes: bool | None = None,
) -> Trajectory:
    """Play one policy: what :func:`simulate` does, and how it does it.

    Parameters
    ----------
    rounds_per_step : int
        The most rounds, of all runs of a task, between two looks up; by default about 30 ms of
        work for a fast policy with few arms. Does not change a bit of the result.
    lanes : bool, optional
        Play in SIMD lanes: True wherever that is possible, False nowhere, None where it pays. Does
        not change a bit of the result.
    """
    world = _check_instances(instances)
    policy = require_policy(policy)
    horizon = require_horizon(horizon)
    noise = require_noise(noise)
    seed_list = _check_seeds(seeds)
    marks = log_spaced(horizon) if checkpoints is None else _check_checkpoints(checkpoints, horizon)
    numbers = _check_numbers(instance_numbers, len(world))
    where = resolve_execution(execution)
    noise.require_rounds(horizon, len(seed_list))
    recorded = _check_record(record)

    n_arms = world[0].n_arms
    known = _arms_known_at_start(scenario, policy, n_arms)
    timed = _check_times(scenario, world, policy, horizon)
    fading = timed or any(instance.fades for instance in world)
    runs = (len(world), len(seed_list))
    output = _allocate(runs, n_arms, horizon, marks, fading, recorded)
    simulation = Simulation(
        policy,
        world,
        noise,
        seed_list,
        numbers,
        output,
        horizon,
        scenario,
        known,
        check,
        rounds_per_step,
        lanes,
    )
    bar = Progress(policy.label, horizon * simulation.runs, progress)
    where.run(where.cut(simulation), bar)
    return _to_trajectory(simulation)


def _to_trajectory(simulation: Simulation) -> Trajectory:
    """Return what was played; what was not kept is empty in the output."""
    marks, counts, *further = simulation.output
    loss, choices, losses = (array if array.shape[2] > 0 else None for array in further)
    return Trajectory(
        simulation.instances,
        simulation.policy,
        simulation.noise,
        simulation.seeds,
        marks,
        counts,
        loss,
        choices,
        simulation.horizon,
        np.array(simulation.numbers, np.uint64),
        simulation.scenario,
        losses,
    )


def _allocate(
    runs: tuple[int, int], n_arms: int, horizon: int, marks: Ints, fading: bool, recorded: set[str]
) -> Output:
    """Return room for the results of (instances, seeds) runs."""
    of_round = 4 * ("choices" in recorded) + 8 * ("losses" in recorded)
    each = 8 * len(marks) * (n_arms + fading) + of_round * horizon
    require_memory(math.prod(runs) * each, "the results of this run", "keep less at a time")
    try:
        return Output(
            checkpoints=marks,
            counts=np.zeros((*runs, len(marks), n_arms), np.int64),
            loss=np.zeros((*runs, len(marks) if fading else 0)),
            choices=np.zeros((*runs, horizon if "choices" in recorded else 0), np.int32),
            losses=np.zeros((*runs, horizon if "losses" in recorded else 0)),
        )
    except (MemoryError, ValueError) as error:
        raise InvalidInput(f"the results do not fit into memory: {error}; keep less") from None


def _arms_known_at_start(scenario: object, policy: Policy, n_arms: int) -> int:
    """Return with how many arms a policy starts, or say what is wrong with a scenario."""
    checked = require_scenario(scenario)
    if checked is None:
        return n_arms
    if checked.arrivals and policy.privileged:
        raise NotApplicable(
            f"{type(policy).__name__} knows the instance and all of its arms, so that none can "
            "arrive; give every arm from the start, or choose a policy that is told nothing"
        )
    return checked.arms_at_start(n_arms)


def _check_times(
    scenario: Scenario | None, world: Sequence[Instance], policy: Policy, horizon: int
) -> bool:
    """Tell whether rounds have times; raise if they must, and have none."""
    if scenario is not None and scenario.has_times:
        if scenario.times is not None:
            require_times(scenario.times, horizon)
        return True
    for instance in world:
        require_no_clock(instance, "simulate")
    if policy.by_clock:
        raise InvalidInput(
            f"{policy.label:.80} has memory by the clock, so that rounds need times: give "
            "scenario=Scenario(times=…) or Scenario(session=…)"
        )
    return False


def log_spaced(horizon: int) -> Ints:
    """Return the default checkpoints 1, 2, 5, 10, 20, 50, … and the horizon itself.

    Examples
    --------
    >>> log_spaced(60)
    array([ 1,  2,  5, 10, 20, 50, 60])
    """
    marks = {m * 10**e for e in range(len(str(horizon))) for m in (1, 2, 5)}
    return np.array(sorted({m for m in marks if m < horizon} | {horizon}), np.int64)


def _check_instances(given: Instance | Sequence[Instance]) -> tuple[Instance, ...]:
    instances = (given,) if isinstance(given, Instance) else tuple(_as_iterable(given))
    if not instances or not all(isinstance(i, Instance) for i in instances):
        raise InvalidInput(f"instances must be one Instance or several, got {abbreviate(given)}")
    sizes = {instance.n_arms for instance in instances}
    if len(sizes) > 1:
        raise InvalidInput(f"instances must have the same number of arms, got {sorted(sizes)}")
    return instances


def _label(given: Sequence[Policy | str] | Mapping[str, Policy | str]) -> dict[str, Policy]:
    """Return several policies by name, all of them checked before the first one plays."""
    if isinstance(given, Mapping):
        players = {str(name): take_policy(policy) for name, policy in given.items()}
    else:
        policies = [take_policy(policy) for policy in given]
        require_labels(policies)
        players = {policy.label: policy for policy in policies}
    if not players:
        raise InvalidInput("policy must be a Policy or several, got none")
    return players


def _keep(given: Any) -> Any:
    """Return what can be gone through again."""
    return list(given) if isinstance(given, Iterator) else given


def _check_record(given: str | Iterable[str] | None) -> set[str]:
    """Return what is to be recorded."""
    wanted = (
        {given} if isinstance(given, str) else set() if given is None else set(_as_iterable(given))
    )
    if not wanted <= {"choices", "losses"} or (given is not None and not wanted):
        raise InvalidInput(f'record must be None, "choices", "losses" or both, got {given!r:.80}')
    return wanted


def _as_iterable(given: object) -> Iterable[Any]:
    return given if isinstance(given, Iterable) else ()


def _check_seeds(given: int | Iterable[int]) -> npt.NDArray[np.uint64]:
    if not isinstance(given, Iterable):
        given = range(whole_number("seeds", given, 1))
    if isinstance(given, range):  # of any length: nothing of it is there yet
        several = max(0, -((given.start - given.stop) // given.step))
        require_memory(several * BYTES_PER_SEED, f"{several:,} seeds", "play fewer at a time")
    seeds = [whole_number("seed", seed) for seed in given]
    if not seeds:
        raise InvalidInput(f"seeds must be whole numbers, got {abbreviate(given)}")
    if len(set(seeds)) < len(seeds):
        raise InvalidInput("seeds must differ: equal seeds would repeat the same run")
    return np.array(seeds, np.uint64)


def _check_checkpoints(given: Iterable[int], horizon: int) -> Ints:
    marks = [whole_number("checkpoint", mark, 1) for mark in _as_iterable(given)]
    if not marks or marks[-1] > horizon or any(a >= b for a, b in itertools.pairwise(marks)):
        raise InvalidInput(
            f"checkpoints must increase within 1 … {horizon:,}, got "
            + (f"{marks[:8]}{'…' if len(marks) > 8 else ''}" if marks else f"{abbreviate(given)}")
        )
    return np.array(marks, np.int64)


def _check_numbers(given: Iterable[int] | None, instances: int) -> list[int]:
    wanted = range(instances) if given is None else _as_iterable(given)
    numbers = [whole_number("instance number", number) for number in wanted]
    if len(numbers) != instances:
        raise InvalidInput(
            f"instance_numbers must be {instances}, one for each instance, got {abbreviate(given)}"
        )
    return numbers
