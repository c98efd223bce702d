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
class Found:
    """Rows that are bad for one reason."""

    count: int = 0
    places: list[int] = field(default_factory=list)
    example: str = ""


class BadRows:
    """Rows that cannot be used: how many for each reason, where the first are, and an example."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: dict[str, Found] = {}

    def add(self, reason: str, rows: Ints, column: str = "", value: object = "") -> None:
        """Note rows by their number among those that the source yielded."""
        room = SHOWN - len(self.found[reason].places) if reason in self.found else SHOWN
        self.add_places(reason, self.source.places(rows[:room]), len(rows), column, value)

    def add_places(
        self, reason: str, places: Sequence[int], count: int, column: str = "", value: object = ""
    ) -> None:
        """Note rows by their place in the file."""
        found = self.found.setdefault(reason, Found())
        if not found.count:
            found.example = f"{column} {value!r:.40}".strip() if column else ""
        found.places += places[: SHOWN - len(found.places)]
        found.count += count

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are bad, by reason."""
        return {reason: found.count for reason, found in sorted(self.found.items())}

    def describe(self) -> str:
        """Return reasons, counts, places and examples in one line."""
        return "; ".join(self._one(reason, found) for reason, found in sorted(self.found.items()))

    def _one(self, reason: str, found: Found) -> str:
        places = ", ".join(str(line) for line in self.source.lines(sorted(found.places)))
        several = "s" if found.count > 1 else ""
        more = ", …" if found.count > len(found.places) else ""
        example = f": {found.example}" if found.example else ""
        return f"{found.count} × {reason} ({self.source.place}{several} {places}{more}{example})"

    def check(self, policy: str) -> None:
        """Raise an error for bad rows unless they are to be dropped."""
        if not self.found or policy == "drop":
            return
        total = sum(found.count for found in self.found.values())
        counted = "" if self.source.place == "line" else ", counted from 0"
        hints = [
            f"; {hint}"
            for start, hint in HINTS.items()
            if any(reason.startswith(start) for reason in self.found)
        ]
        raise InvalidLog(
            f"{self.source.name} has {total} bad row{'s' if total > 1 else ''}: {self.describe()}"
            f"{counted}. Fix them, or leave them out with bad_rows='drop' "
            f"(--drop-bad-rows on the command line){''.join(hints)}"
        )
