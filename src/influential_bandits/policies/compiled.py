"""From a policy to compiled code: tags, which choose the code by type, and states as flat arrays.

Loops take a *tag*, an empty value whose type names a policy's code by its fingerprint, and call
:func:`select` and the others on it; these are resolved when the loop is compiled.
"""

from __future__ import annotations

import hashlib
import inspect
import keyword
import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.core import errors, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, overload

from influential_bandits.checks import abbreviate, require_horizon, whole_number
from influential_bandits.errors import InvalidInput, InvalidPolicy
from influential_bandits.free_memory import require_memory
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed_part, borrowed_table, kernel
from influential_bandits.numerics.fingerprints import fingerprint
from influential_bandits.numerics.recompiling import compile_anew
from influential_bandits.numerics.streams import stream_at
from influential_bandits.numerics.tags import BETWEEN, INLINED, CodeTag
from influential_bandits.numerics.user_code import require_reproducible
from influential_bandits.policies.contract import (
    FUNCTIONS,
    Policy,
    Shape,
    ask,
    plain_parameters,
)
from influential_bandits.policies.messages import NO_ARM
from influential_bandits.world.instance import Instance

TYPES = ("int64", "float64")


class Tag(CodeTag):
    """Stands for the code of a policy in calls of compiled functions."""

    known: dict[str, Tag] = {}  # noqa: RUF012 - the register of all tags of this process

    def __init__(
        self,
        digest: str,
        code: type[Policy],
        parameters: tuple[str, ...],
        schema: Schema,
        checked: bool,
    ) -> None:
        self.digest = digest
        self.parameters = parameters
        self.schema = schema
        self.is_own = code.__module__.startswith("influential_bandits.")  # of this package
        functions = {name: getattr(code, name) for name in FUNCTIONS}
        self.functions = compile_anew(functions, **INLINED, boundscheck=checked)

    @cached_property
    def state(self) -> type[tuple[Any, ...]]:
        """The named tuple of the fields."""
        return namedtuple("State", [name for name, *_ in self.schema])

    @cached_property
    def config(self) -> type[tuple[Any, ...]]:
        """The named tuple of the parameters."""
        return namedtuple("Parameters", ["n_arms", *self.parameters])

    @cached_property
    def unpack(self) -> Callable[..., Any]:
        """Source-generated function from flat arrays to the named tuples c and s."""
        fields = []
        for row, (_, dtype, axes, known) in enumerate(self.schema):
            buffer = f"arrays.{'known_' if known else ''}{dtype[:-2]}s"
            place = f"arrays.layout[{row}, 0], arrays.layout[{row}, 2]"
            view = f"borrowed_part({buffer}, {place})"
            if axes == 2:
                view = f"borrowed_table({buffer}, {place}, arrays.layout[{row}, 3])"
            fields.append(f"read_only({view})" if known else view)
        scalars = [f"config[{i}]" for i in range(len(self.parameters) + 1)]
        source = (
            "def unpack(tag, config, arrays):\n"
            f"    return Parameters({', '.join(scalars)}), State({', '.join(fields)})\n"
        )
        scope = {"Parameters": self.config, "State": self.state, "read_only": read_only}
        views = {"borrowed_part": borrowed_part, "borrowed_table": borrowed_table}
        return _make(source, "unpack", scope | views)

    @cached_property
    def shield(self) -> Callable[..., Any]:
        """Compiled function from a state to the same state for reading only."""
        fields = ", ".join(f"read_only(s.{name})" for name, *_ in self.schema)
        source = f"def shield(s):\n    return State({fields})\n"
        made = _make(source, "shield", {"State": self.state, "read_only": read_only})
        return numba.njit(**BETWEEN)(made)


def _make(source: str, name: str, scope: dict[str, Any]) -> Callable[..., Any]:
    exec(source, scope := {"__name__": __name__, **scope})
    return scope[name]


def _shield(typing_context, array):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return an array as one that compiled code cannot write to; None stays None."""
    if not isinstance(array, types.Array):
        return array(array), lambda context, builder, signature, arguments: arguments[0]

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])

    return array.copy(readonly=True)(array), generate


def _shield_by_interpreter(array: Any) -> Any:
    if array is not None:
        array = array.view()
        array.flags.writeable = False
    return array


def _take_arm(typing_context, chosen):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return what select returned as the number of an arm, or refuse to compile."""
    if not isinstance(chosen, types.Integer):
        raise errors.TypingError(f"{NO_ARM}{chosen}")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return context.cast(builder, arguments[0], signature.args[0], signature.return_type)

    return types.int64(chosen), generate


