"""Synthetic logs with a planted truth: what learning from logs is tested and measured against."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import LARGEST_LOSS, abbreviate, is_real, whole_number
from influential_bandits.datasets.histories import Model, write_histories
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.log import EventLog, cut_histories, make_sorted_log
from influential_bandits.logs.membership import Membership
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.world.generators import random_instance
from influential_bandits.world.interaction import Interaction, as_interaction

SECONDS_PER_DAY = 86400.0
LARGEST = LARGEST_LOSS
RANGES = {
    "memory": (0.0, 1.0, "(]"),
    "half_life_days": (0.0, LARGEST, "(]"),
    "noise": (0.0, LARGEST, "[]"),
    "spread": (0.0, LARGEST, "[]"),
    "drift": (0.0, LARGEST, "[]"),
    "drift_memory": (0.0, 1.0, "[)"),
    "grid": (1.0 / LARGEST, LARGEST, "[]"),
    "bursts": (0.0, 1.0, "[)"),
    "steering": (-LARGEST, LARGEST, "[]"),
    "taste": (-LARGEST, LARGEST, "[]"),
    "gap": (0.0, LARGEST, "(]"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class PlantedTruth:
    """The numbers from which a synthetic log was drawn, in ``log.about["truth"]``.

    The fields are the arguments of :func:`synthetic_log`, and what was drawn from them.
    ``initial_losses`` are kept only where they are at most 10⁷ numbers.

    Examples
    --------
    >>> truth = synthetic_log(10, 20, n_arms=2, initial_loss=[1, 2], spread=0.5).about["truth"]
    >>> truth
    PlantedTruth(memory=1.0, half_life_days=None, noise=1.0, spread=0.5, ...)
    >>> truth.initial_loss, truth.initial_losses.shape, truth.memory
    (array([1., 2.]), (10, 2), 1.0)
    """

    interaction: Floats = dataclasses.field(repr=False)  # (arms, arms)
    initial_loss: Floats = dataclasses.field(repr=False)  # (arms,)
    popularity: Floats = dataclasses.field(repr=False)  # (arms,), sums to 1
    memory: float = 1.0
    half_life_days: float | None = None
    noise: float = 1.0
    spread: float = 0.0
    drift: float = 0.0
    drift_memory: float = 0.95
    grid: float | None = None
    bursts: float = 0.0
    steering: float = 0.0
    taste: float = 0.0
    gap: float = SECONDS_PER_DAY
    seed: int = 0
    initial_losses: Floats | None = dataclasses.field(default=None, repr=False)  # (instances, arms)

    @property
    def n_arms(self) -> int:
        """Number of arms K."""
        return len(self.initial_loss)


def synthetic_log(
    n_instances: int = 100,
    events: int | npt.ArrayLike = 200,
    n_arms: int = 5,
    *,
    interaction: Interaction | npt.ArrayLike | None = None,
    initial_loss: npt.ArrayLike | None = None,
    memory: float = 1.0,
    half_life_days: float | None = None,
    noise: float = 1.0,
    spread: float = 0.0,
    drift: float = 0.0,
    drift_memory: float = 0.95,
    grid: float | None = None,
    bursts: float = 0.0,
    steering: float = 0.0,
    taste: float = 0.0,
    popularity: npt.ArrayLike | None = None,
    gap: float = SECONDS_PER_DAY,
    seed: int = 0,
    execution: Execution | int | None = None,
) -> EventLog:
    """Return a log drawn from known numbers, with what makes real logs hard to learn from.

    The arm i of event n of instance u costs l1ᵤ[i] + (Adₙ)[i] + gₙ + noise·N(0, 1), where
    d₁ = 0, and after the event either dₙ₊₁ = memory·dₙ + eᵢ, or, with a half-life,
    dₙ₊₁ = 2^(−(tₙ₊₁ − tₙ)/half-life)·(dₙ + eᵢ).

    Parameters
    ----------
    n_instances : int
        How many histories; the first ones do not depend on how many there are.
    events : int, or array (instances,) of int
        Lengths of the histories.
    n_arms : int
        K ≥ 1.
    interaction : array (arms, arms) or Interaction, optional
        Symmetric; by default zeros, no influence. See :func:`planted_interaction`.
    initial_loss : float or array (arms,), optional
        By default zeros.
    memory : float in (0, 1]
        γ, how much of the influence is left after each event.
    half_life_days : float, optional
        Days after which half of the influence is left, instead of ``memory``.
    noise : float
        Standard deviation of the noise.
    spread : float
        Standard deviation of l1ᵤ[i] around ``initial_loss``.
    drift, drift_memory : float
        gₙ is a stationary AR(1) process along the events: its standard deviation, and the
        correlation of neighbours, in [0, 1).
    grid : float, optional
        Losses are rounded to multiples of it (halves up), and clipped to 0 … 4.5, where ratings of
        ½ to 5 stars lie; 0.5 makes them such.
    bursts : float in [0, 1)
        Probability that an event repeats the arm before it, 30 seconds later.
    steering : float
        How strongly the losses met so far steer choices: other events draw their arm from the
        softmax of log popularity − taste·l1ᵤ[j] − steering·(the instance's mean loss of arm j so
        far, minus that of all its events so far; 0 for arms not met yet).
    taste : float
        How strongly choices follow what an instance likes anyway.
    popularity : array (arms,), optional
        By default uniform; 0 for an arm that is never drawn.
    gap : float
        Mean seconds between events outside of bursts, exponentially distributed.
    seed : int
        Names the log. Logs of the same seed and other settings share their random numbers: event n
        of instance u has the same noise in all of them.
    execution : Execution or int, optional
        Where to draw: so many threads of this computer, by default all cores. Does not change a bit
        of the log.

    Returns
    -------
    EventLog
        Instances and arms are called "0", "1", …; ``about["truth"]`` is a :class:`PlantedTruth`.

    Examples
    --------
    >>> A = planted_interaction(n_arms=3, strength=0.2, seed=1)
    >>> log = synthetic_log(50, 100, n_arms=3, interaction=A, memory=0.9, noise=0.5, seed=1)
    >>> log
    EventLog(5,000 events, 50 instances, 3 arms)
    >>> bool((log.about["truth"].interaction == A).all())
    True
    """
    truth = check_truth(
        n_arms,
        interaction,
        initial_loss,
        popularity,
        memory=memory,
        half_life_days=half_life_days,
        noise=noise,
        spread=spread,
        drift=drift,
        drift_memory=drift_memory,
        grid=grid,
        bursts=bursts,
        steering=steering,
        taste=taste,
        gap=gap,
        seed=seed,
    )
    return draw_log(truth, check_offsets(n_instances, events), execution)


def planted_interaction(n_arms: int, strength: float, seed: int = 0) -> Floats:
    """Return a random positive semi-definite matrix whose largest entry is ``strength``.

    That of :func:`random_instance`, scaled.

    Parameters
    ----------
    n_arms : int
    strength : float
        Not negative.
    seed : int

    Returns
    -------
    array (arms, arms) of float

    Examples
    --------
    >>> float(planted_interaction(n_arms=4, strength=0.3).max())
    0.3
    """
    scale = _in_range("strength", strength, 0.0, LARGEST, "[]")
    return scale * random_instance(n_arms, seed).interaction.to_dense()


def draw_log(
    truth: PlantedTruth,
    offsets: Ints,
    execution: Execution | int | None,
    *,
    events_per_task: int = 1 << 18,
    largest_truth: int = 10**7,
) -> EventLog:
    """Return the log of instances whose histories begin at offsets.

    Parameters
    ----------
    events_per_task : int
        By default about a tenth of a second of work for a thread. Does not change a bit of the log.
    largest_truth : int
        The most numbers of instances' own losses that are kept: more would rival the log itself.
    """
    count, total, arms = len(offsets) - 1, int(offsets[-1]), truth.n_arms
    try:
        arm, loss, time = np.empty(total, np.int32), np.empty(total), np.empty(total)
    except (MemoryError, ValueError):
        raise InvalidInput(f"a log of {total:,} events does not fit into memory") from None
    losses = np.empty((count if count * arms <= largest_truth else 0, arms))
    ranges = list(cut_histories(offsets, events_per_task))
    tasks = [(start, offsets[start : stop + 1] - offsets[start]) for start, stop in ranges]
    draw = partial(_draw_histories, _as_model(truth), len(losses) > 0)
    drawn = resolve_execution(execution).map(draw, tasks, Progress("synthetic log", len(tasks)))
    for (start, stop), columns in zip(ranges, drawn, strict=True):
        events, instances = slice(offsets[start], offsets[stop]), slice(start, stop)
        arm[events], loss[events], time[events], losses[instances] = columns
    planted = dataclasses.replace(truth, initial_losses=losses if len(losses) else None)
    for column in (offsets, arm, loss, time, losses):
        column.flags.writeable = False
    # Histories are in order as they are drawn; numbering and sorting them would triple the memory.
    return make_sorted_log(
        tuple(str(number) for number in range(count)),
        offsets,
        arm,
        loss,
        time,
        Membership.of_arms([str(number) for number in range(arms)]),
        {"source": "synthetic", "truth": planted},
    )


def _draw_histories(
    model: Model, with_losses: bool, task: tuple[int, Ints]
) -> tuple[npt.NDArray[Any], ...]:
    """Draw neighbouring instances: the number of the first, and where their histories begin."""
    first, offsets = task
    count, total, arms = len(offsets) - 1, int(offsets[-1]), len(model.initial_loss)
    columns = (
        np.empty(total, np.int32),
        np.empty(total),
        np.empty(total),
        np.empty((count * with_losses, arms)),
    )
    write_histories(model, first, offsets, *columns)
    return columns


def _as_model(truth: PlantedTruth) -> Model:
    """Return the truth as compiled code sees it."""
    with np.errstate(divide="ignore"):  # log 0 = −∞: an arm that is never drawn
        log_popularity = np.log(truth.popularity)
    plain = {name: getattr(truth, name) for name in Model._fields if hasattr(truth, name)}
    return Model(
        **plain
        | {
            "seed": np.uint64(truth.seed),
            "log_popularity": log_popularity,
            "half_life": SECONDS_PER_DAY * (truth.half_life_days or 0.0),
            "grid": truth.grid or 0.0,
        }
    )


def check_offsets(n_instances: object, events: int | npt.ArrayLike) -> Ints:
    """Return where each history begins, (instances + 1,)."""
    count = whole_number("n_instances", n_instances, 1, 2**31)
    offsets = np.zeros(count + 1, np.int64)
    if np.ndim(events) == 0:
        offsets[1:] = whole_number("events", events, 1, 2**31)
    else:
        lengths = np.asarray(events)
        if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
            raise InvalidInput(
                f"events must be whole numbers, one for each of the {count} instances, got shape "
                f"{lengths.shape} of {lengths.dtype}"
            )
        if lengths.min() < 1 or lengths.max() >= 2**31:
            extreme = lengths.min() if lengths.min() < 1 else lengths.max()
            raise InvalidInput(f"every instance needs 1 … 2³¹ − 1 events, got {extreme}")
        offsets[1:] = lengths
    return np.cumsum(offsets)


def check_truth(
    n_arms: object,
    interaction: Interaction | npt.ArrayLike | None = None,
    initial_loss: npt.ArrayLike | None = None,
    popularity: npt.ArrayLike | None = None,
    **settings: Any,
) -> PlantedTruth:
    """Return all numbers but those drawn per instance, or say what is wrong with them."""
    count = whole_number("n_arms", n_arms, 1, 10_001)
    settings["seed"] = whole_number("seed", settings.get("seed", 0))
    for name, (low, high, ends) in RANGES.items():
        absent = settings.get(name) is None and name in ("half_life_days", "grid")
        if name in settings and not absent:
            settings[name] = _in_range(name, settings[name], low, high, ends)
    truth = PlantedTruth(
        _check_interaction(interaction, count),
        _check_vector("initial_loss", 0.0 if initial_loss is None else initial_loss, count),
        _check_popularity(popularity, count),
        **settings,
    )
    if truth.half_life_days is not None and truth.memory != 1.0:
        raise InvalidInput(
            f"influence fades by events or by the clock: give memory = {truth.memory} or "
            f"half_life_days = {truth.half_life_days}, not both"
        )
    return truth


def _check_interaction(given: Interaction | npt.ArrayLike | None, arms: int) -> Floats:
    matrix = np.zeros((arms, arms)) if given is None else as_interaction(given).to_dense().copy()
    if matrix.shape != (arms, arms):
        raise InvalidInput(f"interaction must be {arms} × {arms}, got shape {matrix.shape}")
    matrix.flags.writeable = False
    return matrix


def _check_vector(name: str, given: npt.ArrayLike, arms: int) -> Floats:
    """Return one number for each arm; a single number stands for all of them."""
    try:
        vector = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be numbers, got {given!r:.80}") from None
    if vector.shape not in ((), (arms,)):
        raise InvalidInput(
            f"{name} must have one number for each of the {arms} arms, got shape {vector.shape}"
        )
    if not (np.abs(vector) <= LARGEST).all():
        raise InvalidInput(f"{name} must be finite, at most {LARGEST:g} in size")
    full: Floats = np.full(arms, vector)
    full.flags.writeable = False
    return full


def _check_popularity(given: npt.ArrayLike | None, arms: int) -> Floats:
    popularity = _check_vector("popularity", 1.0 if given is None else given, arms)
    if popularity.min() < 0.0 or popularity.max() == 0.0:
        raise InvalidInput(
            "popularity must not be negative, nor zero for all arms; its smallest entry is "
            f"{popularity.min():g} and its largest {popularity.max():g}"
        )
    popularity = popularity / popularity.sum()
    popularity.flags.writeable = False
    return popularity


def _in_range(name: str, value: Any, low: float, high: float, ends: str) -> float:
    """Return a number of an interval, or say why it is none; "(]" excludes the lower end."""
    fine = is_real(value) and low <= float(value) <= high
    if fine and not (ends[0] == "(" and value == low) and not (ends[1] == ")" and value == high):
        return float(value)
    raise InvalidInput(
        f"{name} must be a number in {ends[0]}{low:g}, {high:g}{ends[1]}, got {abbreviate(value)}"
    )
