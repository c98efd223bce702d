"""A process that plays cases, one after another, until one kills it."""

import json
import os
import resource
import sys
import warnings
from contextlib import suppress
from pathlib import Path

from hostile import judging

MEMORY = 8 << 30  # bytes of address space; a case that needs more is a MemoryError


def main():
    """Read (subject, seed, number) from standard input, and answer with verdicts."""
    judging.channel = os.fdopen(os.dup(1), "w")
    judging.shared = Path(sys.argv[1])
    os.dup2(2, 1)  # whatever the package prints is not an answer
    with suppress(ValueError):  # not every system can
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        judging.send(verdict=judging.judge(*json.loads(line)))


if __name__ == "__main__":
    main()
