"""One self-contained page: opens offline, asks nothing of the network."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from influential_bandits.checks import optional_module
from influential_bandits.studies.report.interactive import as_html
from influential_bandits.studies.report.text import interval, number
from influential_bandits.studies.store import write_atomically
from influential_bandits.studies.study import Analysis, Settings, Study

TEMPLATE = Path(__file__).with_name("report.html.j2")


def write_report(
    path: Path, results: list[tuple[Study, Settings, Analysis]], about: dict[str, str]
) -> None:
    """Write the report of several studies."""
    jinja = optional_module("jinja2", "report")
    offline = optional_module("plotly.offline", "report")
    environment = jinja.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "interval": interval}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        studies=[_section(*result) for result in results],
        about=about,
        script=optional_module("markupsafe", "report").Markup(offline.get_plotlyjs()),
    )
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))


def _section(study: Study, settings: Settings, analysis: Analysis) -> dict[str, Any]:
    markup = optional_module("markupsafe", "report").Markup
    return {
        "name": study.name,
        "line": study.line,
        "settings": dataclasses.asdict(settings),
        "findings": analysis.findings,
        "notes": analysis.notes,
        "figures": [
            {
                "html": markup(as_html(figure, f"{study.name}-{figure.name}")),
                "caption": figure.caption,
            }
            for figure in analysis.figures
        ],
    }
