"""Validation: nothing of the future is seen, the right events are predicted, sums are right."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import influential_bandits as ib
from influential_bandits import (
    DriftModel,
    EventLog,
    InfluenceModel,
    StationaryModel,
    choose,
    ladder,
    validate,
)
from influential_bandits.data import synthetic_log
from influential_bandits.errors import InvalidInput
from influential_bandits.summaries.resampling import bootstrap_interval

SEEN = []


class Spy(BaseEstimator):
    """Remembers what it was fitted to, and predicts a number."""

    def __init__(self, guess=0.0):
        self.guess = guess

    def fit(self, log):
        SEEN.append(("fit", self.guess, log))
        return self

    def predict(self, log):
        SEEN.append(("predict", self.guess, log))
        return np.full(len(log), self.guess)


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


@pytest.fixture(scope="module")
def log():
    lengths = [1, 2, 3, 7, 10, 20, 33]
    return synthetic_log(7, lengths, 3, initial_loss=[1, 2, 3], seed=1)


def losses(log, label):
    return log.history(label).loss.tolist()


@pytest.mark.parametrize(
    ("last", "lengths"),
    [
        (1, [0, 1, 2, 6, 9, 19, 32]),
        (5, [0, 0, 0, 2, 5, 15, 28]),
        (0.2, [0, 1, 2, 5, 8, 16, 26]),
        (0.5, [0, 1, 1, 3, 5, 10, 16]),
    ],
)
def test_fits_see_the_first_part_only(log, last, lengths):
    found = validate(log, {"spy": Spy()}, last=last)
    (_, _, first), (_, _, whole) = SEEN
    kept = [n for n, length in enumerate(lengths) if length > 0]
    assert first.instances == whole.instances == found.instances == tuple(str(n) for n in kept)
    for n in kept:
        # Losses are all different, so that they name the events.
        assert losses(first, str(n)) == losses(log, str(n))[: lengths[n]]
        assert losses(whole, str(n)) == losses(log, str(n))
    expected = [log.lengths[n] - lengths[n] for n in kept]
    assert found.events.tolist() == expected


@pytest.mark.parametrize("last", [1, 3, 0.2, 0.34])
def test_errors_are_those_of_the_last_events(log, last):
    guesses = {"zero": Spy(0.0), "two": Spy(2.0)}
    found = validate(log, guesses, last=last)
    for row, guess in enumerate((0.0, 2.0)):
        for column, label in enumerate(found.instances):
            own = log.history(label).loss
            part = own[len(own) - found.events[column] :]
            assert found.squares[row, column] == pytest.approx(((part - guess) ** 2).sum())
        total, events = found.squares[row].sum(), found.events.sum()
        assert found.mse(found.names[row]) == pytest.approx(total / events)
    assert found.spread("two") == pytest.approx(np.std(found.squares[1] / found.events))
    zero, two = found.squares.sum(axis=1)
    gain = found.gain("two", "zero")
    assert gain.percent == pytest.approx(100 * (zero - two) / zero)
    assert gain.low <= gain.percent <= gain.high
    assert found.gain("zero", "zero").percent == 0.0
    assert [(g.model, g.against) for g in found.gains()] == [("two", "zero")]
    assert f"two against zero: {gain.percent:+.2f} %" in str(gain)


def test_intervals_draw_instances_anew(log):
    found = validate(log, {"zero": Spy(0.0), "two": Spy(2.0)}, last=0.2)
    pairs = found.squares.T

    def percent(rows):
        return 100 * (1 - rows[:, 1].sum() / rows[:, 0].sum())

    gain = found.gain("two", "zero")
    assert (gain.low, gain.high) == pytest.approx(bootstrap_interval(pairs, percent))
    rows = np.column_stack([found.squares[0], found.events])
    expected = bootstrap_interval(rows, lambda r: r[:, 0].sum() / r[:, 1].sum())
    assert found.mse_interval("zero") == pytest.approx(expected)
    low, high = found.mse_interval("zero")
    assert low < found.mse("zero") < high
    frame = found.to_frame()
    assert frame["model"].tolist() == ["zero", "two"]
    assert frame["mse"].tolist() == [found.mse("zero"), found.mse("two")]
    assert frame["gain_percent"].tolist() == [0.0, gain.percent]
    assert found.to_frame("polars")["mse"].to_list() == frame["mse"].tolist()
    assert found.to_frame("pyarrow")["model"].to_pylist() == ["zero", "two"]


def test_models_predict_from_the_events_just_before():
    log = synthetic_log(20, 60, 2, interaction=0.4 * np.eye(2), memory=0.8, spread=0.5, seed=3)
    model = InfluenceModel(fading=0.8, pooling="full", drift=True)
    found = validate(log, {"model": model, "drift": DriftModel()}, last=0.25)
    first = log.without_last(0.25)
    fitted = InfluenceModel(fading=0.8, pooling="full", drift=True).fit(first)
    assert found.models["model"].coefficients_.tobytes() == fitted.coefficients_.tobytes()
    assert not hasattr(model, "coefficients_")
    total = 0.0
    for label in log.instances:
        own = log.history(label)
        total += ((own.loss - fitted.predict(own))[45:] ** 2).sum()
    assert found.mse("model") == pytest.approx(total / (20 * 15), rel=1e-12)


def test_later_events_change_neither_fit_nor_earlier_predictions():
    log = synthetic_log(10, 40, 2, memory=0.8, spread=0.5, seed=3)
    changed = log.loss.copy()
    changed[np.arange(39, 400, 40)] += 1000.0
    who = np.repeat(np.array(log.instances), log.lengths)
    other = EventLog(who, log.item, changed, log.time, membership=log.membership)
    models = ladder(pooling="none")
    one, two = validate(log, models, last=4), validate(other, models, last=4)
    predicted = np.ones(400, bool)
    predicted[39::40] = False
    for name in models:
        before, after = one.models[name], two.models[name]
        assert before.coefficients_.tobytes() == after.coefficients_.tobytes()
        same = before.predict(log) == after.predict(other)
        assert same.all(), name  # a loss is never used for its own prediction


def test_single_events_are_left_out_and_the_rest_goes_on(log):
    found = validate(log, {"stationary": StationaryModel()}, last=1)
    assert "0" not in found.instances
    assert np.isfinite(found.mse("stationary"))
    with pytest.raises(InvalidInput, match="long enough"):
        validate(log.take([0]), {"stationary": StationaryModel()}, last=1)


@pytest.mark.parametrize("truth", [0.5, 0.8, 1.0])
def test_the_planted_memory_is_chosen(truth):
    strength = 0.05 if truth == 1.0 else 0.5
    log = synthetic_log(
        100, 100, 2, interaction=strength * np.eye(2), memory=truth, spread=0.5, seed=4
    )
    candidates = [InfluenceModel(fading=m, pooling="full") for m in (0.5, 0.8, 1.0)]
    model, found = choose(log, candidates)
    assert model.fading == truth
    assert min(found.names, key=found.mse) == model.settings
    assert len(found.names) == 3
    whole = InfluenceModel(fading=truth, pooling="full").fit(log)
    assert model.coefficients_.tobytes() == whole.coefficients_.tobytes()


@pytest.mark.long
def test_the_ladder_finds_what_was_planted():
    settings = {"memory": 0.8, "spread": 0.5, "drift": 0.7}
    quiet = synthetic_log(100, 150, 2, **settings, seed=1)
    tired = synthetic_log(100, 150, 2, interaction=0.3 * np.eye(2), **settings, seed=1)
    cross = [[0.3, -0.25], [-0.25, 0.3]]
    full = synthetic_log(100, 150, 2, interaction=cross, **settings, seed=1)
    drift, fatigue, interaction = validate(quiet, ladder()).gains()
    assert drift.low > 0
    assert fatigue.percent < 0.5
    assert interaction.percent < 0.5
    assert validate(tired, ladder()).gains()[1].low > 0
    assert validate(full, ladder()).gains()[2].low > 0


@pytest.mark.parametrize("pooling", ["none", "full"])
def test_the_ladder_has_four_rungs(pooling):
    rungs = ladder(0.7, ridge=3.0, pooling=pooling)
    assert list(rungs) == ["stationary", "drift", "self-fatigue", "full"]
    assert rungs["stationary"].pooling == pooling
    assert [rungs[name].interaction for name in ("self-fatigue", "full")] == [
        "diagonal",
        "symmetric",
    ]
    assert all(rungs[name].drift for name in ("self-fatigue", "full"))
    assert rungs["full"].get_params()["fading"] == 0.7
    assert rungs["full"].ridge == 3.0
    by_clock = ladder(fading=ib.Fading(half_life=48))["full"]
    assert by_clock.fading == ib.Fading(half_life=48)


def test_bad_requests_are_refused(log, refused):
    models = {"stationary": StationaryModel()}
    with refused(InvalidInput, "EventLog"):
        validate([1, 2], models)
    for last in (0.0, 1.0, -0.5):
        with refused(InvalidInput, "share between 0 and 1"):
            validate(log, models, last=last)
    for last in (0, -1, "all", None):
        with refused(InvalidInput, "last"):
            validate(log, models, last=last).mse("stationary")
    assert validate(log, models, last=np.int64(1)).events.max() == 1
    with refused(InvalidInput, "long enough"):
        validate(log, models, last=1000)
    with refused(InvalidInput, "'drift'", "stationary"):
        validate(log, models).mse("drift")
    with refused(InvalidInput, "candidate"):
        choose(log, [])


@pytest.mark.parametrize("interaction", ["psd", "symmetric", "diagonal"])
def test_a_fit_for_predictions_alone_predicts_the_same(log, interaction):
    model = InfluenceModel(interaction, drift=True, pooling="full", ridge=1.0)
    whole = model.fit(log, execution=1)
    lean = InfluenceModel(**model.get_params()).fit_to_predict(log, execution=1)
    assert (lean.predict(log) == whole.predict(log)).all()
    assert lean.noise_.tolist() == whole.noise_.tolist()
    assert np.isfinite(whole.standard_errors_).all()
    assert np.isnan(lean.standard_errors_).all()


@pytest.mark.parametrize(
    ("model", "settings", "mention"),
    [
        (InfluenceModel(), ["fading", "drift"], "['drift']"),
        (InfluenceModel(), [], "no settings"),
        (InfluenceModel(fading=ib.Fading(half_life=48)), ["fading"], "none of fading"),
    ],
)
def test_settings_that_cannot_be_chosen_are_refused(refused, model, settings, mention):
    with refused(InvalidInput, mention):
        choose(synthetic_log(5, 10, 2, seed=0), model, settings=settings)
