"""Compare policies on instances, populations, or families of either: play, measure, and rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from influential_bandits.checks import abbreviate, require_horizon, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.files import require_writable
from influential_bandits.free_memory import require_memory
from influential_bandits.policies.contract import Policy, require_labels
from influential_bandits.policies.registry import take_policy
from influential_bandits.studies.compare import fleet_runs, instance_runs
from influential_bandits.studies.compare.comparison import (
    Comparison,
    FamilyComparison,
    FleetComparison,
)
from influential_bandits.studies.compare.families import (
    INSTANCES,
    UNIT,
    Family,
    choose_families,
)
from influential_bandits.studies.compare.fleet_results import measure_fleets
from influential_bandits.studies.compare.instance_results import measure_family
from influential_bandits.studies.compare.instance_runs import (
    can_play,
    choose_checkpoints,
    count_pieces,
    list_default_policies,
)
from influential_bandits.studies.compare.players import (
    Player,
    list_default_players,
    require_player,
)
from influential_bandits.studies.compare.populations import PopulationFamily, choose_populations
from influential_bandits.studies.compare.results import Result, describe_settings
from influential_bandits.studies.runner.rows import Rows
from influential_bandits.studies.runner.running import (
    Job,
    compute_jobs,
    describe_failures,
    raise_if_failed,
)
from influential_bandits.studies.runner.store import RowStore, StudyFolder
from influential_bandits.studies.runner.study import Piece
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise, require_noise
from influential_bandits.world.population import Population

BYTES_PER_ROW = 40  # of memory at the least: five columns
NOBODY = "{} was left out: no policy named has an answer there"
# compare
HORIZONS = (30, 100, 1000, 10**4, 10**5, 10**6)
QUICK_INSTANCES = 10
QUICK_HORIZON = 10**4
SEEDS = 10  # of a single instance
# compare_fleets
USERS = 1000
QUICK_USERS, QUICK_POPULATIONS = 200, 2

AnyComparison = TypeVar("AnyComparison", bound=FamilyComparison)


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
    """Compare policies on the same instances and the same noise: paired regrets and ranks.

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
    >>> comparison = ib.compare(policies, ib.random_instance(3, seed=6), [100, 10_000])
    >>> for row in comparison.rows:
    ...     print(row["policy"], row["horizon"], row["rank"])
    LCB 100 2.0
    LCB 10000 2.0
    InfluentialLCB 100 1.0
    InfluentialLCB 10000 1.0
    """
    players = _choose_policies(policies)
    wanted = _check_horizons(horizons)
    where, folder = _check_places(execution, out)
    families, notes = _choose_families(instances, data, wanted, seeds, noise)
    if n_instances is not None:
        n_instances = whole_number("n_instances", n_instances, 1)
    contests: list[Contest] = []
    for family in families:
        marks = _choose_horizons(family, wanted, quick, every=instances is None)
        first = family.make(0)
        able = [policy for policy in players if can_play(policy, first)]
        absent = [policy.label for policy in players if policy not in able]
        number = min(family.n_instances, QUICK_INSTANCES) if quick else family.n_instances
        if n_instances is not None and family.name != INSTANCES:
            number = n_instances
        if not marks:
            notes.append(f"{family.name} was left out: it goes to T = {family.largest_horizon:,}")
        elif not able:
            notes.append(NOBODY.format(family.name))
        else:
            runs, many = number * family.seeds, len(able)
            contests.append(
                Contest(
                    family,
                    instance_runs.cut_into_pieces(family, able, marks, number),
                    count_pieces(runs, many, first.memory < 1.0),
                    runs * many * len(choose_checkpoints(marks)),
                    f"{runs:,} runs of {many} policies",
                    runs,
                    partial(measure_family, family, first.n_arms, able, marks, absent),
                )
            )
    return _play(contests, notes, Comparison, folder, where, progress)


def compare_fleets(
    policies: object = None,
    populations: str | Population | PopulationFamily | Iterable[Any] | None = None,
    n_users: int | None = None,
    *,
    n_populations: int | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    execution: Execution | int | None = None,
    progress: bool | None = None,
) -> FleetComparison:
    """Compare a fleet with policies that start anew with each user, on the same users and noise.

    Parameters
    ----------
    policies : policy or str, or several, optional
        A :class:`Policy` starts anew with each user. A text is as on the command line: ``"LCB"``,
        ``"fleet: Foresight"``, which serves all users with what it learned from all, ``"all users
        as one: LCB"`` for one state that ignores who the user is, or ``"A known"`` for the
        reference that knows each user's interaction. By default the fleet, cold ``Foresight``,
        ``LCB`` and ``InfluentialLCB``, one that ignores who the user is, and two references.
    populations : str or Population, or several, optional
        Families by name, such as ``"small-5x100"``, or populations of your own. By default all
        families.
    n_users : int, optional
        Users of each population; by default 1,000.
    n_populations : int, optional
        How many of each family; by default 10. Intervals are over them; of a single one, over its
        users. Of a population of your own, so many draws of its users.
    quick : bool
        200 users and two populations, where nothing else is asked for.
    out : path, optional
        Folder for data, figures and report. Finished pieces are kept there too: the same call
        continues after an interruption.
    execution : Execution or int, optional
        Where to compute: a number of threads, or an execution; by default all cores.
    progress : bool, optional
        Show a progress bar; by default on terminals and in notebooks.

    Returns
    -------
    FleetComparison
        Mean regrets of a user, among the first 50, up to the 500th, and later. Print it, or use
        ``to_frame()``, ``plot()`` and ``save(folder)``.

    Raises
    ------
    Unfinished
        Some populations failed; ``error.results`` is the comparison without them.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> population = ib.Population([[0.1, 0.0], [0.0, 0.1]], [0.0, 0.5], 0.49, stay=30)
    >>> comparison = ib.compare_fleets(["LCB", "A known"], population, 60, n_populations=2)
    >>> late = {
    ...     row["policy"]: row["mean_regret"] for row in comparison.rows if row["last_user"] == 60
    ... }
    >>> late["A known"] < late["LCB"]
    True
    """
    players = _choose_players(policies)
    where, folder = _check_places(execution, out)
    listed = _list(
        "populations", populations, {"Population": Population, "family": PopulationFamily}
    )
    families, notes = choose_populations(listed), list[str]()
    users = QUICK_USERS if quick else USERS
    users = users if n_users is None else whole_number("n_users", n_users, 1)
    if n_populations is not None:
        n_populations = whole_number("n_populations", n_populations, 1)
    contests: list[Contest] = []
    for family in families:
        number = min(family.populations, QUICK_POPULATIONS) if quick else family.populations
        numbers = range(n_populations or number)
        population = family.make(0)
        able = [player for player in players if player.can_serve(population, family.noise)]
        absent = [player.label for player in players if player not in able]
        if not able:
            notes.append(NOBODY.format(family.name))
            continue
        many = len(numbers) * (len(able) + 1)  # with the benchmark
        contests.append(
            Contest(
                family,
                fleet_runs.cut_into_pieces(family, able, users, numbers),
                many,
                many * users,
                f"{len(numbers) * users:,} users of {len(able)} policies",
                None,
                partial(measure_fleets, family, population, able, users, absent),
            )
        )
    return _play(contests, notes, FleetComparison, folder, where, progress)


class Contest(NamedTuple):
    """What is to be played on a family, and what then is made of it."""

    family: Family | PopulationFamily
    pieces: Iterator[Piece]
    n_pieces: int
    n_rows: int
    size: str  # in words
    runs: int | None  # of each policy, where they can be told apart
    measure: Callable[[Rows, list[str]], Result]  # from rows, and what failed

    def job(self, folder: Path | None) -> Job:
        """Return the job, with a store in the folder if one was named."""
        name = self.family.name
        store = RowStore()
        if folder is not None:
            store = StudyFolder(folder, name, describe_settings(self.family))
        return Job(name, self.pieces, self.n_pieces, store, self.runs)


def _check_places(
    execution: Execution | int | None, out: str | Path | None
) -> tuple[Execution, Path | None]:
    """Return where to compute, and a folder that can be written to, if one was named."""
    folder = None if out is None else Path(out)
    where = resolve_execution(execution)
    if folder is not None:
        require_writable(folder)
    return where, folder


def _play(
    contests: Sequence[Contest],
    notes: list[str],
    comparison: Callable[[list[Any], list[str]], AnyComparison],
    folder: Path | None,
    execution: Execution,
    progress: bool | None,
) -> AnyComparison:
    """Play on all families, measure what was played, and write it if a folder was named."""
    if not contests:
        raise InvalidInput("nothing is left to play: " + "; ".join(notes))
    for contest in contests:
        require_memory(contest.n_rows * BYTES_PER_ROW, contest.size, "ask for fewer")
    computed = compute_jobs([contest.job(folder) for contest in contests], execution, progress)
    failures = [failure for _, failed in computed for failure in failed]
    results = [
        contest.measure(rows, describe_failures(failed))
        for contest, (rows, failed) in zip(contests, computed, strict=True)
        if rows is not None
    ]
    if not results:
        raise_if_failed(failures, folder)
    outcome = comparison(results, notes)
    if folder is not None:
        outcome.save(folder)
    raise_if_failed(failures, folder, outcome)
    return outcome


def _choose_policies(given: Policy | str | Iterable[Policy | str] | None) -> list[Policy]:
    listed = _list("policies", given, {"Policy": Policy})
    players = list(dict.fromkeys(map(take_policy, listed)))
    require_labels(players)
    return players or list_default_policies()


def _choose_players(given: object) -> list[Player]:
    kinds: dict[str, type] = {"Policy": Policy, "player": Player}
    players = [require_player(each) for each in _list("policies", given, kinds)]
    labels = [player.label for player in players]
    twice = [label for n, label in enumerate(labels) if label in labels[:n]]
    if twice:
        raise InvalidInput(f"two of the policies are called {twice[0]}; name each once")
    return players or list_default_players()


def _choose_families(
    given: Instance | Family | str | Iterable[Instance | Family | str] | None,
    data: str | Path | None,
    wanted: list[int],
    seeds: int | None,
    noise: Noise | None,
) -> tuple[list[Family], list[str]]:
    """Return the families named, or all, and one of the instances given; and notes."""
    listed = _list("instances", given, {"Instance": Instance, "Family": Family})
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


def _list(what: str, given: Any, kinds: dict[str, type]) -> list[Any]:
    """Return one thing, or several of these kinds or texts, as a list; nothing is an empty one."""
    if given is None:
        return []
    kinds = kinds | {"text": str}
    types, names = tuple(kinds.values()), " or ".join(kinds)
    listed = [given] if isinstance(given, types) else given
    if not isinstance(listed, Iterable):
        raise InvalidInput(f"{what} must be {names}, or several, got {abbreviate(given)}")
    listed = list(listed)
    if not listed:
        raise InvalidInput(f"{what} are empty; leave them out for all that the package has")
    for each in listed:
        if not isinstance(each, types):
            raise InvalidInput(
                f"each of {what} must be {names}, got {' '.join(abbreviate(each).split())}"
            )
    return listed
