"""Numbers of an agent file, each refused with its name and what was expected if it is none."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats


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
