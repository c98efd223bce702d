"""Anybody's log: fit a model, or say whether there is influence in it, in words and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from influential_bandits.execution.base import Execution
from influential_bandits.files import make_folder, require_writable
from influential_bandits.learning.controls import adjust_losses
from influential_bandits.learning.examination import Examination, examine_log
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.selection import choose, list_choosable
from influential_bandits.logs.log import EventLog
from influential_bandits.studies.logs.sections import (
    SHORT,
    cost_section,
    curves_section,
    doubts_section,
    effects_section,
    influence_section,
    log_section,
)
from influential_bandits.studies.logs.summary import summarise_diagnosis
from influential_bandits.studies.logs.verdict import describe_verdict, open_report
from influential_bandits.studies.report.content import Section
from influential_bandits.studies.report.results import draw_figures, render_inline, write_results
from influential_bandits.world.fading import Fades

TITLE = "Does the past change what comes next?"
INTRODUCTION = "Below: what all of this rests on."


class Diagnosis(Examination):
    """What a log says about influence: the verdict, what it rests on, and a report of all of it.

    Attributes
    ----------
    verdict : str
        In words: what was found, what to do, and how sure it is.
    test : InfluenceTest or None
        None where the log has too little data; ``untestable`` says why.
    impact : Impact
        What influence costs, in the units of the log.
    caps : CapAdvice
        How often to show what tires, or why there is no advice.
    validation : Validation
        How well models with and without influence predict what comes next.
    model : InfluenceModel
        One interaction for all instances; what :func:`plan` takes.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     80, 40, 2, interaction=[[0.6, 0], [0, 0]], memory=0.8, spread=0.2, seed=0
    ... )
    >>> diagnosis = ib.diagnose(log, permutations=99)
    >>> diagnosis
    Diagnosis('fatigue: ...')
    >>> diagnosis.impact.to_frame().arm.tolist()
    ['0', '1']
    """

    @property
    def headline(self) -> str:
        """What was found and what to do, in a few lines."""
        return describe_verdict(self)

    @property
    def verdict(self) -> str:
        """The headline, and what it rests on."""
        gains = "; ".join(str(gain) for gain in self.validation.gains())
        lines = [self.headline, f"One step ahead, squared error saved: {gains}."]
        if self.test is not None:
            lines.insert(1, self.test.summary())
        return "\n".join(lines)

    @property
    def sections(self) -> list[Section]:
        """The report, part by part."""
        return [
            curves_section(self.curves),
            cost_section(self.impact, self.caps, self.influence_seen),
            influence_section(self.test or self.untestable, "how-sure", "How sure is this?"),
            doubts_section(self.test, self.validation),
            effects_section(
                self.impact, self.influence_seen, "effects", "Which arm changes which?"
            ),
            log_section(self.log, "What the log holds"),
        ]

    def __repr__(self) -> str:
        """Say the verdict in a line."""
        return f"Diagnosis({self.headline.splitlines()[0]!r})"

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict

    def _repr_html_(self) -> str:
        """Show the report."""
        return render_inline(self.sections, open_report(self))

    def to_json(self) -> dict[str, Any]:
        """Return all numbers of the report, as ``summary.json`` has them."""
        return summarise_diagnosis(self)

    def save(self, folder: str | Path) -> None:
        """Write what the command ``diagnose`` writes: report, summary, figures and model.

        Parameters
        ----------
        folder : path
            Is made if it is not there.
        """
        out = Path(folder)
        require_writable(out)
        sections = self.sections
        for section in sections:
            draw_figures(section, out)
        write_results(out, sections, TITLE, open_report(self), INTRODUCTION, self.to_json())
        _save(self.model, self.adjusted, out / "model.json")


def diagnose(
    log: EventLog,
    *,
    fading: Fades | None = None,
    controls: Iterable[str] | None = None,
    all_pairs: bool | None = None,
    permutations: int = 999,
    seed: int = 0,
    progress: bool | None = None,
    execution: Execution | int | None = None,
) -> Diagnosis:
    """Say whether the past changes what comes next in a log, what it costs, and what to do.

    Losses are first freed of what controls explain. Then models with and without influence predict
    the last part of each history, influence is tested, its cost is measured, and caps are tried.

    Parameters
    ----------
    log : EventLog
        As :func:`read_log` returns it.
    fading : float or Fading, optional
        How influence fades: the share left after each event, or ``Fading(half_life=hours)``; by
        default the data choose.
    controls : iterable of str, optional
        What else may move losses, see :func:`adjust_losses`; by default all that the log allows.
    all_pairs : bool, optional
        Whether to look at arms on each other too, or at each on itself alone; by default all pairs
        of up to 40 arms.
    permutations : int
        Of :func:`influence_test`.
    seed : int
        Of everything that is drawn.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks.
    execution : Execution or int, optional
        Where models are fitted; the test runs on this computer.

    Returns
    -------
    Diagnosis
        Print it, show it in a notebook, or ``save(folder)`` it.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(60, 40, 2, drift=0.5, seed=0)
    >>> print(ib.diagnose(log, permutations=99).headline)
    no influence was seen beyond drift and controls ...
    """
    examination = examine_log(
        log,
        fading=fading,
        controls=controls,
        all_pairs=all_pairs,
        permutations=permutations,
        seed=seed,
        progress=progress,
        execution=execution,
    )
    return Diagnosis(
        **{field.name: getattr(examination, field.name) for field in fields(examination)}
    )


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
        model, _ = choose(log, model, settings=settings, fit=False, execution=execution)
    model.fit(log, execution=execution)
    if not out.parent.is_dir():
        make_folder(out.parent)
    _save(model, log, out)
    return model


def _save(model: InfluenceModel, log: EventLog, out: Path) -> None:
    """Write a model, with where its log comes from and how a plan can read it again."""
    about = {key: value for key, value in log.about.items() if isinstance(value, SHORT)}
    model.about_ = {"log": about, "command": log.about.get("command")}
    model.save(out)
