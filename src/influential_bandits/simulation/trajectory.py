"""Trajectory: what a run returns."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import real_array
from influential_bandits.display import make_html, take_axes
from influential_bandits.errors import InvalidInput, MissingFile, NotApplicable, NotCertified
from influential_bandits.files import clear_reason, read_about, read_table, seal_holds, write_table
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.regret import regret
from influential_bandits.packages import make_frame, optional_module
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import policy_from_json, policy_to_json
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.summaries.slopes import log_log_slope
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise, noise_from_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "influential-bandits/trajectory/1"
REGRET = "regret"
SHOWN_CHECKPOINTS, SHOWN_ARMS = 6, 8  # in a notebook
KEYS = ("instance", "seed", "horizon")  # columns that tell one row from another
RECORDED = ("choices", "losses")  # columns with a list for each run, in its last row


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
    choices : array (instances, seeds, horizon), int32, or None
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
    choices: npt.NDArray[np.int32] | None = None
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
            if instance.fades and self.expected_loss is not None:
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
            given = real_array("the counts to compare with", against)
            try:
                others = np.broadcast_to(given, self.counts.shape)
            except ValueError:
                raise InvalidInput(
                    f"the counts to compare with must fit the shape {self.counts.shape}"
                ) from None
        runs = zip(self.instances, self.counts, others, strict=True)
        return np.stack([regret(instance, counts, other) for instance, counts, other in runs])

    def slope(self, low: float, high: float, against: str = "relaxation") -> float:
        """Return the slope of log(mean regret) in log T, fitted to checkpoints in [low, high]."""
        return log_log_slope(self.checkpoints, self.regret(against).mean(axis=(0, 1)), low, high)

    def to_columns(self, *, counts: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Return tidy columns of equal length: one row for each instance, seed and checkpoint.

        Parameters
        ----------
        counts : bool
            Add a column for each arm, ``pulls_NAME``.

        Returns
        -------
        dict of arrays
            instance (its number), seed, policy (its label), horizon, loss and regret. The regret is
            NaN where it is not defined (memory < 1, arms not always on offer) or no optimum could
            be proved.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> run = ib.simulate(ib.counterexample(), ib.LCB(), 100, seeds=2, checkpoints=[10, 100])
        >>> run.to_columns()["regret"]
        array([  6.125, 210.125,   6.125, 210.125])
        """
        numbers, seeds, horizons = _grid(self.instance_numbers, self.seeds, self.checkpoints)
        columns: dict[str, npt.NDArray[Any]] = {
            "instance": numbers,
            "seed": seeds,
            "policy": np.full(len(horizons), self.policy.label, object),
            "horizon": horizons,
            "loss": self.loss().ravel(),
            "regret": self._known_regret().ravel(),
        }
        if counts:
            for k, name in enumerate(self.instances[0].arm_names):
                columns[f"pulls_{name}"] = self.counts[..., k].ravel()
        return columns

    def _known_regret(self) -> Floats:
        """Return the regret, (instances, seeds, checkpoints); NaN where there is no number."""
        found = np.full(self.counts.shape[:-1], np.nan)
        if self.scenario is not None and self.scenario.restricts_arms:
            return found
        for instance, counts, out in zip(self.instances, self.counts, found, strict=True):
            with suppress(NotApplicable):  # fading, or indefinite with many arms
                try:
                    out[...] = regret(instance, counts)
                except NotCertified:  # of some rows, perhaps not of all
                    for place in np.ndindex(out.shape):
                        with suppress(NotCertified):
                            out[place] = regret(instance, counts[place])
        return found

    def to_frame(self, library: str = "pandas", *, counts: bool = False) -> Any:
        """Return the columns of :meth:`to_columns` as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        counts : bool
            Add a column for each arm, ``pulls_NAME``.
        """
        return make_frame(self.to_columns(counts=counts), library)

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw mean regret against the horizon on log scales, with 95 % confidence intervals.

        Where no regret is defined or proved, the mean loss of a round is drawn.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw here, to compare several runs.
        label : str, optional
            By default the policy's own.
        """
        ax = take_axes(ax)
        what, values = self._measure()
        values = values.reshape(-1, len(self.checkpoints))
        mean, positive = values.mean(axis=0), bool((values > 0).any())
        (line,) = ax.plot(
            self.checkpoints, mean, marker="o", markersize=3, label=label or self.policy.label
        )
        if len(values) > 1:
            half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            low, high = mean - half, mean + half
            if what == REGRET:
                low = np.maximum(low, mean * 1e-3)  # a log scale has no zero
            ax.fill_between(
                self.checkpoints, low, high, color=line.get_color(), alpha=0.2, linewidth=0
            )
        drawn = "log" if what == REGRET and positive else "linear"
        ax.set(xscale="log", yscale=drawn, xlabel="horizon T", ylabel=what)
        ax.legend()
        return ax

    def _measure(self) -> tuple[str, Floats]:
        """Return the regret, or else the mean loss of a round, and which of them it is."""
        try:
            return REGRET, self.regret()
        except (NotApplicable, NotCertified):
            return "mean loss of a round", self.loss() / self.checkpoints

    def _repr_html_(self) -> str:
        """Show the mean loss of a round, and how often each arm was pulled, at some checkpoints."""
        last = len(self.checkpoints) - 1
        shown = _spread(last)
        few = self.counts.shape[-1] <= SHOWN_ARMS
        names = self.instances[0].arm_names if few else ()
        loss = self.loss().mean(axis=(0, 1)) / self.checkpoints
        shares = self.counts.mean(axis=(0, 1)) / self.checkpoints[:, None]
        rows = [
            [f"{self.checkpoints[k]:,}", f"{loss[k]:.4g}"]
            + [f"{100 * share:.1f} %" for share in (shares[k] if few else ())]
            for k in shown
        ]
        header = ["horizon", "mean loss of a round", *(f"pulls of {name}" for name in names)]
        return make_html(repr(self), header=header, rows=rows)

    def save(self, path: str | Path) -> None:
        """Write the run to a Parquet file: one row a checkpoint, the settings as JSON metadata."""
        pyarrow = optional_module("pyarrow")
        instances, seeds, marks, n_arms = self.counts.shape
        rows = instances * seeds * marks
        grid = _grid(self.instance_numbers, self.seeds, self.checkpoints)
        columns = dict(zip(KEYS, grid, strict=True))
        counts = np.ascontiguousarray(self.counts, np.int64).ravel()
        columns["counts"] = pyarrow.FixedSizeListArray.from_arrays(counts, n_arms)
        if self.expected_loss is not None:
            columns["expected_loss"] = self.expected_loss.ravel()
        for name in RECORDED:
            values = getattr(self, name)
            if values is not None:
                ends = np.zeros(rows + 1, np.int64)
                ends[marks::marks] = values.shape[-1]
                columns[name] = pyarrow.LargeListArray.from_arrays(np.cumsum(ends), values.ravel())
        settings = {
            "format": FORMAT,
            "instances": [instance.to_json() for instance in self.instances],
            "instance_numbers": self.instance_numbers.tolist(),
            "seeds": self.seeds.tolist(),
            "checkpoints": self.checkpoints.tolist(),
            "policy": policy_to_json(self.policy),
            "noise": self.noise.to_json(),
            "horizon": self.horizon,
            "scenario": None if self.scenario is None else self.scenario.to_json(),
        }
        write_table(path, pyarrow.table(columns), settings)

    @classmethod
    def load(cls, path: str | Path, policy: Policy | None = None) -> Trajectory:
        """Read a run written by :meth:`save`.

        A file that was damaged, or changed by another program, is refused: its checksum tells.

        Parameters
        ----------
        path : path
        policy : Policy, optional
            The policy that played. By default it is made from the file; the module of one of your
            own is imported.
        """
        optional_module("pyarrow.parquet")
        try:
            if not stat.S_ISREG(Path(path).stat().st_mode):
                raise InvalidInput(f"{path} is no regular file; name one that save has written")
            sealed = seal_holds(path)
            if sealed is None:
                raise InvalidInput(
                    f"{path} is not a saved trajectory, or was changed by another program: it has "
                    "no checksum"
                )
            if not sealed:
                raise InvalidInput(f"{path} is damaged: its checksum does not fit what it holds")
            settings = read_about(path)
            if settings.get("format") != FORMAT:
                raise InvalidInput(
                    f"{path} is not a saved trajectory: its format is {settings.get('format')!r}, "
                    f"not {FORMAT!r}"
                )
            return cls(**_read_columns(read_table(path), settings, policy))
        except FileNotFoundError as error:
            raise MissingFile(f"cannot read {path}: {clear_reason(error)}") from None
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {clear_reason(error)}") from None
        except MemoryError:
            raise InvalidInput(f"{path} does not fit into memory") from None

    def __repr__(self) -> str:
        instances, seeds, marks, n_arms = self.counts.shape
        scenario = "" if self.scenario is None else f"{self.scenario!r}, "
        return (
            f"Trajectory({self.policy!r}, {self.noise!r}, {scenario}horizon {self.horizon:,}, "
            f"{instances} instances × {seeds} seeds × {marks} checkpoints × {n_arms} arms)"
        )


class Trajectories(dict[str, Trajectory]):
    """The runs of several policies, by name; what :func:`simulate` returns of several.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> runs = ib.simulate(ib.counterexample(), ["LCB", "Uniform"], 100, checkpoints=[10, 100])
    >>> runs
    Trajectories(LCB, Uniform: horizon 100, 1 instances × 1 seeds)
    >>> runs.to_columns()["policy"].tolist()
    ['LCB', 'LCB', 'Uniform', 'Uniform']
    """

    def to_columns(self, *, counts: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of all runs, as :meth:`Trajectory.to_columns`; policy is the name."""
        parts = [
            columns | {"policy": np.full(len(columns["policy"]), name, object)}
            for name, columns in ((n, run.to_columns(counts=counts)) for n, run in self.items())
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def to_frame(self, library: str = "pandas", *, counts: bool = False) -> Any:
        """Return the columns of :meth:`to_columns` as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        counts : bool
            Add a column for each arm, ``pulls_NAME``.
        """
        return make_frame(self.to_columns(counts=counts), library)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw all runs in one picture, as :meth:`Trajectory.plot` draws one.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw here; by default in a new figure.
        """
        ax = take_axes(ax)
        for name, run in self.items():
            run.plot(ax, name)
        return ax

    def _repr_html_(self) -> str:
        """Show the mean regret of each, or the mean loss of a round, at some checkpoints."""
        what, marks, rows = "", np.zeros(0, np.int64), []
        for name, run in self.items():
            what, values = run._measure()
            marks = run.checkpoints[_spread(len(run.checkpoints) - 1)]
            means = values.mean(axis=(0, 1))[np.searchsorted(run.checkpoints, marks)]
            rows.append([name, *(f"{mean:,.4g}" for mean in means)])
        return make_html(repr(self), header=[what, *(f"T = {T:,}" for T in marks)], rows=rows)

    def __repr__(self) -> str:
        size = ""
        for run in self.values():
            instances, seeds = run.counts.shape[:2]
            size = f": horizon {run.horizon:,}, {instances} instances × {seeds} seeds"
        return f"Trajectories({', '.join(self)}{size})"


def _spread(last: int) -> Ints:
    """Return some places among 0 … last, with both ends."""
    return np.unique(np.linspace(0, last, SHOWN_CHECKPOINTS).round().astype(int))


def _grid(numbers: Any, seeds: Any, marks: Any) -> tuple[Any, Any, Any]:
    """Return the instance, seed and round of each row of a table in order."""
    return (
        np.repeat(numbers, len(seeds) * len(marks)),
        np.tile(np.repeat(seeds, len(marks)), len(numbers)),
        np.tile(marks, len(numbers) * len(seeds)),
    )


def _read_columns(table: Any, settings: Mapping[str, Any], policy: Policy | None) -> dict[str, Any]:
    """Return what a trajectory is made of, of a file whose checksum holds."""
    instances = tuple(Instance.from_json(data) for data in settings["instances"])
    marks = np.array(settings["checkpoints"], np.int64)
    seeds = np.array(settings["seeds"], np.uint64)
    shape, scenario = (len(instances), len(seeds), len(marks)), settings["scenario"]
    arrays = {name: _values(table, name) for name in table.column_names if name not in KEYS}
    recorded = {name: arrays[name].reshape(*shape[:2], -1) for name in RECORDED if name in arrays}
    return {
        "instances": instances,
        "policy": policy_from_json(settings["policy"], policy),
        "noise": noise_from_json(settings["noise"]),
        "seeds": seeds,
        "checkpoints": marks,
        "counts": arrays["counts"].reshape(*shape, instances[0].n_arms),
        "expected_loss": arrays["expected_loss"].reshape(shape)
        if "expected_loss" in arrays
        else None,
        "horizon": settings["horizon"],
        "instance_numbers": np.array(settings["instance_numbers"], np.uint64),
        "scenario": None if scenario is None else Scenario.from_json(scenario),
        **recorded,
    }


def _values(table: Any, name: str) -> Any:
    """Return all numbers of a column; of lists, one after the other."""
    column = table[name].combine_chunks()
    values = column.flatten() if hasattr(column.type, "value_type") else column
    return values.to_numpy(zero_copy_only=False)
