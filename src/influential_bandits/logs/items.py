"""ItemCodes: numbers of the items that rows name, the arms they belong to, and controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.logs.columns import Codes, LabelCodes
from influential_bandits.logs.controls import ControlCodes
from influential_bandits.logs.membership import Membership, require_utf8
from influential_bandits.logs.options import ReadingOptions


class ItemCodes:
    """Numbers of items, and whether an item can be used at all.

    Arms or items that were named keep their order; others are numbered while rows are read, and
    are sorted by name in the end, so that the result does not depend on the order of rows.
    """

    def __init__(self, plan: ReadingOptions) -> None:
        self.plan = plan
        self.controls = ControlCodes()
        self.arm_names = None if plan.arm_names is None else [str(arm) for arm in plan.arm_names]
        if self.arm_names is not None and len(set(self.arm_names)) != len(self.arm_names):
            raise InvalidInput("arm_names must be different from one another")
        self.members: dict[str, list[str]] = {}
        self.unusable: dict[int, str] = {}  # number of an item → reason
        if plan.items is not None:
            listed = {str(item): self._arms_of(item, arms) for item, arms in plan.items.items()}
        elif self.arm_names is not None and plan.categories is None:
            listed = {arm: [arm] for arm in self.arm_names}
        else:
            listed = {}
        require_utf8("item", listed)
        self.known = LabelCodes(listed)
        for number, (item, names) in enumerate(listed.items()):
            self._admit(number, item, names)

    @property
    def fixed(self) -> bool:
        """Whether all items are known before any row is read."""
        return self.plan.items is not None or (
            self.arm_names is not None and self.plan.categories is None
        )

    def _arms_of(self, item: object, arms: Sequence[str] | str) -> list[str]:
        if isinstance(arms, str):
            return self._parts(arms)
        try:
            return list(arms)
        except TypeError:
            raise InvalidInput(
                f"items must map each item to a list of arms, but item {item!r:.40} has "
                f"{arms!r:.40}"
            ) from None

    def _parts(self, text: str) -> list[str]:
        if self.plan.categories is None:
            return [text]
        return [part.strip() for part in text.split(self.plan.categories) if part.strip()]

    def _admit(self, number: int, item: str, arms: list[str]) -> None:
        names = [str(arm) for arm in arms]
        if not names:
            self.unusable[number] = "missing value"
        elif self.arm_names is not None and not set(names) <= set(self.arm_names):
            self.unusable[number] = "unknown arm"
        else:
            self.members[item] = names

    def encode(self, items: Any) -> Codes:
        """Return the numbers of items, an Arrow column of text, (rows,)."""
        before = len(self.known.labels)
        codes = self.known.encode(items)
        for number, item in enumerate(self.known.labels[before:], before):
            if self.fixed:
                self.unusable[number] = "unknown arm" if self.plan.items is None else "unknown item"
            else:
                self._admit(number, item, self._parts(item))
        return codes

    def places(self, membership: Membership) -> Codes:
        """Return the number in another membership of each item numbered here, or −1."""
        position = {item: place for place, item in enumerate(membership.items)}
        return np.array([position.get(item, -1) for item in self.known.labels], np.int32)

    def membership(self) -> tuple[Membership, Codes]:
        """Return the membership of all items met, and the number in it of each numbered here."""
        ordered = list(self.members) if self.fixed else sorted(self.members)
        position = {item: place for place, item in enumerate(ordered)}
        final = np.array([position.get(item, -1) for item in self.known.labels], np.int32)
        if self.plan.items is None and self.plan.categories is None:
            return Membership.of_arms(ordered), final
        members = {item: self.members[item] for item in ordered}
        return Membership(members, self.arm_names, self.plan.choose, self.plan.seed), final
