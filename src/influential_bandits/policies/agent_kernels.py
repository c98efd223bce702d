"""The functions of a policy, compiled one call at a time, as an agent makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import stream_at
from influential_bandits.policies.compiled import (
    StateArrays,
    Tag,
    arm_added,
    arm_retired,
    elapsed,
    init,
    observed,
    pulled,
    select,
    unpack,
)


@kernel
def init_state(tag: Tag, config: Any, arrays: StateArrays) -> None:
    """Fill a state before the first round."""
    c, s = unpack(tag, config, arrays)
    init(tag, c, s)


@kernel
def select_arm(
    tag: Tag,
    config: Any,
    arrays: StateArrays,
    t: int,
    eligible: Any,
    first_key: np.uint64,
    second_key: np.uint64,
) -> int:
    """Return the arm for round t."""
    c, s = unpack(tag, config, arrays)
    return select(tag, c, s, t, eligible, stream_at(first_key, second_key, t))


@kernel
def note_pull(tag: Tag, config: Any, arrays: StateArrays, t: int, arm: int, memo: Floats) -> None:
    """Tell a policy that an arm was pulled."""
    c, s = unpack(tag, config, arrays)
    pulled(tag, c, s, t, arm, memo)


@kernel
def note_loss(
    tag: Tag,
    config: Any,
    arrays: StateArrays,
    t: int,
    arm: int,
    memo: Floats,
    loss: float,
) -> None:
    """Tell a policy the loss of a pull."""
    c, s = unpack(tag, config, arrays)
    observed(tag, c, s, t, arm, memo, loss)


@kernel
def note_time(tag: Tag, config: Any, arrays: StateArrays, hours: float) -> None:
    """Tell a policy that time passes."""
    c, s = unpack(tag, config, arrays)
    elapsed(tag, c, s, hours)


@kernel
def note_new_arm(tag: Tag, config: Any, arrays: StateArrays, arm: int) -> None:
    """Tell a policy of a new arm."""
    c, s = unpack(tag, config, arrays)
    arm_added(tag, c, s, arm)


@kernel
def note_retired_arm(tag: Tag, config: Any, arrays: StateArrays, arm: int) -> None:
    """Tell a policy of an arm that is never eligible again."""
    c, s = unpack(tag, config, arrays)
    arm_retired(tag, c, s, arm)
