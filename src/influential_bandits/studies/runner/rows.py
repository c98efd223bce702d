"""Tidy rows: equally long columns, one row an observation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Ints
from influential_bandits.simulation.trajectory import Trajectory

Columns: TypeAlias = Mapping[str, npt.ArrayLike]
Rows: TypeAlias = dict[str, npt.NDArray[Any]]


def tidy(run: Trajectory, numbers: Sequence[int], **values: npt.ArrayLike) -> Rows:
    """Return one row for each instance, seed and checkpoint of a run.

    Instances have the numbers given; ``values`` are further columns, of shape (instances, seeds,
    checkpoints) or one that fits it.
    """
    shape = run.counts.shape[:-1]
    # Signed: NumPy makes floats of signed and unsigned numbers together.
    instance, seed = np.asarray(numbers, np.int64), run.seeds.astype(np.int64)
    values = {"instance": instance[:, None, None], "seed": seed[:, None], **values}
    more = {name: np.broadcast_to(value, shape).ravel() for name, value in values.items()}
    return run.to_columns() | more


def concatenate(parts: Iterable[Columns]) -> Rows:
    """Return the columns of several tables, one below the other."""
    tables = [{name: np.asarray(values) for name, values in part.items()} for part in parts]
    names = tables[0] if tables else ()
    return {name: np.concatenate([table[name] for table in tables]) for name in names}


def pivot(rows: Rows, chosen: npt.NDArray[np.bool_], column: str) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the horizons, and a column of the chosen rows as an array (instances, horizons)."""
    horizons = np.unique(rows["horizon"][chosen])
    order = np.lexsort((rows["horizon"][chosen], rows["instance"][chosen]))
    return horizons, rows[column][chosen][order].reshape(-1, len(horizons))
