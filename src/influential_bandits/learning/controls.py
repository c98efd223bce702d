"""What else moves losses: the calendar, the hour, the place in a session, the item, own columns.

A control is a smooth or grouped effect that every arm has for itself: numbers become hat functions
over their quantiles, categories one column each. The quality of an item is one number, learned
from other instances only: shrunken means of what they lost with it beyond the other controls.
Effects are random, so that a control which explains nothing takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.free_memory import require_memory
from influential_bandits.logs.log import EventLog, change_log
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.packages import optional_module

DAY, HOUR = 86400.0, 3600.0
SESSION_BREAK = 1800.0  # seconds without an event after which a new session begins
TIMED = ("trend", "hour", "weekday", "position")
CONTROLS = (*TIMED, "item")
FEW_ARMS = 24  # beyond, effects of arms are coarser
SHORTEST_TREND = 2.0  # days that a log must span
SHORTEST_WEEKS = 14.0
FEWEST_SESSIONS = 1.1  # by instance; with one each, the position is the place in the history
APART = 0.5  # share of the variance of times that lies between instances
MOST_CATEGORIES = 30  # of a column; with more of them, each is judged by other instances, as items
MANY_EFFECTS, SPARSE = 2_000, 0.1  # from so many, and with so few entries, matrices are sparse
FEWER_EFFECTS = "merge rare arms (merge_rare_arms; --merge-arms-below), or name fewer controls"
PRIOR_EVENTS = 4.0  # an effect counts as if it had been seen to be 0 in so many events


class ControlColumns(NamedTuple):
    """Controls as compiled code reads them."""

    names: tuple[str, ...]
    basis: npt.NDArray[np.int32]  # (events, at a time): which effects of its arm an event has
    value: Floats  # (events, at a time): how much of each, 0 for none
    n_bases: int  # effects that each arm has
    shared: Floats  # (events, shared): columns that all arms have alike
    absorbed: npt.NDArray[np.int32]  # (events,): items with an effect each, −1 for seen once; or ()

    def size(self, n_arms: int) -> int:
        """Return how many coefficients there are."""
        return n_arms * self.n_bases + self.shared.shape[1]


def list_controls(log: EventLog) -> tuple[str, ...]:
    """Return the controls that a log allows: by its times, its items and its own columns.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> list_controls(ib.data.synthetic_log(20, 30, 3))
    ('trend', 'hour', 'weekday', 'position')
    """
    names = []
    if log.time is not None and len(log):
        span = float(log.time.max() - log.time.min()) / DAY
        if span >= SHORTEST_TREND:
            names += ["trend", "hour"]
        if span >= SHORTEST_WEEKS:
            names.append("weekday")
        positions = place_in_session(log)
        sessions = int((positions == 1).sum())
        if positions.max() > 2 and sessions >= FEWEST_SESSIONS * (log.lengths > 0).sum():
            names.append("position")
    if log.item_control is not None and len(log):
        names.append("item")
    return tuple(dict.fromkeys([*names, *log.controls]))


def require_controls(log: EventLog, controls: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of controls, by default all that the log allows; raise for others."""
    if controls is None:
        return list_controls(log)
    if isinstance(controls, str):
        raise InvalidInput(f"controls must be a list of names, got the text {abbreviate(controls)}")
    names = tuple(dict.fromkeys(controls))
    for name in names:
        if name not in CONTROLS and name not in log.controls:
            known = ", ".join((*CONTROLS, *log.controls))
            raise InvalidInput(f"the log has no control {abbreviate(name)}; it may be: {known}")
        if name in TIMED and name not in log.controls and log.time is None:
            raise InvalidInput(f"the control {name!r} needs times, and the log has none")
        if name == "item" and log.item_control is None:
            raise InvalidInput(
                "the control 'item' needs items finer than arms, and here every item is an arm"
            )
    return names


