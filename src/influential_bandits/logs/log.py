"""EventLog: which instance met which arm when, at what loss; sorted, checked, immutable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.bases import Frozen
from influential_bandits.checks import abbreviate, is_real, require_losses, whole_number
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.controls import ITEM, PREFIX, Control, concatenate_controls
from influential_bandits.logs.membership import Membership, require_utf8
from influential_bandits.logs.times import UNITS, are_dates
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import make_frame

LATEST_STAMP = 2.0**63 / 1e6  # seconds that timestamps of microseconds hold


class EventLog(Frozen):
    """Histories of several instances (users, sessions, campaigns): arms met, and their losses.

    Events stand instance by instance, each history in the order of time; events of the same time
    stay in the order in which they were given.

    Parameters
    ----------
    instance : array (events,) of labels
        Whose history an event belongs to; labels are kept as text.
    item : array (events,) of labels, or of numbers of items of the membership
        What was met: an arm, or an item that belongs to one or several arms.
    loss : array (events,) of float
        How bad it was, as it was observed.
    time : array (events,) of float, optional
        Seconds; without it, the order given is the order of time.
    membership : Membership, optional
        Which items belong to which arms, and how much; by default every item is an arm.
    about : mapping, optional
        Where the log comes from and what was done to it: the file, the conversion of losses, rows
        dropped and why. Kept with every model and report.
    controls : mapping of names to arrays (events,) or Control, optional
        What else is known of each event, such as the device or the position on a page: numbers, or
        labels. The control of the name "item" says what was met more finely than the arm.

    Examples
    --------
    >>> log = EventLog(["ann", "bob", "ann"], ["news", "news", "sport"], [0.5, 1.0, 0.0])
    >>> log
    EventLog(3 events, 2 instances, 2 arms)
    >>> log.instances, log.arm_names
    (('ann', 'bob'), ('news', 'sport'))
    >>> log.history("ann").loss
    array([0.5, 0. ])
    >>> log = EventLog(["ann", "ann"], ["news", "news"], [0.5, 1.0], controls={"place": [3, 1]})
    >>> log.controls["place"].values
    array([3., 1.])
    """

    def __init__(
        self,
        instance: npt.ArrayLike,
        item: npt.ArrayLike,
        loss: npt.ArrayLike,
        time: npt.ArrayLike | None = None,
        membership: Membership | None = None,
        about: Mapping[str, Any] | None = None,
        controls: Mapping[str, npt.ArrayLike | Control] | None = None,
    ) -> None:
        codes, labels = _codes("instance", instance)
        losses = _numbers("loss", loss)
        require_losses("loss", losses, InvalidLog)
        times = None if time is None else _numbers("time", time)
        items, membership = _items(item, membership)
        beside = {str(name): _control(str(name), c) for name, c in (controls or {}).items()}
        columns: dict[str, Any] = {"item": items, "loss": losses, "time": times}
        columns |= {f"control {name!r}": control.values for name, control in beside.items()}
        for name, column in columns.items():
            if column is not None and column.shape != codes.shape:
                raise InvalidLog(
                    f"{name} must have one entry for each of the {len(codes)} events of instance, "
                    f"got shape {column.shape}"
                )
        sorted_columns = _sort(labels, codes, items, losses, times, beside)
        self._keep(labels, *sorted_columns, membership, dict(about or {}))

    def _keep(
        self,
        instances: tuple[str, ...],
        offsets: Ints,
        item: npt.NDArray[np.int32],
        loss: Floats,
        time: Floats | None,
        controls: Mapping[str, Control],
        membership: Membership,
        about: dict[str, Any],
    ) -> None:
        """Hold columns that are in order, read-only from now on."""
        for column in (offsets, item, loss, time):
            if column is not None:
                column.flags.writeable = False
        self._set(instances=instances, offsets=offsets, item=item, loss=loss, time=time)
        self._set(controls=dict(controls), membership=membership, about=about)

    instances: tuple[str, ...]
    offsets: Ints  # (instances + 1,): where each history begins
    item: npt.NDArray[np.int32]  # (events,): numbers of items
    loss: Floats  # (events,)
    time: Floats | None  # (events,), seconds
    membership: Membership
    about: dict[str, Any]
    controls: Mapping[str, Control]  # what else is known of each event, by name

    @property
    def item_control(self) -> Control | None:
        """What was met, if that is known more finely than the arm: films of genres, say.

        The control "item" if there is one, else the items of ``membership`` unless they are arms.

        Examples
        --------
        >>> films = Membership({"Alien": ["Horror"], "Ring": ["Horror"], "Heat": ["Crime"]})
        >>> log = EventLog(["ann"] * 3, ["Ring", "Heat", "Alien"], [0.5, 1.0, 0.0], None, films)
        >>> log.item_control.names, log.item_control.values
        (('Alien', 'Ring', 'Heat'), array([1, 2, 0], dtype=int32))
        """
        if ITEM in self.controls:
            return self.controls[ITEM]
        members = self.membership
        if members.single and members.items == members.arm_names:
            return None
        return Control.of_checked(self.item, members.items)

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self.membership.arm_names

    @property
    def n_arms(self) -> int:
        """Number of arms K."""
        return len(self.membership.arm_names)

    @property
    def n_instances(self) -> int:
        """Number of instances."""
        return len(self.instances)

    @property
    def n_events(self) -> int:
        """Number of events."""
        return len(self.item)

    def __len__(self) -> int:
        return len(self.item)

    @cached_property
    def lengths(self) -> Ints:
        """Number of events of each instance, (instances,)."""
        return np.diff(self.offsets)

    @cached_property
    def arm(self) -> npt.NDArray[np.int32]:
        """The arm of each event, (events,), where every item belongs to exactly one."""
        if not self.membership.single:
            raise InvalidInput(
                "items of this log belong to several arms; use the weights in log.membership, or "
                "read the log with choose='random'"
            )
        return self.membership.arm[self.membership.offsets[self.item]]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each instance by its label."""
        return {label: number for number, label in enumerate(self.instances)}

    def number(self, instance: object) -> int:
        """Return the number of an instance, or say that there is no such."""
        try:
            return self.numbers[str(instance)]
        except KeyError:
            first = ", ".join(self.instances[:3])
            raise InvalidInput(
                f"the log has no instance {instance!r}; it has {self.n_instances}: {first}, …"
            ) from None

    def history(self, instance: object) -> EventLog:
        """Return the log of one instance, by label."""
        return self.take([self.number(instance)])

    def take(self, numbers: npt.ArrayLike) -> EventLog:
        """Return the log of these instances, by number, in this order."""
        chosen = np.asarray(numbers, np.int64)
        events = _ranges(self.offsets[chosen], self.lengths[chosen])
        instances = tuple(self.instances[number] for number in chosen)
        return self._part(instances, events, self.lengths[chosen])

    def at_least(self, events: int) -> EventLog:
        """Return the log of the instances that have at least this many events."""
        least = whole_number("the number of events", events)
        return self.take(np.flatnonzero(self.lengths >= least))

    def without_last(self, share: float | None = None, events: int | None = None) -> EventLog:
        """Return the log without the last events of each history: a share of it, or so many.

        Every instance keeps its place, if need be with an empty history.
        """
        kept = self.lengths - self.last(share, events)
        return self._part(self.instances, _ranges(self.offsets[:-1], kept), kept)

    def last(self, share: float | None = None, events: int | None = None) -> Ints:
        """Return how many events the last part of each history has, (instances,)."""
        if (share is None) == (events is None):
            raise InvalidInput("name either a share of each history or a number of events")
        if events is not None:
            most = min(whole_number("the number of last events", events), len(self))
            return np.minimum(most, self.lengths)
        if share is None or not is_real(share) or not 0.0 < float(share) < 1.0:
            raise InvalidInput(
                f"the last part must be a share between 0 and 1, got {abbreviate(share)}"
            )
        return np.ceil(share * self.lengths).astype(np.int64)

    def parts(self, events: int) -> Iterable[EventLog]:
        """Yield the log in parts of whole instances, of about so many events."""
        many = min(whole_number("the number of events", events, 1), len(self))
        for start, stop in cut_histories(self.offsets, many):
            mine = slice(self.offsets[start], self.offsets[stop])
            yield self._part(self.instances[start:stop], mine, self.lengths[start:stop])

    def _part(self, instances: tuple[str, ...], events: Ints | slice, lengths: Ints) -> EventLog:
        """Return the log of these events, which are in order, so many of each instance."""
        return make_sorted_log(
            instances,
            np.concatenate([[0], np.cumsum(lengths)]),
            self.item[events],
            self.loss[events],
            None if self.time is None else self.time[events],
            self.membership,
            self.about,
            {name: control.take(events) for name, control in self.controls.items()},
        )

    @property
    def dated(self) -> bool:
        """Whether times are dates, from 1990 to 2100, or such as the log's source has them."""
        if self.time is None or not len(self.time):
            return False
        reading = self.about.get("reading", {})
        return "time_unit" not in reading if "time" in reading else bool(are_dates(self.time).all())

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the log as a data frame, in the words and units of its source.

        A log that was read has the columns that it was read from: instances, arms (or items),
        times, outcomes as ratings or rewards, items of arms and controls; dates are timestamps
        (UTC). Other logs have instance, item, time (if it is known), loss, and for each control
        one such as ``control:device``. Where items belong to several arms, the column ``arms``
        lists their names. ``read_log(frame, **log.about.get("reading", {}))`` reads it again.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}

        Examples
        --------
        >>> import influential_bandits as ib
        >>> log = EventLog(["ann", "bob"], ["news", "sport"], [0.5, 1.0])
        >>> log.to_frame().columns.tolist(), ib.read_log(log.to_frame())
        (['instance', 'item', 'loss'], EventLog(2 events, 2 instances, 2 arms))
        >>> clicks = {"user": ["ann"], "ad": ["a"], "ts": [1714588200123], "click": [1]}
        >>> ib.read_log(clicks).to_frame().to_dict("list")
        {'user': ['ann'], 'ad': ['a'], 'ts': [Timestamp('2024-05-01 18:30:00.123000')], ...}
        """
        names = self.about.get("reading", {})
        members, item = self.membership, self.item.tolist()
        labels = np.repeat(np.array(self.instances, object), self.lengths).tolist()
        columns: dict[str, Any] = {names.get("instance", "instance"): labels}
        columns[names.get("arm", "item")] = [members.items[n] for n in item]
        if not members.single or members.items != members.arm_names:
            arms = [list(members.weights(n)) for n in range(len(members.items))]
            columns["arms"] = [arms[n] for n in item]
        if self.time is not None:
            columns[names.get("time") or "time"] = self._given_times(names.get("time_unit", "s"))
        columns |= self._given_outcomes(names)
        for name, control in self.controls.items():
            column = name if name in names.get("controls", {}) else f"{PREFIX}{name}"
            column = names["item"] if name == ITEM and "item" in names else column
            values = control.values if control.names is None else control.labels().tolist()
            columns[column] = values
        return make_frame(columns, library)

    def _given_times(self, unit: str) -> Any:
        """Return dates as timestamps, and other times in the unit in which they were read."""
        time = np.asarray(self.time)
        if self.dated and np.abs(time).max() < LATEST_STAMP:
            return np.round(time * 1e6).astype("datetime64[us]")
        return time if unit == "s" else time * UNITS[unit]

    def _given_outcomes(self, names: Mapping[str, Any]) -> dict[str, Floats]:
        """Return losses as the ratings or rewards that they were read from, (events,)."""
        if "reward" in names:
            return {names["reward"]: 0.0 - self.loss}
        if "rating" in names:
            return {names["rating"]: names["best"] - self.loss}
        return {names.get("loss", "loss"): self.loss}

    def __repr__(self) -> str:
        several = "" if self.membership.single else ", items of several arms"
        return (
            f"EventLog({self.n_events:,} events, {self.n_instances:,} instances, "
            f"{self.n_arms} arms{several})"
        )


def cut_histories(offsets: Ints, events: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of instances that have at most so many events, or are a single instance."""
    start = 0
    while start < len(offsets) - 1:
        aim = int(offsets[start]) + events
        stop = max(start + 1, int(np.searchsorted(offsets, aim, "right")) - 1)
        yield start, stop
        start = stop


