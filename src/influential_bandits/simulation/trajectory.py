"""Trajectory: what a run returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import make_frame, optional_module
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.optima.regret import regret
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.naming import policy_from_json, policy_to_json
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.simulation.slopes import log_log_slope
from influential_bandits.world.dynamics import Floats, Ints
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise, noise_from_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Trajectory"]

FORMAT = "influential-bandits/trajectory/1"


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The counts of every run at every checkpoint, and what follows from them.

    Attributes
    ----------
    instances : tuple of Instance
    policy : Policy
    noise : Noise
    seeds : array (seeds,), uint64
    checkpoints : array (checkpoints,), int64
    counts : array (instances, seeds, checkpoints, arms), int64
    expected_loss : array (instances, seeds, checkpoints), or None
        Total loss before noise, where counts do not determine it (memory < 1).
    arms : array (instances, seeds, horizon), int32, or None
        Every choice, if recorded.
    horizon : int
        Rounds played; the last checkpoint may be earlier.
    instance_numbers : array (instances,), uint64
        What told the instances' random streams apart.
    scenario : Scenario or None
        What the runs had to cope with.
    losses : array (instances, seeds, horizon), float64, or None
        The observed loss of the pull of every round, if recorded; also of those whose loss a
        scenario handed over late.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), ib.LCB(), horizon=100, checkpoints=[10, 100])
    >>> run.regret()[0, 0]
    array([  6.125, 210.125])
    """

    instances: tuple[Instance, ...]
    policy: Policy
    noise: Noise
    seeds: npt.NDArray[np.uint64]
    checkpoints: Ints
    counts: Ints
    expected_loss: Floats | None = None
    arms: npt.NDArray[np.int32] | None = None
    horizon: int = 0
    instance_numbers: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    scenario: Scenario | None = None
    losses: Floats | None = None

    def __post_init__(self) -> None:
        """Fill in what a run made by hand leaves out."""
        if not self.horizon:
            object.__setattr__(self, "horizon", int(self.checkpoints[-1]))
        if not len(self.instance_numbers):
            numbers = np.arange(len(self.instances), dtype=np.uint64)
            object.__setattr__(self, "instance_numbers", numbers)

    def loss(self) -> Floats:
        """Return the expected total loss at each checkpoint, (instances, seeds, checkpoints)."""
        out = np.empty(self.counts.shape[:-1])
        for i, instance in enumerate(self.instances):
            if instance.memory < 1.0 and self.expected_loss is not None:
                out[i] = self.expected_loss[i]
            else:
                out[i] = instance.total_loss(self.counts[i])
        return out

    def regret(self, against: str | npt.ArrayLike = "relaxation") -> Floats:
        """Return the regret at each checkpoint, (instances, seeds, checkpoints).

        Parameters
        ----------
        against : {"relaxation", "integer"} or array (instances, seeds, checkpoints, arms)
            The benchmark; see :func:`influential_bandits.regret`. Against counts of your own, such
            as those of another run, it may be negative; otherwise never. Where a scenario kept arms
            from being pulled, only these can be compared with.
        """
        if isinstance(against, str) and self.scenario is not None and self.scenario.restricts_arms:
            raise NotApplicable(
                f"regret compares with the best of all arms in all rounds, which {self.scenario} "
                "did not offer; compare loss(), or regret(against=other.counts) with another run"
            )
        others: Any = [against] * len(self.instances)
        if not isinstance(against, str):
            try:
                others = np.broadcast_to(np.asarray(against, float), self.counts.shape)
            except ValueError:
                raise InvalidInput(
                    f"the counts to compare with must fit the shape {self.counts.shape}"
                ) from None
        runs = zip(self.instances, self.counts, others, strict=True)
        return np.stack([regret(instance, counts, other) for instance, counts, other in runs])

    def slope(self, low: float, high: float, against: str = "relaxation") -> float:
        """Return the slope of log(mean regret) in log T, fitted to checkpoints in [low, high]."""
        return log_log_slope(self.checkpoints, self.regret(against).mean(axis=(0, 1)), low, high)

    def to_frame(self, library: str = "pandas", *, counts: bool = False) -> Any:
        """Return a tidy data frame: one row for each instance, seed and checkpoint.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        counts : bool
            Add a column for each arm, ``pulls_NAME``.

        Returns
        -------
        data frame
            With columns instance, seed, policy, horizon, loss and, where it is defined, regret.
        """
        shape = self.counts.shape[:-1]
        columns: dict[str, Any] = {
            "instance": np.repeat(self.instance_numbers, shape[1] * shape[2]),
            "seed": np.tile(np.repeat(self.seeds, shape[2]), shape[0]),
            "policy": [self.policy.label] * (shape[0] * shape[1] * shape[2]),
            "horizon": np.tile(self.checkpoints, shape[0] * shape[1]),
            "loss": self.loss().ravel(),
        }
        with suppress(
            NotApplicable
        ):  # fading, or indefinite with many arms: only the loss is known
            columns["regret"] = self.regret().ravel()
        if counts:
            for k, name in enumerate(self.instances[0].arms):
                columns[f"pulls_{name}"] = self.counts[..., k].ravel()
        return make_frame(columns, library)

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw mean regret against the horizon on log scales, with 95 % confidence intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw here, to compare several runs.
        label : str, optional
            By default the policy's own.
        """
        pyplot = optional_module("matplotlib.pyplot")
        if ax is None:
            ax = pyplot.subplots()[1]
        values = self.regret().reshape(-1, len(self.checkpoints))
        (line,) = ax.plot(
            self.checkpoints,
            values.mean(axis=0),
            marker="o",
            markersize=3,
            label=label or self.policy.label,
        )
        if len(values) > 1:
            mean = values.mean(axis=0)
            half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            low, high = np.maximum(mean - half, mean * 1e-3), mean + half  # a log scale has no zero
            ax.fill_between(
                self.checkpoints, low, high, color=line.get_color(), alpha=0.2, linewidth=0
            )
        drawn = "log" if (values > 0).any() else "linear"  # a log scale cannot show all zeros
        ax.set(xscale="log", yscale=drawn, xlabel="horizon T", ylabel="regret")
        ax.legend()
        return ax

    def save(self, path: str | Path) -> None:
        """Write the run to a Parquet file: one row a checkpoint, the settings as JSON metadata."""
        pyarrow, parquet = (
            optional_module("pyarrow"),
            optional_module("pyarrow.parquet"),
        )
        instances, seeds, marks, arms = self.counts.shape
        rows = instances * seeds * marks
        columns = {
            "instance": np.repeat(self.instance_numbers, seeds * marks),
            "seed": np.tile(np.repeat(self.seeds, marks), instances),
            "horizon": np.tile(self.checkpoints, instances * seeds),
            "counts": pyarrow.FixedSizeListArray.from_arrays(self.counts.ravel(), arms),
        }
        if self.expected_loss is not None:
            columns["expected_loss"] = self.expected_loss.ravel()
        for name, values in (("arms", self.arms), ("losses", self.losses)):
            if values is not None:
                ends = np.zeros(rows + 1, np.int64)
                ends[marks::marks] = values.shape[-1]
                columns[name] = pyarrow.LargeListArray.from_arrays(np.cumsum(ends), values.ravel())
        settings = {
            "format": FORMAT,
            "instances": [instance.to_json() for instance in self.instances],
            "policy": policy_to_json(self.policy),
            "noise": self.noise.to_json(),
            "horizon": self.horizon,
            "scenario": None if self.scenario is None else self.scenario.to_json(),
        }
        table = pyarrow.table(columns).replace_schema_metadata(
            {"influential_bandits": json.dumps(settings, allow_nan=False)}
        )
        parquet.write_table(table, str(path))

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read a run written by :meth:`save`; a policy of your own must have been imported."""
        parquet = optional_module("pyarrow.parquet")
        try:
            table = parquet.read_table(str(path))
            settings = json.loads(table.schema.metadata[b"influential_bandits"])
            if settings["format"] != FORMAT:
                raise InvalidInput(f"{path} has the format {settings['format']!r}, not {FORMAT!r}")
            return cls(**_loaded(table, settings))
        except FileNotFoundError:
            raise
        except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{path} is not a saved trajectory: {error!r:.200}") from None

    def __repr__(self) -> str:
        """Say who played, how long, and how often."""
        instances, seeds, marks, arms = self.counts.shape
        scenario = "" if self.scenario is None else f"{self.scenario!r}, "
        return (
            f"Trajectory({self.policy!r}, {self.noise!r}, {scenario}horizon {self.horizon:,}, "
            f"{instances} instances × {seeds} seeds × {marks} checkpoints × {arms} arms)"
        )


