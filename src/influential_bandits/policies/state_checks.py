"""What a state read from a file may be: its JSON, and what ``check_state`` is made of.

Each function raises :class:`InvalidInput` with the name of the field, what it holds and what it may
hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import LARGEST_LOSS, abbreviate, is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats

Array = npt.NDArray[Any]
State = Mapping[str, Array]

SLACK = 1.0 + 1e-6  # sums of losses are rounded


def require_range(state: State, name: str, least: Any, most: Any) -> None:
    """Raise unless a field lies in [least, most], number by number."""
    values = state[name]
    wrong = ~((values >= least) & (values <= most))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        low, high = (np.broadcast_to(bound, values.shape)[where] for bound in (least, most))
        raise make_damage_error(
            f"{name}[{', '.join(map(str, where))}] is {values[where]}", f"{low} … {high}"
        )


def require_equal(state: State, name: str, expected: Any) -> None:
    """Raise unless a field holds what follows from the others."""
    require_range(state, name, expected, expected)


def require_sum(state: State, name: str, expected: int) -> None:
    """Raise unless numbers that are not negative have this sum."""
    values = state[name]
    # in two parts: numbers below 2⁵³ of more than 2¹⁰ arms could wrap around
    total = (int((values >> 26).sum()) << 26) + int((values & (2**26 - 1)).sum())
    if total != expected:
        raise make_damage_error(f"{name} sums to {total}", str(expected))


def require_losses(state: State, *names: str, of: Any = 1) -> None:
    """Raise unless fields hold what sums of so many losses can be."""
    most = LARGEST_LOSS * SLACK * of
    for name in names:
        require_range(state, name, -most, most)


def require_counts(state: State, rounds: int) -> None:
    """Raise unless each pull of an arm was counted, and no arm was seen more often than pulled."""
    require_range(state, "pulls", 0, rounds)
    require_sum(state, "pulls", rounds)
    require_range(state, "seen", 0, state["pulls"])
    require_unseen(state)


def require_unseen(state: State) -> None:
    """Raise unless the number of arms without an observation is what ``seen`` says."""
    require_equal(state, "unseen", int((state["seen"] == 0).sum()))


def make_damage_error(found: str, expected: str) -> InvalidInput:
    """Return the error of a state that cannot be."""
    return InvalidInput(f"the agent file is damaged: {found}, expected {expected}")


def whole_from_json(what: str, value: object, below: int, least: int = 0) -> int:
    """Return a whole number of a file, where large ones are texts."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,20}", value):
        value = int(value)
    if type(value) is not int or not least <= value < below:
        raise InvalidInput(
            f"the agent file is damaged: {what} is {abbreviate(value)}, expected a whole number in "
            f"{least} … {below - 1}"
        )
    return value


def list_from_json(name: str, value: object) -> list[Any]:
    """Return a list of a file."""
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"the agent file is damaged: {name} is {abbreviate(value)}, no list")
    return list(value)


def floats_from_json(what: str, values: object) -> Floats:
    """Return finite numbers of a file."""
    if isinstance(values, (list, tuple)) and all(
        type(v) in (int, float) and is_real(v) and math.isfinite(v) for v in values
    ):
        return np.array(values, np.float64)
    raise InvalidInput(f"the agent file is damaged: {what} must be a list of finite numbers")


def field_from_json(name: str, values: Any, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a field of a file in the type and shape that it has."""
    if not isinstance(values, (list, tuple)) or len(values) != like.size:
        raise InvalidInput(
            f"the agent file is damaged: {name} must be a list of {like.size} numbers"
        )
    if like.dtype == np.int64:
        whole = [whole_from_json(name, value, 2**63, -(2**63)) for value in values]
        return np.array(whole, np.int64).reshape(like.shape)
    return floats_from_json(name, values).reshape(like.shape)
