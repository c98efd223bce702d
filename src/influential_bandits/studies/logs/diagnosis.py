"""Anybody's log: fit a model, or say whether there is influence in it, in words and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.controls import adjust_losses, require_controls
from influential_bandits.learning.frequency_caps import CapAdvice, advise_caps
from influential_bandits.learning.impact import Impact, measure_impact
from influential_bandits.learning.influence_test import covers_all_pairs, influence_test
from influential_bandits.learning.influence_test_result import InfluenceTest
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_evidence import describe_support
from influential_bandits.learning.selection import Validation, choose, list_choosable
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.interval_text import tell_apart
from influential_bandits.piece_store import make_folder, require_writable
from influential_bandits.studies.logs.sections import (
    SHORT,
    explain_end,
    impact_section,
    interaction_section,
    ladder_section,
    log_section,
    test_section,
)
from influential_bandits.studies.report.content import Analysis, Opening, Section
from influential_bandits.studies.report.results import draw_figures, write_results
from influential_bandits.world.fading import Fades, require_fading, require_one_fading

__all__ = ["Diagnosis", "describe_model", "diagnose_log", "fit_log"]

TIRING = frozenset({"fatigue", "mixed"})
TIRED = "Most tired of themselves"
STEPS = 8
TITLE = "Influential bandits: does the past change what comes next?"
INTRODUCTION = (
    "Below: what influence costs, what the log holds, whether models with influence predict "
    "better, the test of influence with its placebo checks, and which arm changes which."
)


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What a log says about influence."""

    verdict: str
    ladder: Validation
    test: InfluenceTest | None
    impact: Impact
    caps: CapAdvice | None  # where fatigue was seen
    model: InfluenceModel
    sections: list[Section]

    def __repr__(self) -> str:
        """Say the verdict in a line."""
        return f"Diagnosis({self.verdict.splitlines()[0]!r})"


def diagnose_log(
    log: EventLog,
    out: Path | None = None,
    *,
    fading: Fades | None = None,
    controls: Iterable[str] | None = None,
    all_pairs: bool | None = None,
    permutations: int = 999,
    seed: int = 0,
    progress: bool | None = None,
    execution: Execution | int | None = None,
) -> Diagnosis:
    """Look at a log in every way, and write report, summary and model into a folder.

    Losses are first freed of what controls explain, by default all that the log allows. Models are
    fitted by the execution; the test of influence runs on this computer. Of more than 40 arms each
    is looked at on itself alone, unless all pairs are asked for.
    """
    if out is not None:
        require_writable(out)
    names = require_controls(log, controls)
    bar = Progress("diagnosis", STEPS, progress)
    bar.show()
    adjusted = adjust_losses(log, controls)
    bar.count_one()
    every = covers_all_pairs(log, all_pairs)
    base = InfluenceModel(
        "symmetric" if every else "diagonal",
        drift=True,
        pooling="full",
        seed=seed,
    )
    choosable = ["fading", "ridge"]
    if fading is not None:
        base.set_params(fading=require_one_fading(fading))
        choosable.remove("fading")
    ladder, found, chosen = ladder_section(
        adjusted, base, choosable=choosable, execution=execution, chose=bar.count_one
    )
    bar.count_one()
    test: InfluenceTest | None = None
    how: dict[str, Any] = {"permutations": permutations, "seed": seed, "execution": execution}
    try:
        test = influence_test(log, fading=fading, controls=names, all_pairs=every, **how)
        tested = test_section(test, "influence-test")
        words = test.summary()
    except NotApplicable as reason:
        words = f"no test of influence: {reason}"
        line = "Is there influence beyond drift, taste and chance?"
        tested = Section("influence-test", line, {}, Analysis([], [], [words]))
    bar.count_one()
    measured = _refit(base, chosen, test).fit(adjusted, execution=execution)
    impact = measure_impact(measured, log)
    bar.count_one()
    caps: CapAdvice | None = None
    seen = test is not None and test.detected and not test.doubts
    if seen and impact.direction in TIRING:
        caps = advise_caps(measured, adjusted, impact, seed=seed, execution=execution)
    bar.count_one()
    interaction, model = interaction_section(adjusted, chosen, execution=execution)
    bar.count_one()
    headline = _headline(test, impact, found, words, caps)
    first = impact_section(impact, headline, caps, seen)
    sections = [first, log_section(log), ladder, tested, interaction]
    gains = "; ".join(str(gain) for gain in found.gains())
    verdict = f"{headline}\n{words}\nOne step ahead, squared error saved: {gains}."
    if out is not None:
        make_folder(out)
        for section in sections:
            make_folder(out / section.name)
            draw_figures(section, out / section.name)
        write_results(out, sections, TITLE, _open_report(headline), INTRODUCTION)
        _save(model, adjusted, out / "model.json", execution)
    bar.count_one()
    bar.close()
    return Diagnosis(verdict, found, test, impact, caps, model, sections)


