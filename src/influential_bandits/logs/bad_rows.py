"""BadRows: what is wrong with a log, how often, and in which lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.tables import Source
from influential_bandits.numerics.arrays import Ints

HINTS = {  # what to do about a reason that begins so, if rows are not to blame
    "unreadable time": "dates that are not ISO 8601 need time_format= (--time-format), such as "
    "'%d/%m/%Y %H:%M'",
    "time that is no date": "if all times have one unit, pass time_unit= (--time-unit)",
}
SHOWN = 3  # places of bad rows that a message names, for each reason


@dataclass
class Fault:
    """Rows that are bad for one reason."""

    count: int = 0
    places: list[int] = field(default_factory=list)
    example: str = ""


class BadRows:
    """Rows that cannot be used: how many for each reason, where the first are, and an example."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.faults: dict[str, Fault] = {}

    def add(self, reason: str, rows: Ints, column: str = "", value: object = "") -> None:
        """Note rows by their number among those that the source yielded."""
        room = SHOWN - len(self.faults[reason].places) if reason in self.faults else SHOWN
        self.add_places(reason, self.source.places(rows[:room]), len(rows), column, value)

    def add_places(
        self, reason: str, places: Sequence[int], count: int, column: str = "", value: object = ""
    ) -> None:
        """Note rows by their place in the file."""
        fault = self.faults.setdefault(reason, Fault())
        if not fault.count:
            fault.example = f"{column} {value!r:.40}".strip() if column else ""
        fault.places += places[: SHOWN - len(fault.places)]
        fault.count += count

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are bad, by reason."""
        return {reason: fault.count for reason, fault in sorted(self.faults.items())}

    def describe(self) -> str:
        """Return reasons, counts, places and examples in one line."""
        return "; ".join(self._describe_one(*each) for each in sorted(self.faults.items()))

    def _describe_one(self, reason: str, fault: Fault) -> str:
        places = ", ".join(str(line) for line in self.source.lines(sorted(fault.places)))
        several = "s" if fault.count > 1 else ""
        more = ", …" if fault.count > len(fault.places) else ""
        example = f": {fault.example}" if fault.example else ""
        return f"{fault.count} × {reason} ({self.source.place}{several} {places}{more}{example})"

    def check(self, policy: str, left: int) -> None:
        """Raise an error for bad rows unless they are to be dropped, and if no rows are left."""
        if not self.faults or policy == "drop":
            if not left and self.faults:
                raise InvalidLog(f"all rows of {self.source.name} are bad: {self.describe()}")
            if not left:
                raise InvalidLog(f"{self.source.name} has columns, but no rows")
            return
        total = sum(fault.count for fault in self.faults.values())
        counted = "" if self.source.place == "line" else ", counted from 0"
        hints = [
            f"; {hint}"
            for start, hint in HINTS.items()
            if any(reason.startswith(start) for reason in self.faults)
        ]
        raise InvalidLog(
            f"{self.source.name} has {total} bad row{'s' if total > 1 else ''}: {self.describe()}"
            f"{counted}. Fix them, or leave them out with bad_rows='drop' "
            f"(--drop-bad-rows on the command line){''.join(hints)}"
        )
