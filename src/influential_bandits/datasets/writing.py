"""Logs as text files, for other tools and for measuring readers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.files import write_atomically
from influential_bandits.logs.log import EventLog, require_log

__all__ = ["write_csv"]

EVENTS_PER_BLOCK = 1 << 20  # the text of a block is held in memory


def write_csv(log: EventLog | Iterable[EventLog], path: str | Path) -> int:
    """Write events line by line: instance, time (if known), arm and loss; return how many.

    Numbers are written so that reading them gives the same bits.

    Parameters
    ----------
    log : EventLog or iterable of EventLog
        Parts are written one after the other; all must know the time, or none.
    path : str or Path

    Returns
    -------
    int
        The number of events.

    Examples
    --------
    >>> import tempfile
    >>> log = EventLog(["ann", "bob"], ["news", "sport"], [0.5, 1.0], [60, 90])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     events = write_csv(log, path)
    ...     print(path.read_text())
    instance,time,arm,loss
    ann,60,news,0.5
    bob,90,sport,1
    """
    arrow = optional_module("pyarrow")
    csv = optional_module("pyarrow.csv")
    written = 0

    def write(temporary: Path) -> None:
        nonlocal written
        with temporary.open("wb") as file:
            for part in (log,) if isinstance(log, EventLog) else log:
                for block in require_log(part).parts(EVENTS_PER_BLOCK):
                    table = _table(arrow, block)
                    if written == 0:
                        file.write((",".join(table.column_names) + "\n").encode())
                    options = csv.WriteOptions(include_header=False, quoting_style=_quoting(block))
                    csv.write_csv(table, file, options)
                    written += len(block)

    write_atomically(path, write)
    return written


def _table(arrow: Any, log: EventLog) -> Any:
    """Return the log as a table of Arrow."""
    who = np.repeat(np.arange(log.n_instances, dtype=np.int32), log.lengths)
    columns = {"instance": arrow.array(log.instances, arrow.string()).take(arrow.array(who))}
    if log.time is not None:
        columns["time"] = arrow.array(log.time)
    columns["arm"] = arrow.array(log.arm_names, arrow.string()).take(arrow.array(log.arm))
    columns["loss"] = arrow.array(log.loss)
    return arrow.table(columns)


def _quoting(log: EventLog) -> str:
    """Return "none" unless a label demands quotes: Arrow would quote every label otherwise."""
    labels = (*log.instances, *log.arm_names)
    return "needed" if any(set(label) & set('",\r\n') for label in labels) else "none"
