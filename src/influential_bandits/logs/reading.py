"""read_log: a file, a folder or a data frame as an EventLog, with every bad row accounted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.controls import PREFIX, ControlColumn
from influential_bandits.logs.event_scan import EventScan
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.log_builder import collect_events, describe_source, require_rows
from influential_bandits.logs.options import ChunkSizes, CsvFormat, ReadingOptions
from influential_bandits.logs.sources import open_source
from influential_bandits.logs.time_columns import find_time_columns

__all__ = ["read_log"]

OF_FRAMES = {"instance", "item", "arms", "loss"}  # columns of frames of logs that are no times


def read_log(
    source: str | Path | Mapping[str, Any] | Any,
    *,
    instance: str = "instance",
    arm: str = "arm",
    time: str | None = "time",
    loss: str | None = None,
    rating: str | None = None,
    reward: str | None = None,
    best: float | None = None,
    arm_names: Sequence[str] | None = None,
    items: Mapping[Any, Sequence[str] | str] | None = None,
    categories: str | None = None,
    choose: str = "fractional",
    seed: int = 0,
    key: str | Sequence[str] | None = None,
    item: str | None = None,
    controls: Sequence[Any] | Mapping[str, str | None] = (),
    separator: str | None = None,
    columns: Sequence[str] | None = None,
    bad_rows: str = "error",
    progress: bool | None = None,
    sizes: ChunkSizes | None = None,
) -> EventLog:
    """Read a log of events: one row each, with an instance, an arm, a time and an outcome.

    Parameters
    ----------
    source : path, data frame, Arrow table, or mapping of names to columns
        CSV (plain or gzip), a Parquet or Arrow file, a folder of Parquet files (those that
        :func:`open_partitions` would take), or anything tabular: pandas, Polars, Arrow.
    instance, arm : str
        Columns of labels: whose event it is, and what was met (an arm, or an item of ``items``).
    time : str or None
        Column of times: numbers of seconds, ISO 8601 text (UTC unless it has a zone) or
        timestamps. If half of the texts of the first rows are numbers, all must be. None: the
        order of rows is the order of time.
    loss, rating, reward : str
        Column of outcomes, exactly one of them: a loss; a rating, loss = ``best`` − rating; or a
        reward, loss = −reward. If none is named, the columns are those of
        :meth:`EventLog.to_frame`, and neither arm, time nor controls need be named.
    best : float
        The best rating there is; with ``rating`` only.
    arm_names : sequence of str, optional
        All arms, in the order wanted; rows of others are bad. By default those of the log, sorted.
    items : mapping of items to a sequence of arms, optional
        The arms of each item, if the column ``arm`` holds items; rows of others are bad.
    categories : str, optional
        Separates several arms of one item in text: "|" for "Comedy|Horror".
    choose : "fractional" or "random"
        What becomes of items of several arms; see :class:`Membership`.
    seed : int
        Of the random choice.
    key : str or sequence of str, optional
        Columns whose combination must be unique; all rows but the first of the same key are bad.
        Without it, events that repeat instance, time, item and loss of another are kept and
        counted in ``about["repeated"]``.
    item : str, optional
        Column of labels that say what was met more finely than the arm, such as the film where the
        arm is its genre; read as the control "item".
    controls : sequence of str, or mapping of str to "numbers" or "categories"
        Further columns to keep beside the events, in ``log.controls``. If their kind is not given,
        columns of text are categories and others numbers; in CSV, columns of which half of the
        texts of the first rows are numbers are numbers, and all must be. Missing values are bad.
    separator : str, optional
        Of CSV, of one character or several; by default the one of , ; | :: and tab under which the
        columns are found.
    columns : sequence of str, optional
        All columns of CSV that has no header, in order.
    bad_rows : "error" or "drop"
        What to do if rows cannot be used: raise an error that says which and why, or leave them
        out and count them in ``about["dropped"]``, by reason.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals, if it takes long.
    sizes : ChunkSizes, optional
        How much is read at a time, which changes no result; the longest line of CSV.

    Returns
    -------
    EventLog
        With ``about``: source, conversion of losses, dropped, repeated, separator of CSV, kinds of
        controls, and of a folder how many files were taken and which were left.

    Raises
    ------
    InvalidLog
        If the source cannot be read, lacks columns, or has bad rows.

    Examples
    --------
    >>> log = read_log(
    ...     {
    ...         "user": ["ann", "bob", "ann"],
    ...         "genre": ["Horror", "Comedy|Horror", "Comedy"],
    ...         "stars": [2, 4, 5],
    ...         "day": ["2024-05-02", "2024-05-02", "2024-05-01"],
    ...     },
    ...     instance="user",
    ...     arm="genre",
    ...     time="day",
    ...     rating="stars",
    ...     best=5,
    ...     categories="|",
    ... )
    >>> log
    EventLog(3 events, 2 instances, 2 arms, items of several arms)
    >>> log.history("ann").loss
    array([0., 3.])
    >>> log.about["conversion"]
    'loss = 5 − stars'
    >>> events = {"instance": [1, 2], "arm": ["a", "b"], "loss": [0, 1], "device": ["pc", "tv"]}
    >>> read_log(events, time=None, loss="loss", controls=["device"]).controls
    {'device': Control(2 events, 2 categories)}
    """
    form = CsvFormat(separator, columns)
    if loss is None and rating is None and reward is None and items is None:
        loss, arm, time, items, found = _find_columns(source, form, arm, time)
        controls = controls or found
    plan = ReadingOptions(
        instance=instance,
        arm=arm,
        time=time,
        loss=loss,
        rating=rating,
        reward=reward,
        best=best,
        arm_names=arm_names,
        items=items,
        categories=categories,
        choose=choose,
        seed=seed,
        key=key,
        item=item,
        controls=controls,
        bad_rows=bad_rows,
        sizes=sizes or ChunkSizes(),
    )
    codes = ItemCodes(plan)
    opened = open_source(source, plan.columns, form, plan.sizes)
    scan = EventScan(opened, plan, codes, progress)
    instances, builder = collect_events(scan)
    builder.drop_repeated_keys(scan.bad)
    scan.bad.check(bad_rows)
    require_rows(opened, scan.bad, builder.size)
    membership, final = codes.membership()
    about = describe_source(opened, plan, scan.bad, scan.control_kinds)
    return builder.build(instances.labels, membership, final, about, codes.controls.final())


def _find_columns(
    source: Any, form: CsvFormat, arm: str, time: str | None
) -> tuple[str | None, str, str | None, dict[str, list[str]] | None, tuple[ControlColumn, ...]]:
    """Return loss, arm, time, items and controls of a source that is a log's frame."""
    opened = open_source(source, (), form, ChunkSizes())
    if "loss" not in opened.columns:
        return None, arm, time, None, ()
    if time is not None and time not in opened.columns:
        taken = [name for name in opened.columns if name in OF_FRAMES or name == arm]
        others = find_time_columns(opened, taken)
        if others:
            raise InvalidLog(
                f"which column of {opened.name} is the time? There is no {time!r}, but "
                f"{', '.join(map(repr, others))} may be: pass time={others[0]!r}, or time=None if "
                "the order of rows is the order of time"
            )
        time = None
    controls = tuple(
        ControlColumn(column.removeprefix(PREFIX), column)
        for column in opened.columns
        if column.startswith(PREFIX)
    )
    if arm in opened.columns or "item" not in opened.columns:
        return "loss", arm, time, None, controls
    if "arms" not in opened.columns:
        return "loss", "item", time, None, controls
    members: dict[str, list[str]] = {}
    for chunk in opened.chunks(["item", "arms"], lambda *_: None):
        for item, arms in zip(*map(list, chunk.columns), strict=True):
            if str(item) not in members:
                members[str(item)] = arms.as_py()
    return "loss", "item", time, members, controls
