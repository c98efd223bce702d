"""Model files: what is loaded predicts to the last bit, and what is damaged is refused."""

import base64
import contextlib
import json
import pickle
import zipfile
import zlib

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InfluentialBanditsError, InvalidInput, MissingFile
from influential_bandits.learning import model_files as module
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.planning import plan

TRUTH = [[0.4, 0.1], [0.1, 0.2]]
MODELS = {
    "stationary": StationaryModel(),
    "stationary, pooled": StationaryModel(pooling="full"),
    "drift": DriftModel(level_memory=0.7),
    "drift, pooled": DriftModel(pooling="full"),
    "psd": InfluenceModel(fading=0.8),
    "psd, pooled": InfluenceModel(fading=0.8, pooling="full", drift=True),
    "psd, partial": InfluenceModel(fading=0.8, pooling="partial", seed=3),
    "psd, memory 1": InfluenceModel(pooling="full"),
    "symmetric": InfluenceModel("symmetric", fading=0.8, ridge=0.0),
    "diagonal": InfluenceModel("diagonal", fading=0.8, pooling="full"),
    "free": InfluenceModel("free", fading=0.8, pooling="full"),
    "half-life": InfluenceModel(fading=ib.Fading(half_life=36), pooling="full"),
}


def log_of(seed=0, instances=12):
    return ib.data.synthetic_log(
        instances, 30, 2, interaction=TRUTH, memory=0.8, spread=0.2, seed=seed
    )


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return MODELS[request.param].fit(log_of())


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.about_ = {"log": {"source": "here"}, "logged_mix": [1, 2]}
    fitted.save(tmp_path / "model.json")
    return tmp_path / "model.json"


@pytest.fixture
def written(tmp_path):
    """A pooled model as data, and how to write it back changed."""
    path = tmp_path / "model.json"
    InfluenceModel(fading=0.8, pooling="partial").fit(log_of()).save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["checksum"]  # every change would be noticed, and nothing else tested

    def write(**changes):
        path.write_text(json.dumps(data | changes), encoding="utf-8")
        return path

    return data, write


# There and back


def test_a_loaded_model_predicts_to_the_last_bit(fitted, saved):
    again = type(fitted).load(saved)
    assert type(again) is type(fitted)
    assert again.get_params() == fitted.get_params()
    assert again.about_ == {"log": {"source": "here"}, "logged_mix": [1, 2]}
    np.testing.assert_array_equal(again.predict(log_of()), fitted.predict(log_of()))
    if fitted.pooling != "none":  # new instances, too
        other = log_of(1, 20)
        np.testing.assert_array_equal(again.predict(other), fitted.predict(other))
    assert again.score(log_of()) == fitted.score(log_of())