def _take_arm_by_interpreter(chosen: Any) -> int:
    if isinstance(chosen, bool) or not isinstance(chosen, (int, np.integer)):
        raise InvalidPolicy(f"{NO_ARM}{abbreviate(chosen)}")
    return int(chosen)


COMPILED = not numba.config.DISABLE_JIT
read_only: Any = intrinsic(_shield) if COMPILED else _shield_by_interpreter
as_arm: Any = intrinsic(_take_arm) if COMPILED else _take_arm_by_interpreter


Buffers = Mapping[str, npt.NDArray[Any]]  # by type: the states of runs, one a row
Schema = tuple[tuple[str, str, int, bool], ...]  # (name, dtype, axes, whether knowledge)


class StateArrays(NamedTuple):
    """A policy's state as compiled code gets it: the layout, and one buffer for each type."""

    layout: Ints  # (fields, 4): start, stop, and the two lengths of a field with two axes
    ints: Ints
    floats: Floats
    known_ints: Ints  # what an oracle knows, shared by runs
    known_floats: Floats


class Layout:
    """Where each field of a policy's state lies for a number of arms.

    Parameters
    ----------
    policy : Policy
    n_arms : int
    instance, horizon
        What a privileged policy is told; None for everybody else.
    checked : bool
        Let compiled code check every index, at the price of time.
    """

    def __init__(
        self,
        policy: Policy,
        n_arms: int,
        instance: Instance | None = None,
        horizon: int | None = None,
        *,
        checked: bool = False,
    ) -> None:
        name = type(policy).__name__
        rounds = _require_told(policy, n_arms, instance, horizon)
        knowledge = {}
        if policy.privileged and instance is not None:
            knowledge = _arrays(policy, "knowledge", instance, rounds)
        fields = _describe_fields(policy, n_arms)
        rows = self._place(name, fields, knowledge)
        _require_names(name, [*fields, *knowledge])
        self.memo_size = _memo_size(policy, n_arms)
        most = 2 * sum(self.sizes.values()) + self.memo_size  # what is fresh, and what is at work
        require_memory(8 * most, f"{name} for {n_arms:,} arms", "take fewer arms")
        self.table: Ints = np.array(rows, np.int64).reshape(-1, 4)
        self.known = {f"known_{t}": np.zeros(self.sizes[f"known_{t}"], t) for t in TYPES}
        for field, values in knowledge.items():
            buffer, where, _ = self.slices[field]
            self.known[buffer][where] = np.ravel(values)
        self.fresh = {t: np.zeros(self.sizes[t], t) for t in TYPES}
        for field, values in _arrays(policy, "initial_state", n_arms).items():
            buffer, where, lengths = self.slices.get(field, ("", slice(0), ()))
            if field not in fields or values.shape not in (lengths, (math.prod(lengths),)):
                there = ", ".join(f"{key}: {self.slices[key][2]}" for key in fields) or "none"
                raise InvalidPolicy(
                    f"{name}.initial_state() gives {field!r} of shape {values.shape}; the fields "
                    f"are {there}"
                )
            self.fresh[buffer][where] = values.ravel()
        settings = plain_parameters(policy)
        _require_names(name, ["n_arms", *settings])
        self.parameters, self.checked = tuple(settings), checked
        self.config = (n_arms, *settings.values())
        self.tag = _tag(type(policy), self.parameters, tuple(self.schema), checked)

    def _place(
        self,
        name: str,
        fields: Mapping[str, tuple[str, Shape]],
        knowledge: Mapping[str, npt.NDArray[Any]],
    ) -> list[tuple[int, ...]]:
        """Give each field, and what an oracle knows, its place in a buffer; return the table."""
        self.sizes = dict.fromkeys((*TYPES, *(f"known_{t}" for t in TYPES)), 0)
        self.slices: dict[str, tuple[str, slice, tuple[int, ...]]] = {}
        self.schema: list[tuple[str, str, int, bool]] = []
        rows: list[tuple[int, ...]] = []
        known = {field: (str(values.dtype), values.shape) for field, values in knowledge.items()}
        for field, (dtype, shape) in {**fields, **known}.items():
            lengths = _axes(shape)
            whole = all(isinstance(length, (int, np.integer)) for length in lengths)
            if dtype not in TYPES or len(lengths) not in (1, 2) or not whole or min(lengths) < 0:
                raise InvalidPolicy(
                    f"{name}: field {field!r} must be int64 or float64 with one or two axes, "
                    f"got {abbreviate(dtype)} with shape {abbreviate(shape)}"
                )
            lengths = tuple(map(int, lengths))
            buffer = f"known_{dtype}" if field in known else dtype
            start = self.sizes[buffer]
            self.sizes[buffer] = stop = start + math.prod(lengths)
            rows.append((start, stop, lengths[0], lengths[-1]))
            self.schema.append((field, dtype, len(lengths), field in known))
            self.slices[field] = buffer, slice(start, stop), lengths
        return rows

    def is_known(self, field: str) -> bool:
        """Tell whether a field is an oracle's knowledge, and no part of the state."""
        return self.slices[field][0].startswith("known_")

    def arrays(self, ints: Ints | None = None, floats: Floats | None = None) -> StateArrays:
        """Return a fresh state, or one in the given buffers."""
        return StateArrays(
            self.table,
            self.fresh["int64"].copy() if ints is None else ints,
            self.fresh["float64"].copy() if floats is None else floats,
            self.known["known_int64"],
            self.known["known_float64"],
        )

    def views(self, arrays: StateArrays) -> dict[str, npt.NDArray[Any]]:
        """Return the fields of a state by name, as views."""
        buffers = {"int64": arrays.ints, "float64": arrays.floats} | self.known
        return {
            field: buffers[buffer][where].reshape(lengths)
            for field, (buffer, where, lengths) in self.slices.items()
        }

    def lay_out_anew(self, before: Layout, ints: Ints, floats: Floats) -> tuple[Ints, Floats]:
        """Return states (runs, numbers) of another number of arms, as far as both have room.

        What is new is zero.
        """
        old: Buffers = {"int64": ints, "float64": floats}
        new: Buffers = {t: np.zeros((len(ints), self.sizes[t]), t) for t in TYPES}
        for field, (buffer, where, lengths) in self.slices.items():
            _, from_where, had = before.slices[field]
            both = tuple(slice(0, min(pair)) for pair in zip(lengths, had, strict=True))
            target = new[buffer][:, where].reshape(len(ints), *lengths)
            target[:, *both] = old[buffer][:, from_where].reshape(len(ints), *had)[:, *both]
        return new["int64"], new["float64"]


