"""Tables of events given to models: fitted as the log they are, or refused, not read as numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from influential_bandits.datasets.synthetic import synthetic_log
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.logs.reading import read_log

MODEL = InfluenceModel(fading=0.8, pooling="full")
MODELS = [
    StationaryModel(pooling="full"),
    DriftModel(pooling="full"),
    MODEL,
    InfluenceModel("symmetric", fading=0.8, drift=True, pooling="full"),
    InfluenceModel("diagonal", fading=0.8),
]


@pytest.fixture(scope="module")
def log():
    return synthetic_log(12, 30, 2, interaction=[[0.5, 0.1], [0.1, 0.4]], memory=0.8, seed=0)


@pytest.fixture(scope="module")
def frame(log):
    """Return the events of the log in another order."""
    return log.to_frame().sample(frac=1.0, random_state=1).reset_index(drop=True)


@pytest.fixture(scope="module")
def table(frame):
    return frame[["instance", "item", "time"]]


@pytest.fixture(scope="module")
def y(frame):
    return frame["loss"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: " ".join(repr(model).split()))
def test_a_table_is_fitted_as_the_log_that_it_is(model, frame, table, y):
    log = read_log(frame, arm="item", loss="loss")
    expected, found = clone(model).fit(log), clone(model).fit(table, y)
    assert found.arm_names_ == expected.arm_names_
    assert found.instances_ == expected.instances_
    assert found.population_.tolist() == expected.population_.tolist()
    rows = frame.assign(found=found.predict(table, y)).set_index(["instance", "time"])["found"]
    events = log.to_frame().assign(found=expected.predict(log)).set_index(["instance", "time"])
    assert events["found"].to_dict() == rows.to_dict()
    assert found.score(table, y) == pytest.approx(expected.score(log), abs=1e-12)


KINDS = {
    "pandas": (lambda X: X, lambda y: y),
    "categories": (lambda X: X.astype({"item": "category"}), lambda y: y),
    "polars": (pl.from_pandas, pl.from_pandas),
    "arrow": (pa.table, pa.array),
    "mapping": (lambda X: {name: X[name].to_list() for name in X}, list),
    "odd index": (lambda X: X.set_index(X.index[::-1]), lambda y: y),
    "column of losses": (lambda X: X, lambda y: y.to_frame()),
    "objects": (lambda X: X.astype(object), lambda y: y.astype(object)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_table_is_the_same(kind, table, y):
    make_X, make_y = KINDS[kind]
    expected = clone(MODEL).fit(table, y)
    found = clone(MODEL).fit(make_X(table), make_y(y))
    assert found.population_.tolist() == expected.population_.tolist()
    assert found.predict(make_X(table)).tolist() == expected.predict(table).tolist()


def test_columns_are_found_by_their_usual_names(frame, table, y):
    expected = clone(MODEL).fit(table, y)
    named = frame.rename(columns={"instance": "User_ID", "item": " genre", "time": "Timestamp"})
    rewarded = named.drop(columns="loss").assign(clicked=-frame["loss"])
    for given, losses in (
        (frame, None),
        (named, None),
        (rewarded, None),
        (rewarded.assign(other="text"), y),
        (frame.assign(loss=0.0), y),
    ):
        found = clone(MODEL).fit(given, losses)
        assert found.population_ == pytest.approx(expected.population_, abs=1e-12)
        assert found.score(given, losses) == pytest.approx(expected.score(table, y), abs=1e-12)


def test_without_times_the_order_of_rows_is_that_of_time(log):
    frame = log.to_frame()
    found = clone(MODEL).fit(frame[["instance", "item"]], frame["loss"])
    assert found.population_.tolist() == clone(MODEL).fit(log).population_.tolist()


def test_two_columns_of_text_are_two_columns_of_text():
    """What fitted the weights of two arms: the names of users and items, read as numbers."""
    frame = pd.DataFrame({"instance": ["1", "1", "2"], "item": ["3", "4", "3"], "loss": [1, 2, 3]})
    model = StationaryModel().fit(frame[["instance", "item"]], frame["loss"])
    assert model.arm_names_ == ("3", "4")
    assert model.instances_ == ("1", "2")


TEXTS = [
    [["1", "2"], ["3", "4"]],
    np.array([["1", "2"], ["3", "4"]]),
    np.array([["1", "2"], ["3", "4"]], object),
    np.array([[b"1", b"2"], [b"3", b"4"]]),
    np.array([[1.0, "2"], [3.0, 4.0]], object),
    np.array([["2024-01-01", "2024-01-02"]] * 2, "datetime64[s]"),
    pd.DataFrame({"a": ["1", "2"], "b": [1, 2]}),
    pd.DataFrame({"a": pd.Categorical(["1", "2"]), "b": [1, 2]}),
    pd.DataFrame({"a": pd.to_datetime(["2024-01-01", "2024-01-02"]), "b": [1, 2]}),
    pl.DataFrame({"a": ["1", "2"], "b": [1, 2]}),
    pa.table({"a": ["1", "2"], "b": [1, 2]}),
]


@pytest.mark.parametrize("X", TEXTS, ids=lambda X: f"{type(X).__name__}")
def test_text_is_never_taken_for_weights(X):
    with pytest.raises(InvalidInput, match=r"(text in it|holds no numbers).*read_log\(table, inst"):
        StationaryModel().fit(X, [1.0, 2.0])
    fitted = StationaryModel().fit(np.eye(2), [1.0, 2.0])
    with pytest.raises(InvalidInput, match="read_log"):
        fitted.predict(X)


def test_numbers_of_any_kind_are_weights():
    expected = StationaryModel().fit(np.eye(2), [1.0, 2.0]).initial_losses_.tolist()
    for X in (
        [[1, 0], [0, 1]],
        np.eye(2) > 0,
        np.eye(2).astype(object),
        pd.DataFrame(np.eye(2)),
        pd.DataFrame(np.eye(2) > 0, columns=["news", "sport"]),
        pl.DataFrame({"news": [1, 0], "sport": [0, 1]}),
    ):
        model = StationaryModel().fit(X, [1.0, 2.0])
        assert model.initial_losses_.tolist() == expected
        assert model.n_features_in_ == 2


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.dok_array])
def test_sparse_weights_are_refused_in_scikit_learns_words(kind):
    with pytest.raises(TypeError, match="dense data is required"):
        StationaryModel().fit(kind(np.eye(2)), [1.0, 2.0])


def test_tables_that_lack_a_role_are_refused(table, y, frame):
    for given, words in (
        (table[["instance"]], r"which column holds arms\?.*name one of arm, action, ad"),
        (table[["item", "time"]], r"holds instances \(a constant, if there is one history\)"),
        (pd.DataFrame({"user": [1, 2], "price": [1.0, 2.0]}), "passed as an array"),
    ):
        with pytest.raises(InvalidInput, match=words):
            clone(MODEL).fit(given, y[: len(given)])
    with pytest.raises(InvalidInput, match="which are the losses"):
        clone(MODEL).fit(table)
    with pytest.raises(InvalidInput, match=r"'stars' holds ratings.*best=5"):
        clone(MODEL).fit(table.assign(stars=4))
    fitted = clone(MODEL).fit(table, y)
    with pytest.raises(InvalidInput, match="pass them as y"):
        fitted.score(table)
    with pytest.raises(InvalidInput, match="pass them as y"):
        StationaryModel().fit(np.eye(2), [1, 2]).score(np.eye(2))
    with pytest.raises(InvalidInput, match="pass y too"):
        DriftModel(pooling="full").fit(table, y).predict(table)


def test_losses_that_cannot_be_used_are_refused(table, y):
    for losses, words in (
        (y[:5], r"each of the 360 events, got shape \(5,\)"),
        (np.ones((360, 2)), r"got shape \(360, 2\)"),
        (y.where(y.index > 3), "entry 0 is nan"),
        (y.replace(y[7], np.inf), "entry 7 is inf"),
        (y.astype(str), "numbers"),
        (pd.Series([None] * 360, dtype=object), "numbers"),
        ([10**400] * 360, "beyond all doubles"),
    ):
        with pytest.raises(InvalidInput, match=words):
            clone(MODEL).fit(table, losses)
    for losses in (["1", "2"], np.array(["1", "2"]), [1.0], [1.0, np.nan], None):
        with pytest.raises(InvalidInput):
            StationaryModel().fit(np.eye(2), losses)
    with pytest.raises(InvalidInput, match="NaN"):
        StationaryModel().fit([[np.nan, 1.0]], [1.0])


def test_rows_that_cannot_be_used_are_named(table, y):
    with pytest.raises(InvalidLog, match=r"1 × missing value \(row 2: item None\).*read_log"):
        clone(MODEL).fit(table.assign(item=table["item"].where(table.index != 2)), y)
    with pytest.raises(InvalidLog, match=r"1 × missing value \(row 3: time"):
        clone(MODEL).fit(table.assign(time=table["time"].where(table.index != 3)), y)
    fitted = clone(MODEL).fit(table, y)
    with pytest.raises(InvalidLog, match=r"360 × unknown arm \(rows 0, 1, 2, …: item 'other'"):
        fitted.predict(table.assign(item="other"))


def test_a_log_has_its_losses_and_no_rows(log, y):
    with pytest.raises(InvalidInput, match="leave y out"):
        clone(MODEL).fit(log, y)
    for use in (lambda: log[0], lambda: list(log), lambda: log["ann"]):
        with pytest.raises(InvalidInput, match=r"not cut by rows.*choose\(log, candidates\)"):
            use()
    assert not hasattr(log, "__iter__")


def test_searches_over_a_log_say_what_to_use_instead(log):
    search = GridSearchCV(MODEL, {"fading": [0.5, 0.8]})
    for use in (lambda: search.fit(log), lambda: cross_val_score(MODEL, log)):
        with pytest.raises(InvalidInput, match=r"choose\(log, candidates\) or validate\(log, mod"):
            use()


@pytest.mark.long
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.table])
def test_model_selection_works_on_tables(kind, table, y, frame):
    groups, folds = frame["instance"], GroupKFold(3)
    given, losses = kind(table), y.to_numpy()
    search = GridSearchCV(MODEL, {"fading": [0.1, 0.8]}, cv=folds, error_score="raise")
    search.fit(given, losses, groups=groups)
    assert search.best_params_ == {"fading": 0.8}
    scores = cross_val_score(
        MODEL, given, losses, groups=groups, cv=folds, scoring="r2", error_score="raise"
    )
    assert scores.min() > 0.0
    predicted = cross_val_predict(MODEL, given, losses, groups=groups, cv=folds)
    for train, test in folds.split(table, groups=groups):
        fold = clone(MODEL).fit(table.iloc[train], y.iloc[train])
        assert predicted[test].tolist() == fold.predict(table.iloc[test]).tolist()


def test_arms_that_a_fold_lacks_are_still_arms(table, y):
    model = clone(MODEL).fit(table, y)
    alone = table[table["item"] == table["item"][0]]
    assert len(model.predict(alone)) == len(alone)


def test_pipelines_hand_on_tables_and_logs(log, table, y):
    pipeline = make_pipeline(FunctionTransformer(), clone(MODEL))
    assert pipeline.fit(table, y).score(table, y) == clone(MODEL).fit(table, y).score(table, y)
    assert pipeline.fit(log).predict(log).tolist() == clone(MODEL).fit(log).predict(log).tolist()


def test_a_model_forgets_what_it_was_fitted_to_before(table, y):
    model = StationaryModel().fit(pd.DataFrame(np.eye(2), columns=["a", "b"]), [1.0, 2.0])
    assert list(model.feature_names_in_) == ["a", "b"]
    model.fit(table, y)
    assert not hasattr(model, "feature_names_in_")
    assert isinstance(clone(model), StationaryModel)
