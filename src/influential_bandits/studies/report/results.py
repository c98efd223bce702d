"""Write what was found: figures for print, the report for readers, the summary for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from influential_bandits.files import make_folder, write_json
from influential_bandits.studies.provenance import collect_provenance
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.html import write_report
from influential_bandits.studies.report.static import draw


def draw_figures(section: Section, out: Path) -> None:
    """Write the figures of a section for print, into a folder of its own."""
    folder = out / section.name
    make_folder(folder)
    for figure in section.analysis.figures:
        draw(figure, folder, section.settings)


def write_results(
    out: Path,
    sections: list[Section],
    title: str,
    opening: Opening,
    introduction: str,
    numbers: Any = None,
) -> None:
    """Write the report for readers, and the summary for programs: by default the findings."""
    about = collect_provenance()
    write_report(out / "report.html", sections, about, title, opening, introduction)
    write_json(out / "summary.json", summarise(sections) if numbers is None else numbers, indent=2)


def summarise(sections: list[Section]) -> list[dict[str, Any]]:
    """Return a row for each finding."""
    keys = ("claim", "paper", "ours", "low", "high", "verdict")
    return [
        {"study": section.name} | {key: getattr(finding, key) for key in keys}
        for section in sections
        for finding in section.analysis.findings
    ]
