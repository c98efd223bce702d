"""Fleets as bytes, in parts: what all users share, and each user by itself.

A service with a million users writes those who came since the last time, and not all of them. A
file of a fleet has these parts as rows of a sealed table; that of no user is what all share.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.files import read_about, read_table, seal_holds, write_table
from influential_bandits.packages import optional_module
from influential_bandits.policies.foresight.users import Own, Shared
from influential_bandits.policies.tickets import FleetTicket

if TYPE_CHECKING:
    from influential_bandits.policies.fleet.fleet import Fleet

FORMAT = "influential-bandits/fleet/3"

HEAD = struct.Struct("<4sII")
MAGIC = b"IBF6"
PLACE = struct.Struct("<qq")  # of a user: its row, and how many losses are to come
PENDING = struct.Struct("<qqqq")  # number, round, arm, and bytes of the memo
USERS_AT_ONCE = 10_000  # that are read


def pack_fleet(fleet: Fleet) -> bytes:
    """Return what all users share, as bytes: all but the users."""
    arrays: Any
    arrays, *_, about = fleet.parts()
    head = {
        **about,
        "users": len(fleet.users),
        "shapes": [[str(part.dtype), list(part.shape)] for part in arrays],
    }
    encoded = json.dumps(head, separators=(",", ":")).encode()
    return _seal(encoded, encoded + b"".join(np.ascontiguousarray(x).tobytes() for x in arrays))


def pack_users(fleet: Fleet, users: Iterable[str]) -> dict[str, bytes]:
    """Return users as bytes: their numbers, and their pulls whose losses are to come."""
    _, own, row_of, _ = fleet.parts()
    waiting: dict[str, list[bytes]] = {user: [] for user in users}
    if not waiting:
        return {}
    for ticket in fleet.pending.values():
        if ticket.user in waiting:
            memo = array("d", ticket.memo).tobytes()
            place = PENDING.pack(ticket.number, ticket.round, ticket.arm, len(memo))
            waiting[ticket.user].append(place + memo)
    rows = [row_of[user] for user in waiting]
    # All at once: thousands of small arrays would take a tenth of a second.
    parts = [np.ascontiguousarray(numbers[rows]).view(np.uint8) for numbers in own]
    table = np.hstack([part.reshape(len(rows), -1) for part in parts])
    data, width = memoryview(table.tobytes()), table.shape[1]
    packed = {}
    for place_in_table, (user, tickets) in enumerate(waiting.items()):
        head = PLACE.pack(rows[place_in_table], len(tickets)) + b"".join(tickets)
        start = place_in_table * width
        packed[user] = _seal(head, head + data[start : start + width])
    return packed


def unpack_fleet(blob: bytes, users: Iterable[tuple[object, bytes]], fleet: Fleet) -> None:
    """Bring a fleet that has just been made to the state of a snapshot; InvalidInput if it cannot.

    ``users`` must be all of them, each as it was at the moment of the snapshot, called by what
    ``str`` makes of it. They are read one after another, so that a million are in memory once.
    """
    about, arrays = _read_arrays(blob)
    shared, own, *_ = fleet.parts()
    if len(arrays) != len(shared):
        raise InvalidInput("the snapshot of a fleet is of another version")
    rows, filled = _read_users(about, own, users, fleet)
    fleet.pending = dict(sorted(fleet.pending.items()))
    fleet.take_parts(about, Shared(*arrays), filled, rows)


def write_fleet(path: str | Path, about: dict[str, Any], fleet: Fleet) -> None:
    """Write a fleet to a file, whole or not at all."""
    arrow = optional_module("pyarrow")
    parts = {"": pack_fleet(fleet), **pack_users(fleet, fleet.users)}
    columns = {
        "user": arrow.array(list(parts), arrow.string()),
        "state": arrow.array(list(parts.values()), arrow.large_binary()),
    }
    write_table(path, arrow.table(columns), {"format": FORMAT, **about})


def read_fleet(path: str | Path) -> tuple[dict[str, Any], bytes, Iterable[tuple[object, bytes]]]:
    """Return what :func:`write_fleet` was given; a file that was changed since is refused."""
    try:
        whole = seal_holds(path)
    except FileNotFoundError:
        raise MissingFile(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if not whole:
        raise InvalidInput(
            f"{path} is no fleet file" + (": it was damaged or changed" if whole is False else "")
        )
    about = read_about(path)
    if about.pop("format", None) != FORMAT:
        raise InvalidInput(f'{path} is no fleet file: expected "format": "{FORMAT}"')
    table = read_table(path)
    parts = zip(table["user"].to_pylist(), table["state"].to_pylist(), strict=True)
    return about, next(parts)[1], parts


def _read_arrays(blob: bytes) -> tuple[dict[str, Any], list[Any]]:
    head, data = _unseal(blob)
    about = json.loads(head)
    arrays, start = [], 0
    for dtype, shape in about.pop("shapes"):
        size = int(np.prod(shape))
        arrays.append(np.frombuffer(data, dtype, size, start).reshape(shape).copy())
        start += size * np.dtype(dtype).itemsize
    return about, arrays


def _read_users(
    about: dict[str, Any], own: Own, users: Iterable[tuple[object, bytes]], fleet: Fleet
) -> tuple[dict[str, int], Own]:
    """Return the rows of users and their numbers; their open tickets go to the fleet."""
    many = about["users"] + len(about["free"])
    arrays: list[Any] = [
        np.zeros((max(many, 1), *numbers.shape[1:]), numbers.dtype) for numbers in own
    ]
    places: dict[str, int] = {}
    seen = np.zeros(many, np.bool_)
    seen[about["free"]] = True  # rows of users that were forgotten
    waiting = iter(users)
    while part := list(islice(waiting, USERS_AT_ONCE)):
        places.update(dict.fromkeys((str(user) for user, _ in part), -1))  # keeps their order
        by_form: dict[tuple[int, bytes], list[tuple[object, bytes]]] = {}
        for pair in part:
            by_form.setdefault((len(pair[1]), pair[1][8:12]), []).append(pair)
        for alike in by_form.values():
            labels = [str(user) for user, _ in alike]
            rows, table = _read_table(labels, [packed for _, packed in alike], fleet)
            if not 0 <= rows.min() <= rows.max() < many:
                raise InvalidInput("the snapshot has a user that the fleet did not have")
            if seen[rows].any():
                raise InvalidInput("the snapshot has two users in one place")
            seen[rows] = True
            places.update(zip(labels, rows.tolist(), strict=True))
            for numbers, values in zip(arrays, _cut(table, own), strict=True):
                numbers[rows] = values
    if len(places) != about["users"] or not seen.all():
        raise InvalidInput("the snapshot lacks a user, or has one twice")
    return places, Own(*arrays)


def _read_table(labels: list[str], packed: list[bytes], fleet: Fleet) -> tuple[Any, Any]:
    """Return the rows of users whose snapshots have one form, and their numbers as bytes.

    Nearly all have: taken apart one by one, a million would take twice as long.
    """
    for blob in packed:
        if zlib.crc32(blob[HEAD.size :]) != int.from_bytes(blob[4:8], "little"):
            raise _damaged()
    whole = b"".join(packed)
    if len(packed[0]) < HEAD.size + PLACE.size or whole[:4] != MAGIC:
        raise _damaged()
    table = np.frombuffer(whole, np.uint8).reshape(len(packed), -1)
    heads = np.ascontiguousarray(table[:, : HEAD.size + PLACE.size])
    if (heads[:, :4] != heads[0, :4]).any():
        raise _damaged()
    length = int.from_bytes(whole[8:12], "little")
    rows, tickets = heads[:, 12:28].copy().view("<i8").T
    for place in np.flatnonzero(tickets):
        _read_tickets(labels[place], packed[place][HEAD.size :], int(tickets[place]), fleet)
    return rows, table[:, HEAD.size + length :]


def _cut(table: Any, own: Own) -> Iterator[Any]:
    """Yield the arrays whose rows lie one after another in the rows of a table of bytes."""
    if sum(numbers[0].nbytes for numbers in own) != table.shape[1]:
        raise InvalidInput("the snapshot of a user is of another version")
    start = 0
    numbers: Any
    for numbers in own:
        width = numbers[0].nbytes
        part = np.ascontiguousarray(table[:, start : start + width]).view(numbers.dtype)
        start += width
        yield part.reshape(len(table), *numbers.shape[1:])


def _read_tickets(user: str, head: bytes, tickets: int, fleet: Fleet) -> None:
    """Let a fleet have the open tickets of a user."""
    start = PLACE.size
    for _ in range(tickets):
        number, t, arm, size = PENDING.unpack_from(head, start)
        start += PENDING.size + size
        if size % 8 or not 0 <= size <= len(head) or not 0 <= arm < fleet.n_arms:
            raise InvalidInput("the snapshot of a user is of another version")
        memo = tuple(array("d", head[start - size : start]))
        fleet.pending[number] = FleetTicket(number, user, t, arm, fleet.arm_names[arm], memo)


def _seal(head: bytes, body: bytes) -> bytes:
    return HEAD.pack(MAGIC, zlib.crc32(body), len(head)) + body


def _unseal(blob: bytes) -> tuple[bytes, bytes]:
    magic, checksum, length = HEAD.unpack_from(blob) if len(blob) >= HEAD.size else (b"", 0, 0)
    if magic != MAGIC or zlib.crc32(memoryview(blob)[HEAD.size :]) != checksum:
        raise _damaged()
    end = HEAD.size + length
    return blob[HEAD.size : end], blob[end:]


def _damaged() -> InvalidInput:
    return InvalidInput("the snapshot is damaged, or of another version")
