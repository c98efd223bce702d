"""How a log is read: every option, declared once, for Python and for commands.

Nothing heavy is imported here, for the help of commands is made from it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from influential_bandits.errors import InvalidInput

if TYPE_CHECKING:
    from influential_bandits.logs.times import Clock
    from influential_bandits.numerics.arrays import Floats


Function = TypeVar("Function", bound=Callable[..., Any])

AUTO = "auto"  # the column of a usual name
NONE = "none"  # no column
OUTCOMES = ("loss", "rating", "reward")
ROLES = ("instance", "arm", "time", *OUTCOMES, "item")  # options that name one column
CATEGORIES, NUMBERS = "categories", "numbers"  # the kinds of controls


@dataclass(frozen=True)
class ChunkSizes:
    """How much is read, held and written at a time, and how large partitions are.

    Only ``partition`` and what is below it change how a log is cut; nothing changes its events.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> sizes = ChunkSizes(text=64)
    >>> events = {"instance": [1, 1], "arm": ["a", "b"], "loss": [0.5, 1.0]}
    >>> ib.read_log(events, time=None, loss="loss", sizes=sizes)
    EventLog(2 events, 1 instances, 2 arms)
    """

    text: int = 1 << 20  # bytes of CSV that are parsed at once; no line may be longer
    rows: int = 1 << 18  # of a table that are read at once
    held: int = 1 << 19  # rows that wait in memory until they are written
    hashes: int = 1 << 20  # that wait until they are sorted into the others
    group: int = 8 << 20  # bytes up to which small files are read as one
    partition: int = 1_000_000  # events, about
    largest_partition: int = 4_000_000  # events; larger files are sorted into partitions

    def __post_init__(self) -> None:
        """Check that all sizes are whole numbers."""
        from influential_bandits.logs.option_checks import check_sizes

        check_sizes(self)

    def count_partitions(self, events: int) -> int:
        """Return how many partitions so many events need, whoever reads them."""
        return max(1, -(-events // self.partition))


class ControlColumn(NamedTuple):
    """A control to read: its name, the column that holds it, and its kind if that is known."""

    name: str
    column: str
    kind: str | None = None


def parse_control_options(texts: Sequence[str]) -> dict[str, str | None]:
    """Return the controls that a command line names: COLUMN, or COLUMN:categories, :numbers.

    Examples
    --------
    >>> parse_control_options(["device", "hour:categories"])
    {'device': None, 'hour': 'categories'}
    """
    kinds: dict[str, str | None] = {}
    for text in texts:
        column, colon, kind = text.rpartition(":")
        known = bool(colon) and kind in {CATEGORIES, NUMBERS}
        kinds[column if known else text] = kind if known else None
    return kinds


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _option(default: Any, words: str | None = None, **command: Any) -> Any:
    """Return a field, and what a command line says of it; without words it has no such option."""
    return field(default=default, metadata={"help": words, **command})


@dataclass(frozen=True)
class ReadingOptions:
    """How a log is read: every option of :func:`read_log`, partitions and commands.

    :func:`read_log` says what each means. Options are checked when they are made; columns that are
    to be found by their names (``AUTO``) become known with the source, by :func:`find_columns`.
    """

    instance: str = _option(AUTO, "Column: user, session, … Usual names are found.")
    arm: str = _option(AUTO, "Column: what was shown or chosen.")
    time: str | None = _option(AUTO, "Column: dates, or numbers; 'none' for file order.")
    time_unit: str | None = _option(
        None,
        "Of times that are numbers: s, ms, us, ns, min, h or d. Dates in s, ms, us or ns since "
        "1970 are recognised.",
    )
    time_format: str | None = _option(
        None, "Of dates that are not ISO 8601, such as '%d/%m/%Y %H:%M'."
    )
    loss: str | None = _option(None, "Column: how bad it was.")
    rating: str | None = _option(None, "Column: a rating; needs --best. loss = best − rating.")
    reward: str | None = _option(None, "Column: loss = −reward.")
    best: float | None = _option(None, "The best rating there is.", type=float)
    arm_names: Sequence[str] | None = _option(None)
    items: Mapping[Any, Sequence[str] | str] | None = _option(None)
    categories: str | None = _option(None, "What separates several arms of one event, such as '|'.")
    choose: str = _option("fractional")
    seed: int = _option(0)
    separator: str | None = _option(
        None, "Of the CSV, such as ';'; usual ones are found by themselves."
    )
    columns: Sequence[str] | None = _option(
        None, "Of CSV without a header: all columns, as in user,film,rating,time.", parse=_split
    )
    item: str | None = _option(
        AUTO, "Column: which item of the arm it was; items differ in quality. 'none' for none."
    )
    controls: Sequence[Any] | Mapping[str, str | None] = _option(
        (),
        "Column that may move losses: numbers or categories (COLUMN:categories says so). May be "
        "given again.",
        name="control",
        type=list[str],
        parse=parse_control_options,
    )
    bad_rows: str = _option(
        "error",
        "Drop bad rows and count them, not refuse the file.",
        name="drop_bad_rows",
        type=bool,
        parse=lambda drop: "drop" if drop else "error",
    )
    sizes: ChunkSizes = field(default=None)  # type: ignore[assignment]  # those of ChunkSizes()

    def __post_init__(self) -> None:
        """Check the options that need no look at the data."""
        from influential_bandits.logs.option_checks import check_options

        if self.sizes is None:
            object.__setattr__(self, "sizes", ChunkSizes())
        check_options(self)

    @property
    def named(self) -> list[str]:
        """The columns that were named, not those to be found, each once."""
        roles = [getattr(self, role) for role in ROLES]
        names = [name for name in roles if name not in {None, AUTO, NONE}]
        beside = (control.column for control in self.control_columns)
        return list(dict.fromkeys((*names, *beside)))

    @property
    def wanted(self) -> list[str]:
        """All columns to read, each once."""
        clock = () if self.time is None else (self.time,)
        more = (control.column for control in self.control_columns)
        return list(dict.fromkeys((self.instance, self.arm, *clock, self.outcome, *more)))

    @property
    def clock(self) -> Clock:
        """What is known of times before any was read."""
        from influential_bandits.logs.times import Clock

        return Clock(self.time_unit, self.time_format, given=self.time_unit is not None)

    @property
    def outcome(self) -> str:
        """The column of losses, ratings or rewards."""
        return self.loss or self.rating or self.reward or ""

    @property
    def control_columns(self) -> tuple[ControlColumn, ...]:
        """The controls, the item before all others."""
        from influential_bandits.logs.controls import make_control_columns

        return make_control_columns(self.item, self.controls)

    @property
    def control_kinds(self) -> dict[str, str]:
        """Whether controls are numbers or categories, of those of which it is known."""
        return {each.name: each.kind for each in self.control_columns if each.kind is not None}

    @property
    def labels(self) -> list[str]:
        """The columns that are read as text, each once."""
        return list(dict.fromkeys((self.instance, self.arm)))

    @property
    def conversion(self) -> str:
        """How losses come from the outcomes."""
        if self.rating is not None:
            return f"loss = {self.best:g} − {self.rating}"
        return f"loss = −{self.reward}" if self.reward is not None else f"loss = {self.loss}"

    def keywords(self, dated: bool, unit: str | None) -> dict[str, Any]:
        """Return what :func:`read_log` has to be told to read the frame of a log as that log."""
        names: dict[str, Any] = {role: getattr(self, role) for role in ROLES}
        names = {role: name for role, name in names.items() if name is not None}
        names |= {"time": None} if self.time is None else {}
        names |= {} if self.time is None or dated else {"time_unit": unit or "s"}
        names |= {} if self.best is None else {"best": self.best}
        names |= {} if self.categories is None else {"categories": self.categories}
        controls = {one.name: one for one in self.control_columns}
        names |= {"item": controls.pop("item").column} if "item" in controls else {}
        own = {one.column: one.kind for one in controls.values() if one.column == one.name}
        return names | ({"controls": own} if own else {})

    def losses(self, outcomes: Floats) -> Floats:
        """Return the losses of outcomes."""
        if self.rating is not None and self.best is not None:
            return float(self.best) - outcomes
        return 0.0 - outcomes if self.reward is not None else outcomes  # not −0.0


def take_options(function: str, options: Mapping[str, Any], *without: str) -> ReadingOptions:
    """Return options that a function was given, or say which of them do not exist."""
    known = [name for name in ReadingOptions.__dataclass_fields__ if name not in without]
    for name in sorted(set(options) - set(known)):
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InvalidInput(f"{function} has no option {name}{hint}")
    return ReadingOptions(**options)


def show_options(*without: str) -> Callable[[Function], Function]:
    """Show the options of reading in the signature of a function that takes them by keyword."""

    def show(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        taken = [
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type
            )
            for one in fields(ReadingOptions)
            if one.name not in without
        ]
        function.__signature__ = signature.replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
        return function

    return show