def concatenate_logs(logs: Sequence[EventLog]) -> EventLog:
    """Return several logs of the same arms as one; their instances follow each other."""
    first = logs[0]
    ends = np.cumsum([0, *(len(log) for log in logs)])
    offsets = [log.offsets[:-1] + start for log, start in zip(logs, ends, strict=False)]
    clocks = [log.time for log in logs if log.time is not None]
    return make_sorted_log(
        tuple(label for log in logs for label in log.instances),
        np.concatenate([*offsets, ends[-1:]]),
        np.concatenate([log.item for log in logs]),
        np.concatenate([log.loss for log in logs]),
        np.concatenate(clocks) if len(clocks) == len(logs) else None,
        first.membership,
        first.about,
        {
            name: concatenate_controls([log.controls[name] for log in logs])
            for name in first.controls
        },
    )


def make_sorted_log(
    instances: tuple[str, ...],
    offsets: Ints,
    item: npt.NDArray[np.int32],
    loss: Floats,
    time: Floats | None,
    membership: Membership,
    about: dict[str, Any],
    controls: Mapping[str, Control] | None = None,
) -> EventLog:
    """Return a log of columns that were checked, and are in the order of a log, as they are."""
    log = EventLog.__new__(EventLog)
    log._keep(instances, offsets, item, loss, time, controls or {}, membership, about)
    return log