def _require_names(policy: str, names: list[str]) -> None:
    for n, name in enumerate(names):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise InvalidPolicy(f"{policy}: {name!r} cannot name a field or a parameter")
        if name in names[:n]:
            raise InvalidPolicy(f"{policy}: the name {name!r} is taken already")


def _require_told(
    policy: Policy, n_arms: int, instance: Instance | None, horizon: int | None
) -> int:
    """Return the horizon that an oracle is told, 0 if it is not; raise if it lacks something."""
    name, told = type(policy).__name__, {"instance": instance, "horizon": horizon}
    if not set(policy.privileged) <= set(told):
        raise InvalidPolicy(f'{name}.privileged may name "instance" and "horizon" only')
    missing = [what for what in policy.privileged if told[what] is None]
    if missing:
        raise InvalidPolicy(f"{name} is an oracle: it must be told the {' and the '.join(missing)}")
    rounds = 0 if horizon is None else require_horizon(horizon)
    if policy.privileged and instance is not None and instance.n_arms != n_arms:
        raise InvalidInput(f"{name} is told an instance of {instance.n_arms} arms, not {n_arms}")
    return rounds if "horizon" in policy.privileged else 0


def _describe_fields(policy: Policy, n_arms: int) -> dict[str, tuple[str, Shape]]:
    """Return what a policy says of its fields, each a type and a shape."""
    given = ask(policy, "fields", n_arms)
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and isinstance(field, (tuple, list)) and len(field) == 2
        for name, field in given.items()
    ):
        raise InvalidPolicy(
            f"{type(policy).__name__}.fields() must return types and shapes by name, as in "
            f"{{'mean': ('float64', arms)}}, got {abbreviate(given)}"
        )
    return {name: (dtype, _axes(shape)) for name, (dtype, shape) in given.items()}


