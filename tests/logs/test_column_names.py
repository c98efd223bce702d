"""Names of columns: whose role they tell in any spelling, and what outcomes count."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from influential_bandits.errors import InvalidLog
from influential_bandits.learning.impact import measure_impact
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.logs.column_names import guess_column, has_usual_name, name_unit
from influential_bandits.logs.reading import read_log


def spellings(name):
    """The name as databases, JavaScript, spreadsheets and other people write it."""
    words = name.split("_")
    camel = words[0] + "".join(word.title() for word in words[1:])
    joined = (" ".join(words), "-".join(words), ".".join(words), "".join(words), "/".join(words))
    return {name, name.upper(), name.title(), camel, camel[0].upper() + camel[1:], *joined}


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("instance", "user_id customer_id visitor visitor_id session_id uid userid member_id"),
        ("arm", "ad_id item_id creative_id banner_id product_id genre category_id arm"),
        ("time", "ts event_time timestamp_ms datetime created_at served_at shown_at unix_time"),
        ("reward", "click clicked clicks is_click purchased bought conversion"),
        ("rating", "rating stars"),
        ("item", "item_id movie_id product_id creative_id"),
    ],
)
def test_usual_names_are_known_in_every_spelling(role, names):
    for name in names.split():
        unknown = {spelling for spelling in spellings(name) if not has_usual_name(spelling, role)}
        assert not unknown


def test_usual_names_in_their_order():
    assert guess_column(["ts", "Time"], "time") == "Time"
    assert guess_column(["uptime"], "time") is None
    assert guess_column(["session_id", "campaign_id", "uid"], "instance") == "uid"
    assert guess_column(["creative_id", "campaign_id", "ad_id"], "arm") == "ad_id"
    assert guess_column(["item_id", "category"], "arm") == "category"
    assert guess_column(["device"], "instance") is None  # a phone or a tablet, not somebody


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        *((name, "clicks") for name in ("click", "clicks", "clicked", "is_click", "isClicked")),
        *((name, "purchases") for name in ("purchased", "bought", "Is Purchase", "n_purchases")),
        *((name, "conversions") for name in ("conversion", "converted", "CONVERSIONS")),
        *((name, "rewards") for name in ("y", "reward", "label")),
        *((name, name) for name in ("revenue", "minutes", "dwell_time", "click_price", "売上")),
    ],
)
def test_outcomes_are_told_in_words_that_exist(column, unit):
    assert name_unit(column) == unit


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({"reward": "clicked"}, "clicks"),
        ({"reward": "bought"}, "purchases"),
        ({"rating": "stars", "best": 1}, "stars"),
        ({"rating": "rating", "best": 1}, "points of rating"),
        ({"loss": "y"}, "loss"),
    ],
)
def test_impact_speaks_of_what_was_counted(options, unit):
    column = next(iter(options.values()))
    events = {"user": [1] * 8 + [2] * 8, "ad": list("aabbabab" * 2), column: [1, 0, 1, 0] * 4}
    log = read_log(events, instance="user", arm="ad", time=None, **options)
    model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    assert measure_impact(model, log).outcome == unit


EVENTS = {"user": ["a"] * 4, "ad": list("xyxy"), "time": [1, 2, 3, 4]}
READ = {"instance": "user", "arm": "ad", "reward": "clicked"}
TRUTHS = [
    ["True", "False", "True", "False"],
    ["TRUE", "false", " yes ", "No"],
    ["t", "F", "y", "n"],
    ["true", "0", "1.0", "no"],
]


def doors(tmp_path, values):
    """The same events by every way in which they may be given."""
    columns = EVENTS | {"clicked": values}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    pd.DataFrame(columns).to_csv(tmp_path / "log.csv", index=False)
    frame = pd.DataFrame(columns)
    return [columns, frame, frame.astype({"clicked": object}), *tmp_path.glob("log.*")]


@pytest.mark.parametrize("values", [*TRUTHS, [True, False, True, False]])
def test_yes_and_no_are_one_and_nothing(values, tmp_path):
    for source in doors(tmp_path, values):
        assert read_log(source, **READ).loss.tolist() == [-1.0, 0.0, -1.0, 0.0]
    if isinstance(values[0], bool):
        nullable = pd.DataFrame(EVENTS).assign(clicked=pd.array([*values[:3], None], "boolean"))
        assert read_log(nullable, **READ, bad_rows="drop").loss.tolist() == [-1.0, 0.0, -1.0]
        with pytest.raises(InvalidLog, match=r"1 × missing value \(row 3"):
            read_log(nullable, **READ)


def test_other_words_are_still_no_numbers(tmp_path):
    for source in doors(tmp_path, ["True", "no", "maybe", "yesterday"])[:2]:
        with pytest.raises(InvalidLog, match=r"2 × not a number \(rows 2, 3: clicked 'maybe'"):
            read_log(source, **READ)
