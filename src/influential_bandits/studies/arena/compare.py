"""Compare policies on families of instances: play, measure, and write it all down."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from influential_bandits.checks import checked_horizon, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import chosen_execution
from influential_bandits.files import write_json
from influential_bandits.memory import require_memory
from influential_bandits.piece_store import make_folder, require_writable
from influential_bandits.policies.contract import Policy, require_labels
from influential_bandits.policies.registry import policy_from_text
from influential_bandits.studies.arena.contest import Contest, contest_of, wins
from influential_bandits.studies.arena.families import (
    FIRST_INSTANCE,
    LEARNED,
    Family,
    chosen_families,
)
from influential_bandits.studies.arena.report_sections import family_section, overview_section
from influential_bandits.studies.arena.runs import (
    applies,
    default_policies,
    marks_of,
    pieces,
)
from influential_bandits.studies.arena.standings import summary_rows
from influential_bandits.studies.runner.running import (
    Failure,
    draw_all,
    finished_rows,
    left_out,
    progress_bar,
    report_failures,
    write_results,
)
from influential_bandits.studies.runner.store import StudyFolder, provenance
from influential_bandits.studies.runner.study import Section

__all__ = ["Comparison", "compare"]

BYTES_PER_ROW = 40  # of memory at the least: five columns
HORIZONS = (30, 100, 1000, 10**4, 10**5, 10**6)
QUICK_INSTANCES = 10
QUICK_HORIZON = 10**4
TITLE = "Influential bandits: policies compared"
INTRODUCTION = (
    "Every policy meets the same instances and the same noise, so that differences are paired. "
    "Intervals are 95 % and over instances; references know the instance and are not ranked."
)


@dataclass(frozen=True)
class FamilySettings:
    """What the rows of a family depend on beside the policies, instances and horizons."""

    family: str
    first_instance: int
    noise: str
    source: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """All families, played and measured."""

    contests: list[Contest]
    sections: list[Section]
    rows: list[dict[str, Any]]  # of summary.json
    notes: list[str]


def compare(
    policies: Sequence[str],
    families: Sequence[str],
    horizons: Sequence[str | int],
    out: Path,
    *,
    seeds: int | None = None,
    quick: bool = False,
    data: Path | None = None,
    execution: Execution | None = None,
    console: Console | None = None,
) -> Comparison:
    """Play policies on families into a folder; finished pieces found there are taken as they are.

    Parameters
    ----------
    policies, families, horizons
        By name, those of one's own as ``file.py:name``; where none is named, the defaults.
    seeds : int, optional
        Instances of each family; by default what the family says.
    quick : bool
        Few instances and short horizons where none are named.
    """
    players = chosen_policies(policies)
    wanted = _checked_horizons(horizons)
    if seeds is not None:
        seeds = whole_number("seeds", seeds, 1)
        needed = seeds * len(players) * len(marks_of(wanted or HORIZONS)) * BYTES_PER_ROW
        require_memory(needed, f"{seeds:,} instances of {len(players)} policies", "ask for fewer")
    where = chosen_execution(execution)
    named = list(_split(families))
    require_writable(out)
    played, notes = chosen_families(named, data)
    plan = []
    for family in played:
        mine = _horizons_of(family, wanted, quick, bool(named))
        first = family.make(0)
        able = [policy for policy in players if applies(policy, first)]
        if not mine:
            notes.append(f"{family.name} was left out: it goes to T = {family.largest_horizon:,}")
        elif not able:
            notes.append(f"{family.name} was left out: no policy named has an answer there")
        else:
            plan.append((family, first.n_arms, able, mine, seeds or _instances(family, quick)))
    if not plan:
        raise InvalidInput("nothing is left to play: " + "; ".join(notes))
    folders = [StudyFolder(out, family, _settings(family)) for family, *_ in plan]
    contests: list[Contest] = []
    sections: list[Section] = []
    failures: list[Failure] = []
    with progress_bar(console) as bar:
        for (family, arms, able, mine, instances), folder in zip(plan, folders, strict=True):
            parts = functools.partial(pieces, family, able, mine, instances)
            rows, failed = finished_rows(family.name, parts, folder, bar, where)
            failures += failed
            if rows is None:
                continue
            folder.write_rows(rows)
            absent = [policy.label for policy in players if policy not in able]
            contests.append(contest_of(family, arms, rows, able, mine, absent))
            sections.append(family_section(contests[-1]))
            sections[-1].analysis.notes.extend(left_out(failed))
            draw_all(sections[-1], folder.path)
    if not contests:
        report_failures(failures, out)
    overview = overview_section(contests, notes)
    make_folder(out / overview.name)
    draw_all(overview, out / overview.name)
    sections.insert(0, overview)
    summary = [row for contest in contests for row in _rows_of(contest)]
    write_json(out / "arena.json", _as_data(contests, notes), indent=2)
    write_results(out, sections, TITLE, INTRODUCTION, summary)
    found = Comparison(contests, sections, summary, notes)
    report_failures(failures, out, found)
    return found


def chosen_policies(texts: Iterable[str]) -> list[Policy]:
    """Return the policies that texts name, separated by commas, or the default ones."""
    players = list(dict.fromkeys(policy_from_text(text) for text in _split(texts)))
    require_labels(players)
    return players or default_policies()


def _split(texts: Iterable[str]) -> Iterable[str]:
    """Yield the parts between commas, but not those within brackets."""
    for text in texts:
        part, depth = "", 0
        for character in text + ",":
            depth += (character in "([") - (character in ")]")
            if character == "," and depth <= 0:
                if part.strip():
                    yield part.strip()
                part = ""
            else:
                part += character
        if part.strip():
            yield part.strip(" ,")


def _checked_horizons(given: Sequence[str | int]) -> list[int]:
    out = []
    for text in [part for item in given for part in str(item).split(",") if part.strip()]:
        try:
            number = float(text.replace("_", ""))
        except ValueError:
            raise InvalidInput(
                f"horizons must be whole numbers such as 1000 or 1e6, got {text.strip()!r}"
            ) from None
        out.append(checked_horizon(number))
    return sorted(set(out))


def _horizons_of(family: Family, wanted: list[int], quick: bool, named: bool) -> list[int]:
    """Return the horizons to play; a family named by the user must go as far as they ask."""
    largest = family.largest_horizon
    if not wanted:
        most = min(largest, QUICK_HORIZON) if quick else largest
        return [horizon for horizon in HORIZONS if horizon <= most]
    if named and wanted[-1] > largest:
        raise InvalidInput(
            f"the family {family.name} goes to T = {largest:,}, got the horizon {wanted[-1]:,}"
        )
    return [horizon for horizon in wanted if horizon <= largest]


def _instances(family: Family, quick: bool) -> int:
    return min(family.instances, QUICK_INSTANCES) if quick else family.instances


def _settings(family: Family) -> FamilySettings:
    return FamilySettings(family.name, FIRST_INSTANCE, repr(family.noise), family.source)


def _rows_of(contest: Contest) -> list[dict[str, Any]]:
    return summary_rows(contest.family.name, contest.found, contest.instances, contest.benchmark)


def _as_data(contests: list[Contest], notes: list[str]) -> dict[str, Any]:
    """Return what summary.json has no place for: families, wins and where it all comes from."""
    return {
        "provenance": provenance(),
        "notes": notes,
        "families": [
            asdict(_settings(contest.family))
            | {
                "line": contest.family.line,
                "arms": contest.arms,
                "instances": contest.instances,
                "left_out": contest.left_out,
                "benchmark": contest.benchmark,
                "horizons": contest.horizons,
                "absent": contest.absent,
                "learned": contest.family.name == LEARNED,
            }
            for contest in contests
        ],
        "wins": wins(contests),
    }