def change_log(log: EventLog, **columns: Any) -> EventLog:
    """Return the log with other losses, membership, notes or controls, and the rest as it is."""
    names = ("instances", "offsets", "item", "loss", "time", "membership", "about", "controls")
    return make_sorted_log(**{name: getattr(log, name) for name in names} | columns)


def sort_into_log(
    instances: Sequence[str],
    codes: Ints,
    item: npt.NDArray[np.int32],
    loss: Floats,
    time: Floats | None,
    membership: Membership,
    about: Mapping[str, Any] | None = None,
    controls: Mapping[str, Control] | None = None,
) -> EventLog:
    """Return a log of columns that a reader has checked, in file order.

    Parameters
    ----------
    instances : sequence of str
        Labels, unique.
    codes : array (events,) of int64
        Numbers of instances.
    item : array (events,) of int32
        Numbers of items of ``membership``.
    """
    labels = tuple(instances)
    sorted_columns = _sort(labels, codes, item, loss, time, controls or {})
    log = EventLog.__new__(EventLog)
    log._keep(labels, *sorted_columns, membership, dict(about or {}))
    return log


def _sort(
    labels: tuple[str, ...],
    codes: Ints,
    items: npt.NDArray[np.int32],
    loss: Floats,
    time: Floats | None,
    controls: Mapping[str, Control],
) -> tuple[Ints, npt.NDArray[np.int32], Floats, Floats | None, Mapping[str, Control]]:
    """Return where each history begins, and all columns by instance, then by time."""
    offsets = np.zeros(len(labels) + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=len(labels)), out=offsets[1:])
    if time is None and bool((codes[1:] >= codes[:-1]).all()):
        return offsets, items, loss, time, controls
    times = np.zeros(0) if time is None else time
    if controls:  # sort numbers of events in the place of items, then take everything by them
        order, loss, times = _sort_events(codes, np.arange(len(codes)), loss, times, offsets)
        items = items[order]
        controls = {name: control.take(order) for name, control in controls.items()}
    else:
        items, loss, times = _sort_events(codes, items, loss, times, offsets)
    return offsets, items, loss, None if time is None else times, controls


