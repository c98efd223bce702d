"""Fleets as bytes, in parts: what all users share, and each user by itself.

A service with a million users writes those who came since the last time, and not all of them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.policies.fleet.fleet import Fleet, FleetTicket
from influential_bandits.policies.fleet.states import AUDIT

__all__ = ["pack_fleet", "pack_users", "unpack_fleet"]

HEAD = struct.Struct("<4sII")
MAGIC = b"IBF2"


def pack_fleet(fleet: Fleet) -> bytes:
    """Return what all users share, as bytes: all but the users."""
    shared, _, apart, about = fleet.parts()
    # Slots that belong to nobody are laid out afresh when they are given away.
    taken = np.flatnonzero((apart.owner >= 0) | (np.arange(len(apart.owner)) < AUDIT))
    arrays: list[Any] = [*shared, *(array[taken] for array in apart)]
    head = {
        **about,
        "taken": taken.tolist(),
        "shapes": [[str(array.dtype), list(array.shape)] for array in arrays],
    }
    return _seal(json.dumps(head, separators=(",", ":")).encode(), arrays)


def pack_users(fleet: Fleet, users: Iterable[str]) -> dict[str, bytes]:
    """Return users as bytes: their numbers, and their pulls whose losses are to come."""
    _, own, _, _ = fleet.parts()
    waiting: dict[str, list[list[Any]]] = {user: [] for user in users}
    for ticket in fleet.pending.values():
        if ticket.user in waiting:
            memo = struct.pack(f"<{len(ticket.memo)}d", *ticket.memo).hex()
            waiting[ticket.user].append([ticket.number, ticket.round, ticket.arm, memo])
    packed = {}
    for user, tickets in waiting.items():
        row = fleet.row(user)
        head = json.dumps([row, tickets], separators=(",", ":")).encode()
        packed[user] = _seal(head, [array[row] for array in own])
    return packed


def unpack_fleet(blob: bytes, users: Mapping[str, bytes], fleet: Fleet) -> None:
    """Bring a fleet that has just been made to the state of a snapshot; InvalidInput if it cannot.

    ``users`` must be all of them, each as it was at the moment of the snapshot.
    """
    head, data = _unseal(blob)
    about = json.loads(head)
    arrays = []
    for dtype, shape in about.pop("shapes"):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays.append(np.frombuffer(data[:size], dtype).reshape(shape).copy())
        data = data[size:]
    fresh: Any = fleet.parts()[2]
    taken, cut = about.pop("taken"), len(arrays) - len(fresh)
    for place, empty in enumerate(fresh):
        whole = empty.copy()  # of a fleet that has just been made: nobody's slots
        whole[taken] = arrays[cut + place]
        arrays[cut + place] = whole
    fleet.take_parts(about, arrays, len(users))
    _, own, _, _ = fleet.parts()
    widths = [array[0].nbytes for array in own]
    rows, pieces = {}, []
    for user, packed in users.items():
        head, data = _unseal(packed)
        if len(data) != sum(widths):
            raise InvalidInput("the snapshot of a user is of another version")
        row, tickets = json.loads(head)
        rows[user] = row
        pieces.append(data)
        for number, t, arm, memo in tickets:
            values = struct.unpack(f"<{len(memo) // 16}d", bytes.fromhex(memo))
            name = fleet.arm_names[arm]
            fleet.pending[number] = FleetTicket(number, user, t, arm, name, values)
    if sorted(rows.values()) != list(range(len(rows))):
        raise InvalidInput("the snapshot lacks a user, or has one twice")
    table = np.frombuffer(b"".join(pieces), np.uint8).reshape(len(rows), sum(widths))
    order = np.fromiter(rows.values(), np.int64, len(rows))
    start = 0
    array: Any
    for array, width in zip(own, widths, strict=True):
        part = np.ascontiguousarray(table[:, start : start + width])
        array[order] = part.view(array.dtype).reshape(len(rows), *array.shape[1:])
        start += width
    fleet.name_rows(rows)


def _seal(head: bytes, arrays: Iterable[Any]) -> bytes:
    body = head + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return HEAD.pack(MAGIC, zlib.crc32(body), len(head)) + body


def _unseal(blob: bytes) -> tuple[bytes, bytes]:
    magic, checksum, length = HEAD.unpack_from(blob) if len(blob) >= HEAD.size else (b"", 0, 0)
    body = blob[HEAD.size :]
    if magic != MAGIC or zlib.crc32(body) != checksum:
        raise InvalidInput("the snapshot is damaged, or of another version")
    return body[:length], body[length:]
