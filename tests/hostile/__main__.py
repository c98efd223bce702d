"""Play many hostile cases and print what became of them: ``make hostile``."""

import argparse
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from hostile.judging import OUTCOMES
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
    """Play the cases, and say how many are done."""
    verdicts = []

    def report(verdict):
        verdicts.append(verdict)
        print(f"\r{len(verdicts):,} of {len(cases):,}", end="", file=sys.stderr, flush=True)

    play_all(cases, report, workers=options.workers, source=options.source.resolve())
    print(file=sys.stderr)
    return sorted(verdicts, key=lambda v: (list(SUBJECTS).index(v.subject), v.number))


def show(verdicts, options):
    """Print outcomes by subject, and the failures with what repeats them."""
    for name in dict.fromkeys(verdict.subject for verdict in verdicts):
        found = Counter(verdict.outcome for verdict in verdicts if verdict.subject == name)
        print(f"{name:18}", ", ".join(f"{found[o]:,} {o}" for o in OUTCOMES if found[o]))
    shown = Counter()
    bad = [verdict for verdict in verdicts if not verdict.allowed]
    for verdict in bad:
        shown[verdict.subject] += 1
        if options.all or shown[verdict.subject] <= MOST_SHOWN:
            again = f"ONLY={verdict.subject!r} SEED={verdict.seed} CASE={verdict.number}"
            print(f"{verdict.outcome}: {verdict.about}\n    {verdict.detail}")
            print(f"    again: make hostile {again}")
    print(f"{len(verdicts):,} cases, {len(bad):,} not allowed")


if __name__ == "__main__":
    main()