def require_log(log: object) -> EventLog:
    """Return a log that has events, or say that this is none."""
    if not isinstance(log, EventLog):
        raise InvalidInput(
            f"expected an EventLog, got {abbreviate(log)}; read_log makes one of files and tables"
        )
    if len(log) == 0:
        raise InvalidLog("the log has no events")
    return log


def _codes(name: str, labels: npt.ArrayLike) -> tuple[Ints, tuple[str, ...]]:
    """Return labels as numbers, and the labels in the order of their first appearance."""
    column = np.asarray(labels)
    if column.ndim != 1:
        raise InvalidLog(f"{name} must be one column, got shape {column.shape}")
    known: dict[str, int] = {}
    texts = [str(label) for label in column.tolist()]
    codes = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    require_utf8(name, known)
    return codes, tuple(known)


def _numbers(name: str, values: npt.ArrayLike) -> Floats:
    if np.asarray(values).dtype.kind in "mMc":  # which NumPy would turn into counts of some unit
        raise InvalidLog(
            f"{name} must be real numbers, got {values!r:.60}; read_log takes dates and timestamps"
        )
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidLog(f"{name} must be numbers, got {values!r:.60}") from None
    except OverflowError:
        raise InvalidLog(
            f"{name} must be finite, but a whole number in it is beyond all doubles (1.8e308)"
        ) from None
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad):
        raise InvalidLog(
            f"{name} must be finite, but {len(bad)} of {column.size} entries are not: the first "
            f"is entry {bad[0]}"
        )
    return column