def test_everything_that_was_learned_is_kept(fitted, saved):
    again = LossModel.load(saved)
    for name in module.ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name), err_msg=name)
    for name in set(module.FITTED) - {*module.ARRAYS, "prior_", "instance_summary_"}:
        assert getattr(again, name) == getattr(fitted, name), name
    for one, other in zip(again.prior_ or (), fitted.prior_ or (), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(again.design_.baseline, fitted.design_.baseline)
    assert again.design_[:-1] == fitted.design_[:-1]


def test_intervals_worlds_and_plans_are_the_same(fitted, saved):
    again = LossModel.load(saved)
    if not isinstance(fitted, InfluenceModel):
        return
    for instance in (None, "3"):
        mine, theirs = fitted.interval(0.9, instance), again.interval(0.9, instance)
        for name in ("interaction", "initial_loss"):
            np.testing.assert_array_equal(theirs[name], mine[name])
        if fitted.interaction == "free":
            continue
        one, other = (m.instance(instance, without_drift=True) for m in (fitted, again))
        assert one == other
        assert plan(fitted, horizon=20, instance=instance).to_json() == (
            plan(again, horizon=20, instance=instance).to_json()
        )
    assert again.noise() == fitted.noise()


def test_saving_what_was_loaded_writes_the_same_bytes(saved, tmp_path):
    LossModel.load(saved).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()


def test_a_loaded_model_can_be_fitted_anew(saved, fitted):
    again = LossModel.load(saved)
    again.fit(log_of())
    np.testing.assert_array_equal(again.coefficients_, fitted.coefficients_)


def test_without_a_clock_there_are_no_days(tmp_path):
    log = ib.EventLog(["u"] * 6, ["a", "b"] * 3, [1.0, 2.0, 1.5, 2.5, 1.0, 2.0])
    StationaryModel().fit(log).save(tmp_path / "m.json")
    assert LossModel.load(tmp_path / "m.json").days_between_events_ is None


def test_names_of_any_script_are_kept(tmp_path):
    log = ib.EventLog(["ünï"] * 4, ["茶", 'a"b', "茶", 'a"b'], [1.0, 2.0, 1.5, 2.5])
    StationaryModel().fit(log).save(tmp_path / "m.json")
    again = LossModel.load(tmp_path / "m.json")
    assert (set(again.arm_names_), again.instances_) == ({"茶", 'a"b'}, ("ünï",))


def test_the_file_is_plain_strict_json(saved):
    data = json.loads(saved.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert data["format"] == "influential-bandits/model/1"
    assert not zipfile.is_zipfile(saved)
    with pytest.raises(Exception, match=r".*"):  # whatever pickle says of text
        pickle.loads(saved.read_bytes())


def many_arms():
    """A log of 120 arms and 200 users."""
    return ib.data.synthetic_log(200, 20, 120, seed=0)


@pytest.fixture(scope="module")
def wide():
    return InfluenceModel("diagonal", fading=0.8, pooling="full", drift=True).fit(many_arms())


def test_many_arms_of_many_users_make_a_small_file(wide, tmp_path):
    wide.save(tmp_path / "m.json")
    again = LossModel.load(tmp_path / "m.json")
    for name in module.ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(wide, name), err_msg=name)
    assert again.prior().mean.tolist() == wide.prior().mean.tolist()
    numbers = 2 * 200 * 120 + 241**2  # losses and errors of users, and the covariance
    assert (tmp_path / "m.json").stat().st_size < 11 * numbers, "in decimals it is 20 for each"
    data = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert data["coefficients_"]["shape"] == [200, 120]
    assert len(data["population_"]) == 241, "what is short can be read"
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()


def packed(numbers, shape):
    content = zlib.compress(np.asarray(numbers, "<f8").tobytes())
    return {"shape": shape, "float64": base64.b64encode(content).decode()}


@pytest.mark.parametrize(
    ("table", "mention"),
    [
        ({"shape": [200, 120]}, "float64"),
        ({"shape": [200, 120], "float64": "no base64!"}, "base64"),
        ({"shape": [200, 120], "float64": "AAAA"}, "unpacked"),
        ({"shape": [200, -120], "float64": ""}, "shape"),
        ({"shape": [200, 120], "float64": ""}, "24,000 numbers"),
        (packed(np.zeros(23_999), [200, 120]), "24,000 numbers"),
        (packed(np.zeros(24_001), [200, 120]), "24,000 numbers"),
        (packed(np.zeros(24_000), [120, 200]), "200 × 120"),
        (packed(np.full(24_000, np.nan), [200, 120]), "finite"),
        (packed(np.zeros(24_000), [200, 120]) | {"more": 1}, "more"),
        (packed([], [10**9, 10**9]), "memory"),
    ],
)
def test_a_damaged_table_is_refused(table, mention, wide, tmp_path, refused):
    path = tmp_path / "m.json"
    wide.save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["checksum"]
    path.write_text(json.dumps(data | {"coefficients_": table}), encoding="utf-8")
    with refused(InvalidInput, "m.json", "damaged", mention):
        LossModel.load(path)


def test_nothing_is_pickled(fitted, tmp_path, monkeypatch):
    def forbidden(*_, **__):
        pytest.fail("pickled")

    for name in ("dump", "dumps", "load", "loads"):
        monkeypatch.setattr(pickle, name, forbidden)
    fitted.save(tmp_path / "m.json")
    LossModel.load(tmp_path / "m.json")


# Saving that cannot be


@pytest.mark.parametrize("model", [StationaryModel(), DriftModel(), InfluenceModel()])
def test_an_unfitted_model_is_refused(model, tmp_path, refused):
    with refused(InvalidInput, "fit"):
        model.save(tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("where", "error"),
    [("nowhere/m.json", MissingFile), ("file/m.json", MissingFile), (".", InvalidInput)],
)
def test_a_path_that_cannot_be_written_is_refused(where, error, tmp_path, refused):
    (tmp_path / "file").touch()
    with refused(error, "cannot write", str(tmp_path / where)):
        StationaryModel().fit(log_of()).save(tmp_path / where)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_model_of_no_numbers_is_refused(number, tmp_path, refused):
    model = StationaryModel().fit(log_of())
    model.standard_errors_[0, 0] = number
    with refused(InvalidInput, "standard_errors"):
        model.save(tmp_path / "m.json")


def test_a_refused_model_leaves_the_file_alone(tmp_path):
    path = tmp_path / "m.json"
    path.write_text("precious", encoding="utf-8")
    model = StationaryModel().fit(log_of())
    model.coefficients_[0, 0] = np.nan
    with pytest.raises(ValueError, match=r".*"):
        model.save(path)
    assert path.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("settings", [{"seed": np.int64(3)}, {"ridge": np.float32(2.0)}])
def test_parameters_may_be_numbers_of_numpy(settings, tmp_path):
    InfluenceModel(**settings).fit(log_of()).save(tmp_path / "m.json")
    again = LossModel.load(tmp_path / "m.json")
    assert again.get_params() == InfluenceModel(**settings).get_params()


# Loading what is none


@pytest.mark.parametrize(
    ("content", "mention"),
    [
        (b"", "not a JSON file"),
        (b"{", "not a JSON file"),
        (b"\xff\xfe\x00", "not a JSON file"),
        (b"\x80\x04K\x01.", "not a JSON file"),  # pickled
        (b"{}", "no model file"),
        (b"[]", "no model file"),
        (b"null", "no model file"),
        (b'{"format": "influential-bandits/model/2"}', "model/1"),
        (b'{"format": "influential-bandits/model/1"}', "damaged"),
    ],
)
def test_a_foreign_file_is_refused(content, mention, tmp_path, refused):
    (tmp_path / "m.json").write_bytes(content)
    with refused(InvalidInput, "m.json", mention):
        LossModel.load(tmp_path / "m.json")


def test_an_instance_file_is_no_model_file(tmp_path, refused):
    ib.counterexample().save(tmp_path / "i.json")
    with refused(InvalidInput, "no model file"):
        LossModel.load(tmp_path / "i.json")


def test_a_missing_file_and_a_folder_are_refused(tmp_path, refused):
    with pytest.raises(MissingFile, match=r"nowhere\.json"):
        InfluenceModel.load(tmp_path / "nowhere.json")
    with refused(InvalidInput, "cannot read", str(tmp_path)):
        LossModel.load(tmp_path)


def test_a_model_of_another_kind_is_refused(tmp_path, refused):
    DriftModel().fit(log_of()).save(tmp_path / "m.json")
    with refused(InvalidInput, "m.json", "'DriftModel'", "no InfluenceModel"):
        InfluenceModel.load(tmp_path / "m.json")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(share, saved, refused):
    text = saved.read_bytes()
    saved.write_bytes(text[: int(share * (len(text) - 2))])
    with refused(InvalidInput, "not a JSON file"):
        LossModel.load(saved)


def test_every_missing_entry_is_named(written, refused):
    data, write = written
    for name in data:
        if name == "format":
            continue
        path = write()
        path.write_text(
            json.dumps({key: value for key, value in data.items() if key != name}),
            encoding="utf-8",
        )
        with refused(InvalidInput, "damaged", name):
            LossModel.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "Unpickler"},
        {"model": ["StationaryModel"]},
        {"parameters": {"nonsense": 1}},
        {"parameters": {"fading": {"memory": 2.0}}},
        {"parameters": None},
        {"coefficients_": [[1.0, 2.0]]},
        {"coefficients_": "many"},
        {"coefficients_": [[1.0], [2.0, 3.0]]},
        {"arm_names_": ["one"]},
        {"instances_": ["0"]},
        {"effects_": [1.0]},
        {"effects_": None},
        {"prior_": [1.0, 2.0]},
        {"prior_": []},
        {"about_": None},
        {"about_": [1]},
        {"population_": [1.0]},
        {"population_covariance_": [[1.0]]},
        {"standard_errors_": [[1.0]]},
        {"noise_": []},
        {"unconstrained_population_": None},
        {"status_": None},
        {"days_between_events_": "two"},
        {"population_": [1e999] * 5},
        {"noise_": [-1.0] * 12},
        {"standard_errors_": [[-1.0] * 5] * 12},
        {"effects_": [-1.0, 0.0, 1.0]},
        {"gap_": "none"},
        {"determined_": 1},
        {"n_features_in_": 3},
        {"arm_names_": [1, 2]},
        {"days_between_events_": -1.0},
        {"instance_summary_": [0, 1.0, [[0.0] * 5] * 5]},
        {"instance_summary_": [1, 1.0, [[0.0]]]},
    ],
    ids=str,
)
def test_a_damaged_file_is_refused_and_not_only_met_later(changes, written, refused):
    _, write = written
    with refused(InvalidInput, "m", "damaged"):
        LossModel.load(write(**changes))