def _axes(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _memo_size(policy: Policy, n_arms: int) -> int:
    try:
        return whole_number("the number", ask(policy, "memo_size", n_arms), 0, 2**31)
    except InvalidPolicy:
        raise
    except InvalidInput as error:
        raise InvalidPolicy(
            f"{type(policy).__name__}.memo_size() must return a number of floats: {error}"
        ) from None


def _arrays(policy: Policy, method: str, *arguments: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that a method of a policy gives, of the types of a state."""
    given = ask(policy, method, *arguments)
    arrays = {}
    for name, values in given.items() if isinstance(given, Mapping) else [("it", given)]:
        array = np.asarray(values)
        kind = "int64" if array.dtype.kind in "iub" else "float64"
        if not isinstance(given, Mapping) or array.dtype.kind not in "iubf":
            raise InvalidPolicy(
                f"{type(policy).__name__}.{method}() must return arrays of numbers by name, "
                f"but {name} is {abbreviate(values)}"
            )
        arrays[name] = array.astype(kind)
    return arrays


def _tag(
    code: type[Policy], parameters: tuple[str, ...], schema: Schema, checked: bool = False
) -> Tag:
    functions = fingerprint(*(getattr(code, name) for name in FUNCTIONS))
    mode = " checked" if checked else ""
    digest = hashlib.sha256(f"{functions}{parameters}{schema}{mode}".encode()).hexdigest()
    if digest not in Tag.known:
        for name in FUNCTIONS:
            require_reproducible(f"{code.__name__}.{name}", getattr(code, name), InvalidPolicy)
        Tag.known[digest] = Tag(digest, code, parameters, schema, checked)
    return Tag.known[digest]


def unpack(tag: Tag, config: Any, arrays: StateArrays) -> Any:
    """Return c and s, in compiled code or by the interpreter."""
    return tag.unpack(tag, config, arrays)


def _hook(name: str) -> Any:
    """Return what calls a function of the contract on a tag, compiled or by the interpreter."""
    parameters = ", ".join(inspect.signature(getattr(Policy, name)).parameters)
    scope = {"as_arm": as_arm, "read_only": read_only}

    def write(function: str, shield: str) -> str:
        call = f"{function}({parameters})"
        if name == "select":
            call = f"as_arm({function}(c, {shield}(s), t, read_only(eligible), rng))"
        return f"def {name}(tag, {parameters}):\n    return {call}\n"

    hook = _make(write(f"tag.functions[{name!r}]", "tag.shield"), name, scope)

    @overload(hook, jit_options=BETWEEN, strict=False)
    def compile_call(tag, *arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN202
        code = Tag.known[tag.digest]
        own = {"function": code.functions[name], "shield": code.shield}
        return _make(write("function", "shield"), name, scope | own)

    return hook


@overload(unpack, jit_options=BETWEEN)
def _unpack(tag, config, arrays):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    return Tag.known[tag.digest].unpack


init, select, pulled, observed, elapsed, arm_added, arm_retired, expected = map(_hook, FUNCTIONS)


# What an agent calls, one function at a time.


@kernel
def select_arm(
    tag: Tag,
    config: Any,
    arrays: StateArrays,
    t: int,
    eligible: Any,
    first_key: np.uint64,
    second_key: np.uint64,
) -> int:
    """Return the arm for round t."""
    c, s = unpack(tag, config, arrays)
    return select(tag, c, s, t, eligible, stream_at(first_key, second_key, t))


def _call_on_arrays(name: str) -> Any:
    """Return the kernel that calls a function of the contract on a state in flat arrays."""
    _, _, _, *arguments = inspect.signature(globals()[name]).parameters
    source = (
        f"def {name}({', '.join(['tag', 'config', 'arrays', *arguments])}):\n"
        "    c, s = unpack(tag, config, arrays)\n"
        f"    hook({', '.join(['tag', 'c', 's', *arguments])})\n"
    )
    return kernel(_make(source, name, {"unpack": unpack, "hook": globals()[name]}))


KERNELS = {name: _call_on_arrays(name) for name in FUNCTIONS} | {"select": select_arm}
