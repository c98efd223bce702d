"""Anybody's log: fit a model, or say whether there is influence in it, in words and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.influence_test import influence_test
from influential_bandits.learning.influence_test_result import InfluenceTest
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_evidence import describe_support
from influential_bandits.learning.selection import Validation, choose, list_choosable
from influential_bandits.logs.log import EventLog
from influential_bandits.piece_store import make_folder, require_writable
from influential_bandits.studies.logs.sections import (
    SHORT,
    interaction_section,
    ladder_section,
    log_section,
    test_section,
)
from influential_bandits.studies.report.content import Analysis, Section
from influential_bandits.studies.report.results import draw_figures, write_results

__all__ = ["Diagnosis", "describe_model", "diagnose_log", "fit_log"]

TITLE = "Influential bandits: does the past change what comes next?"


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What a log says about influence."""

    verdict: str
    ladder: Validation
    test: InfluenceTest | None
    model: InfluenceModel
    sections: list[Section]

    def __repr__(self) -> str:
        """Say the verdict in a line."""
        return f"Diagnosis({self.verdict.splitlines()[0]!r})"


def diagnose_log(
    log: EventLog,
    out: Path | None = None,
    *,
    half_life: float | None = None,
    permutations: int = 999,
    seed: int = 0,
    progress: bool | None = None,
    execution: Execution | int | None = None,
) -> Diagnosis:
    """Look at a log in every way, and write report, summary and model into a folder.

    Models are fitted by the execution; the test of influence runs on this computer.
    """
    if out is not None:
        require_writable(out)
    bar = Progress("diagnosis", 4, progress)
    bar.show()
    sections = [log_section(log)]
    base = InfluenceModel("symmetric", drift=True, pooling="full", half_life=half_life, seed=seed)
    section, found, chosen = ladder_section(log, base, execution=execution)
    sections.append(section)
    _advance(bar)
    try:
        how: dict[str, Any] = {"permutations": permutations, "seed": seed, "execution": execution}
        test = influence_test(log, half_life=half_life, **how)
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
        _save(model, log, out / "model.json", execution)
    _advance(bar)
    bar.close()
    return Diagnosis(verdict, found, test, model, sections)


def _advance(bar: Progress) -> None:
    bar.done += 1
    bar.show()


def fit_log(
    log: EventLog,
    out: Path,
    model: InfluenceModel,
    settings: Sequence[str] = ("memory", "ridge"),
    execution: Execution | int | None = None,
) -> InfluenceModel:
    """Fit a model to a log and write it as JSON; these settings are chosen by validation."""
    require_writable(out.parent)
    model.check_settings()
    if list_choosable(model, settings):
        how: dict[str, Any] = {"settings": settings, "fit": False, "progress": False}
        model, _ = choose(log, model, execution=execution, **how)
    model.fit(log, execution=execution)
    if not out.parent.is_dir():
        make_folder(out.parent)
    _save(model, log, out, execution)
    return model


def _save(
    model: InfluenceModel, log: EventLog, out: Path, execution: Execution | int | None
) -> None:
    """Write a model with what a plan needs beside it."""
    kept = {key: value for key, value in log.about.items() if isinstance(value, SHORT)}
    model.about_ = {"log": kept} | describe_support(model, log, execution)
    model.save(out)


def describe_model(model: InfluenceModel) -> str:
    """Say what was fitted, and the strongest influences."""
    fading = f"memory {model.memory:g} per event"
    if model.half_life is not None:
        fading = f"half-life {model.half_life:g} days"
    noise = model.noise().sigma
    drift = "on" if model.drift else "off"
    kind = f"{model.interaction} interaction of {len(model.arm_names_)} arms, {fading}"
    lines = [f"{kind}, ridge {model.ridge:g}, drift {drift}, noise {noise:.3g}; {model.status_}"]
    matrix = model.interaction_
    low, high = model.interval()["interaction"]
    pairs = [(i, j) for i in range(len(matrix)) for j in range(len(matrix)) if i >= j]
    if model.interaction == "free":
        pairs = [(i, j) for i in range(len(matrix)) for j in range(len(matrix))]
    pairs.sort(key=lambda pair: -abs(matrix[pair]))
    lines.append("Strongest entries of the interaction (loss of one after a pull of the other):")
    for i, j in pairs[:8]:
        who = model.arm_names_[i] if i == j else f"{model.arm_names_[i]} – {model.arm_names_[j]}"
        lines.append(f"  {who:40} {matrix[i, j]:+.4g}  ({low[i, j]:+.4g} … {high[i, j]:+.4g})")
    return "\n".join(lines)
