"""Play many hostile cases and print what became of them: ``make hostile``."""

import argparse
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hostile.judging import ALLOWED, OUTCOMES
from hostile.pool import TESTS, play_all
from hostile.subjects import SUBJECTS

MOST_SHOWN = 5  # failures of each subject


def main():
    """Parse, play, print; exit status 1 if anything happened that may not."""
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="of each subject; fewer if slow")
    parser.add_argument("--only", action="append", choices=SUBJECTS, metavar="SUBJECT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="play this one alone, and tell all about it")
    parser.add_argument("--source", type=Path, default=TESTS.parent / "src", help="of the package")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true", help="list all failures, not the first ones")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and take the workers along
    names = options.only or list(SUBJECTS)
    if options.case is None:
        sizes = {name: max(1, round(options.cases * SUBJECTS[name].share)) for name in names}
        cases = [(name, options.seed, n) for name in names for n in range(sizes[name])]
    else:
        cases = [(name, options.seed, options.case) for name in names]
    verdicts = played(cases, options)
    if options.case is not None:
        for verdict in verdicts:
            print(f"{verdict.outcome}: {verdict.about}\n{verdict.trace or verdict.detail}")
    else:
        show(verdicts, options)
    sys.exit(any(not verdict.allowed for verdict in verdicts))


def played(cases, options):
    """Play the cases with a bar for each subject."""
    verdicts = []
    columns = (
        TextColumn("{task.description:16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        totals = Counter(subject for subject, *_ in cases)
        bars = {name: progress.add_task(name, total=n, start=False) for name, n in totals.items()}

        def report(verdict):
            verdicts.append(verdict)
            progress.start_task(bars[verdict.subject])
            progress.advance(bars[verdict.subject])

        source = options.source.resolve()
        play_all(cases, report, workers=options.workers, source=source)
    return sorted(verdicts, key=lambda v: (list(SUBJECTS).index(v.subject), v.number))


def show(verdicts, options):
    """Print subject × outcome, and the failures with what repeats them."""
    found = Counter((verdict.subject, verdict.outcome) for verdict in verdicts)
    table = Table("subject", *OUTCOMES, "cases")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = dict.fromkeys(verdict.subject for verdict in verdicts)
    for name in (*rows, "all"):
        numbers = [
            sum(n for (s, o), n in found.items() if o == outcome and name in {s, "all"})
            for outcome in OUTCOMES
        ]
        table.add_row(name, *(str(n or "·") for n in numbers), str(sum(numbers)))
    console = Console(width=110)
    console.print(table)
    shown = Counter()
    for verdict in verdicts:
        if verdict.allowed:
            continue
        shown[verdict.subject] += 1
        if options.all or shown[verdict.subject] <= MOST_SHOWN:
            again = f"ONLY={verdict.subject!r} SEED={verdict.seed} CASE={verdict.number}"
            print(f"{verdict.outcome}: {verdict.about}\n    {verdict.detail}")
            print(f"    again: make hostile {again}")
    bad = sum(n for (_, outcome), n in found.items() if outcome not in ALLOWED)
    print(f"{len(verdicts):,} cases, {bad:,} not allowed")


if __name__ == "__main__":
    main()
