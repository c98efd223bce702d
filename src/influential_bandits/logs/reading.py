"""read_log: a file, a folder or a data frame as an EventLog, with every bad row accounted for."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from influential_bandits.logs.event_scan import EventScan
from influential_bandits.logs.find_columns import find_columns, is_own_frame
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.log_builder import collect_events, describe_source
from influential_bandits.logs.options import AUTO, show_options, take_options
from influential_bandits.logs.sources import open_source

NO_TIME = (
    "no column of {} looks like a time, so that the order of rows is taken for the order of time: "
    "name one with time=, or pass time=None"
)


@show_options()
def read_log(source: str | Path | Any, *, progress: bool | None = None, **options: Any) -> EventLog:
    """Read a log of events: one row each, with an instance, an arm, a time and an outcome.

    Parameters
    ----------
    source : path, data frame, Arrow table, or mapping of names to columns
        CSV (plain or gzip), a Parquet or Arrow file, a folder of Parquet files (those that
        :func:`open_partitions` would take), or anything tabular: pandas, Polars, Arrow.
    instance, arm : str
        Columns of labels: whose event it is, and what was met (an arm, or an item of ``items``).
        "auto": the column of a usual name, such as "user_id" and "ad"; so for ``time``, ``item``
        and the outcome, if none is named.
    time : str or None
        Column of times: ISO 8601 text (UTC unless it has a zone), timestamps, or numbers. If half
        of the texts of the first rows are numbers, all must be. None: the order of rows is the
        order of time.
    time_unit : "s", "ms", "us", "ns", "min", "h" or "d"
        Of times that are numbers. By default numbers that are dates from 1990 to 2100, counted
        since 1970 in s, ms, us or ns, are known by their size, and smaller ones, such as 0, 1, 2,
        count seconds from a start of their own. What fits neither is refused.
    time_format : str, optional
        How dates are written that are not ISO 8601, as for :meth:`datetime.strptime`: "%d/%m/%Y".
    loss, rating, reward : str
        Column of outcomes, one of them: a loss; a rating, loss = ``best`` − rating; or a reward,
        loss = −reward.
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
    item : str or None
        Column of labels that say what was met more finely than the arm, such as the film where the
        arm is its genre; read as the control "item". None: there is no such column.
    controls : sequence of str, or mapping of str to "numbers" or "categories"
        Further columns to keep beside the events, in ``log.controls``. If their kind is not given,
        columns of text are categories and others numbers; in CSV, columns of which half of the
        texts of the first rows are numbers are numbers, and all must be. Missing values are bad.
    separator : str, optional
        Of CSV, one character; by default the one of , ; | and tab under which the columns are
        found.
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
        With ``about``: source, which column was taken for what, when the first and the last event
        were, conversion of losses, dropped, repeated, separator of CSV, kinds of controls, and of a
        folder how many files were taken and which were left. ``about["reading"]`` holds what
        ``read_log(log.to_frame(), **log.about["reading"])`` needs to read the log again.

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
    >>> clicks = {"user_id": [1, 1], "ad": ["a", "b"], "ts": [1714588200123, 1714588260123]}
    >>> read_log(clicks | {"clicked": [True, False]}).about["columns"]
    'instance = user_id, arm = ad, time = ts, reward = clicked'
    >>> events = {"instance": [1, 2], "arm": ["a", "b"], "loss": [0, 1], "device": ["pc", "tv"]}
    >>> read_log(events, time=None, controls=["device"]).controls
    {'device': Control(2 events, 2 categories)}
    """
    plan = take_options("read_log", options)
    opened = open_source(source, plan)
    asked, plan = plan.time, find_columns(plan, opened)
    if asked == AUTO and plan.time is None and not is_own_frame(opened.columns):
        warnings.warn(NO_TIME.format(opened.name), stacklevel=2)
    codes = ItemCodes(plan)
    scan = EventScan(opened, plan, codes, progress)
    builder = collect_events(scan)
    scan.bad.check(plan.bad_rows, builder.size)
    membership, final = codes.membership()
    about = describe_source(opened, plan, scan.bad, scan.control_kinds, scan.clock, scan.span)
    return builder.build(membership, final, about, codes.controls.final())
