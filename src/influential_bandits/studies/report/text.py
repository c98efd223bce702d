"""Numbers and tables as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from influential_bandits.studies.report.content import Finding, Section
from influential_bandits.summaries.interval_text import round_to_interval


def number(value: Any) -> str:
    """Return a number in at most four digits, a count in full, a text as it is, "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 10**6 else f"{value:.3e}"


def two_digits(value: float) -> str:
    """Return a number that some dozen runs tell, without an interval: to two digits."""
    return number(float(f"{value:.2g}"))


def grid_text(value: float, digits: int) -> str:
    """Return a number of a grid: so many digits after the point, none if it is whole."""
    if value != value:  # noqa: PLR0124 - NaN: a missing one
        return ""
    return f"{value:.{digits}f}".removesuffix("." + "0" * digits)


def measured(finding: Finding) -> str:
    """Return what was measured, with as many digits as its interval supports."""
    return _round(finding.ours, finding.low, finding.high)[0]


def interval(finding: Finding) -> str:
    """Return the 95 % interval of a finding, or nothing."""
    _, low, high = _round(finding.ours, finding.low, finding.high)
    return f"{low} … {high}" if low else ""


def estimate(value: float, low: float, high: float) -> str:
    """Return a number with its interval, "1.64 (1.57 … 1.69)"; without, if there is none."""
    mean, *ends = _round(value, low, high)
    return f"{mean} ({ends[0]} … {ends[1]})" if ends[0] else mean


def rounded(value: float, low: float, high: float) -> str:
    """Return a number to what its interval supports; to four digits, if there is none."""
    return _round(value, low, high)[0]


def _round(value: float | str, low: float | None, high: float | None) -> tuple[str, str, str]:
    """Return a number and the ends of its interval, which are empty if there is none."""
    if value != value:  # noqa: PLR0124 - NaN: not defined
        return "", "", ""
    if isinstance(value, str) or low is None or high is None or not math.isfinite(high - low):
        return number(value), "", ""
    return round_to_interval(float(value), float(low), float(high))


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a table in Markdown; columns after the first ``words`` are numbers, to the right."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|---" * words + "|---:" * (len(header) - words) + "|"
    return "\n".join([line(header), rule, *map(line, rows)])


def format_findings(sections: list[Section]) -> str:
    """Return all findings as a table in Markdown."""
    header = ("study", "claim", "paper", "ours", "95 % interval", "verdict")
    rows = [
        (section.name, f.claim, number(f.paper), measured(f), interval(f), f.verdict)
        for section in sections
        for f in section.analysis.findings
    ]
    return format_table(header, rows, len(header))