def test_nothing_that_is_not_ours_comes_out_of_loading(written):
    """Every entry replaced by every kind of value: a model, or an error of this package."""
    data, write = written
    strange = (None, True, 3, -1.5, "text", [1], [[]], {}, {"a": 1})
    for name in data:
        for value in strange:
            with contextlib.suppress(InfluentialBanditsError):
                LossModel.load(write(**{name: value}))


def test_every_changed_entry_of_a_covariance_is_noticed_or_harmless(written, refused):
    """Plans take roots of what it says of any direction."""
    data, write = written
    size = len(data["population_"])
    for row in range(size):
        for column in range(size):
            for factor in (-1.0, 1e6, 1e300):
                covariance = np.array(data["population_covariance_"])
                covariance[row, column] *= factor
                path = write(population_covariance_=covariance.tolist())
                if factor > 0.0 and row == column:  # a larger variance is one, too
                    model = LossModel.load(path)
                    assert np.isrealobj(plan(model, horizon=20).low)
                elif covariance[row, column] != 0.0:
                    with refused(InvalidInput, "damaged", "covariance"):
                        LossModel.load(path)


def test_a_plan_from_what_is_no_covariance_is_refused(refused):
    model = InfluenceModel(fading=0.8, pooling="full").fit(log_of())
    model.population_covariance_ = -np.eye(model.design_.size)
    with refused(InvalidInput, "no covariance"):
        plan(model, horizon=20)


