"""EventLog and Membership: order, parts, histories, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.log import EventLog, require_log, sort_into_log
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.reading import read_log

FILMS = {"Alien": ["Horror", "Sci-Fi"], "Airplane!": ["Comedy"], "Ghost": ["Comedy", "Drama"]}

events = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cleo", "7"]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(-3, 3).map(float),  # few different times, so that many tie
    ),
    min_size=1,
    max_size=40,
)


def log_of(rows, *, timed=True):
    """A log whose losses are the numbers of rows, so that every event can be told."""
    who, what, time = zip(*rows, strict=True)
    return EventLog(who, what, np.arange(len(rows)), time if timed else None)


def histories(log):
    """Label → (arms, losses, times), one history after the other."""
    made = {}
    for label in log.instances:
        one = log.history(label)
        items = [log.membership.items[item] for item in one.item]
        made[label] = (items, one.loss.tolist(), None if one.time is None else one.time.tolist())
    return made


@given(events, st.booleans())
def test_events_stand_by_instance_then_time_then_as_given(rows, timed):
    log = log_of(rows, timed=timed)
    expected = {}
    for number, (who, what, time) in enumerate(rows):
        expected.setdefault(who, []).append((time if timed else 0.0, number, what))
    assert log.instances == tuple(expected)
    assert log.lengths.tolist() == [len(mine) for mine in expected.values()]
    in_order = [event for mine in expected.values() for event in sorted(mine)]
    assert log.loss.tolist() == [number for _, number, _ in in_order]
    assert [log.arm_names[arm] for arm in log.arm] == [what for *_, what in in_order]
    if timed:
        assert log.time.tolist() == [time for time, *_ in in_order]
    else:
        assert log.time is None


@given(events, st.randoms(use_true_random=False))
def test_taking_instances_keeps_their_histories_in_the_order_asked_for(rows, random):
    log = log_of(rows)
    chosen = random.sample(range(log.n_instances), random.randint(0, log.n_instances))
    taken = log.take(chosen)
    assert taken.instances == tuple(log.instances[number] for number in chosen)
    assert taken.arm_names == log.arm_names
    assert taken.membership is log.membership
    expected = histories(log)
    assert histories(taken) == {label: expected[label] for label in taken.instances}
    assert taken.n_events == taken.lengths.sum() == len(taken)


@given(events, st.integers(1, 50))
def test_parts_are_the_log_in_whole_instances(rows, size):
    log = log_of(rows)
    parts = list(log.parts(size))
    together = {}
    for part in parts:
        assert part.n_instances >= 1
        assert len(part) <= size or part.n_instances == 1
        together |= histories(part)
    assert together == histories(log)
    assert sum(part.n_instances for part in parts) == log.n_instances
    assert tuple(label for part in parts for label in part.instances) == log.instances


@given(events, st.integers(0, 10), st.floats(0.01, 0.99))
def test_the_first_and_the_last_part_of_histories_make_them_up(rows, number, share):
    log = log_of(rows)
    for kept, last in (
        (log.without_last(events=number), log.last(events=number)),
        (log.without_last(share), log.last(share)),
    ):
        assert kept.instances == log.instances
        assert (kept.lengths + last).tolist() == log.lengths.tolist()
        for label in log.instances:
            mine, whole = kept.history(label), log.history(label)
            assert mine.loss.tolist() == whole.loss[: len(mine)].tolist()
    assert (log.last(share) >= 1).all()
    assert (log.last(events=number) <= number).all()


@given(events, st.integers(0, 12))
def test_instances_of_at_least_so_many_events(rows, number):
    log = log_of(rows)
    kept = log.at_least(number)
    assert kept.instances == tuple(
        label for label, size in zip(log.instances, log.lengths, strict=True) if size >= number
    )


def test_a_log_of_numbers_and_its_columns_cannot_be_changed():
    log = EventLog([1, 1, 2], ["a", "b", "a"], [1, 2, 3], about={"source": "x.csv"})
    assert log.instances == ("1", "2")
    assert log.history(1).loss.tolist() == [1.0, 2.0]
    assert log.about == {"source": "x.csv"}
    assert repr(log) == "EventLog(3 events, 2 instances, 2 arms)"
    with pytest.raises(ValueError, match="read-only"):
        log.loss[0] = 0.0
    with pytest.raises(AttributeError, match="cannot be changed"):
        log.loss = None


def test_a_log_of_codes_is_the_log_of_labels():
    by_label = EventLog(["b", "a", "b"], ["y", "x", "x"], [1.0, 2.0, 3.0], [5.0, 1.0, 4.0])
    by_code = sort_into_log(
        ["b", "a"],
        np.array([0, 1, 0]),
        np.array([0, 1, 1], np.int32),
        np.array([1.0, 2.0, 3.0]),
        np.array([5.0, 1.0, 4.0]),
        Membership.of_arms(["y", "x"]),
    )
    assert histories(by_code) == histories(by_label)


def test_a_log_becomes_a_frame():
    frame = EventLog(["b", "a", "b"], ["y", "x", "x"], [1, 2, 3], [5, 1, 4]).to_frame()
    assert frame.columns.tolist() == ["instance", "item", "time", "loss"]
    assert frame["instance"].tolist() == ["b", "b", "a"]
    assert frame["item"].tolist() == ["x", "y", "x"]
    assert frame["loss"].tolist() == [3.0, 1.0, 2.0]
    assert "time" not in EventLog(["b"], ["y"], [1]).to_frame()


def test_a_frame_has_the_columns_dates_and_outcomes_of_the_user():
    """Clicks, not losses; dates, not seconds; and the names that the columns had."""
    clicks = {
        "user_id": ["ann", "ann", "bob"],
        "ad_id": ["hat", "phone", "hat"],
        "ts": [1714588260123, 1714588200123, 1714588270123],
        "clicked": [True, False, True],
    }
    log = read_log(clicks)
    frame = log.to_frame()
    assert frame.columns.tolist() == list(clicks)
    assert frame["ts"].dt.strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3].tolist() == [
        "2024-05-01 18:30:00.123",
        "2024-05-01 18:31:00.123",
        "2024-05-01 18:31:10.123",
    ]
    assert frame["clicked"].tolist() == [0.0, 1.0, 1.0]
    assert_same(read_log(frame, **log.about["reading"]), log)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_log_becomes_a_frame_of_any_library_that_can_be_read_again(library):
    log = EventLog(["b", "a", "b"], ["y", "x", "x"], [1, 2, 3], [5, 1, 4])
    frame = log.to_frame(library)
    assert type(frame).__module__.startswith(library)
    assert_same(read_log(frame), log)
    bare = EventLog(["b"], ["y"], [1])
    names = bare.to_frame("pyarrow").column_names
    assert names == ["instance", "item", "loss"]
    assert_same(read_log(bare.to_frame(library)), bare)
    films = EventLog(["b", "a"], ["Ghost", "Alien"], [1, 2], membership=Membership(FILMS))
    again = read_log(films.to_frame(library))
    assert_same(again, films)
    assert again.membership.weights("Ghost") == films.membership.weights("Ghost")


def assert_same(one, other):
    """Compare events by their labels: a log that is read has its arms in order of name."""
    assert one.instances == other.instances
    assert set(one.arm_names) <= set(other.arm_names)
    assert histories(one) == histories(other)


def test_items_of_several_arms():
    log = EventLog(["a", "a"], ["Alien", "Ghost"], [1, 2], membership=Membership(FILMS))
    assert log.item.tolist() == [0, 2]
    assert "items of several arms" in repr(log)
    assert log.arm_names == ("Comedy", "Drama", "Horror", "Sci-Fi")
    by_number = EventLog(["a", "a"], [0, 2], [1, 2], membership=Membership(FILMS))
    assert by_number.item.tolist() == [0, 2]


def test_logs_that_are_refused(refused):
    with refused(InvalidLog, "loss", "2", "(1,)"):
        EventLog(["a", "b"], ["x", "x"], [1.0])
    with refused(InvalidLog, "time", "finite", "entry 1"):
        EventLog(["a", "b"], ["x", "x"], [1.0, 2.0], [0.0, np.nan])
    with refused(InvalidLog, "loss", "numbers"):
        EventLog(["a"], ["x"], ["bad"])
    with refused(InvalidLog, "instance", "one column"):
        EventLog([["a"]], ["x"], [1.0])
    with refused(InvalidLog, "0 … 2"):
        EventLog(["a"], [3], [1.0], membership=Membership(FILMS))
    with refused(InvalidLog, "Jaws", "no arm"):
        EventLog(["a"], ["Jaws"], [1.0], membership=Membership(FILMS))
    log = EventLog(["a"], ["x"], [1.0])
    with refused(InvalidInput, "no instance 'zoe'", "a"):
        log.history("zoe")
    with refused(InvalidInput, "share"):
        log.last()
    with refused(InvalidInput, "share between 0 and 1", "1.5"):
        log.without_last(1.5)
    with refused(InvalidInput, "several arms"):
        EventLog(["a"], ["Alien"], [1], membership=Membership(FILMS)).arm  # noqa: B018


def test_what_is_no_log_is_refused(refused):
    log = EventLog(["a"], ["x"], [1.0])
    assert require_log(log) is log
    with refused(InvalidInput, "EventLog", "[1, 2]"):
        require_log([1, 2])
    with refused(InvalidLog, "no events"):
        require_log(log.take([]))


members = st.dictionaries(
    st.text(max_size=5),
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5),
    min_size=1,
    max_size=8,
)


@given(members)
def test_the_weights_of_an_item_are_equal_and_sum_to_one(items):
    membership = Membership(items)
    assert membership.arm_names == tuple(sorted({arm for many in items.values() for arm in many}))
    for item, arms in items.items():
        weights = membership.weights(item)
        assert set(weights) == set(arms)
        assert sum(weights.values()) == pytest.approx(1.0)
        assert len(set(weights.values())) == 1


@given(members, st.integers(0, 100), st.randoms(use_true_random=False))
def test_a_random_arm_depends_on_seed_and_item_alone(items, seed, random):
    chosen = Membership(items, choose="random", seed=seed)
    assert chosen.single
    order = random.sample(list(items), len(items))
    again = Membership(
        {item: items[item] for item in order[: len(order) // 2 + 1]},
        arm_names=chosen.arm_names,
        choose="random",
        seed=seed,
    )
    for item in again.items:
        assert again.weights(item) == chosen.weights(item)
        assert set(again.weights(item)) <= set(items[item])


def test_random_arms_are_drawn_evenly():
    """Seeded; a right sampler would fail with a probability below 1e-6 (five deviations)."""
    items = {f"film {n}": ["a", "b"] for n in range(2000)}
    chosen = Membership(items, choose="random", seed=3)
    assert abs(chosen.arm.sum() - 1000) < 5 * np.sqrt(2000 / 4)
    assert chosen.arm.tolist() != Membership(items, choose="random", seed=4).arm.tolist()


def test_memberships_that_are_refused(refused):
    with refused(InvalidInput, "choose", "'both'"):
        Membership(FILMS, choose="both")
    with refused(InvalidInput, "'Jaws'", "no arm"):
        Membership({"Jaws": []})
    with refused(InvalidInput, "'Alien'", "unknown arm 'Horror'"):
        Membership(FILMS, arm_names=["Comedy"])
    with refused(InvalidInput, "no item 'Jaws'"):
        Membership(FILMS).weights("Jaws")
    assert repr(Membership(FILMS)).endswith("2 items belong to several)")
