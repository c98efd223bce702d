"""merge_rare_arms: the rare arms of a log as one, since interactions grow as the arms squared."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.logs.log import EventLog, change_log, require_log
from influential_bandits.logs.membership import Membership
from influential_bandits.numerics.arrays import Floats, Ints

ROUND_SHARES = [float(f"{digit}e-{place}") for place in range(7, 0, -1) for digit in (1, 2, 5)]


def merge_rare_arms(log: EventLog, below: float, *, name: str = "other arms") -> EventLog:
    """Return a log in which rare arms are one arm; what was met stays known as items.

    Parameters
    ----------
    log : EventLog
    below : float
        Arms that have less than this share of the events are merged.
    name : str
        Of the arm that the others become.

    Returns
    -------
    EventLog
        The log itself if there are less than two arms to merge. ``about["merged_arms"]`` says how
        many became one.

    Examples
    --------
    >>> log = EventLog(["ann"] * 5, ["news", "chess", "news", "golf", "news"], [0, 1, 0, 1, 1])
    >>> merged = merge_rare_arms(log, 0.3)
    >>> merged.arm_names, merged.arm.tolist()
    (('news', 'other arms'), [0, 1, 0, 1, 0])
    >>> merged.item_control.labels().tolist()
    ['news', 'chess', 'news', 'golf', 'news']
    """
    log = require_log(log)
    if not is_real(below) or not 0.0 < float(below) < 1.0:
        raise InvalidInput(
            f"the share below which arms are merged must lie between 0 and 1, got "
            f"{abbreviate(below)}"
        )
    rare = arm_shares(log) < float(below)
    if rare.sum() < 2:
        return log
    names = [arm for arm, merged in zip(log.arm_names, rare, strict=True) if not merged]
    if name in names:
        raise InvalidInput(f"an arm has the name {name!r} already; name the merged one otherwise")
    group = np.where(rare, len(names), np.cumsum(~rare) - 1)
    membership = _regroup(log.membership, group, (*names, name))
    about: dict[str, Any] = log.about | {"merged_arms": int(rare.sum())}
    return change_log(log, membership=membership, about=about)


def arm_shares(log: EventLog) -> Floats:
    """Return the share of each arm among the events, (arms,)."""
    members = log.membership
    events = np.bincount(log.item, minlength=len(members.items))
    each = np.repeat(events, np.diff(members.offsets)) * members.weight
    weights = np.bincount(members.arm, each, minlength=log.n_arms)
    return np.asarray(weights / max(weights.sum(), 1e-300))


def find_share(log: EventLog, most: int) -> tuple[float, int]:
    """Return a round share below which merging leaves at most so many arms, and how many it leaves.

    Examples
    --------
    >>> log = EventLog(["ann"] * 10, list("aaaaaabbcd"), np.zeros(10))
    >>> find_share(log, 3)
    (0.2, 3)
    """
    shares = arm_shares(log)
    for share in ROUND_SHARES:
        rare = int((shares < share).sum())
        left = log.n_arms - max(rare - 1, 0)
        if left <= most:
            break
    return share, left


def _regroup(members: Membership, group: Ints, names: tuple[str, ...]) -> Membership:
    """Return a membership whose arms are groups of arms, (arms,); weights of an item add up."""
    items = np.repeat(np.arange(len(members.items)), np.diff(members.offsets))
    pairs, place = np.unique(items * len(names) + group[members.arm], return_inverse=True)
    item, arm = np.divmod(pairs, len(names))
    counts = np.bincount(item, minlength=len(members.items))
    return Membership.of_parts(
        members.items,
        names,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        arm.astype(np.int32),
        np.bincount(place, members.weight, minlength=len(pairs)).astype(np.float64),
    )
