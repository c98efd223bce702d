"""What the file of a fleet may hold: anybody may have changed it, and sealed it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from influential_bandits.checks import LARGEST_HORIZON, abbreviate, require_names
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.states import (
    ARM,
    ASIDE,
    AUDIT,
    DRIFT,
    EFFECT,
    EFFECT_TRIALS,
    EPOCH,
    EPOCHS,
    KEPT,
    MEMORY,
    NEXT_SLOT,
    NOISE_VARIANCE,
    SETTLED,
    WAITING,
    Apart,
    Own,
    Rules,
    Shared,
)

PARTS = {
    "policy": dict,
    "n_arms": int,
    "memories": list,
    "settled": int,
    "arrivals": list,
    "retired": list,
    "users": list,
    "rows": list,
    "free": list,
    "pulls": int,
    "pending": list,
}
MOST_NUMBER = 2**62


def check_about(about: Mapping[str, Any], rows: int, most_arms: int, memories: Floats) -> None:
    """Raise unless what a file says beside its arrays can be.

    Parameters
    ----------
    rows : int
        How many users the arrays have room for.
    memories : float array
        Candidates of the policy, before one of them was settled.
    """
    for name, kind in PARTS.items():
        if type(about.get(name)) is not kind:
            raise _damage(f"{name} is {abbreviate(about.get(name))}")
    for name in ("arm_names", "history"):  # which may be null
        if name not in about:
            raise _damage(f"it has no {name}")
    n_arms, pulls, many = about["n_arms"], about["pulls"], len(memories)
    _demand(0 <= about["settled"] < many, "settled", about["settled"])
    kept = memories.tolist()
    _demand(about["memories"] in (kept, [kept[about["settled"]]]), "memories", about["memories"])
    _demand(1 <= n_arms <= most_arms, "n_arms", n_arms)
    _demand(0 <= pulls < LARGEST_HORIZON, "pulls", pulls)
    names = about.get("arm_names")
    if names is not None:
        given = require_names("arm_names", names)
        _demand(len(given) == n_arms, "arm_names", given)
    arrivals = about["arrivals"]
    _demand(_are_whole(arrivals, 0, pulls) and arrivals == sorted(arrivals), "arrivals", arrivals)
    _demand(len(arrivals) < n_arms, "arrivals", arrivals)
    retired = about["retired"]
    _demand(_are_whole(retired, 0, n_arms - 1) and len(set(retired)) == len(retired), "retired")
    _demand(len(retired) < n_arms, "retired", retired)
    users, taken = about["users"], about["rows"]
    _demand(all(isinstance(user, str) and user for user in users), "users")
    _demand(len(set(users)) == len(users) == len(taken), "users")
    together = [*taken, *about["free"]]
    whole = _are_whole(together, 0, rows - 1)
    _demand(whole and sorted(together) == list(range(len(together))), "rows of users")
    _check_pending(about, many)
    _check_history(about)


def _check_pending(about: Mapping[str, Any], memories: int) -> None:
    users, numbers = set(about["users"]), set()
    for entry in about["pending"]:
        good = isinstance(entry, list) and len(entry) == 5
        parts: Any = entry if good else [0] * 5
        number, user, t, arm, memo = parts
        good = good and _are_whole([number, t], 1, about["pulls"]) and number not in numbers
        good = good and isinstance(user, str) and user in users
        good = good and _are_whole([arm], 0, about["n_arms"] - 1) and _are_numbers(memo)
        if good:
            arms = about["n_arms"] - sum(number <= pulls for pulls in about["arrivals"])
            several, rest = divmod(len(memo), arms)
            good = rest == 0 and several in (len(about["memories"]), memories)
        if not good:
            raise _damage(f"it holds a broken ticket {abbreviate(entry)}")
        numbers.add(number)


def _check_history(about: Mapping[str, Any]) -> None:
    history = about.get("history")
    if history is None:
        return
    names = ("user", "arm", "round", "loss")
    columns: list[Any] = [None]
    if isinstance(history, dict):
        columns = [history.get(name) for name in names]
    good = all(isinstance(column, list) for column in columns)
    if good and len({len(column) for column in columns}) == 1:
        users, arms, rounds, losses = columns
        good = all(isinstance(user, str) and user for user in users)
        good = good and _are_whole(arms, 0, about["n_arms"] - 1) and _are_numbers(losses)
        if good and all(isinstance(t, str) and t.isdecimal() and len(t) < 19 for t in rounds):
            return
    raise _damage("its history is broken")


def check_arrays(rules: Rules, shared: Shared, own: Own, apart: Apart) -> None:
    """Raise unless the numbers are such that compiled code can go on with them."""
    numbers, slots = shared.numbers, len(apart.owner)
    most = np.full(numbers.shape, MOST_NUMBER)
    most[[MEMORY, EPOCH]] = rules.memories.size - 1, EPOCHS - 1
    most[[SETTLED, EFFECT, WAITING]] = 1, EFFECT_TRIALS - 1, ASIDE - 1
    most[NEXT_SLOT] = max(slots - AUDIT - 1, 0)
    most[DRIFT] = max(len(rules.drifts) - 1, 0)
    least = np.full(shared.scales.shape, 0.0)
    least[[ARM, NOISE_VARIANCE]], least[-1] = 5e-324, -np.inf
    ranges: list[tuple[str, Any, Any, Any]] = [
        ("numbers", numbers, 0, most),
        ("scales", shared.scales, least, np.inf),
        ("precision", shared.precision, 5e-324, 1.0 if len(shared.known) else np.inf),
        ("alphas", shared.alphas, 1.0, np.inf),
        ("tried", shared.tried, 0.0, np.inf),
        ("stays", shared.stays, 0.0, np.inf),
        ("kept", shared.kept, KEPT, [shared.kept[1], np.inf]),
        ("pulls", own.pulls, 0, 2**31 - 1),
        ("seen", own.seen, 0, own.pulls),
        ("epoch", own.epoch, 0, numbers[EPOCH]),
        ("slot", own.slot, -1, slots - 1),
        ("level", own.level[:, :, 1], 0.0, rules.drifts[:, 0]),
        ("drifts", shared.drifts[:, 2], 0.0, np.inf),
        ("first", own.first, 0, MOST_NUMBER),
        ("last", own.last, own.first, MOST_NUMBER),
        ("memory", apart.memory, 0, rules.memories.size - 1),
        ("owner", apart.owner, -1, len(own.epoch) - 1),
        ("losses", apart.losses, 0, 2**31 - 2),
        ("since", apart.since, 0, MOST_NUMBER),
    ]
    for name, values, low, high in ranges:
        if not ((values >= low) & (values <= high)).all():
            raise _damage(f"{name} holds numbers that cannot be")
    users = np.flatnonzero(own.slot >= 0)
    if (own.slot[users] < AUDIT).any() or (apart.owner[own.slot[users]] != users).any():
        raise _damage("users and their own posteriors do not fit")
    held = np.flatnonzero(apart.owner[AUDIT:] >= 0) + AUDIT
    if (own.slot[apart.owner[held]] != held).any():
        raise _damage("users and their own posteriors do not fit")


def _are_whole(values: Any, least: int, most: int) -> bool:
    return all(type(value) is int and least <= value <= most for value in values)


def _are_numbers(values: Any) -> bool:
    if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        return False
    try:
        return bool(np.isfinite(np.array(values, float)).all())
    except OverflowError:
        return False


def _demand(good: bool, name: str, value: object = "") -> None:
    if not good:
        raise _damage(f"{name} cannot be {abbreviate(value)}" if value != "" else f"its {name}")


def _damage(what: str) -> InvalidInput:
    return InvalidInput(f"the fleet file is damaged: {what}")
