"""One self-contained page: opens offline, asks nothing of the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from influential_bandits.checks import optional_module
from influential_bandits.files import write_text
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.interactive import as_html
from influential_bandits.studies.report.text import interval, measured, number

TEMPLATE = Path(__file__).with_name("report.html.j2")
LONG = 10  # rows of a table that is folded
SHOWN = ("notes", "figures", "findings", "tables")  # a section without any of them is left out


def write_report(
    path: Path,
    sections: list[Section],
    about: dict[str, str],
    title: str,
    opening: Opening,
    introduction: str,
) -> None:
    """Write one page: what was found, the picture that shows it, and then all the rest."""
    jinja = optional_module("jinja2")
    offline = optional_module("plotly.offline")
    environment = jinja.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "measured": measured, "interval": interval}
    parts = [_as_data(section, opening) for section in sections]
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=title,
        sentences=[sentence.rstrip(".") + "." for sentence in opening.sentences],
        picture=next((part["first"] for part in parts if part["first"]), None),
        introduction=introduction,
        long=LONG,
        studies=[part for part in parts if any(part[name] for name in SHOWN)],
        compared=any(part["compared"] for part in parts),
        ranged=any(part["ranged"] for part in parts),
        found=sum(len(part["findings"]) for part in parts),
        about=about,
        script=optional_module("markupsafe").Markup(offline.get_plotlyjs()),
    )
    write_text(path, page)


def _as_data(section: Section, opening: Opening) -> dict[str, Any]:
    markup = optional_module("markupsafe").Markup
    figures = {
        figure.name: {
            "html": markup(as_html(figure, f"{section.name}-{figure.name}")),
            "title": figure.title,
            "caption": figure.caption,
        }
        for figure in section.analysis.figures
    }
    return {
        "first": figures.pop(opening.figure, None) if section.name == opening.section else None,
        "name": section.name,
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
