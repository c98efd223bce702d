"""One self-contained page: opens offline, asks nothing of the network, runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from influential_bandits.files import write_text
from influential_bandits.packages import optional_module
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.static import draw_inline
from influential_bandits.studies.report.text import interval, measured, number

FOLDER = Path(__file__).parent
LONG = 10  # rows of a table that is folded
SHOWN = ("notes", "figures", "findings", "tables")  # a section without any of them is left out


def write_report(
    path: Path,
    sections: Sequence[Section],
    about: Mapping[str, str],
    title: str,
    opening: Opening,
    introduction: str,
) -> None:
    """Write one page: what was found, the picture that shows it, and then all the rest."""
    content = _gather(sections, opening) | {"about": about, "introduction": introduction}
    write_text(path, _render("report.html.j2", title=title, **content))


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
