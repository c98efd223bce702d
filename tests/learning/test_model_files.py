"""Model files: what is loaded predicts to the last bit, and what is damaged is refused."""

import json

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.learning import model_files as module
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.planning import plan

TRUTH = [[0.4, 0.1], [0.1, 0.2]]
MODELS = {
    "stationary": StationaryModel(),
    "stationary, pooled": StationaryModel(pooling="full"),
    "drift": DriftModel(shrinkage=0.7),
    "drift, pooled": DriftModel(pooling="full"),
    "psd": InfluenceModel(fading=0.8),
    "psd, pooled": InfluenceModel(fading=0.8, pooling="full", drift=True),
    "psd, memory 1": InfluenceModel(pooling="full"),
    "symmetric": InfluenceModel("symmetric", fading=0.8, ridge=0.0),
    "diagonal": InfluenceModel("diagonal", fading=0.8, pooling="full"),
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
    for name in set(module.FITTED) - {*module.ARRAYS, "instance_summary_"}:
        assert getattr(again, name) == getattr(fitted, name), name
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
        one, other = (m.instance(instance, without_drift=True) for m in (fitted, again))
        assert one == other
        if instance is None:
            one, other = (plan(m, log_of(), 20).to_json() for m in (fitted, again))
            assert one == other
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


# Saving that cannot be


@pytest.mark.parametrize("model", [StationaryModel(), DriftModel(), InfluenceModel()])
def test_an_unfitted_model_is_refused(model, tmp_path, refused):
    with refused(InvalidInput, "fit"):
        model.save(tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_model_of_no_numbers_is_refused(number, tmp_path, refused):
    model = StationaryModel().fit(log_of())
    model.standard_errors_[0, 0] = number
    (tmp_path / "m.json").write_text("precious", encoding="utf-8")
    with refused(InvalidInput, "standard_errors"):
        model.save(tmp_path / "m.json")
    assert (tmp_path / "m.json").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("settings", [{"shrinkage": np.int64(3)}, {"ridge": np.float32(2.0)}])
def test_parameters_may_be_numbers_of_numpy(settings, tmp_path):
    InfluenceModel(**settings).fit(log_of()).save(tmp_path / "m.json")
    again = LossModel.load(tmp_path / "m.json")
    assert again.get_params() == InfluenceModel(**settings).get_params()


# Loading what is none


@pytest.mark.parametrize(
    ("content", "mention"),
    [
        (b"\x80\x04K\x01.", "not a JSON file"),  # pickled
        (b"{}", "no checksum"),
        (b"[]", "no model file"),
        (b"null", "no model file"),
        (b'{"format": "influential-bandits/model/1"}', "no checksum"),
    ],
)
def test_a_foreign_file_is_refused(content, mention, tmp_path, refused):
    (tmp_path / "m.json").write_bytes(content)
    with refused(InvalidInput, "m.json", mention):
        LossModel.load(tmp_path / "m.json")


def test_an_instance_file_is_no_model_file(tmp_path, refused):
    ib.counterexample().save(tmp_path / "i.json")
    with refused(InvalidInput, "no file of this kind"):
        LossModel.load(tmp_path / "i.json")


def test_a_model_of_another_kind_is_refused(tmp_path, refused):
    DriftModel().fit(log_of()).save(tmp_path / "m.json")
    with refused(InvalidInput, "m.json", "'DriftModel'", "no InfluenceModel"):
        InfluenceModel.load(tmp_path / "m.json")


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


def test_a_changed_number_is_noticed_by_the_checksum(fitted, saved, refused):
    data = json.loads(saved.read_text(encoding="utf-8"))
    data["population_"][0] += 1e-9
    saved.write_text(json.dumps(data), encoding="utf-8")
    with refused(InvalidInput, "damaged", "checksum"):
        LossModel.load(saved)