def _open_report(headline: str) -> Opening:
    """Say the verdict, what to do, and what would prove it; single arms are in the picture."""
    lines = [line for line in headline.splitlines() if not line.startswith(TIRED)][:3]
    return Opening([line[:1].upper() + line[1:] for line in lines], "impact", "arms")


def _refit(
    base: InfluenceModel, chosen: InfluenceModel, test: InfluenceTest | None
) -> InfluenceModel:
    """Return the model that impact is measured by, with the memory that showed most."""
    fading = test.fading if test is not None and test.detected else chosen.fading
    return InfluenceModel(**base.get_params() | {"ridge": chosen.ridge, "fading": fading})


def _headline(
    test: InfluenceTest | None,
    impact: Impact,
    found: Validation,
    words: str,
    caps: CapAdvice | None,
) -> str:
    """Say what was found, so that no part of the report says otherwise."""
    if test is None:
        return words.splitlines()[0]
    if not test.detected:
        gain = found.gain("self-fatigue", "drift")
        lines = [f"no influence was seen beyond drift and controls (p = {test.p_value:.2g})"]
        share = impact.share.scale(100.0)
        value, low, high = tell_apart(share.value, share.low, share.high, ".2g")
        lines.append(
            f"Influence on {impact.outcome} by the fitted model: {value} % "
            f"({low} … {high}), not beyond chance by the test."
        )
        if gain.low > 0.0:
            lines.append(
                f"Counts of past showings predict better ({gain}), but the test does not show that "
                "this is influence: a trend along histories does the same."
            )
        return "\n".join(lines)
    if test.doubts:
        return (
            f"not proof of influence: {test.doubts[0].name} seem to act on losses as well "
            f"({test.doubts[0].meaning})"
        )
    lines = [f"{impact.headline()} (p = {test.p_value:.2g})"]
    if impact.direction in TIRING:
        lines += _advise(impact, caps)
    return "\n".join(lines)


def _advise(impact: Impact, caps: CapAdvice | None) -> list[str]:
    """Say what to do about it, and how large an A/B test would have to be."""
    tired = sorted(
        ((name, cost) for name, cost in impact.arms.items() if cost.sign > 0),
        key=lambda pair: -pair[1].value,
    )
    lines = []
    if tired:
        names = ", ".join(f"{name} ({cost})" for name, cost in tired[:3])
        lines.append(f"{TIRED}: {names}; {impact.half_gone}.")
    if caps is not None:
        lines.append(str(caps))
    gain, what = impact.lost.value / 2.0, "half of the loss saved"
    if caps is not None and caps.caps:
        gain, what = caps.gain.value, "that gain"
    if gain > 0.0:
        lines.append(
            f"An A/B test that is to see {what} ({gain:.2g} per event) needs about "
            f"{impact.users_needed(gain):,} instances on each side."
        )
    return lines


def fit_log(
    log: EventLog,
    out: Path,
    model: InfluenceModel,
    settings: Sequence[str] = ("fading", "ridge"),
    execution: Execution | int | None = None,
    *,
    controls: Iterable[str] | None = (),
) -> InfluenceModel:
    """Fit a model to a log and write it as JSON; these settings are chosen by validation.

    Losses are first freed of what controls explain; None for all that the log allows.
    """
    require_writable(out.parent)
    model.check_settings()
    log = adjust_losses(log, controls)
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
    fading = require_fading(model.fading)
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
        entry = (float(matrix[i, j]), float(low[i, j]), float(high[i, j]))
        value, below, above = tell_apart(*entry, "+.2g")
        note = explain_end(*entry)
        lines.append(f"  {who:40} {value}  ({below} … {above}{note and '; ' + note})")
    return "\n".join(lines)
