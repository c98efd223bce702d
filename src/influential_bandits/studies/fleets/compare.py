"""Compare fleets with policies that serve users one by one: play, measure, and write down."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits import __version__
from influential_bandits.checks import abbreviate, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.memory import require_memory
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.optima.fading import fading_lower_bound
from influential_bandits.optima.path import optimum
from influential_bandits.piece_store import require_writable
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.fleet.policy import FleetLCB
from influential_bandits.policies.model_lcb.policy import ModelLCB
from influential_bandits.studies.fleets.comparison import FleetComparison, describe_family
from influential_bandits.studies.fleets.players import (
    KNOWN,
    Player,
    list_default_players,
    require_player,
)
from influential_bandits.studies.fleets.populations import (
    FIRST_POPULATION,
    PopulationFamily,
    choose_populations,
)
from influential_bandits.studies.fleets.standings import (
    BOUND,
    OPTIMUM,
    FleetResult,
    measure_fleets,
)
from influential_bandits.studies.runner.rows import Rows
from influential_bandits.studies.runner.running import (
    Failure,
    compute_rows,
    describe_failures,
    raise_if_failed,
)
from influential_bandits.studies.runner.store import RowStore, StudyFolder
from influential_bandits.studies.runner.study import Piece, make_file_name
from influential_bandits.world.noise import Noise
from influential_bandits.world.population import Population

__all__ = ["FleetComparison", "compare_fleets"]

USERS = 1000
QUICK_USERS, QUICK_POPULATIONS = 200, 2
BYTES_PER_ROW = 40  # of memory at the least: five columns
COLD = ModelLCB().label
BASES = (COLD, KNOWN)  # ratios and differences are to these


def compare_fleets(
    policies: object = None,
    populations: str | Population | PopulationFamily | Iterable[Any] | None = None,
    n_users: int | None = None,
    *,
    n_populations: int | None = None,
    first: int = 0,
    quick: bool = False,
    data: str | Path | None = None,
    out: str | Path | None = None,
    execution: Execution | int | None = None,
    progress: bool | None = None,
) -> FleetComparison:
    """Compare a fleet with policies that start anew with each user, on the same users and noise.

    Parameters
    ----------
    policies : policy or str, or several, optional
        :class:`FleetLCB` serves all users with what it learned from all; any other
        :class:`Policy` starts anew with each user. A text is as on the command line: ``"LCB"``,
        ``"all users as one: LCB"`` for one state that ignores who the user is, or ``"A known"``
        for the reference that knows each user's interaction. By default the fleet, cold
        ``ModelLCB``, ``LCB`` and ``InfluentialLCB``, one that ignores who the user is, and two
        references.
    populations : str or Population, or several, optional
        Families by name, such as ``"small-5x100"``, or populations of your own. By default all
        families.
    n_users : int, optional
        Users of each population; by default 1,000.
    n_populations : int, optional
        How many of each family; by default 10. Intervals are over them; of a single one, over its
        users. Of a population of your own, so many draws of its users.
    first : int
        Number of the first population: whoever has tuned on some, compares on others.
    quick : bool
        200 users and two populations, where nothing else is asked for.
    data : path, optional
        MovieLens release from which the family ``"movielens"`` is learned.
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
    >>> found = ib.compare_fleets(["LCB", "A known"], population, 60, n_populations=2)
    >>> late = {row["policy"]: row["mean_regret"] for row in found.rows if row["last_user"] == 60}
    >>> late["A known"] < late["LCB"]
    True
    """
    players = _choose_players(policies)
    where = resolve_execution(execution)
    folder = None if out is None else Path(out)
    if folder is not None:
        require_writable(folder)
    path = None if data is None else Path(data)
    families, notes = choose_populations(_list(populations), path)
    users = QUICK_USERS if quick else USERS
    users = users if n_users is None else whole_number("n_users", n_users, 1)
    if n_populations is not None:
        n_populations = whole_number("n_populations", n_populations, 1)
    first = whole_number("first", first)
    results: list[FleetResult] = []
    failures: list[Failure] = []
    for family in families:
        many = n_populations or (
            min(family.populations, QUICK_POPULATIONS) if quick else family.populations
        )
        able = [p for p in players if p.can_serve(family.make(0), family.noise)]
        if not able:
            notes.append(f"{family.name} was left out: no policy named has an answer there")
            continue
        needed = many * users * (len(able) + 1) * BYTES_PER_ROW
        require_memory(needed, f"{many * users:,} users of {len(able)} policies", "ask for fewer")
        store = (
            RowStore()
            if folder is None
            else StudyFolder(folder, family.name, describe_family(family))
        )
        pieces = functools.partial(
            _cut_into_pieces, family, able, users, range(first, first + many)
        )
        rows, failed = compute_rows(family.name, pieces, store, where, progress)
        failures += failed
        if rows is not None:
            absent = [player.label for player in players if player not in able]
            results.append(_measure(family, able, rows, users, absent, describe_failures(failed)))
    if not results:
        raise_if_failed(failures, folder)
        raise InvalidInput("nothing is left to play: " + "; ".join(notes))
    found = FleetComparison(results, notes)
    if folder is not None:
        found.save(folder)
    raise_if_failed(failures, folder, found)
    return found


def _choose_players(given: object) -> list[Player]:
    players = [require_player(each) for each in _list(given)] or list_default_players()
    labels = [player.label for player in players]
    twice = [label for n, label in enumerate(labels) if label in labels[:n]]
    if twice:
        raise InvalidInput(f"two of the policies are called {twice[0]}; name each once")
    return players


def _list(given: object) -> list[Any]:
    """Return one thing or several as a list; nothing is an empty one."""
    single = (str, Policy, FleetLCB, Player, Population, PopulationFamily)
    if given is None:
        return []
    if isinstance(given, single):
        return [given]
    if not isinstance(given, Iterable):
        raise InvalidInput(f"expected one or several, got {abbreviate(given)}")
    listed = list(given)
    if not listed:
        raise InvalidInput("got an empty list; leave it out for all that the package has")
    return listed


def _cut_into_pieces(
    family: PopulationFamily, players: Sequence[Player], n_users: int, numbers: Iterable[int]
) -> Iterator[Piece]:
    """Yield every player on each population, and the benchmark.

    The name of a piece hashes every input, and the source of the package, which decides what a
    fleet does.
    """
    for number in numbers:
        population = family.make(number)
        inputs = (package_digest(), population.to_json(), family.noise, family.noise.code_digest)
        task = (population, n_users, family.noise, FIRST_POPULATION + number, number)
        name = f"benchmark-{_hash(*inputs, n_users)}-{number:05d}"
        yield Piece(name, functools.partial(_bound, *task), range(number, number + 1))
        for player in players:
            digest = _hash(*inputs, n_users, player.digest)
            name = f"{make_file_name(player.label)}-{digest}-{number:05d}"
            compute = functools.partial(_play, player, *task)
            yield Piece(name, compute, range(number, number + 1))


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr((__version__, *parts)).encode()).hexdigest()[:12]


def _play(
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


def _bound(
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
    return _make_rows(OPTIMUM if lasting else BOUND, number, users.stays, np.array(losses))


def _make_rows(policy: str, number: int, stays: Any, losses: Any) -> Rows:
    many = len(losses)
    return {
        "instance": np.full(many, number),
        "policy": np.array([policy] * many, object),
        "user": np.arange(many),
        "rounds": np.asarray(stays),
        "loss": np.asarray(losses),
    }


def _measure(
    family: PopulationFamily,
    players: Sequence[Player],
    rows: Rows,
    n_users: int,
    absent: list[str],
    failures: list[str],
) -> FleetResult:
    population = family.make(0)

    def select(policy: str, column: str) -> Any:
        chosen = rows["policy"] == policy
        order = np.lexsort((rows["user"][chosen], rows["instance"][chosen]))
        return rows[column][chosen][order].reshape(-1, n_users)

    benchmark = OPTIMUM if population.memory == 1.0 else BOUND
    best, stays = select(benchmark, "loss"), select(benchmark, "rounds")
    labels = [player.label for player in players]
    losses = {label: select(label, "loss") for label in labels}
    return FleetResult(
        family=family,
        n_arms=population.n_arms,
        n_users=n_users,
        n_populations=len(best),
        memory=population.memory,
        players=labels,
        reference=np.array([bool(player.reference) for player in players]),
        rows=rows,
        absent=absent,
        failures=failures,
        **measure_fleets(losses, best, stays, BASES),
    )
