"""The functions of a policy, compiled one call at a time, as an agent makes them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import stream_at
from influential_bandits.policies import compiled
from influential_bandits.policies.compiled import StateArrays, Tag, select, unpack
from influential_bandits.policies.contract import FUNCTIONS


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


def _call_on_arrays(name: str) -> Any:
    """Return the kernel that calls a function of the contract on a state in flat arrays."""
    _, _, _, *arguments = inspect.signature(getattr(compiled, name)).parameters
    source = (
        f"def {name}({', '.join(['tag', 'config', 'arrays', *arguments])}):\n"
        "    c, s = unpack(tag, config, arrays)\n"
        f"    hook({', '.join(['tag', 'c', 's', *arguments])})\n"
    )
    scope = {"__name__": __name__, "unpack": compiled.unpack, "hook": getattr(compiled, name)}
    exec(source, scope)
    return kernel(scope[name])


KERNELS = {name: _call_on_arrays(name) for name in FUNCTIONS} | {"select": select_arm}
