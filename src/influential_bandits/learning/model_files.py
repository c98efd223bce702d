"""Fitted models as JSON files: exact numbers, nothing that runs when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.files import read_json, write_json
from influential_bandits.learning.loss_model import Elsewhere, LossModel, is_covariance
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.solvers.partial import Prior
from influential_bandits.learning.statistics.pooled_sums import RandomEffects

__all__ = ["load_model", "save_model"]

FORMAT = "influential-bandits/model/1"
MODELS = {model.__name__: model for model in (StationaryModel, DriftModel, InfluenceModel)}
ARRAYS = (
    "coefficients_",
    "unconstrained_",
    "standard_errors_",
    "noise_",
    "population_",
    "unconstrained_population_",
    "population_covariance_",
)
PLAIN = ("gap_", "determined_", "status_", "days_between_events_", "n_features_in_")


def save_model(model: LossModel, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a JSON file.

    Parameters
    ----------
    model : StationaryModel, DriftModel or InfluenceModel
    path : path
    about : mapping, optional
        What to keep beside the model: where the log came from, the mix of arms in it.

    Examples
    --------
    >>> import tempfile, influential_bandits as ib
    >>> from pathlib import Path
    >>> model = ib.StationaryModel().fit(ib.data.synthetic_log(3, 10, 2, seed=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ib.save_model(model, Path(folder) / "model.json")
    ...     again, _ = ib.load_model(Path(folder) / "model.json")
    >>> bool((again.coefficients_ == model.coefficients_).all())
    True
    """
    if not hasattr(model, "coefficients_"):
        raise InvalidInput("only a fitted model can be saved; call fit first")
    for name in ARRAYS:
        if not np.isfinite(getattr(model, name)).all():
            raise InvalidInput(f"{name} of the model holds numbers that are not finite")
    data = {
        "format": FORMAT,
        "model": type(model).__name__,
        "parameters": {name: _plain(value) for name, value in model.get_params().items()},
        "arms": list(model.arms_),
        "instances": list(model.instances_),
        "baseline": model.design_.baseline.tolist(),
        "effects": [float(value) for value in model.effects_],
        "prior": _prior_as_data(model.prior_),
        **_elsewhere_as_data(model.elsewhere_),
        **{name: np.asarray(getattr(model, name)).tolist() for name in ARRAYS},
        **{name: getattr(model, name) for name in PLAIN},
        "about": dict(about or {}),
    }
    write_json(path, data, sealed=True)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def load_model(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """Read a model written by :func:`save_model`; return it and what was kept beside it.

    Examples
    --------
    See :func:`save_model`.

    >>> import influential_bandits as ib
    >>> ib.load_model("nowhere.json")
    Traceback (most recent call last):
    influential_bandits.errors.InvalidInput: cannot read nowhere.json: No such file or directory
    """
    try:
        data = read_json(path)
    except FileNotFoundError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInput(f'{path} is no model file: expected "format": "{FORMAT}"')
    try:
        return _restored(data), dict(data["about"].items())
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} is a damaged model file: {error!r}") from None


def _restored(data: dict[str, Any]) -> LossModel:
    model: Any = MODELS[data["model"]](**data["parameters"])
    model._check()
    for name in ARRAYS:
        setattr(model, name, np.array(data[name], np.float64))
    for name in PLAIN:
        setattr(model, name, data[name])
    model.arms_, model.instances_ = tuple(data["arms"]), tuple(data["instances"])
    model.effects_ = RandomEffects(*data["effects"])
    model.prior_ = _prior_of_data(data["prior"])
    model.elsewhere_ = _elsewhere_of_data(data.get("elsewhere"))
    model.design_ = model._design(np.array(data["baseline"], np.float64))
    instances, size = len(model.instances_), model.design_.size
    for name in ARRAYS[:3]:
        if instances == 0 and getattr(model, name).size == 0:
            setattr(model, name, np.zeros((0, size)))
    shapes = dict.fromkeys(ARRAYS[:3], (instances, size)) | {
        "noise_": (instances,),
        "population_": (size,),
        "unconstrained_population_": (size,),
        "population_covariance_": (size, size),
    }
    for name, shape in shapes.items():
        found = getattr(model, name)
        if found.shape != shape or not np.isfinite(found).all():
            raise ValueError(f"{name} must be finite numbers of shape {shape}")
    days = model.days_between_events_
    if not isinstance(model.status_, str) or not (days is None or _at_least_zero(days)):
        raise ValueError("status_ must be a text, and days_between_events_ a number or null")
    if len(model.arms_) != model.design_.arms or len(set(model.instances_)) != instances:
        raise ValueError("names of arms or instances do not fit the numbers")
    if not all(isinstance(name, str) for name in (*model.arms_, *model.instances_)):
        raise ValueError("names of arms and instances must be texts")
    _check_ranges(model)
    return model


def _check_ranges(model: Any) -> None:
    """Raise unless numbers are what they are called: variances, covariances, truth values."""
    size = model.design_.size
    if not is_covariance(model.population_covariance_, size):
        raise ValueError(
            "population_covariance_ must be symmetric and positive semi-definite, a covariance"
        )
    if (model.standard_errors_ < 0.0).any() or (model.noise_ < 0.0).any():
        raise ValueError("standard_errors_ and noise_ must not be negative")
    if not all(map(_at_least_zero, (*model.effects_, model.gap_))):
        raise ValueError("effects and gap_ must be numbers that are not negative")
    if not isinstance(model.determined_, bool) or model.n_features_in_ != len(model.arms_):
        raise ValueError("determined_ must be true or false, n_features_in_ the number of arms")
    prior, elsewhere = model.prior_, model.elsewhere_
    if prior is not None and not (
        np.shape(prior.mean) == (size,)
        and np.isfinite(prior.mean).all()
        and is_covariance(prior.covariance, size)
        and all(map(_at_least_zero, prior[2:9]))
        and isinstance(prior.settled, bool)
    ):
        raise ValueError(f"prior must be a mean and a covariance of {size} coefficients, variances")
    if elsewhere is not None and not (
        elsewhere.instances >= 1
        and _at_least_zero(elsewhere.noise)
        and elsewhere.covariance.shape == (size, size)
        and np.isfinite(elsewhere.covariance).all()
    ):
        raise ValueError(f"elsewhere must be a number, a noise and a covariance of {size}")


def _at_least_zero(value: object) -> bool:
    return is_real(value) and 0.0 <= value < np.inf  # type: ignore[operator]


def _prior_as_data(prior: Prior | None) -> list[Any] | None:
    if prior is None:
        return None
    return [prior.mean.tolist(), prior.covariance.tolist(), *map(float, prior[2:8]), *prior[8:]]


def _elsewhere_as_data(elsewhere: Elsewhere | None) -> dict[str, Any]:
    if elsewhere is None:
        return {}
    number, noise, covariance = elsewhere
    return {"elsewhere": [int(number), float(noise), np.asarray(covariance).tolist()]}


def _elsewhere_of_data(data: list[Any] | None) -> Elsewhere | None:
    if data is None:
        return None
    number, noise, covariance = data
    return Elsewhere(int(number), float(noise), np.array(covariance, np.float64))


def _prior_of_data(data: list[Any] | None) -> Prior | None:
    if data is None:
        return None
    mean, covariance = (np.array(numbers, np.float64) for numbers in data[:2])
    return Prior(mean, covariance, *data[2:])
