"""Anybody's log: fit a model, or say whether there is influence in it, in words and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from influential_bandits.learning.influence_test import InfluenceTest, influence_test
from influential_bandits.learning.log import EventLog
from influential_bandits.learning.model_files import load_model, save_model
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.planning import Plan, plan
from influential_bandits.learning.validation import Validation
from influential_bandits.errors import NotApplicable
from influential_bandits.simulation.execution import Progress
from influential_bandits.studies.log_sections import (
    MEMORIES,
    halves_of,
    interaction_section,
    ladder_section,
    log_section,
    mix_of,
    test_section,
    tuned,
)
from influential_bandits.studies.running import draw_all, write_results
from influential_bandits.studies.store import make_folder
from influential_bandits.studies.study import Analysis, Section

__all__ = ["Diagnosis", "diagnose_log", "fit_log", "plan_file"]

TITLE = "Influential bandits: does the past change what comes next?"
INTRODUCTION = "A log, a ladder of models, a test of influence, and the interaction between arms."
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
) -> Diagnosis:
    """Look at a log in every way, and write report, summary and model into a folder."""
    bar = Progress("diagnosis", 4, progress)
    bar.show()
    sections = [log_section(log)]
    base = InfluenceModel("symmetric", drift=True, pooled=True, half_life=half_life, seed=seed)
    section, found, chosen = ladder_section(log, base)
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
    section, model = interaction_section(log, chosen)
    sections.append(section)
    _advance(bar)
    gains = "; ".join(str(gain) for gain in found.gains())
    verdict = f"{words}\nOne step ahead, squared error saved: {gains}."
    if out is not None:
        make_folder(out)
        for section in sections:
            make_folder(out / section.name)
            draw_all(section, out / section.name)
        write_results(out, sections, TITLE, INTRODUCTION)
        save_model(model, out / "model.json", _about(log, model))
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
) -> InfluenceModel:
    """Fit a model to a log and write it as JSON; what is left out is chosen by validation."""
    model = InfluenceModel(
        interaction,
        memory=1.0 if memory is None else memory,
        half_life=half_life,
        drift=drift,
        ridge=1.0 if ridge is None else ridge,
        pooled=pooled,
        seed=seed,
        threads=threads,
    )
    if pooled != "partial" and ridge is None:
        memories = MEMORIES if memory is None else (memory,)
        model = tuned(log, model, memories)
    elif memory is None and half_life is None:
        model.set_params(memory=tuned(log, _pooled(model)).memory)
    model.fit(log)
    if not out.parent.is_dir():
        make_folder(out.parent)
    save_model(model, out, _about(log, model))
    return model


def _pooled(model: InfluenceModel) -> InfluenceModel:
    return InfluenceModel(**(model.get_params() | {"pooled": True}))


def _about(log: EventLog, model: InfluenceModel) -> dict[str, Any]:
    """Return what a plan needs beside the model: the logged mix, and the halves' own estimates."""
    kept = {key: value for key, value in log.about.items() if isinstance(value, ABOUT_KEPT)}
    return {"log": kept, "logged_mix": mix_of(log).tolist(), "halves": halves_of(log, model)}


def plan_file(path: Path, horizon: int, instance: str | None, days: float | None) -> Plan:
    """Return the plan for a model in a file."""
    model, about = load_model(path)
    return plan(
        model,
        horizon,
        instance=instance,
        logged_mix=about.get("logged_mix"),
        halves=about.get("halves", ()),
        days_between_rounds=days,
    )
