"""Checked events gathered into an EventLog: joined, without repeated keys, repeats counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.bad_rows import BadRows
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.numbering import Codes, Hashes, repeated_keys
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.pipeline import Events
from influential_bandits.logs.sources import Source
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

__all__ = ["Gathering", "about_source", "require_rows"]


class Gathering:
    """Columns of events that grow batch by batch, and become a log."""

    def __init__(self) -> None:
        self.size = 0
        self._columns: dict[str, list[Any]] = {}

    def append(self, who: Codes, events: Events) -> None:
        """Add events whose instances have these numbers, (events,)."""
        self.size += len(who)
        columns = {"who": who, "what": events.what, "loss": events.loss, "time": events.time}
        if events.key is not None:
            columns |= {"row": events.row, "key": events.key}
        for name, column in columns.items():
            if column is not None:
                self._columns.setdefault(name, []).append(column)

    def _joined(self, name: str) -> Any:
        """Return a column in one piece and forget its pieces, for there may be much of it."""
        return np.concatenate(self._columns.pop(name))

    def drop_repeated_keys(self, bad: BadRows) -> None:
        """Leave out events whose key came before, and note their rows as bad."""
        if "key" not in self._columns:
            return
        keys: Hashes = self._joined("key")
        rows: Ints = self._joined("row")
        again = repeated_keys(keys)
        if len(again):
            bad.add("duplicate key", rows[again])
            kept = np.delete(np.arange(self.size), again)
            self.size = len(kept)
            for name in list(self._columns):
                self._columns[name] = [self._joined(name)[kept]]

    def log(
        self,
        labels: Sequence[str],
        membership: Membership,
        final: Codes,
        about: dict[str, Any],
    ) -> EventLog:
        """Return the log and forget the columns.

        Parameters
        ----------
        labels : sequence of str
            Instances by number; those that have no events are left out.
        final : array of int32
            The number in ``membership`` of each number of an item.
        """
        who: Ints = self._joined("who").astype(np.int64)
        present = np.bincount(who, minlength=len(labels)) > 0
        if not present.all():
            who = (np.cumsum(present) - 1)[who]
            labels = [label for label, there in zip(labels, present, strict=True) if there]
        what: Codes = final[self._joined("what")]
        loss: Floats = self._joined("loss")
        time: Floats | None = self._joined("time") if "time" in self._columns else None
        self.size = 0
        # The pieces were in Arrow's memory, which it would keep while the log is sorted.
        arrow().default_memory_pool().release_unused()
        log = EventLog.of_codes(labels, who, what, loss, time, membership, about)
        log.about["repeated"] = (
            0 if log.time is None else int(_repeats(log.offsets, log.time, log.item, log.loss))
        )
        return log


def about_source(source: Source, plan: ReadingOptions, bad: BadRows) -> dict[str, Any]:
    """Return where a log comes from and what was done to it."""
    made = {"source": source.name, "conversion": plan.conversion, "dropped": bad.counts}
    made |= {} if source.listing is None else source.listing.about()
    return made if source.separator is None else made | {"separator": source.separator}


def require_rows(source: Source, bad: BadRows, events: int) -> None:
    """Raise an error if no event is left."""
    if events:
        return
    if bad.found:
        raise InvalidLog(f"all rows of {source.name} are bad: {bad.describe()}")
    raise InvalidLog(f"{source.name} has columns, but no rows")


@kernel
def _repeats(offsets: Ints, time: Floats, item: Codes, loss: Floats) -> int:
    """Count events that have instance, time, item and loss of another, all but the first."""
    repeats = 0
    for u in range(offsets.size - 1):
        start, end = offsets[u], offsets[u + 1]
        while start < end:
            stop = start + 1
            while stop < end and time[stop] == time[start]:
                stop += 1
            if stop - start > 1:
                order = np.argsort(loss[start:stop], kind="mergesort") + start
                order = order[np.argsort(item[order], kind="mergesort")]
                for n in range(1, order.size):
                    before, here = order[n - 1], order[n]
                    repeats += item[before] == item[here] and loss[before] == loss[here]
            start = stop
    return repeats
