"""Fitted models as JSON files: exact numbers and a checksum, nothing that runs when it is read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.files import read_json, write_json
from influential_bandits.learning.solvers.penalised import InstanceSummary
from influential_bandits.learning.statistics.design import Design
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.logs.outcome import Outcome
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.fading import Fading

FORMAT = "influential-bandits/model/1"
NotNegative: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=sys.float_info.max)]


class FittedNumbers(msgspec.Struct, kw_only=True):
    """What a fit has found, by the names of the model's attributes.

    Instances of a full pool share all but their initial losses, and these alone are in the file.
    """

    arm_names_: tuple[str, ...]
    instances_: tuple[str, ...]
    coefficients_: Floats
    unconstrained_: Floats | None  # None: those of a full pool
    standard_errors_: Floats
    noise_: Floats
    population_: Floats
    unconstrained_population_: Floats
    population_covariance_: Floats
    gap_: NotNegative
    determined_: bool
    status_: str
    days_between_events_: NotNegative | None
    outcome_: Outcome
    effects_: RandomEffects
    instance_summary_: InstanceSummary | None
    about_: dict[str, Any]


class ModelFile(FittedNumbers, kw_only=True):
    """A model as its file holds it."""

    format: str = FORMAT
    model: str  # the name of its class
    parameters: dict[str, Any]
    baseline: Floats


FITTED = FittedNumbers.__struct_fields__
ARRAYS = tuple(name for name in FITTED if "Floats" in str(FittedNumbers.__annotations__[name]))


def write_model(model: Any, path: str | Path) -> None:
    """Write a fitted model to a JSON file."""
    if not hasattr(model, "coefficients_"):
        raise InvalidInput("only a fitted model can be saved; call fit first")
    for name in ARRAYS:
        if not np.isfinite(getattr(model, name)).all():
            raise InvalidInput(f"{name} of the model holds numbers that are not finite")
    fitted = {name: getattr(model, name) for name in FITTED}
    if model.pooling == "full":
        arms = model.design_.n_arms
        fitted["coefficients_"] = model.coefficients_[:, :arms]
        fitted["standard_errors_"] = model.standard_errors_[:, :arms]
        fitted["unconstrained_"], fitted["noise_"] = None, model.noise_[:1]
    file = ModelFile(
        model=type(model).__name__,
        parameters=model.get_params(),
        baseline=model.design_.baseline,
        **fitted,
    )
    data = msgspec.to_builtins(file, enc_hook=_write_numbers)
    write_json(path, data, sealed=True)


def read_model(
    path: str | Path, kinds: Mapping[str, Any], design_of: Callable[[Any, Floats], Design]
) -> Any:
    """Read a model of one of these kinds."""
    data = read_json(path, sealed=True)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInput(f'{path} is no model file: expected "format": "{FORMAT}"')
    kind = data.get("model")
    if not isinstance(kind, str) or kind not in kinds:
        wanted = " or ".join(kinds)
        raise InvalidInput(
            f"{path} holds the model {kind!r:.40}, and no {wanted}: load that, or it is damaged"
        )
    try:
        file = msgspec.convert(data, ModelFile, dec_hook=_read_array)
        if isinstance(file.parameters.get("fading"), dict):
            file.parameters["fading"] = Fading(**file.parameters["fading"])
        model = kinds[kind](**file.parameters)
        model.check_settings()
        for name in FITTED:
            setattr(model, name, getattr(file, name))
        model.design_ = design_of(model, file.baseline)
        _fill_in(model)
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} is a damaged model file: {error}") from None
    return model


def _write_numbers(numbers: Any) -> Any:
    """Return an array, or a number of NumPy, as JSON has it."""
    return numbers.tolist()


def _read_array(_: type, numbers: Any) -> Floats:
    return np.array(numbers, np.float64)


def _fill_in(model: Any) -> None:
    """Give instances what they share beside their own numbers."""
    instances, arms, size = len(model.instances_), model.design_.n_arms, model.design_.size
    if instances == 0:
        for name in ("coefficients_", "unconstrained_", "standard_errors_"):
            setattr(model, name, np.zeros((0, size)))
        model.noise_ = np.zeros(0)
    elif model.pooling == "full":
        own, errors = model.coefficients_, model.standard_errors_
        variances = np.maximum(np.diag(model.population_covariance_), 0.0)
        for name, first, shared in (
            ("coefficients_", own, model.population_),
            ("unconstrained_", own, model.unconstrained_population_),
            ("standard_errors_", errors, np.sqrt(variances)),
        ):
            setattr(model, name, np.hstack([first, np.tile(shared[arms:], (instances, 1))]))
        model.noise_ = np.full(instances, model.noise_[0])
