"""Numbers as a reader wants them."""

from __future__ import annotations

from typing import Any

from influential_bandits.studies.runner.study import Finding, Section


def number(value: Any) -> str:
    """Return a number in at most four digits, a count in full, a text as it is, "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 10**6 else f"{value:.3e}"


def grid_text(value: float, digits: int) -> str:
    """Return a number of a grid: so many digits after the point, none if it is whole."""
    if value != value:  # noqa: PLR0124 - NaN: a missing one
        return ""
    return f"{value:.{digits}f}".removesuffix("." + "0" * digits)


def interval(finding: Finding) -> str:
    """Return the 95 % interval of a finding, or nothing."""
    if finding.low is None or finding.high is None:
        return ""
    return f"{number(finding.low)} … {number(finding.high)}"


def markdown_table(sections: list[Section]) -> str:
    """Return the summary as a Markdown table."""
    lines = [
        "| study | claim | paper | ours | 95 % interval | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for section in sections:
        for f in section.analysis.findings:
            cells = (section.name, f.claim, number(f.paper), number(f.ours), interval(f), f.verdict)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
