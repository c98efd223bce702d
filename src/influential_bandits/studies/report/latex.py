"""Tables as LaTeX, for papers."""

from __future__ import annotations

import re

from influential_bandits.studies.report.content import Table

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
    return re.sub("|".join(map(re.escape, LATEX)), lambda match: LATEX[match[0]], text)
