"""Fitted models as JSON files: exact numbers, nothing that runs when it is read.

Numbers can be read in the file, but for tables of many instances or arms. These are packed, which
takes a third of the room: ``{"shape": [3000, 186], "float64": "…"}`` holds little-endian numbers,
row by row, compressed by zlib and written in base64.
"""

from __future__ import annotations

import base64
import math
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.files import read_json, write_json
from influential_bandits.learning.solvers.estimates import InstanceSummary
from influential_bandits.learning.solvers.partial import Prior
from influential_bandits.learning.solvers.psd import is_covariance
from influential_bandits.learning.statistics.design import Design
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.logs.outcome import Outcome
from influential_bandits.memory import require_memory
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.fading import Fading

FORMAT = "influential-bandits/model/1"
PACKED = 2_000  # numbers of a table from which on it is packed
NotNegative: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=sys.float_info.max)]


class PackedNumbers(msgspec.Struct, forbid_unknown_fields=True):
    """A table of many numbers as the file holds it."""

    shape: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    float64: str


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
    n_features_in_: int
    outcome_: Outcome
    effects_: RandomEffects
    prior_: Prior | None
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
    data = msgspec.to_builtins(file, enc_hook=_write_array)
    write_json(path, data, sealed=True)


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
        file = msgspec.convert(data, ModelFile, dec_hook=_read_array)
        if isinstance(file.parameters.get("fading"), dict):
            file.parameters["fading"] = Fading(**file.parameters["fading"])
        model = kinds[kind](**file.parameters)
        model.check_settings()
        for name in FITTED:
            setattr(model, name, getattr(file, name))
        model.design_ = design_of(model, file.baseline)
        _fill_in(model)
        _check_sizes(model)
        _check_ranges(model)
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} is a damaged model file: {error}") from None
    return model


def _write_array(array: Floats) -> Any:
    if array.size < PACKED:
        return array.tolist()
    content = zlib.compress(np.ascontiguousarray(array, "<f8").tobytes())
    packed = PackedNumbers(array.shape, base64.b64encode(content).decode())
    return msgspec.to_builtins(packed)


def _read_array(_: type, numbers: Any) -> Floats:
    array = _unpack(numbers) if isinstance(numbers, dict) else np.array(numbers, np.float64)
    if not np.isfinite(array).all():
        raise ValueError("numbers must be finite")
    return array


def _unpack(numbers: dict[str, Any]) -> Floats:
    packed = msgspec.convert(numbers, PackedNumbers)
    size = 8 * math.prod(packed.shape)
    require_memory(2 * size, "a table of the model", "it is damaged, or made for a larger computer")
    decoder = zlib.decompressobj()
    try:
        content = decoder.decompress(base64.b64decode(packed.float64, validate=True), size + 1)
    except zlib.error as error:
        raise ValueError(f"a table cannot be unpacked: {error}") from None
    if len(content) != size or not decoder.eof or decoder.unused_data:
        raise ValueError(f"a table does not hold the {size // 8:,} numbers of its shape")
    return np.frombuffer(content, "<f8").astype(np.float64).reshape(packed.shape)


def _fill_in(model: Any) -> None:
    """Give instances what they share beside their own numbers."""
    instances, arms, size = len(model.instances_), model.design_.n_arms, model.design_.size
    if instances == 0:
        for name in ("coefficients_", "unconstrained_", "standard_errors_"):
            setattr(model, name, np.zeros((0, size)))
        model.noise_ = np.zeros(0)
    elif model.pooling == "full":
        own, errors = model.coefficients_, model.standard_errors_
        if own.shape != (instances, arms) or own.shape != errors.shape or len(model.noise_) != 1:
            raise ValueError(f"a full pool has {instances} × {arms} initial losses and errors")
        variances = np.maximum(np.diag(model.population_covariance_), 0.0)
        for name, first, shared in (
            ("coefficients_", own, model.population_),
            ("unconstrained_", own, model.unconstrained_population_),
            ("standard_errors_", errors, np.sqrt(variances)),
        ):
            setattr(model, name, np.hstack([first, np.tile(shared[arms:], (instances, 1))]))
        model.noise_ = np.full(instances, model.noise_[0])


def _check_sizes(model: Any) -> None:
    """Raise unless there are as many numbers as arms, instances and coefficients need."""
    instances, size = len(model.instances_), model.design_.size
    shapes = dict.fromkeys(ARRAYS[:3], (instances, size)) | {
        "noise_": (instances,),
        "population_": (size,),
        "unconstrained_population_": (size,),
        "population_covariance_": (size, size),
    }
    for name, shape in shapes.items():
        if np.shape(getattr(model, name)) != shape:
            raise ValueError(f"{name} must be numbers of shape {shape}")
    if len(model.arm_names_) != model.design_.n_arms or len(set(model.instances_)) != instances:
        raise ValueError("names of arms or instances do not fit the numbers")
    if model.n_features_in_ != len(model.arm_names_):
        raise ValueError("n_features_in_ must be the number of arms")


def _check_ranges(model: Any) -> None:
    """Raise unless numbers are what they are called: variances, covariances."""
    size, prior, summary = model.design_.size, model.prior_, model.instance_summary_
    if not is_covariance(model.population_covariance_, size):
        raise ValueError(
            "population_covariance_ must be symmetric and positive semi-definite, a covariance"
        )
    if (model.standard_errors_ < 0.0).any() or (model.noise_ < 0.0).any():
        raise ValueError("standard_errors_ and noise_ must not be negative")
    if not _are_at_least_zero(model.effects_):
        raise ValueError("effects_ must be numbers that are not negative")
    if not np.isfinite(model.outcome_.best or 0.0):
        raise ValueError("outcome_ must be a unit and a number or null")
    if prior is not None and not (
        np.shape(prior.mean) == (size,)
        and is_covariance(prior.covariance, size)
        and _are_at_least_zero(prior[2:9])
    ):
        raise ValueError(f"prior_ must be a mean and covariance of {size} coefficients, variances")
    if summary is not None and not (
        summary.instances >= 1
        and _are_at_least_zero([summary.noise])
        and summary.covariance.shape == (size, size)
    ):
        raise ValueError(f"instance_summary_ must be a number, a noise and a covariance of {size}")


def _are_at_least_zero(numbers: Any) -> bool:
    return all(0.0 <= number < np.inf for number in numbers)
