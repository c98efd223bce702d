"""Which items belong to which arms: one arm each, one drawn at random, or shares of several."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.bases import Frozen
from influential_bandits.checks import make_printable, whole_number
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import INSTANCE, Key, stream_at, stream_keys, uniform


class Membership(Frozen):
    """Items (films, adverts) and the arms (genres, themes) that each belongs to, with weights.

    The weights of an item sum to one: an event of an item of two arms counts one half for each.

    Parameters
    ----------
    items : mapping of str to a sequence of str
        The arms of each item.
    arm_names : sequence of str, optional
        All arms, in the order wanted; by default sorted by name.
    choose : "fractional" or "random"
        What becomes of an item of several arms: a share for each, or one of them drawn at random,
        once and for all (as in Sec. 4.2 of the paper). The draw depends on the seed and on the
        item's name alone, not on the order or the number of items.
    seed : int
        Of the random choice.

    Examples
    --------
    >>> films = {"Alien": ["Horror", "Sci-Fi"], "Airplane!": ["Comedy"]}
    >>> Membership(films)
    Membership(2 items, 3 arms, 1 item belongs to several)
    >>> Membership(films).weights("Alien")
    {'Horror': 0.5, 'Sci-Fi': 0.5}
    >>> Membership(films, choose="random", seed=1).weights("Alien")
    {'Sci-Fi': 1.0}
    """

    def __init__(
        self,
        items: Mapping[str, Sequence[str]],
        arm_names: Sequence[str] | None = None,
        choose: str = "fractional",
        seed: int = 0,
    ) -> None:
        if choose not in {"fractional", "random"}:
            raise InvalidInput(f"choose must be 'fractional' or 'random', got {choose!r}")
        met = {arm for many in items.values() for arm in many}
        known = sorted(met) if arm_names is None else arm_names
        number = {arm: n for n, arm in enumerate(known)}
        chosen: list[list[int]] = []
        key = np.uint64(whole_number("seed", seed))
        for item, names in items.items():
            many = list(dict.fromkeys(names))
            if not many:
                raise InvalidInput(f"item {item!r} belongs to no arm")
            for name in many:
                if name not in number:
                    raise InvalidInput(f"item {item!r} belongs to the unknown arm {name!r}")
            if choose == "random" and len(many) > 1:
                require_utf8("item", [item])
                many = [many[int(_draw(key, _digest(item)) * len(many))]]
            chosen.append([number[name] for name in many])
        counts = np.array([len(many) for many in chosen], np.int64)
        self._keep(
            tuple(items),
            tuple(known),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.array([arm for many in chosen for arm in many], np.int32),
            np.repeat(1.0 / np.maximum(counts, 1), counts),
        )

    def _keep(self, items: tuple[str, ...], arms: tuple[str, ...], *columns: Any) -> None:
        require_utf8("item", items)
        require_utf8("arm", arms)
        offsets, arm, weight = columns
        self._set(items=items, arm_names=arms, offsets=offsets, arm=arm, weight=weight)

    items: tuple[str, ...]
    arm_names: tuple[str, ...]
    offsets: Ints  # (items + 1,): where the arms of each item begin in the two arrays below
    arm: npt.NDArray[np.int32]
    weight: Floats

    @classmethod
    def of_arms(cls, arms: Sequence[str]) -> Membership:
        """Return the membership in which every item is an arm."""
        names, number = tuple(arms), len(arms)
        each = np.arange(number + 1)
        return cls.of_parts(names, names, each, each[:-1].astype(np.int32), np.ones(number))

    @classmethod
    def of_parts(
        cls,
        items: tuple[str, ...],
        arms: tuple[str, ...],
        offsets: Ints,
        arm: npt.NDArray[np.int32],
        weight: Floats,
    ) -> Membership:
        """Return the membership of these arrays, which are what its attributes of the names are."""
        membership = cls.__new__(cls)
        membership._keep(items, arms, offsets, arm, weight)
        return membership

    @cached_property
    def single(self) -> bool:
        """Whether every item belongs to exactly one arm."""
        one_each = bool((np.diff(self.offsets) == 1).all())
        return one_each and bool((self.weight == 1.0).all())

    def weights(self, item: str | int) -> dict[str, float]:
        """Return the weights of an item, by its name or number, by arm."""
        try:
            number = self.items.index(item) if isinstance(item, str) else item
        except ValueError:
            raise InvalidInput(f"there is no item {item!r}") from None
        places = range(int(self.offsets[number]), int(self.offsets[number + 1]))
        return {self.arm_names[self.arm[p]]: float(self.weight[p]) for p in places}

    def __repr__(self) -> str:
        several = int((np.diff(self.offsets) > 1).sum())
        more = f", {several} item{'' if several == 1 else 's'} belong" if several else ""
        more = more.replace("item belong", "item belongs") + (" to several" if several else "")
        return f"Membership({len(self.items)} items, {len(self.arm_names)} arms{more})"


@kernel
def _draw(seed: Key, digest: Any) -> float:
    """Return the number in (0, 1) of an item.

    All in one: on its way through Python a key would become an int, which compiled code takes for a
    signed one.
    """
    first, second = stream_keys(seed, 0, INSTANCE)
    return uniform(stream_at(first, second, digest), 0)


def require_utf8(what: str, labels: Iterable[str]) -> None:
    """Raise an error for labels that no file could hold: lone halves of characters."""
    labels = list(labels)
    if make_printable("".join(labels)) == "".join(labels):
        return
    bad = next(label for label in labels if make_printable(label) != label)
    raise InvalidLog(
        f"{what} {bad!r:.80} is no text: it holds lone surrogates, as from bytes that were not "
        "UTF-8; read the source in its own encoding, or replace them"
    )


def _digest(text: str) -> np.uint64:
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), "<u8")[0]
