"""Fitted models as JSON files: exact numbers, nothing that runs when it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.files import read_json, write_json
from influential_bandits.learning.solvers.estimates import InstanceSummary
from influential_bandits.learning.solvers.partial import Prior
from influential_bandits.learning.solvers.psd import is_covariance
from influential_bandits.learning.statistics.design import Design
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.logs.outcome import Outcome
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.fading import Fading

__all__ = ["plain", "plain_settings", "read_model", "write_model"]

FORMAT = "influential-bandits/model/1"
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


def plain_settings(model: Any) -> dict[str, Any]:
    """Return the settings of a model as JSON data."""
    return {name: plain(value) for name, value in model.get_params().items()}


def write_model(model: Any, path: str | Path) -> None:
    """Write a fitted model to a JSON file."""
    if not hasattr(model, "coefficients_"):
        raise InvalidInput("only a fitted model can be saved; call fit first")
    for name in ARRAYS:
        if not np.isfinite(getattr(model, name)).all():
            raise InvalidInput(f"{name} of the model holds numbers that are not finite")
    data = {
        "format": FORMAT,
        "model": type(model).__name__,
        "parameters": plain_settings(model),
        "arm_names": list(model.arm_names_),
        "instances": list(model.instances_),
        "baseline": model.design_.baseline.tolist(),
        "effects": plain(model.effects_),
        "prior": plain(model.prior_),
        "outcome": plain(model.outcome_),
        **{name: plain(getattr(model, name)) for name in ARRAYS},
        **_leave_out_shared(model),
        **{name: getattr(model, name) for name in PLAIN},
        "about": model.about_,
    }
    if model.instance_summary_ is not None:
        data["instance_summary"] = plain(model.instance_summary_)
    write_json(path, data, sealed=True)


def _leave_out_shared(model: Any) -> dict[str, Any]:
    """Return what differs between instances that share all but their initial losses."""
    if model.pooling != "full":
        return {}
    arms = model.design_.n_arms
    return {
        "coefficients_": model.coefficients_[:, :arms].tolist(),
        "unconstrained_": None,
        "standard_errors_": model.standard_errors_[:, :arms].tolist(),
        "noise_": model.noise_[:1].tolist(),
    }


def _fill_in_shared(model: Any, instances: int) -> None:
    """Give instances beside their initial losses what they share."""
    own, errors, arms = model.coefficients_, model.standard_errors_, model.design_.n_arms
    with np.errstate(invalid="ignore"):  # what is no covariance is refused below
        shared_errors = np.sqrt(np.diag(model.population_covariance_))
    if own.shape != (instances, arms) or own.shape != errors.shape:
        raise ValueError(f"coefficients_ and standard_errors_ must be {instances} × {arms} numbers")
    for name, first, shared in (
        ("coefficients_", own, model.population_),
        ("unconstrained_", own, model.unconstrained_population_),
        ("standard_errors_", errors, shared_errors),
    ):
        setattr(model, name, np.hstack([first, np.tile(shared[arms:], (instances, 1))]))
    model.noise_ = np.full(instances, model.noise_[0])


def read_model(
    path: str | Path, kinds: Mapping[str, Any], design_of: Callable[[Any, Floats], Design]
) -> Any:
    """Read a model of one of these kinds."""
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInput(f'{path} is no model file: expected "format": "{FORMAT}"')
    kind = data.get("model")
    if not isinstance(kind, str) or kind not in kinds:
        wanted = " or ".join(kinds)
        raise InvalidInput(
            f"{path} holds the model {kind!r:.40}, and no {wanted}: load that, or it is damaged"
        )
    try:
        settings = data["parameters"]
        if isinstance(settings.get("fading"), dict):
            settings["fading"] = Fading(**settings["fading"])
        return _restore(kinds[kind](**settings), data, design_of)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} is a damaged model file: {error!r}") from None


def _restore(model: Any, data: dict[str, Any], design_of: Callable[[Any, Floats], Design]) -> Any:
    model.check_settings()
    for name in ARRAYS:
        setattr(model, name, np.array(data[name], np.float64))
    for name in PLAIN:
        setattr(model, name, data[name])
    model.arm_names_, model.instances_ = tuple(data["arm_names"]), tuple(data["instances"])
    model.effects_ = RandomEffects(*data["effects"])
    model.prior_ = _tuple_of(Prior, data["prior"])
    model.outcome_ = Outcome(*data["outcome"])
    model.instance_summary_ = _tuple_of(InstanceSummary, data.get("instance_summary"))
    model.design_ = design_of(model, np.array(data["baseline"], np.float64))
    model.about_ = dict(data["about"].items())
    instances, size = len(model.instances_), model.design_.size
    if instances == 0:
        for name in ARRAYS[:3]:
            setattr(model, name, np.zeros((0, size)))
    elif model.pooling == "full":
        _fill_in_shared(model, instances)
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
    if len(model.arm_names_) != model.design_.n_arms or len(set(model.instances_)) != instances:
        raise ValueError("names of arms or instances do not fit the numbers")
    if not all(isinstance(name, str) for name in (*model.arm_names_, *model.instances_)):
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
    if not isinstance(model.determined_, bool) or model.n_features_in_ != len(model.arm_names_):
        raise ValueError("determined_ must be true or false, n_features_in_ the number of arms")
    unit, best = model.outcome_
    if not isinstance(unit, str) or not (best is None or (is_real(best) and np.isfinite(best))):
        raise ValueError("outcome must be a unit and a number or null")
    prior, summary = model.prior_, model.instance_summary_
    if prior is not None and not (
        np.shape(prior.mean) == (size,)
        and np.isfinite(prior.mean).all()
        and is_covariance(prior.covariance, size)
        and all(map(_at_least_zero, prior[2:9]))
        and isinstance(prior.settled, bool)
    ):
        raise ValueError(f"prior must be a mean and a covariance of {size} coefficients, variances")
    if summary is not None and not (
        summary.instances >= 1
        and _at_least_zero(summary.noise)
        and summary.covariance.shape == (size, size)
        and np.isfinite(summary.covariance).all()
    ):
        raise ValueError(f"instance_summary must be a number, a noise and a covariance of {size}")


def _at_least_zero(value: object) -> bool:
    return is_real(value) and 0.0 <= value < np.inf  # type: ignore[operator]


def plain(value: Any) -> Any:
    """Return numbers, arrays, fadings and tuples of them as JSON data."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Fading):
        return asdict(value)
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def _tuple_of(kind: Any, data: list[Any] | None) -> Any:
    """Return such a tuple again: lists are its arrays."""
    if data is None:
        return None
    return kind(*(np.array(x, np.float64) if isinstance(x, list) else x for x in data))
