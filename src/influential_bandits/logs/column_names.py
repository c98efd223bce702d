"""What names of columns say about their role, and the words for what outcomes count."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Each role's words, the likeliest first. Case and what separates words do not matter. Finer things
# stand last among the arms: beside a coarser column they are what was shown of that arm.
PEOPLE = (
    *("customer", "visitor", "member", "client", "viewer", "reader", "subscriber"),
    *("person", "account", "player", "patient", "cookie", "session", "campaign"),
)
ARMS = ("ad", "advert", "banner", "variant", "category", "genre", "topic", "creative")
ITEMS = (*("item", "product", "article", "movie", "film", "song", "track", "video", "book", "sku"),)
NUMBERED = ("content_id", "news_id", "offer_id", "section_id")  # whose words alone may be arms


def _with_id(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for word in words for name in (word, f"{word}_id"))


USUAL_NAMES = {
    "instance": (
        "instance",
        "user",
        "user_id",
        "uid",
        *_with_id(PEOPLE),
        "anonymous_id",
        "device_id",
    ),
    "time": (
        *("time", "timestamp", "date", "datetime", "created_at", "ts", "tstamp", "time_stamp"),
        *("event_time", "event_timestamp", "event_ts", "event_date", "date_time", "unix_time"),
        *("timestamp_ms", "timestamp_us", "timestamp_ns", "time_ms", "ts_ms", "event_time_ms"),
        *("unix_timestamp", "epoch", "epoch_ms", "created", "occurred_at", "logged_at", "shown_at"),
        *("served_at", "viewed_at", "rated_at", "clicked_at", "click_time", "impression_time"),
        *("server_time", "request_time", "visited_at", "event_at", "utc_time", "local_time"),
    ),
    "arm": ("arm", "action", *_with_id(ARMS), "genres", *_with_id(ITEMS), *NUMBERED),
    "loss": ("loss", "cost"),
    "rating": ("rating", "stars", "score"),
    "reward": (
        *("reward", "click", "clicked", "clicks", "is_click", "is_clicked", "conversion"),
        *("converted", "conversions", "is_conversion", "purchase", "purchased", "bought"),
        *("is_purchase", "sale", "sales", "sold", "liked", "is_liked"),
    ),
    "item": (*_with_id(ITEMS), *NUMBERED, "creative", "creative_id", "ad_id"),
}


def guess_column(columns: Sequence[str], role: str) -> str | None:
    """Return the column whose name says that it has this role, if there is one.

    Examples
    --------
    >>> guess_column(["User ID", "film", "stars"], "instance")
    'User ID'
    """
    by_name = {_plain(column): column for column in reversed(columns)}
    names = (_plain(name) for name in USUAL_NAMES[role])
    return next((by_name[name] for name in names if name in by_name), None)


def has_usual_name(column: str, role: str) -> bool:
    """Tell whether the name of a column says that it has this role.

    Examples
    --------
    >>> has_usual_name(" eventTime ", "time"), has_usual_name("uptime", "time")
    (True, False)
    """
    return guess_column([column], role) is not None


def _plain(name: str) -> str:
    """Return a name in lower case, without what separates its words."""
    return re.sub(r"[\W_]+", "", name.lower())


def list_words(name: str) -> list[str]:
    """Return the words of a name in lower case: ``isClick``, ``is_click`` and ``Is click`` alike.

    Examples
    --------
    >>> list_words("isClick"), list_words("timestamp_ms")
    (['is', 'click'], ['timestamp', 'ms'])
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", apart.lower()) if word]


COUNTED = {  # what is counted, by the words that name it
    "clicks": ("click", "clicks", "clicked"),
    "purchases": ("purchase", "purchases", "purchased", "bought", "buy", "buys"),
    "conversions": ("conversion", "conversions", "converted", "convert", "cvr"),
    "sales": ("sale", "sales", "sold"),
    "orders": ("order", "orders", "ordered"),
    "likes": ("like", "likes", "liked"),
    "views": ("view", "views", "viewed", "watched"),
    "bookings": ("booking", "bookings", "booked"),
    "rewards": ("reward", "rewards", "y", "r", "label", "target", "outcome", "response", "success"),
}
AROUND = {"is", "was", "has", "did", "n", "num", "no", "of", "number", "flag", "count", "total"}


def name_unit(column: str) -> str:
    """Return what a column of rewards counts, as a sentence says it; else its own name.

    Examples
    --------
    >>> [name_unit(name) for name in ("clicked", "is_click", "n_purchases", "y", "revenue")]
    ['clicks', 'clicks', 'purchases', 'rewards', 'revenue']
    """
    words = [word for word in list_words(column) if word not in AROUND]
    units = {word: unit for unit, names in COUNTED.items() for word in names}
    return units.get(words[0], column) if len(words) == 1 else column