def test_a_pooled_file_holds_what_differs_between_instances_alone(tmp_path):
    """Of 12 arms and 91 coefficients the initial losses; a plan's fits are not in it either."""
    log = ib.data.synthetic_log(100, 20, 12, seed=0)
    model = InfluenceModel(fading=0.8, pooling="full", drift=True).fit(log)
    model.save(tmp_path / "m.json")
    numbers = 100 * 12 * 2 + 91**2 + 3 * 91
    assert (tmp_path / "m.json").stat().st_size < 24 * numbers
    again = LossModel.load(tmp_path / "m.json")
    for name in module.ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name), err_msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        {"coefficients_": [[1.0]] * 12},
        {"standard_errors_": [[1.0] * 5] * 12},
        {"coefficients_": [1.0] * 12},
        {"noise_": []},
        {"population_covariance_": [[-1.0] * 5] * 5},
    ],
    ids=str,
)
def test_a_damaged_pooled_file_is_refused(changes, tmp_path, refused):
    path = tmp_path / "m.json"
    InfluenceModel(fading=0.8, pooling="full").fit(log_of()).save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["checksum"]
    path.write_text(json.dumps(data | changes), encoding="utf-8")
    with refused(InvalidInput, "damaged"):
        LossModel.load(path)


def test_a_changed_number_is_noticed_by_the_checksum(fitted, saved, refused):
    data = json.loads(saved.read_text(encoding="utf-8"))
    data["population_"][0] += 1e-9
    saved.write_text(json.dumps(data), encoding="utf-8")
    with refused(InvalidInput, "checksum", "on purpose"):
        LossModel.load(saved)