def _control(name: str, values: npt.ArrayLike | Control) -> Control:
    """Return a control of numbers or labels."""
    require_utf8("control", [name])
    if isinstance(values, Control):
        return values
    column = np.asarray(values)
    if column.dtype.kind in "biuf":
        return Control.of_checked(_numbers(f"control {name!r}", column), None)
    codes, names = _codes(f"control {name!r}", column)
    return Control.of_checked(codes.astype(np.int32), names)


def _items(
    item: npt.ArrayLike, membership: Membership | None
) -> tuple[npt.NDArray[np.int32], Membership]:
    if membership is None:
        codes, names = _codes("item", item)
        return codes.astype(np.int32), Membership.of_arms(names)
    column = np.asarray(item)
    if column.dtype.kind in "iu":
        if column.size and not (column.min() >= 0 and column.max() < len(membership.items)):
            raise InvalidLog(f"item numbers must lie in 0 … {len(membership.items) - 1}")
        return column.astype(np.int32), membership
    known = {label: number for number, label in enumerate(membership.items)}
    try:
        return np.array([known[str(label)] for label in column.tolist()], np.int32), membership
    except KeyError as unknown:
        raise InvalidLog(f"item {unknown} belongs to no arm") from None


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return the numbers starts[0] … starts[0] + lengths[0] − 1, then those of the next."""
    total = int(lengths.sum())
    jumps = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    numbers: Ints = np.arange(total, dtype=np.int64) + jumps
    return numbers


@kernel
def _sort_events(
    codes: Ints, item: npt.NDArray[Any], loss: Floats, time: Floats, offsets: Ints
) -> tuple[npt.NDArray[Any], Floats, Floats]:
    """Return items, losses and times by instance, then time (if there is any), then as given."""
    items, losses, times = np.empty_like(item), np.empty_like(loss), np.empty_like(time)
    cursor = offsets[:-1].copy()
    for n in range(codes.size):
        place = cursor[codes[n]]
        cursor[codes[n]] += 1
        items[place] = item[n]
        losses[place] = loss[n]
        if time.size > 0:
            times[place] = time[n]
    if time.size > 0:
        for u in range(offsets.size - 1):
            start, end = offsets[u], offsets[u + 1]
            for n in range(start + 1, end):
                if times[n] < times[n - 1]:
                    order = np.argsort(times[start:end], kind="mergesort")
                    own_items, own_losses = items[start:end][order], losses[start:end][order]
                    own_times = times[start:end][order]
                    for k in range(order.size):
                        items[start + k] = own_items[k]
                        losses[start + k] = own_losses[k]
                        times[start + k] = own_times[k]
                    break
    return items, losses, times
