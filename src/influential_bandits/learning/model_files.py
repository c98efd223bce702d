"""Fitted models as JSON files: exact numbers, nothing that runs when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.files import read_json, write_json
from influential_bandits.learning.loss_model import Elsewhere, LossModel
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.partial_pooling import Prior
from influential_bandits.learning.pooling import RandomEffects

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
    >>> model = ib.StationaryModel().fit(ib.synthetic_log(3, 10, 2, seed=0))
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
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
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
    if not isinstance(model.status_, str) or not (days is None or is_real(days)):
        raise ValueError("status_ must be a text, and days_between_events_ a number or null")
    if len(model.arms_) != model.design_.arms or len(set(model.instances_)) != instances:
        raise ValueError("names of arms or instances do not fit the numbers")
    return model


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
    return None if data is None else Prior(np.array(data[0]), np.array(data[1]), *data[2:])
