"""Results for papers: tables as LaTeX, numbers as CSV, figures as PDF and SVG."""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.files import write_text
from influential_bandits.piece_store import make_folder
from influential_bandits.studies.report.content import Section, Table
from influential_bandits.studies.report.static import FORMATS, draw

__all__ = ["Exportable", "format_latex"]

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: f"\\{character}" for character in "&%$#_{}"
}
SYMBOLS = {"…": "--", "−": "$-$", "÷": r"$\div$", "γ": r"$\gamma$", "·": r"$\cdot$"} | {
    "σ": r"$\sigma$",
    "|": r"$\vert$",
    "<": "$<$",
    ">": "$>$",
}
LATEX = SPECIAL | SYMBOLS


class Exportable(ABC):
    """Results of several families, as tables and figures for a paper."""

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """The results as data."""

    @property
    @abstractmethod
    def sections(self) -> list[Section]:
        """The report."""

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write the rows of :meth:`to_frame` as CSV; return them as text, if no file is named."""
        text = _format_csv(self.rows)
        if path is None:
            return text
        write_text(Path(path), text)
        return None

    def to_latex(self, *, family: str | None = None) -> str:
        r"""Return the tables as LaTeX, for a document that uses the package booktabs.

        The best number of a column is bold, and so are the names of policies of your own.

        Parameters
        ----------
        family : str, optional
            Of one family alone; by default of all, the table of each with a caption and a label.
        """
        sections = [section for section in self.sections if section.analysis.tables]
        names = [section.name for section in sections]
        if family is not None and family not in names:
            raise InvalidInput(
                f"there is no family {abbreviate(family)} in this comparison; there are "
                f"{', '.join(names)}"
            )
        return "\n".join(
            format_latex(section.analysis.tables[0], section.description, f"tab:{section.name}")
            for section in sections
            if family in {None, section.name}
        )

    def export(self, folder: str | Path, formats: Sequence[str] = ("pdf", "svg")) -> None:
        """Write tables and figures for a paper into a folder.

        ``standings.csv`` holds all numbers, ``FAMILY.tex`` the table of a family, and
        ``FAMILY-FIGURE.pdf`` and ``.svg`` its figures.

        Parameters
        ----------
        folder : path
        formats : sequence of str
            Of figures: any of "pdf", "svg" and "png".
        """
        if isinstance(formats, str) or not formats or not set(formats) <= set(FORMATS):
            raise InvalidInput(
                f"formats must be several of {', '.join(FORMATS)}, got {abbreviate(formats)}"
            )
        out = Path(folder)
        make_folder(out)
        write_text(out / "standings.csv", _format_csv(self.rows))
        for section in self.sections:
            if section.analysis.tables:
                write_text(out / f"{section.name}.tex", self.to_latex(family=section.name))
            for figure in section.analysis.figures:
                draw(figure, out, section.settings, formats, f"{section.name}-{figure.name}")


def _format_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with the columns of all of them."""
    text = io.StringIO(newline="")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def format_latex(table: Table, caption: str, label: str) -> str:
    r"""Return a table as LaTeX, with rules of booktabs.

    Examples
    --------
    >>> print(format_latex(Table("Regret", ["policy", "T = 10"], [["A_1", "3.5"]]), "Two", "tab:t"))
    \begin{table}
      \centering
      \caption{Two. Regret.}
      \label{tab:t}
      \begin{tabular}{lr}
        \toprule
        policy & T = 10 \\
        \midrule
        A\_1 & 3.5 \\
        \bottomrule
      \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    caption = _escape(f"{caption.rstrip('.')}. {table.title.rstrip('.')}.")
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \label{{{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(_escape, table.header))} \\\\",
        r"    \midrule",
    ]
    for n, row in enumerate(table.rows):
        cells = [
            rf"\textbf{{{_escape(cell)}}}" if (n, place) in table.strong else _escape(cell)
            for place, cell in enumerate(row)
        ]
        lines.append(f"    {' & '.join(cells)} \\\\")
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Return a text as LaTeX has it, whatever characters it holds."""
    text = text.replace(" … ", "…")
    return re.sub("|".join(map(re.escape, LATEX)), lambda found: LATEX[found[0]], text)
