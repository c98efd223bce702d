"""Tables of events given to a model directly, as scikit-learn gives them: rows in, rows out.

A table with columns of instances and arms is a log. A table or an array of numbers alone says how
much each event belongs to each arm. Anything else is refused: text is never taken for a number.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.column_names import USUAL_NAMES, guess_column
from influential_bandits.logs.log import EventLog, make_sorted_log
from influential_bandits.logs.reading import read_log
from influential_bandits.numerics.arrays import Floats, Ints

ROW = "number of the row"
READ_IT = (
    "pass a table with a column of instances (such as 'instance' or 'user') and one of arms (such "
    "as 'arm' or 'item'), or read it with read_log(table, instance=…, arm=…, loss=…) and fit that"
)


class EventFrame(NamedTuple):
    """A table of events, and which of its columns are what."""

    table: Any
    instance: str
    arm: str
    time: str | None

    def log(self, losses: Floats, arms: tuple[str, ...] | None = None) -> tuple[EventLog, Ints]:
        """Return the log, and the row of each of its events, (events,)."""
        names = [self.instance, self.arm, *([] if self.time is None else [self.time])]
        columns = {name: self.table[name] for name in names}
        try:
            log = read_log(
                columns | {ROW: np.arange(len(losses))},
                instance=self.instance,
                arm=self.arm,
                time=self.time,
                loss=ROW,
                arm_names=arms,
            )
        except InvalidLog as error:
            raise InvalidLog(
                f"X cannot be used as events: {error}; to drop rows, read X with read_log and fit "
                "the log"
            ) from None
        rows = log.loss.astype(np.int64)
        sorted_columns = (log.instances, log.offsets, log.item, losses[rows], log.time)
        return make_sorted_log(*sorted_columns, log.membership, {}), rows

    def losses(self, y: Any) -> Floats | None:
        """Return the losses of the rows: y, or what a column says; None if there is neither."""
        size = len(self.table[self.instance])
        if y is not None:
            return _check_losses(y, size)
        columns = [str(name) for name in _names(self.table) or []]
        loss, reward = (guess_column(columns, role) for role in ("loss", "reward"))
        if loss is not None:
            return _check_losses(self.table[loss], size)
        if reward is not None:
            return 0.0 - _check_losses(self.table[reward], size)
        rating = guess_column(columns, "rating")
        if rating is not None:
            raise InvalidInput(
                f"{rating!r} holds ratings, whose best is not known: pass losses y, such as "
                f"5 - X[{rating!r}], or read X with read_log(X, rating={rating!r}, best=5, …)"
            )
        return None


def event_frame(X: Any) -> EventFrame | None:
    """Return X as a table of events; None if it holds weights; an error if it is neither."""
    labels = _names(X)
    if labels is None:
        if holds_text(X):
            raise InvalidInput(
                "X is an array with text in it, but arrays are weights of arms (events, arms), "
                f"numbers: {READ_IT}"
            )
        return None
    names = [str(label) for label in labels]
    instance, arm = guess_column(names, "instance"), guess_column(names, "arm")
    if instance is not None and arm is not None:
        return EventFrame(X, instance, arm, guess_column(names, "time"))
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    if instance is not None or arm is not None:
        role = "arms" if arm is None else "instances (a constant, if there is one history)"
        usual = ", ".join(USUAL_NAMES["arm" if arm is None else "instance"][:8])
        raise InvalidInput(
            f"X looks like a table of events, but which column holds {role}? It has {listed}; name "
            f"one of {usual}, …, or read it with read_log and fit the log; weights of arms of that "
            "name can be passed as an array"
        )
    for label in labels:
        if holds_text(X[label]):
            raise InvalidInput(
                f"column {label!r} of X holds no numbers, so that X cannot be weights of arms "
                f"(columns: {listed}): {READ_IT}"
            )
    return None


def _names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a table, None if X is none; pandas may have numbers."""
    if hasattr(X, "toarray"):  # sparse; one kind of it is a mapping
        return None
    if isinstance(X, Mapping):
        names: Any = X
    else:
        names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None or callable(names) else list(names)


def holds_text(values: Any) -> bool:
    """Tell whether there is anything but numbers and what is missing."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths, of which scikit-learn says more
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind not in "biufc"
    return any(isinstance(value, (str, bytes)) for value in array.flat)


def _check_losses(y: Any, size: int) -> Floats:
    """Return losses as numbers, (size,), or say what is wrong with them."""
    column = np.asarray(y)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (size,):
        raise InvalidInput(
            f"y must have a loss for each of the {size} events, got shape {column.shape}"
        )
    numeric = column.dtype.kind in "biuf" or (
        column.dtype.kind == "O" and all(isinstance(each, numbers.Real) for each in column)
    )
    if not numeric:
        raise InvalidInput(f"y must be losses, numbers, got {column[:3]!r:.80}")
    try:
        losses: Floats = column.astype(np.float64)
    except OverflowError:
        raise InvalidInput("y must be finite, but a whole number is beyond all doubles") from None
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad):
        raise InvalidInput(f"y must be finite, but entry {bad[0]} is {losses[bad[0]]}")
    return losses
