"""What an agent and a fleet have in common: arms by number and name, losses, and their tickets."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import LARGEST_LOSS, abbreviate, arm_number, is_real
from influential_bandits.errors import InvalidInput

AnyTicket = TypeVar("AnyTicket")


class FleetTicket(NamedTuple):
    """A pull of a user whose loss may still be to come.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.Fleet(arms=["tea", "coffee"]).pull("ann")
    FleetTicket(number=1, user='ann', round=1, arm=0, name='tea', memo=(0.0, 0.0, 0.0, ...))
    """

    number: int  # of the fleet's pulls, 1, 2, …
    user: str
    round: int  # of the user, 1, 2, …
    arm: int  # its number
    name: str  # its name; of arms without names, the number as text
    memo: tuple[float, ...]  # what the user had been exposed to


class NamedArms:
    """Arms with numbers 0, 1, … and perhaps names, of which some may be retired."""

    n_arms: int
    retired: set[int]
    _names: tuple[str, ...] | None
    _numbers: dict[str, int]

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms; without names, their numbers as text."""
        return self._names or tuple(map(str, range(self.n_arms)))

    def _name_arms(self, names: tuple[str, ...] | None) -> None:
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names or ())}

    def _number(self, arm: object) -> int:
        """Return the number of an arm from its number or its name."""
        if self._names is None or not isinstance(arm, str):
            return arm_number(arm, self.n_arms)
        if arm not in self._numbers:
            raise InvalidInput(f"there is no arm {arm!r}; there are {', '.join(self._names):.200}")
        return self._numbers[arm]

    def _name(self, arm: int) -> str:
        return str(arm) if self._names is None else self._names[arm]

    def _describe_arms(self) -> str:
        arms = f"{self.n_arms} arm{'s' * (self.n_arms != 1)}"
        if self._names is not None:
            arms += f" ({', '.join(self._names[:4])}{', …' * (self.n_arms > 4)})"
        return arms

    def _eligible(self, given: npt.ArrayLike | None) -> npt.NDArray[np.bool_] | None:
        """Return which arms may be chosen; None if all may."""
        if given is None and not self.retired:
            return None
        if self._names is not None and are_names(given):
            offered = {self._number(name) for name in given}  # type: ignore[union-attr]
            given = [arm in offered for arm in range(self.n_arms)]
        mask = np.ones(self.n_arms, np.bool_) if given is None else np.array(given, np.bool_)
        if mask.shape != (self.n_arms,):
            raise InvalidInput(
                f"eligible must have one entry for each of the {self.n_arms} arms, "
                f"got {abbreviate(given)}"
            )
        mask[list(self.retired)] = False
        if not mask.any():
            raise InvalidInput("eligible must leave at least one arm that is in use")
        return mask

    def _retire(self, arm: int | str) -> int:
        """Note that an arm is not in use any more; return its number."""
        number = self._number(arm)
        if number in self.retired:
            raise InvalidInput(f"arm {number!r} is not in use")
        if len(self.retired) == self.n_arms - 1:
            raise InvalidInput(f"arm {number} is the last one in use")
        self.retired.add(number)
        return number


def are_names(given: object) -> bool:
    """Tell whether arms are given by name."""
    several = isinstance(given, Collection) and not isinstance(given, (str, np.ndarray))
    return several and all(isinstance(name, str) for name in given)  # type: ignore[attr-defined]


def require_loss(loss: object) -> float:
    """Return a loss as a number, or say why it is none."""
    if not is_real(loss) or not abs(float(loss)) <= LARGEST_LOSS:  # type: ignore[arg-type]
        raise InvalidInput(
            f"loss must be a finite number, at most {LARGEST_LOSS:g} in size, got "
            f"{abbreviate(loss)}"
        )
    return float(loss)  # type: ignore[arg-type]


def require_pending(ticket: object, expected: object) -> None:
    """Raise unless a ticket is the one that is ``expected``, None if there is none."""
    if expected is None or (expected is not ticket and expected != ticket):
        raise InvalidInput(
            f"{abbreviate(ticket)} is not pending: unknown, observed already, cancelled or expired"
        )


def take_before(pending: dict[int, AnyTicket], limit: int) -> list[AnyTicket]:
    """Take the tickets with numbers below a limit out of those that are pending."""
    return [pending.pop(number) for number in [n for n in pending if n < limit]]
