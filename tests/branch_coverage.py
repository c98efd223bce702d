"""Print how many branches the tests reach, by package: ``make coverage`` runs it.

Arguments are reports of ``coverage json``: of ``make test`` alone, and of all tests. Coverage sees
nothing of compiled functions: their branches count only where the interpreter runs them in a test,
and stand in a line of their own.
"""

import ast
import json
import sys
from collections import Counter
from pathlib import Path

COMPILING = ("kernel", "inlined", "njit", "overload", "intrinsic")  # in names of decorators
CONTRACT = {"init", "select", "pulled", "observed", "arm_added", "arm_retired"}  # of a policy


def read_branches(report):
    """Return the branches of each file that were reached, and all there are."""
    files = json.loads(Path(report).read_text(encoding="utf-8"))["files"]
    reached = {name: set(map(tuple, file["executed_branches"])) for name, file in files.items()}
    return reached, {
        name: reached[name] | set(map(tuple, file["missing_branches"]))
        for name, file in files.items()
    }


def find_compiled(name):
    """Return the lines of a file that are compiled."""
    lines = set()
    for node in ast.walk(ast.parse(Path(name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
            of_policy = node.name in CONTRACT and "staticmethod" in decorators
            if of_policy or any(word in decorators for word in COMPILING):
                lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def main(short, whole):
    reached = [read_branches(report)[0] for report in (short, whole)]
    total, rows = Counter(), [Counter(), Counter()]
    for name, branches in read_branches(whole)[1].items():
        package = name.replace("\\", "/").partition("influential_bandits/")[2].partition("/")[0]
        compiled = find_compiled(name)
        for branch in branches:
            kind = "in compiled functions" if branch[0] in compiled else "in all others"
            groups = ["all", kind] + [package] * (branch[0] not in compiled)
            total.update(groups)
            for row, found in zip(rows, reached, strict=True):
                row.update(groups if branch in found.get(name, ()) else ())
    print(f"{'':22} {'branches':>8} {'make test':>10} {'all tests':>10}")
    kinds = ("in all others", "in compiled functions", "all")
    for group in (*sorted(total.keys() - set(kinds)), *kinds):
        shares = " ".join(f"{100 * row[group] / total[group]:8.1f} %" for row in rows)
        print(f"{group:22} {total[group]:8,} {shares}")
    print("\nReached by long tests alone, lines from and to (negative: leaving a function):")
    for name, found in sorted(reached[1].items()):
        more = sorted(found - reached[0].get(name, set()))
        if more:
            print(f"{name}: {', '.join(f'{start}→{end}' for start, end in more)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
