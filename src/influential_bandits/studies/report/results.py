"""Write what was found: figures for print, one page for readers, a summary for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from influential_bandits.files import make_folder, write_json, write_text
from influential_bandits.packages import optional_module
from influential_bandits.studies.provenance import collect_provenance
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.static import draw, draw_inline
from influential_bandits.studies.report.text import interval, measured, number

FOLDER = Path(__file__).parent
LONG = 10  # rows of a table that is folded
SHOWN = ("notes", "figures", "findings", "tables")  # a section without any of them is left out


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
    """Write the report for readers, and the summary for programs: by default the findings.

    The report is one page that opens offline, asks nothing of the network and runs nothing.
    """
    content = _gather(sections, opening) | {"title": title, "introduction": introduction}
    page = _render("report.html.j2", about=collect_provenance(), **content)
    write_text(out / "report.html", page)
    write_json(out / "summary.json", summarise(sections) if numbers is None else numbers, indent=2)


def summarise(sections: list[Section]) -> list[dict[str, Any]]:
    """Return a row for each finding."""
    keys = ("claim", "paper", "ours", "low", "high", "verdict")
    return [
        {"study": section.name} | {key: getattr(finding, key) for key in keys}
        for section in sections
        for finding in section.analysis.findings
    ]


def render_inline(sections: Sequence[Section], opening: Opening) -> str:
    """Return a report for a notebook: what was found, and all the rest folded."""
    return _render("inline.html.j2", **_gather(sections, opening))


def _render(template: str, **content: Any) -> str:
    jinja = optional_module("jinja2")
    environment = jinja.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=jinja.FileSystemLoader(FOLDER)
    )
    environment.filters |= {"number": number, "measured": measured, "interval": interval}
    page: str = environment.get_template(template).render(long=LONG, **content)
    return page


def _gather(sections: Sequence[Section], opening: Opening) -> dict[str, Any]:
    """Return what templates need of sections and of what is said first."""
    parts = [_as_data(section, opening) for section in sections]
    return {
        "sentences": [sentence.rstrip(".") + "." for sentence in opening.sentences],
        "opening": opening,
        "picture": next((part["first"] for part in parts if part["first"]), None),
        "studies": [part for part in parts if any(part[name] for name in SHOWN)],
        "compared": any(part["compared"] for part in parts),
        "ranged": any(part["ranged"] for part in parts),
        "found": sum(len(part["findings"]) for part in parts),
    }


def _as_data(section: Section, opening: Opening) -> dict[str, Any]:
    markup = optional_module("markupsafe").Markup
    figures = {
        figure.name: {
            "html": markup(draw_inline(figure, f"{section.name}-{figure.name}")),
            "title": figure.title,
            "caption": figure.caption,
        }
        for figure in section.analysis.figures
    }
    return {
        "first": figures.pop(opening.figure, None) if section.name == opening.section else None,
        "name": section.name,
        "title": section.title or section.name,
        "description": section.description,
        "settings": section.settings,
        "findings": section.analysis.findings,
        "ranged": any(finding.low is not None for finding in section.analysis.findings),
        "noted": any(finding.reason for finding in section.analysis.findings),
        "compared": any(finding.paper is not None for finding in section.analysis.findings),
        "fitted": any(finding.fitted for finding in section.analysis.findings),
        "notes": section.analysis.notes,
        "tables": section.analysis.tables,
        "figures": list(figures.values()),
    }
