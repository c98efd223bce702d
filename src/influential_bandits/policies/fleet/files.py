"""Files of fleets: arrays as bytes in a sealed Parquet table, the rest as JSON in its footer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.files import read_about, read_table, seal_holds, write_table
from influential_bandits.packages import optional_module
from influential_bandits.policies.foresight.users import Own, Shared

FORMAT = "influential-bandits/fleet/2"
State = TypeVar("State", Shared, Own)


class FleetData(NamedTuple):
    """What a file of a fleet holds."""

    about: dict[str, Any]
    shared: Shared
    own: Own

    def require_like(self, shared: Shared, own: Own) -> None:
        """Raise unless the arrays have the shapes of these, but for the number of users."""
        rows = len(self.own.first)
        pairs: list[tuple[Any, Any, int]] = [(self.shared, shared, 0), (self.own, own, 1)]
        for mine, theirs, free in pairs:
            for name, array, other in zip(mine._fields, mine, theirs, strict=True):
                shape = (rows, *other.shape[1:]) if free else other.shape
                if array.dtype != other.dtype or array.shape != shape:
                    raise InvalidInput(
                        f"the fleet file is damaged: {name} has shape {array.shape}, expected "
                        f"{shape}"
                    )


def write_fleet(path: str | Path, data: FleetData) -> None:
    """Write a fleet, whole or not at all."""
    arrow = optional_module("pyarrow")
    parts: dict[str, Any] = {"shared": data.shared, "own": data.own}
    rows = [
        (f"{part}.{name}", str(array.dtype), list(array.shape), np.ascontiguousarray(array))
        for part, state in parts.items()
        for name, array in zip(state._fields, state, strict=True)
    ]
    table = arrow.table(
        {
            "name": arrow.array([row[0] for row in rows]),
            "dtype": arrow.array([row[1] for row in rows]),
            "shape": arrow.array([row[2] for row in rows], arrow.list_(arrow.int64())),
            "bytes": arrow.array([row[3].tobytes() for row in rows], arrow.large_binary()),
        }
    )
    write_table(path, table, {"format": FORMAT, **data.about})


def read_fleet(path: str | Path) -> FleetData:
    """Read what :func:`write_fleet` wrote; a file that was changed since is refused."""
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
    table = read_table(path).to_pydict()
    arrays: dict[str, Any] = {}
    try:
        columns = (table[name] for name in ("name", "dtype", "shape", "bytes"))
        for name, dtype, shape, raw in zip(*columns, strict=True):
            arrays[name] = np.frombuffer(raw, dtype).reshape(shape).copy()
        return FleetData(
            about,
            _gather(Shared, "shared", arrays),
            _gather(Own, "own", arrays),
        )
    except KeyError as missing:
        raise InvalidInput(f"{path} has no {missing}: it is of another version") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the fleet file is damaged: {error}") from None


def _gather(kind: type[State], part: str, arrays: dict[str, Any]) -> State:
    return kind(*(arrays[f"{part}.{name}"] for name in kind._fields))
