"""Fleets as bytes, in parts: what all users share, and each user by itself.

A service with a million users writes those who came since the last time, and not all of them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.policies.fleet.fleet import Fleet, FleetTicket
from influential_bandits.policies.fleet.states import EPOCH, Apart, Own, Shared

__all__ = ["pack_fleet", "pack_users", "unpack_fleet"]

HEAD = struct.Struct("<4sII")
MAGIC = b"IBF4"
PLACE = struct.Struct("<qq")  # of a user: its row, and how many losses are to come
PENDING = struct.Struct("<qqqq")  # number, round, arm, and bytes of the memo


def pack_fleet(fleet: Fleet) -> bytes:
    """Return what all users share, as bytes: all but the users."""
    shared, _, apart, about = fleet.parts()
    begun = shared.epochs[: shared.numbers[EPOCH] + 1]
    used = np.flatnonzero(apart.owner >= 0)  # there is room for many posteriors of users' own
    arrays: list[Any] = [*shared._replace(epochs=begun), used, *(array[used] for array in apart)]
    head = {
        **about,
        "shapes": [[str(array.dtype), list(array.shape)] for array in arrays],
    }
    return _seal(json.dumps(head, separators=(",", ":")).encode(), arrays)


def pack_users(fleet: Fleet, users: Iterable[str]) -> dict[str, bytes]:
    """Return users as bytes: their numbers, and their pulls whose losses are to come."""
    _, own, _, _ = fleet.parts()
    waiting: dict[str, list[bytes]] = {user: [] for user in users}
    for ticket in fleet.pending.values():
        if ticket.user in waiting:
            memo = np.array(ticket.memo).tobytes()
            place = PENDING.pack(ticket.number, ticket.round, ticket.arm, len(memo))
            waiting[ticket.user].append(place + memo)
    packed = {}
    for user, tickets in waiting.items():
        row = fleet.row(user)
        head = PLACE.pack(row, len(tickets)) + b"".join(tickets)
        packed[user] = _seal(head, [array[row] for array in own])
    return packed


def unpack_fleet(blob: bytes, users: Mapping[str, bytes], fleet: Fleet) -> None:
    """Bring a fleet that has just been made to the state of a snapshot; InvalidInput if it cannot.

    ``users`` must be all of them, each as it was at the moment of the snapshot.
    """
    about, arrays = _read_arrays(blob)
    fleet.settle_memory(about)
    shared, own, apart, _ = fleet.parts()
    cut = len(shared)
    if len(arrays) != cut + 1 + len(apart):
        raise InvalidInput("the snapshot of a fleet is of another version")
    used = arrays[cut]
    told = Shared(*arrays[:cut])
    epochs = _fill(shared.epochs, np.arange(len(told.epochs)), told.epochs)
    kept = Apart(
        *(_fill(*pair) for pair in zip(apart, repeat(used), arrays[cut + 1 :], strict=False))
    )
    kept.owner[np.setdiff1d(np.arange(len(kept.owner)), used)] = -1
    rows, filled = _read_users(own, users, fleet)
    fleet.take_parts(about, told._replace(epochs=epochs), filled, kept, rows)


def _fill(like: Any, places: Any, values: Any) -> Any:
    """Return an array of zeros like another one, with some of its rows given."""
    if values.shape[1:] != like.shape[1:] or values.dtype != like.dtype:
        raise InvalidInput("the snapshot of a fleet is of another number of arms")
    if len(places) and not 0 <= min(places) <= max(places) < len(like):
        raise InvalidInput("the snapshot of a fleet is of another version")
    array = np.zeros(like.shape, like.dtype)  # untouched pages cost nothing
    array[places] = values
    return array


def _read_arrays(blob: bytes) -> tuple[dict[str, Any], list[Any]]:
    head, data = _unseal(blob)
    about = json.loads(head)
    arrays, start = [], 0
    for dtype, shape in about.pop("shapes"):
        size = int(np.prod(shape))
        arrays.append(np.frombuffer(data, dtype, size, start).reshape(shape).copy())
        start += size * np.dtype(dtype).itemsize
    return about, arrays


def _read_users(own: Own, users: Mapping[str, bytes], fleet: Fleet) -> tuple[dict[str, int], Own]:
    """Return the rows of users and their numbers; their open tickets go to the fleet."""
    widths = [array[0].nbytes for array in own]
    rows, pieces = {}, []
    for user, packed in users.items():
        head, data = _unseal(packed)
        if len(data) != sum(widths):
            raise InvalidInput("the snapshot of a user is of another version")
        rows[user], tickets = PLACE.unpack_from(head)
        pieces.append(data)
        start = PLACE.size
        for _ in range(tickets):
            number, t, arm, size = PENDING.unpack_from(head, start)
            start += PENDING.size + size
            values = tuple(np.frombuffer(head, np.float64, size // 8, start - size).tolist())
            name = fleet.arm_names[arm]
            fleet.pending[number] = FleetTicket(number, user, t, arm, name, values)
    if sorted(rows.values()) != list(range(len(rows))):
        raise InvalidInput("the snapshot lacks a user, or has one twice")
    table = np.frombuffer(b"".join(pieces), np.uint8).reshape(len(rows), sum(widths))
    order = np.fromiter(rows.values(), np.int64, len(rows))
    filled, start = [], 0
    array: Any
    for array, width in zip(own, widths, strict=True):
        numbers: Any = np.zeros((max(len(rows), 1), *array.shape[1:]), array.dtype)
        part = np.ascontiguousarray(table[:, start : start + width])
        numbers[order] = part.view(array.dtype).reshape(len(rows), *array.shape[1:])
        filled.append(numbers)
        start += width
    if not rows:
        filled[own._fields.index("slot")][:] = -1
    return rows, Own(*filled)


def _seal(head: bytes, arrays: Iterable[Any]) -> bytes:
    body = head + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return HEAD.pack(MAGIC, zlib.crc32(body), len(head)) + body


def _unseal(blob: bytes) -> tuple[bytes, bytes]:
    magic, checksum, length = HEAD.unpack_from(blob) if len(blob) >= HEAD.size else (b"", 0, 0)
    body = blob[HEAD.size :]
    if magic != MAGIC or zlib.crc32(body) != checksum:
        raise InvalidInput("the snapshot is damaged, or of another version")
    return body[:length], body[length:]