def _loaded(table: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    instances = tuple(Instance.from_json(data) for data in settings["instances"])
    seeds = table["seed"].to_numpy()
    marks = np.unique(table["horizon"].to_numpy())
    shape = (len(instances), len(seeds) // len(instances) // len(marks), len(marks))
    counts = table["counts"].combine_chunks().flatten().to_numpy()
    loss = table["expected_loss"].to_numpy() if "expected_loss" in table.column_names else None
    scenario = settings.get("scenario")
    recorded: dict[str, Any] = dict.fromkeys(("arms", "losses"))
    for name, dtype in (("arms", np.int32), ("losses", np.float64)):
        if name in table.column_names:
            values = table[name].combine_chunks().flatten().to_numpy()
            recorded[name] = values.astype(dtype).reshape(*shape[:2], -1)
    return {
        "instances": instances,
        "policy": policy_from_json(settings["policy"]),
        "noise": noise_from_json(settings["noise"]),
        "seeds": seeds[: shape[1] * shape[2] : shape[2]].astype(np.uint64),
        "checkpoints": marks,
        "counts": counts.reshape(*shape, instances[0].n_arms),
        "expected_loss": None if loss is None else loss.reshape(shape),
        **recorded,
        "horizon": settings["horizon"],
        "instance_numbers": table["instance"].to_numpy()[:: shape[1] * shape[2]].astype(np.uint64),
        "scenario": None if scenario is None else Scenario.from_json(scenario),
    }
