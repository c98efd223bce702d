"""LogBuilder: checked events become an EventLog, repeats counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.logs.bad_rows import BadRows
from influential_bandits.logs.columns import Codes, LabelCodes, arrow
from influential_bandits.logs.controls import Control, FinalCategories
from influential_bandits.logs.event_scan import Events
from influential_bandits.logs.find_columns import describe_columns
from influential_bandits.logs.log import EventLog, sort_into_log
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.tables import Source
from influential_bandits.logs.times import Clock, describe_times
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

CONTROL = "control "  # before the name of a control among the columns of a builder
LABELS = 1 << 19  # rows whose instances are numbered at once: a label met often is looked up rarely


class LogBuilder:
    """Columns of events that grow chunk by chunk, and become a log."""

    def __init__(self) -> None:
        self.size = 0
        self._instances = LabelCodes()
        self._labels: list[Any] = []  # Arrow columns of instances that have no codes yet
        self._columns: defaultdict[str, list[npt.NDArray[Any]]] = defaultdict(list)

    def append(self, events: Events) -> None:
        """Add events."""
        self.size += len(events.instance)
        self._labels.append(events.instance)
        if sum(map(len, self._labels)) >= LABELS:
            self._number_instances()
        columns: dict[str, Any] = {"item": events.item, "loss": events.loss, "time": events.time}
        columns |= {f"{CONTROL}{name}": values for name, values in events.controls.items()}
        for name, values in columns.items():
            if values is not None:
                self._columns[name].append(values)

    def _number_instances(self) -> None:
        if self._labels:
            codes = self._instances.encode(arrow().concat_arrays(self._labels))
            self._columns["instance"].append(codes)
            self._labels = []

    def _take(self, name: str) -> Any:
        """Return a column and forget it, for there may be much of it."""
        return np.concatenate(self._columns.pop(name))

    def build(
        self,
        membership: Membership,
        final: Codes,
        about: dict[str, Any],
        categories: Mapping[str, FinalCategories],
    ) -> EventLog:
        """Return the log, of instances that have events, and forget the columns.

        Parameters
        ----------
        final : array of int32
            The number in ``membership`` of each code of an item.
        categories : mapping of names to FinalCategories
            Of each control that is no number.
        """
        self._number_instances()
        labels = self._instances.labels
        codes: Ints = self._take("instance").astype(np.int64)
        present = np.bincount(codes, minlength=len(labels)) > 0
        if not present.all():
            codes = (np.cumsum(present) - 1)[codes]
            labels = [labels[code] for code in np.flatnonzero(present)]
        items: Codes = final[self._take("item")]
        loss: Floats = self._take("loss")
        time: Floats | None = self._take("time") if "time" in self._columns else None
        controls = self._take_controls(categories)
        self.size = 0
        # What was read is in Arrow's memory, which it would keep while the log is sorted.
        arrow().default_memory_pool().release_unused()
        log = sort_into_log(labels, codes, items, loss, time, membership, about, controls)
        log.about["repeated"] = (
            0
            if log.time is None
            else int(_count_repeats(log.offsets, log.time, log.item, log.loss))
        )
        return log

    def _take_controls(self, categories: Mapping[str, FinalCategories]) -> dict[str, Control]:
        controls = {}
        for column in [column for column in self._columns if column.startswith(CONTROL)]:
            name, values = column.removeprefix(CONTROL), self._take(column)
            if name in categories:
                names, places = categories[name]
                controls[name] = Control.of_checked(places[values], names)
            else:
                controls[name] = Control.of_checked(values, None)
        return controls


def collect_events(scan: Iterable[Events]) -> LogBuilder:
    """Read all events of a scan."""
    builder = LogBuilder()
    for events in scan:
        builder.append(events)
    return builder


def describe_source(
    source: Source,
    plan: ReadingOptions,
    bad: BadRows,
    kinds: Mapping[str, str],
    clock: Clock,
    span: tuple[float, float],
) -> dict[str, Any]:
    """Return where a log comes from and what was done to it.

    ``kinds`` are those of controls, ``span`` is from the first time to the last.
    """
    about: dict[str, Any] = {"source": source.name, "columns": describe_columns(plan)}
    if span[0] <= span[1]:
        about["times"] = describe_times(*span, bool(clock.dated), clock.unit)
    about |= {"conversion": plan.conversion, "dropped": bad.counts}
    about["reading"] = plan.keywords(bool(clock.dated), clock.unit)
    about |= {"controls": dict(kinds)} if kinds else {}
    about |= {} if source.listing is None else source.listing.about()
    return about if source.separator is None else about | {"separator": source.separator}


@kernel
def _count_repeats(offsets: Ints, time: Floats, item: Codes, loss: Floats) -> int:
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