def build_controls(log: EventLog, names: Sequence[str], *, absorb: bool = False) -> ControlColumns:
    """Return the columns of these controls.

    The first one of many categories, items most of all, is absorbed if that is asked for: each
    category has an effect of its own. The others, and without absorbing all of them, are a quality:
    what other instances lost beyond the other controls.
    """
    parts: list[tuple[Ints, Floats, int]] = []
    learned: list[Ints] = []
    few = log.n_arms <= FEW_ARMS
    for name in names:
        column = log.item_control if name == "item" else log.controls.get(name)
        if column is not None and column.names is None:
            parts.append(make_hats(column.values, 5 if few else 3))
        elif column is not None and (name == "item" or len(column.names or ()) > MOST_CATEGORIES):
            learned.append(column.values)
        elif column is not None:
            parts.append(_groups(column.values))
        elif name == "trend":
            parts.append(make_hats(np.asarray(log.time), 8 if few else 4))
        elif name == "hour":
            parts.append(make_daily_hats(np.asarray(log.time), 12 if few else 6))
        elif name == "weekday":
            parts.append(_groups((np.asarray(log.time) // DAY).astype(np.int64) % 7))
        else:
            parts.append(make_hats(np.log2(place_in_session(log)), 5 if few else 3))
    basis, value, n_bases = _side_by_side(parts, len(log))
    absorbed = np.zeros(0, np.int32)
    if absorb and learned:
        absorbed = _number_repeated(learned.pop(0))
    none = np.zeros((len(log), 0))
    columns = ControlColumns(tuple(names), basis, value, n_bases, none, absorbed)
    if learned:
        left = log.loss - _explain(log, columns, log.loss, with_arms=True)
        owner = np.repeat(np.arange(log.n_instances), log.lengths)
        shared = [column for codes in learned for column in learn_qualities(owner, codes, left)]
        columns = columns._replace(shared=np.ascontiguousarray(np.stack(shared, axis=1)))
    return columns


def adjust_losses(log: EventLog, controls: Iterable[str] | None = None) -> EventLog:
    """Return a log whose losses are free of what controls explain.

    Parameters
    ----------
    log : EventLog
    controls : iterable of str, optional
        Among "trend", "hour", "weekday", "position" (in a session: after 30 minutes without an
        event a new one begins), "item", and the log's own ``controls``. By default all that the log
        allows but the position: taken out alone, it takes fatigue within a session along. So does
        the trend where all instances begin at about the same time, and it is left out there. The
        test of influence fits both beside influence.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(50, 40, 3, seed=1)
    >>> adjusted = adjust_losses(log)
    >>> adjusted.about["adjusted_for"]
    'hour, weekday'
    >>> bool(abs(adjusted.loss - log.loss).mean() < 0.2)  # nothing to explain
    True
    """
    names = require_controls(log, controls)
    if controls is None:
        kept_out = {"position"} if _tells_trend(log) else {"position", "trend"}
        names = tuple(name for name in names if name in log.controls or name not in kept_out)
    if not names:
        return log
    columns = build_controls(log, names)
    # Items tell within arms alone what they do: between arms their columns differ as well, and a
    # coefficient that is a little off would move the mean losses of arms by that much.
    columns = columns._replace(shared=_centre_by_arm(log, columns.shared))
    explained = _explain(log, columns, log.loss, with_arms=False)
    loss = log.loss - (explained - explained.mean())
    return change_log(log, loss=loss, about={**log.about, "adjusted_for": ", ".join(names)})


def _tells_trend(log: EventLog) -> bool:
    """Return whether the calendar differs from the place in a history: if instances begin apart."""
    if log.time is None or not len(log):
        return False
    owner = np.repeat(np.arange(log.n_instances), log.lengths)
    means = np.bincount(owner, log.time, log.n_instances) / np.maximum(log.lengths, 1)
    everything = float(log.time.var())
    return everything > 0.0 and float(means[owner].var()) >= APART * everything


def place_in_session(log: EventLog) -> Ints:
    """Return the place of every event in its session, from 1."""
    time = np.asarray(log.time)
    begins = np.ones(len(log), bool)
    begins[1:] = np.diff(time) > SESSION_BREAK
    begins[log.offsets[:-1][log.lengths > 0]] = True
    starts = np.flatnonzero(begins)
    return np.arange(len(log)) - np.repeat(starts, np.diff([*starts, len(log)])) + 1


def _explain(log: EventLog, columns: ControlColumns, loss: Floats, with_arms: bool) -> Floats:
    """Return what controls explain of the losses, as random effects beside the means of arms."""
    sparse = optional_module("scipy.sparse")
    arms, weights = log.n_arms, weigh_arms(log)
    blocks = [weights]
    if columns.n_bases:
        event = np.repeat(np.arange(len(log)), np.diff(weights.indptr))
        value = weights.data[:, None] * columns.value[event]
        spot = weights.indices[:, None].astype(np.int64) * columns.n_bases + columns.basis[event]
        rows = np.repeat(event, columns.basis.shape[1])
        shape = (len(log), arms * columns.n_bases)
        effects = sparse.coo_array((value.ravel(), (rows, spot.ravel())), shape=shape)
        blocks.append(effects.tocsr())
    if columns.shared.shape[1]:
        blocks.append(sparse.csr_array(columns.shared))
    design = sparse.hstack(blocks, format="csr")
    gram = sparse.csc_array(design.T @ design)
    prior = np.full(gram.shape[0], 1e-9 * max(float(gram.max()), 1e-300))
    prior[arms : arms + arms * columns.n_bases] += PRIOR_EVENTS
    fitted = _solve(gram + sparse.diags_array(prior), design.T @ (loss - loss.mean()))
    if not with_arms:
        fitted[:arms] = 0.0
    return np.asarray(design @ fitted) + (loss.mean() if with_arms else 0.0)


def _solve(gram: Any, moments: Floats) -> Floats:
    """Return the solution of normal equations, a sparse matrix.

    Arms that are never met together leave most of it empty. Of many arms, it would fill the memory.
    """
    size = gram.shape[0]
    if size > MANY_EFFECTS and gram.nnz < SPARSE * size**2:
        solve = optional_module("scipy.sparse.linalg").spsolve
        return np.asarray(solve(gram.tocsc(), moments, permc_spec="MMD_AT_PLUS_A"))
    needed = f"taking out {size:,} effects of controls"
    require_memory(16.0 * size**2, needed, FEWER_EFFECTS, NotApplicable)
    return np.linalg.solve(gram.toarray(), moments)


def weigh_arms(log: EventLog) -> Any:
    """Return the weight of every arm in every event, sparse (events, arms)."""
    table = log.membership
    rows = (table.weight, table.arm, table.offsets)
    shape = (len(table.items), log.n_arms)
    return optional_module("scipy.sparse").csr_array(rows, shape=shape)[log.item]


def _centre_by_arm(log: EventLog, columns: Floats) -> Floats:
    """Return columns less what arms explain of them, (events, columns)."""
    if not columns.shape[1]:
        return columns
    weights = weigh_arms(log)
    gram = (weights.T @ weights).toarray()
    means = np.linalg.lstsq(gram, weights.T @ columns, rcond=None)[0]
    return np.asarray(columns - weights @ means)


def learn_qualities(owner: Ints, codes: Any, left: Floats) -> list[Floats]:
    """Return what others lost with each item, shrunken, and how often others met it (its log)."""
    number = int(codes.max()) + 1
    cell = np.unique(owner * number + codes, return_inverse=True)[1]
    item_times = np.bincount(codes, minlength=number).astype(float)
    item_sum = np.bincount(codes, left, number)
    own_times = np.bincount(cell).astype(float)[cell]
    own_sum = np.bincount(cell, left)[cell]
    times = item_times[codes] - own_times
    met = item_times > 0
    means = item_sum[met] / item_times[met]
    events, groups = float(len(codes)), float(met.sum())
    within = float(((left - (item_sum / np.maximum(item_times, 1.0))[codes]) ** 2).sum())
    within /= max(events - groups, 1.0)
    between = float((item_times[met] * means**2).sum()) - groups * within
    between /= max(events - float((item_times**2).sum()) / events, 1.0)
    if between <= 0.0:
        return [np.zeros(len(codes)), np.log1p(times)]
    quality = (item_sum[codes] - own_sum) / (times + within / between)
    return [quality, np.log1p(times)]


def _number_repeated(codes: Any) -> npt.NDArray[np.int32]:
    """Return new codes of the categories that were met more than once, and −1 for the others."""
    times = np.bincount(codes)
    number = np.full(len(times), -1, np.int32)
    number[times > 1] = np.arange((times > 1).sum())
    return number[codes]


def make_hats(numbers: Floats, knots: int) -> tuple[Ints, Floats, int]:
    """Return hat functions between quantiles: two at a time, of which each event has its share."""
    marks = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, knots)))
    if len(marks) < 2:
        return np.zeros((len(numbers), 1), np.int64), np.zeros((len(numbers), 1)), 1
    left = np.clip(np.searchsorted(marks, numbers, "right") - 1, 0, len(marks) - 2)
    share = (numbers - marks[left]) / (marks[left + 1] - marks[left])
    share = np.clip(share, 0.0, 1.0)
    return np.stack([left, left + 1], 1), np.stack([1.0 - share, share], 1), len(marks)


