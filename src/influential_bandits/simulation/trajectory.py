"""Trajectory: what a run returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import real_array
from influential_bandits.display import take_axes
from influential_bandits.errors import InvalidInput, NotApplicable, NotCertified
from influential_bandits.files import write_table
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.regret import regret
from influential_bandits.packages import make_frame
from influential_bandits.policies.contract import Policy
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.summaries.slopes import log_log_slope
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REGRET = "regret"


class Framed(ABC):
    """Base of what has tidy columns of numbers."""

    @abstractmethod
    def to_columns(self, *, counts: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Return columns of equal length."""

    def to_frame(self, library: str = "pandas", *, counts: bool = False) -> Any:
        """Return the columns of :meth:`to_columns` as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        counts : bool
            Add a column for each arm, ``pulls_NAME``.
        """
        return make_frame(self.to_columns(counts=counts), library)


@dataclass(frozen=True, eq=False)
class Trajectory(Framed):
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
            benchmark = real_array("the counts to compare with", against)
            try:
                others = np.broadcast_to(benchmark, self.counts.shape)
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
        n_instances, n_seeds, n_checkpoints, _ = self.counts.shape
        columns: dict[str, npt.NDArray[Any]] = {
            "instance": np.repeat(self.instance_numbers, n_seeds * n_checkpoints),
            "seed": np.tile(np.repeat(self.seeds, n_checkpoints), n_instances),
            "policy": np.full(n_instances * n_seeds * n_checkpoints, self.policy.label, object),
            "horizon": np.tile(self.checkpoints, n_instances * n_seeds),
            "loss": self.loss().ravel(),
            "regret": self._known_regret().ravel(),
        }
        if counts:
            for k, name in enumerate(self.instances[0].arm_names):
                columns[f"pulls_{name}"] = self.counts[..., k].ravel()
        return columns

    def _known_regret(self) -> Floats:
        """Return the regret, (instances, seeds, checkpoints); NaN where there is no number."""
        values = np.full(self.counts.shape[:-1], np.nan)
        if self.scenario is not None and self.scenario.restricts_arms:
            return values
        for instance, counts, out in zip(self.instances, self.counts, values, strict=True):
            with suppress(NotApplicable):  # fading, or indefinite with many arms
                try:
                    out[...] = regret(instance, counts)
                except NotCertified:  # of some rows, perhaps not of all
                    for place in np.ndindex(out.shape):
                        with suppress(NotCertified):
                            out[place] = regret(instance, counts[place])
        return values

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

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_columns`, all counts among them, to a Parquet file for any program."""
        write_table(path, self.to_frame("pyarrow", counts=True), {"run": repr(self)})

    def __repr__(self) -> str:
        instances, seeds, marks, n_arms = self.counts.shape
        scenario = "" if self.scenario is None else f"{self.scenario!r}, "
        return (
            f"Trajectory({self.policy!r}, {self.noise!r}, {scenario}horizon {self.horizon:,}, "
            f"{instances} instances × {seeds} seeds × {marks} checkpoints × {n_arms} arms)"
        )


class Trajectories(Framed, dict[str, Trajectory]):
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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw all runs in one picture, as :meth:`Trajectory.plot` draws one."""
        ax = take_axes(ax)
        for name, run in self.items():
            run.plot(ax, name)
        return ax

    def __repr__(self) -> str:
        size = ""
        for run in self.values():
            instances, seeds = run.counts.shape[:2]
            size = f": horizon {run.horizon:,}, {instances} instances × {seeds} seeds"
        return f"Trajectories({', '.join(self)}{size})"
