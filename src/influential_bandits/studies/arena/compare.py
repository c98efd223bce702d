"""Compare policies on instances, or on families of instances: play, measure, and rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from influential_bandits.checks import abbreviate, require_horizon, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.memory import require_memory
from influential_bandits.piece_store import require_writable
from influential_bandits.policies.contract import Policy, require_labels
from influential_bandits.policies.registry import take_policy
from influential_bandits.studies.arena.comparison import Comparison, describe_settings
from influential_bandits.studies.arena.families import (
    INSTANCES,
    UNIT,
    Family,
    choose_families,
)
from influential_bandits.studies.arena.results import FamilyResult, measure_family
from influential_bandits.studies.arena.runs import (
    can_play,
    choose_checkpoints,
    cut_into_pieces,
    list_default_policies,
)
from influential_bandits.studies.runner.running import (
    Job,
    compute_pieces,
    describe_failures,
    raise_if_failed,
    read_rows,
)
from influential_bandits.studies.runner.store import RowStore, StudyFolder
from influential_bandits.studies.runner.study import Piece
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise, require_noise

__all__ = ["Comparison", "compare"]

BYTES_PER_ROW = 40  # of memory at the least: five columns
HORIZONS = (30, 100, 1000, 10**4, 10**5, 10**6)
QUICK_INSTANCES = 10
QUICK_HORIZON = 10**4
SEEDS = 10  # of a single instance


def compare(
    policies: Policy | str | Iterable[Policy | str] | None = None,
    instances: Instance | Family | str | Iterable[Instance | Family | str] | None = None,
    horizons: int | Iterable[int] | None = None,
    *,
    n_instances: int | None = None,
    seeds: int | None = None,
    noise: Noise | None = None,
    quick: bool = False,
    data: str | Path | None = None,
    out: str | Path | None = None,
    execution: Execution | int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare policies on the same instances and the same noise: paired regrets, ranks and wins.

    Parameters
    ----------
    policies : Policy or str, or several, optional
        A text is as on the command line: ``"MOSS(loss_range=2.0)"``, ``"mine.py:Greedy"``. By
        default all policies of the package, and two oracles as references.
    instances : Instance, Family or str, or several, optional
        Instances of your own, with one number of arms; or families of instances, by name
        (``"random-3"``, ``"mine.py:tiring"``) or as :class:`Family`. By default all families.
    horizons : int or iterable of int, optional
        By default 30, 100, 1,000, … as far as each family goes.
    n_instances : int, optional
        Instances of each family; by default 10 to 100, as the family says.
    seeds : int, optional
        Runs of each instance, each with noise of its own: by default one, and ten if you give a
        single instance. Intervals are over instances; of a single one, over its runs.
    noise : Noise, optional
        On the losses of instances of your own; by default normal with σ = 1. Families have theirs.
    quick : bool
        Ten instances and horizons to 10,000, where nothing else is asked for.
    data : path, optional
        MovieLens release from which the family ``"movielens"`` is learned.
    out : path, optional
        Folder for data, figures and report, as :meth:`Comparison.save` writes them. Finished pieces
        are kept there too: the same call continues after an interruption, and with another policy
        plays that policy only.
    execution : Execution or int, optional
        Where to compute: a number of threads, or an execution; by default all cores.
    progress : bool, optional
        Show a progress bar; by default on terminals and in notebooks.

    Returns
    -------
    Comparison
        Print it, or use ``to_frame()``, ``plot()`` and ``save(folder)``.

    Raises
    ------
    Unfinished
        Some instances failed; ``error.results`` is the comparison without them.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> policies = [ib.LCB(), ib.InfluentialLCB()]
    >>> found = ib.compare(policies, ib.random_instance(3, seed=6), [100, 10_000])
    >>> for row in found.rows:
    ...     print(row["policy"], row["horizon"], row["rank"])
    LCB 100 2.0
    LCB 10000 2.0
    InfluentialLCB 100 1.0
    InfluentialLCB 10000 1.0
    """
    players = _choose_policies(policies)
    wanted = _check_horizons(horizons)
    where = resolve_execution(execution)
    folder = None if out is None else Path(out)
    if folder is not None:
        require_writable(folder)
    families, notes = _choose_families(instances, data, wanted, seeds, noise)
    matches, more = _plan(families, players, wanted, n_instances, quick, every=instances is None)
    notes += more
    stores: list[RowStore] = [
        RowStore()
        if folder is None
        else StudyFolder(folder, match.family.name, describe_settings(match.family))
        for match in matches
    ]
    jobs = [
        Job(match.family.name, match.pieces, store, match.n_instances * match.family.seeds)
        for match, store in zip(matches, stores, strict=True)
    ]
    failures = compute_pieces(jobs, where, progress)
    results: list[FamilyResult] = []
    for match, job in zip(matches, jobs, strict=True):
        rows = read_rows(job, failures)
        if rows is not None:
            failed = [failure for failure in failures if failure.study == job.name]
            results.append(
                measure_family(
                    match.family,
                    match.n_arms,
                    rows,
                    match.policies,
                    match.horizons,
                    [policy.label for policy in players if policy not in match.policies],
                    describe_failures(failed),
                )
            )
    if not results:
        raise_if_failed(failures, folder)
    found = Comparison(results, notes)
    if folder is not None:
        found.save(folder)
    raise_if_failed(failures, folder, found)
    return found