def spread_hats(numbers: Floats, knots: int) -> Floats:
    """Return hat functions in a column each but the first, which the others differ from."""
    index, share, size = make_hats(numbers, knots)
    out = np.zeros((len(numbers), size))
    for column in range(index.shape[1]):
        out[np.arange(len(numbers)), index[:, column]] += share[:, column]
    return out[:, 1:]


def make_daily_hats(seconds: Floats, knots: int) -> tuple[Ints, Floats, int]:
    """Return hat functions around the clock."""
    place = seconds % DAY / DAY * knots
    left = np.minimum(place.astype(np.int64), knots - 1)
    share = place - left
    return np.stack([left, (left + 1) % knots], 1), np.stack([1.0 - share, share], 1), knots


def _groups(codes: Any) -> tuple[Ints, Floats, int]:
    """Return one column for each category."""
    codes = np.asarray(codes, np.int64)
    return codes[:, None], np.ones((len(codes), 1)), int(codes.max(initial=0)) + 1


def _side_by_side(
    parts: Sequence[tuple[Ints, Floats, int]], events: int
) -> tuple[npt.NDArray[np.int32], Floats, int]:
    """Return bases with numbers of their own, one after the other."""
    if not parts:
        return np.zeros((events, 0), np.int32), np.zeros((events, 0)), 0
    starts = np.cumsum([0, *(size for _, _, size in parts)])
    basis = [start + index for start, (index, _, _) in zip(starts[:-1], parts, strict=True)]
    value = [values for _, values, _ in parts]
    return (
        np.ascontiguousarray(np.concatenate(basis, 1), np.int32),
        np.ascontiguousarray(np.concatenate(value, 1)),
        int(starts[-1]),
    )
