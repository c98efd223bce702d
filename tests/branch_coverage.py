"""Print how many branches the tests reach, by package: ``make coverage`` runs it.

Arguments are reports of ``coverage json``: of ``make test`` alone, and of all tests. Branches of
compiled functions count as missed, unless a test runs them by the interpreter.
"""

import json
import sys
from collections import Counter
from pathlib import Path


def read_branches(report):
    """Return the branches of each file that were reached, and all there are."""
    files = json.loads(Path(report).read_text(encoding="utf-8"))["files"]
    reached = {name: set(map(tuple, file["executed_branches"])) for name, file in files.items()}
    return reached, {
        name: reached[name] | set(map(tuple, file["missing_branches"]))
        for name, file in files.items()
    }


def package_of(name):
    below = name.replace("\\", "/").partition("influential_bandits/")[2]
    return below.partition("/")[0]


def main(short, whole):
    reached = [read_branches(report)[0] for report in (short, whole)]
    sizes = {name: len(branches) for name, branches in read_branches(whole)[1].items()}
    total, rows = Counter(), [Counter(), Counter()]
    for name, size in sizes.items():
        for group in (package_of(name), "all"):
            total[group] += size
            for row, found in zip(rows, reached, strict=True):
                row[group] += len(found.get(name, ()))
    print(f"{'package':16} {'branches':>8} {'make test':>10} {'all tests':>10}")
    for group in sorted(total, key=lambda group: (group == "all", group)):
        if total[group]:
            shares = " ".join(f"{100 * row[group] / total[group]:8.1f} %" for row in rows)
            print(f"{group:16} {total[group]:8,} {shares}")
    print("\nReached by long tests alone, lines from and to (negative: leaving a function):")
    for name in sorted(sizes):
        more = sorted(reached[1].get(name, set()) - reached[0].get(name, set()))
        if more:
            print(f"{name}: {', '.join(f'{start}→{end}' for start, end in more)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