@dataclass(frozen=True)
class _Match:
    """Who plays on a family, how long and on how many instances."""

    family: Family
    n_arms: int
    policies: list[Policy]
    horizons: list[int]
    n_instances: int

    def pieces(self) -> Iterator[Piece]:
        """Yield what is to be played."""
        return cut_into_pieces(self.family, self.policies, self.horizons, self.n_instances)


def _plan(
    families: list[Family],
    players: list[Policy],
    wanted: list[int],
    n_instances: int | None,
    quick: bool,
    every: bool,
) -> tuple[list[_Match], list[str]]:
    """Return what is to be played, and a line for each family that is left out."""
    if n_instances is not None:
        n_instances = whole_number("n_instances", n_instances, 1)
    matches, notes = [], []
    for family in families:
        horizons = _choose_horizons(family, wanted, quick, every)
        first = family.make(0)
        able = [policy for policy in players if can_play(policy, first)]
        if not horizons:
            notes.append(f"{family.name} was left out: it goes to T = {family.largest_horizon:,}")
        elif not able:
            notes.append(f"{family.name} was left out: no policy named has an answer there")
        else:
            number = min(family.n_instances, QUICK_INSTANCES) if quick else family.n_instances
            if n_instances is not None and family.name != INSTANCES:
                number = n_instances
            runs = number * family.seeds
            needed = runs * len(able) * len(choose_checkpoints(horizons)) * BYTES_PER_ROW
            require_memory(needed, f"{runs:,} runs of {len(able)} policies", "ask for fewer")
            matches.append(_Match(family, first.n_arms, able, horizons, number))
    if not matches:
        raise InvalidInput("nothing is left to play: " + "; ".join(notes))
    return matches, notes


def _choose_policies(given: Policy | str | Iterable[Policy | str] | None) -> list[Policy]:
    listed = _list("policies", given, Policy, str)
    players = list(dict.fromkeys(map(take_policy, listed)))
    require_labels(players)
    return players or list_default_policies()


def _choose_families(
    given: Instance | Family | str | Iterable[Instance | Family | str] | None,
    data: str | Path | None,
    wanted: list[int],
    seeds: int | None,
    noise: Noise | None,
) -> tuple[list[Family], list[str]]:
    """Return the families named, or all, and one of the instances given; and notes."""
    listed = _list("instances", given, Instance, Family, str)
    own = [each for each in listed if isinstance(each, Instance)]
    named = [each for each in listed if not isinstance(each, Instance)]
    if seeds is not None:
        seeds = whole_number("seeds", seeds, 1)
    families: list[Family] = []
    notes: list[str] = []
    if named or not own:
        families, notes = choose_families(named, None if data is None else Path(data))
        families = [replace(family, seeds=seeds or family.seeds) for family in families]
    if own:
        if INSTANCES in [family.name for family in families]:
            raise InvalidInput(f"two families are called {INSTANCES!r}; give one another name")
        if len({instance.n_arms for instance in own}) > 1:
            numbers = ", ".join(str(instance.n_arms) for instance in own)
            raise InvalidInput(
                f"instances must have one number of arms, got {numbers}; compare them one by one"
            )
        families.append(
            Family(
                INSTANCES,
                "One instance of your own" if len(own) == 1 else "Instances of your own",
                own.__getitem__,
                len(own),
                max(wanted, default=10**5),
                require_noise(noise or UNIT),
                seeds=seeds or (SEEDS if len(own) == 1 else 1),
            )
        )
    elif noise is not None:
        raise InvalidInput("noise is for instances of your own; families have theirs")
    return families, notes


def _check_horizons(given: int | Iterable[int] | None) -> list[int]:
    if given is None:
        return []
    listed: Iterable[object] = given if isinstance(given, Iterable) else [given]
    return sorted({require_horizon(each) for each in listed})


def _choose_horizons(family: Family, wanted: list[int], quick: bool, every: bool) -> list[int]:
    """Return the horizons to play; a family that the user named must go as far as they ask."""
    largest = family.largest_horizon
    if not wanted:
        most = min(largest, QUICK_HORIZON) if quick else largest
        return [horizon for horizon in HORIZONS if horizon <= most]
    if not every and wanted[-1] > largest:
        raise InvalidInput(
            f"the family {family.name} goes to T = {largest:,}, got the horizon {wanted[-1]:,}"
        )
    return [horizon for horizon in wanted if horizon <= largest]


def _list(what: str, given: Any, *kinds: type) -> list[Any]:
    """Return one thing, or several of these kinds, as a list."""
    if given is None:
        return []
    listed = [given] if isinstance(given, kinds) else given
    names = " or ".join("text" if kind is str else kind.__name__ for kind in kinds)
    if not isinstance(listed, Iterable):
        raise InvalidInput(f"{what} must be {names}, or several, got {abbreviate(given)}")
    listed = list(listed)
    if not listed:
        raise InvalidInput(f"{what} are empty; leave them out for all that the package has")
    for each in listed:
        if not isinstance(each, kinds):
            raise InvalidInput(
                f"each of {what} must be {names}, got {' '.join(abbreviate(each).split())}"
            )
    return listed
