"""A fleet's arrays behind one reference, for decisions that come one at a time from Python.

A compiled function that is handed some sixty arrays unpacks them at every call, which takes as long
as the decision itself. So they are unpacked once, into a structure that compiled code keeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from numba.core import types
from numba.experimental import structref

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.policies.foresight.users import (
    Own,
    Rules,
    Shared,
    decide,
    look,
    note_loss,
    note_pull,
    note_time,
)

PARTS = ("rules", "shared", "own")


class _Parts(NamedTuple):
    """What stands for the structure where nothing is compiled."""

    rules: Rules
    shared: Shared
    own: Own


if numba.config.DISABLE_JIT:
    Handle: Any = _Parts
else:

    @structref.register
    class HandleType(types.StructRef):  # type: ignore[misc,name-defined]
        """The type of the structure in compiled code."""

        def preprocess_fields(self, fields: Any) -> Any:
            """Return the fields with types of values, not of constants."""
            return tuple((name, types.unliteral(kind)) for name, kind in fields)  # type: ignore[attr-defined]

    class Handle(structref.StructRefProxy):  # type: ignore[misc,no-redef]
        """The structure as Python sees it: nothing but a reference."""

    structref.define_proxy(Handle, HandleType, PARTS)


@kernel
def hold(rules: Rules, shared: Shared, own: Own) -> Any:
    """Return a reference to all arrays; make a new one when any of them is replaced or moved."""
    return Handle(rules, shared, own)


@kernel
def choose_for(held: Any, u: int, eligible: Any, losses: Floats) -> int:
    """Return the arm for a user."""
    return decide(held.rules, held.shared, held.own, u, eligible, losses)


@kernel
def wait_for(held: Any, u: int, at: float) -> None:
    """Let time pass until a user's next pull."""
    note_time(held.rules, held.shared, held.own, u, at)


@kernel
def look_for(held: Any, u: int, losses: Floats, variance: Floats) -> None:
    """Write what each arm would cost a user now, and how sure that is."""
    look(held.rules, held.shared, held.own, u, losses, variance)


@kernel
def pull_for(
    held: Any, u: int, arm: int, eligible: Any, losses: Floats, memo: Floats, at: float
) -> tuple[int, int]:
    """Pull an arm for a user, or the one decided for if ``arm`` < 0; return it and the round.

    ``at`` is the time in seconds, where influence fades by the clock.
    """
    rules, shared, own = held.rules, held.shared, held.own
    note_time(rules, shared, own, u, at)
    if arm < 0:
        arm = decide(rules, shared, own, u, eligible, losses)
    note_pull(rules, shared, own, u, arm, memo)
    rounds = 0
    for k in range(rules.n_arms):
        rounds += own.pulls[u, k]
    return arm, rounds


@kernel
def learn_from(held: Any, users: int, u: int, arm: int, memo: Floats, loss: float) -> None:
    """Learn the loss of a pull."""
    note_loss(held.rules, held.shared, held.own, users, u, arm, memo, loss)
