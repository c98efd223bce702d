"""Anybody's log: fit a model, or say whether there is influence in it, in words and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.files import write_json
from influential_bandits.learning.influence_test import InfluenceTest, influence_test
from influential_bandits.learning.model_files import load_model, save_model
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.planning import Plan, plan
from influential_bandits.learning.selection import Validation
from influential_bandits.logs.log import EventLog
from influential_bandits.studies.logs.partitioned_fit import chosen_settings, influence_model
from influential_bandits.studies.logs.sections import (
    halves_of,
    interaction_section,
    ladder_section,
    log_section,
    mix_of,
    test_section,
)
from influential_bandits.studies.report.content import Analysis, Section
from influential_bandits.studies.report.results import draw_figures, write_results
from influential_bandits.studies.runner.store import make_folder, require_writable

__all__ = ["Diagnosis", "described", "diagnose_log", "fit_log", "plan_file"]

TITLE = "Influential bandits: does the past change what comes next?"
ABOUT_KEPT = (str, int, float, type(None))


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a log says about influence."""

    verdict: str
    ladder: Validation
    test: InfluenceTest | None
    model: InfluenceModel
    sections: list[Section]


def diagnose_log(
    log: EventLog,
    out: Path | None = None,
    *,
    half_life: float | None = None,
    permutations: int = 999,
    seed: int = 0,
    progress: bool | None = None,
    execution: Execution | None = None,
) -> Diagnosis:
    """Look at a log in every way, and write report, summary and model into a folder.

    Models are fitted by the execution; the test of influence runs on this computer.
    """
    if out is not None:
        require_writable(out)
    bar = Progress("diagnosis", 4, progress)
    bar.show()
    sections = [log_section(log)]
    base = InfluenceModel("symmetric", drift=True, pooled=True, half_life=half_life, seed=seed)
    section, found, chosen = ladder_section(log, base, execution=execution)
    sections.append(section)
    _advance(bar)
    try:
        test = influence_test(log, half_life=half_life, permutations=permutations, seed=seed)
        sections.append(test_section(test))
        words = test.summary()
    except NotApplicable as reason:
        test, words = None, f"no test of influence: {reason}"
        line = "Is there influence beyond drift, taste and chance?"
        sections.append(Section("influence-test", line, {}, Analysis([], [], [words])))
    _advance(bar)
    section, model = interaction_section(log, chosen, execution=execution)
    sections.append(section)
    _advance(bar)
    gains = "; ".join(str(gain) for gain in found.gains())
    verdict = f"{words}\nOne step ahead, squared error saved: {gains}."
    if out is not None:
        make_folder(out)
        for section in sections:
            make_folder(out / section.name)
            draw_figures(section, out / section.name)
        write_results(out, sections, TITLE, f"In short: {words.splitlines()[0]}.")
        save_model(model, out / "model.json", _about(log, model, execution))
    _advance(bar)
    bar.close()
    return Diagnosis(verdict, found, test, model, sections)


def _advance(bar: Progress) -> None:
    bar.done += 1
    bar.show()


def fit_log(
    log: EventLog,
    out: Path,
    *,
    interaction: str = "psd",
    memory: float | None = None,
    half_life: float | None = None,
    ridge: float | None = None,
    drift: bool = False,
    pooled: bool | str = True,
    seed: int = 0,
    threads: int | None = None,
    execution: Execution | None = None,
) -> InfluenceModel:
    """Fit a model to a log and write it as JSON; what is left out is chosen by validation."""
    require_writable(out.parent)
    model = influence_model(interaction, memory, half_life, ridge, drift, pooled, seed, threads)
    model = chosen_settings(log, model, memory, ridge, execution)
    model.fit(log, execution=execution)
    if not out.parent.is_dir():
        make_folder(out.parent)
    save_model(model, out, _about(log, model, execution))
    return model


def _about(
    log: EventLog, model: InfluenceModel, execution: Execution | None = None
) -> dict[str, Any]:
    """Return what a plan needs beside the model: the logged mix, and the halves' own estimates."""
    kept = {key: value for key, value in log.about.items() if isinstance(value, ABOUT_KEPT)}
    halves = halves_of(log, model, execution)
    return {"log": kept, "logged_mix": mix_of(log).tolist(), "halves": halves}


def described(model: InfluenceModel) -> str:
    """Say what was fitted, and the strongest influences."""
    fading = f"memory {model.memory:g} per event"
    if model.half_life is not None:
        fading = f"half-life {model.half_life:g} days"
    noise = model.noise().sigma
    drift = "on" if model.drift else "off"
    kind = f"{model.interaction} interaction of {len(model.arms_)} arms, {fading}"
    lines = [f"{kind}, ridge {model.ridge:g}, drift {drift}, noise {noise:.3g}; {model.status_}"]
    matrix = model.interaction_
    low, high = model.interval()["interaction"]
    pairs = [(i, j) for i in range(len(matrix)) for j in range(len(matrix)) if i >= j]
    if model.interaction == "free":
        pairs = [(i, j) for i in range(len(matrix)) for j in range(len(matrix))]
    pairs.sort(key=lambda pair: -abs(matrix[pair]))
    lines.append("Strongest entries of the interaction (loss of one after a pull of the other):")
    for i, j in pairs[:8]:
        who = model.arms_[i] if i == j else f"{model.arms_[i]} – {model.arms_[j]}"
        lines.append(f"  {who:40} {matrix[i, j]:+.4g}  ({low[i, j]:+.4g} … {high[i, j]:+.4g})")
    return "\n".join(lines)


def plan_file(
    path: Path,
    horizon: int,
    instance: str | None = None,
    days: float | None = None,
    out: Path | None = None,
) -> Plan:
    """Plan for a model in a file, and write the plan if a file is named for it."""
    model, about = load_model(path)
    found = plan(
        model,
        horizon,
        instance=instance,
        logged_mix=about.get("logged_mix"),
        halves=about.get("halves", ()),
        days_between_rounds=days,
    )
    if out is not None:
        write_json(out, found.to_json(), indent=2)
    return found
