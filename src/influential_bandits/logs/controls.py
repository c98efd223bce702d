"""Controls: further columns of a log, numbers or categories, that stand beside its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.bases import Frozen
from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.columns import Codes, LabelCodes, arrow
from influential_bandits.logs.options import AUTO, CATEGORIES, NONE, NUMBERS, ControlColumn

PREFIX = "control:"  # before the names of controls in frames and files of ours
ITEM = "item"  # the control that an item column becomes


class Control(Frozen):
    """A column beside the events of a log: numbers, or categories.

    Parameters
    ----------
    values : array (events,)
        float64 numbers, or int32 codes of ``names``.
    names : sequence of str, optional
        The categories; without them the control is a number.

    Examples
    --------
    >>> device = Control([0, 1, 0], ["phone", "tablet"])
    >>> device
    Control(3 events, 2 categories)
    >>> device.labels().tolist()
    ['phone', 'tablet', 'phone']
    >>> Control([1.0, 2.5])
    Control(2 events, numbers)
    """

    values: npt.NDArray[Any]  # (events,): float64, or int32 codes of names
    names: tuple[str, ...] | None

    def __init__(self, values: npt.ArrayLike, names: Sequence[str] | None = None) -> None:
        column = np.asarray(values)
        if column.ndim != 1 or column.dtype.kind not in ("iu" if names is not None else "biuf"):
            expected = "numbers" if names is None else "codes of its names"
            raise InvalidLog(f"a control must be one column of {expected}, got {values!r:.60}")
        if names is None:
            column = column.astype(np.float64)
            if not np.isfinite(column).all():
                raise InvalidLog("numbers of a control must be finite")
        elif column.size and not (column.min() >= 0 and column.max() < len(names)):
            raise InvalidLog(f"codes of a control must lie in 0 … {len(names) - 1}")
        else:
            column = column.astype(np.int32)
        self._keep(column, None if names is None else tuple(str(name) for name in names))

    def _keep(self, values: npt.NDArray[Any], names: tuple[str, ...] | None) -> None:
        values.flags.writeable = False
        self._set(values=values, names=names)

    @classmethod
    def of_checked(cls, values: npt.NDArray[Any], names: tuple[str, ...] | None) -> Control:
        """Return a control of float64 numbers, or int32 codes, that were checked."""
        control = cls.__new__(cls)
        control._keep(values, names)
        return control

    def take(self, events: Any) -> Control:
        """Return the control of these events: numbers of events, or a slice."""
        return Control.of_checked(self.values[events], self.names)

    def labels(self) -> npt.NDArray[Any]:
        """Return the category of each event as text, or its number, (events,)."""
        return self.values if self.names is None else np.array(self.names, object)[self.values]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        kind = "numbers" if self.names is None else f"{len(self.names):,} categories"
        return f"Control({len(self.values):,} events, {kind})"


def concatenate_controls(controls: Sequence[Control]) -> Control:
    """Return controls of parts of one log, which have the same categories, as one."""
    first = controls[0]
    if any(control.names != first.names for control in controls):
        raise InvalidInput("controls of logs that are put together must have the same categories")
    return Control.of_checked(np.concatenate([control.values for control in controls]), first.names)


def kind_of_type(type_: Any) -> str:
    """Return the kind of a control of an Arrow type: text is categories, all else numbers."""
    kinds = arrow().types
    text = kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_dictionary(type_)
    return CATEGORIES if text else NUMBERS


def make_control_columns(
    item: str | None, controls: Sequence[Any] | Mapping[str, str | None]
) -> tuple[ControlColumn, ...]:
    """Return the controls that options ask for, or say what is wrong with them."""
    columns = [] if item in (None, AUTO, NONE) else [ControlColumn(ITEM, str(item), CATEGORIES)]
    if isinstance(controls, str) or not isinstance(controls, Sequence | Mapping):
        raise InvalidInput(
            "controls must be a list of columns, or say numbers or categories for each column, got "
            f"{abbreviate(controls)}"
        )
    kinds = controls if isinstance(controls, Mapping) else dict.fromkeys(controls)
    for column, kind in kinds.items():
        columns.append(
            column if isinstance(column, ControlColumn) else ControlColumn(column, column, kind)
        )
    for control in columns:
        if not isinstance(control.column, str) or not control.column:
            raise InvalidInput(
                f"item and controls must be names of columns, got {abbreviate(control.column)}"
            )
        if control.kind not in {None, CATEGORIES, NUMBERS}:
            raise InvalidInput(
                f"the control {control.column!r} must be 'numbers' or 'categories', got "
                f"{abbreviate(control.kind)}"
            )
    names = [control.name for control in columns]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"two controls have the name {name!r}")
    return tuple(columns)


class FinalCategories(NamedTuple):
    """Categories of a control, sorted, and the place among them of each code."""

    names: tuple[str, ...]
    places: Codes


class ControlCodes:
    """Codes of the categories of controls while rows are read; sorted by name in the end."""

    def __init__(self) -> None:
        self.known: dict[str, LabelCodes] = {}

    def encoder(self, name: str) -> Callable[[Any], Codes]:
        """Return the function that numbers the categories of a control, an Arrow column of text."""
        return self.known.setdefault(name, LabelCodes()).encode

    def labels(self) -> dict[str, list[str]]:
        """Return the categories met so far, by control, in the order of their codes."""
        return {name: known.labels for name, known in self.known.items()}

    def add(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Take note of categories that others met."""
        for name, some in labels.items():
            self.encoder(name)(arrow().array(list(some), arrow().string()))

    def categories(self) -> dict[str, tuple[str, ...]]:
        """Return the categories of each control that has any, sorted."""
        return {name: tuple(sorted(known.labels)) for name, known in self.known.items()}

    def final(
        self, categories: Mapping[str, tuple[str, ...]] | None = None
    ) -> dict[str, FinalCategories]:
        """Return categories, by default all that were met, and the place of each code, or −1."""
        categories_of = {}
        for name, names in (self.categories() if categories is None else categories).items():
            place = {label: n for n, label in enumerate(names)}
            known = self.known[name].labels if name in self.known else []
            codes = np.array([place.get(label, -1) for label in known], np.int32)
            categories_of[name] = FinalCategories(names, codes)
        return categories_of
