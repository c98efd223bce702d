"""The policy contract: a frozen configuration, and functions over an explicit state.

A policy is a frozen dataclass of scalars. What it does is written in static methods, plain Python
that the package compiles: they read the configuration ``c``, own the state ``s`` and nothing else.
Influence happens when an arm is *pulled*; its loss may be *observed* later and in any order. So
the two are separate moments:

- ``init(c, s)``: fill the state, which starts as zeros;
- ``select(c, s, t, eligible, rng)``: return an arm for round t ≥ 1; only reads;
- ``pulled(c, s, t, arm, memo)``: the world has moved; may leave a memo for ``observed``;
- ``observed(c, s, t, arm, memo, loss)``: the loss of the pull of round t has come in;
- ``elapsed(c, s, hours)``: so much time, perhaps 0, has passed since the round before; only where
  rounds have times, and for policies that are :attr:`Policy.by_clock`;
- ``arm_added(c, s, arm)``: a new arm, the last one, has come; its state is zeros;
- ``arm_retired(c, s, arm)``: the arm will never be eligible again;
- ``expected(c, s, losses)``: write what each arm would cost now into ``losses``, which are zeros;
  changes nothing else. Only for those who look: no choice depends on it.

``c`` has the policy's parameters and ``c.n_arms``, the number K of arms. ``s`` has the arrays that
:meth:`Policy.fields` names. ``eligible`` is None (all arms) or a boolean array. ``rng`` is a stream
for ``ib.random.uniform(rng, i)`` and ``ib.random.normal(rng, i)``, i = 0, 1, 2, ….
"""

from __future__ import annotations

import dataclasses
import difflib
import dis
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import numpy.typing as npt

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InfluentialBanditsError, InvalidPolicy
from influential_bandits.numerics.user_code import (
    plain_numbers,
    require_declared,
    require_function,
    show_call,
)

if TYPE_CHECKING:
    from influential_bandits.world.instance import Instance

FUNCTIONS = (
    "init",
    "select",
    "pulled",
    "observed",
    "elapsed",
    "arm_added",
    "arm_retired",
    "expected",
)

CHECKED: WeakSet[type] = WeakSet()  # classes that keep to the contract

Scalar = bool | int | float
Shape = int | tuple[int, ...]


@dataclass(frozen=True)
class Policy:
    """Base of all policies; subclass it as a frozen dataclass.

    Examples
    --------
    A policy of your own, at compiled speed (put it in a file, or in a notebook cell):

    >>> from dataclasses import dataclass
    >>> import influential_bandits as ib
    >>> @dataclass(frozen=True)
    ... class RoundRobin(ib.Policy):
    ...     start: int = 0
    ...
    ...     @staticmethod
    ...     def select(c, s, t, eligible, rng):
    ...         return (c.start + t - 1) % c.n_arms
    >>> run = ib.simulate(ib.counterexample(), RoundRobin(start=1), horizon=5)
    >>> run.counts[0, 0, -1]
    array([2, 3])
    """

    privileged: ClassVar[tuple[str, ...]] = ()  # what an oracle is told: "instance", "horizon"
    horizon_aware: ClassVar[bool] = False  # True: plays for its horizon, so one run for each

    @property
    def label(self) -> str:
        """The policy in short: its name, and the settings that are not its usual ones."""
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if not _is_usual(field, getattr(self, field.name))
        ]
        return type(self).__name__ + (f"({', '.join(changed)})" if changed else "")

    @property
    def by_clock(self) -> bool:
        """Whether it must be told times: by default if it defines ``elapsed``."""
        return type(self).elapsed is not Policy.elapsed

    @cached_property
    def draws(self) -> bool:
        """Whether chance has a part in its choices: by default if ``select`` looks at ``rng``."""
        return _names_parameter(type(self).select, 4)

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Return the state: name → ("int64" or "float64", shape with at most two axes)."""
        return {}

    def memo_size(self, n_arms: int) -> int:
        """Return how many floats ``pulled`` hands over to ``observed``."""
        return 0

    def initial_state(self, n_arms: int) -> Mapping[str, npt.NDArray[Any]]:
        """Return what the state holds before ``init``, by field; zeros where nothing is given."""
        return {}

    def parameters(self) -> Mapping[str, Scalar]:
        """Return the scalars that become attributes of ``c``; by default the dataclass fields."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def knowledge(self, instance: Instance, horizon: int) -> Mapping[str, npt.NDArray[Any]]:
        """Return arrays that an oracle adds to ``s``; shared by all runs, so read-only.

        Called only for the privileged; the horizon is 0 for those not told it.
        """
        return {}

    @staticmethod
    def init(c: Any, s: Any) -> None:
        """Fill the state; it starts as zeros."""

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm to pull in round t; must only read."""
        raise InvalidPolicy("a policy must define select(c, s, t, eligible, rng)")

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        """Note that the arm was pulled in round t."""

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Learn the loss of the pull of round t."""

    @staticmethod
    def elapsed(c: Any, s: Any, hours: float) -> None:
        """Let hours pass, 0 or more, between the latest pull and the next round."""

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """Make room for a new arm."""

    @staticmethod
    def arm_retired(c: Any, s: Any, arm: int) -> None:
        """Forget an arm."""

    @staticmethod
    def expected(c: Any, s: Any, losses: Any) -> None:
        """Write what each arm would cost now."""


def require_labels(policies: Sequence[Policy]) -> None:
    """Raise if two policies have the same label: results could not be told apart."""
    labels = [policy.label for policy in policies]
    for n, label in enumerate(labels):
        if label in labels[:n]:
            raise InvalidPolicy(
                f"two of the policies are called {label}; give one of the classes another name, or "
                "leave out the one that is there twice"
            )


def _is_usual(field: dataclasses.Field[Any], value: Any) -> bool:
    """Tell whether a setting is what it is by default."""
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    try:
        return bool(value == default) or repr(value) == repr(default)
    except ValueError:  # arrays are not compared to a truth value
        return repr(value) == repr(default)


def require_policy(policy: object) -> Policy:
    """Return the policy, or say why it is none."""
    if not isinstance(policy, Policy):
        hint = "; construct it, as in LCB()" if inspect.isclass(policy) else ""
        raise InvalidPolicy(
            f"unknown policy {abbreviate(policy)}: expected an instance of Policy{hint}"
        )
    check_class(type(policy))
    plain_parameters(policy)
    return policy


def check_class(code: type[Policy]) -> None:
    """Raise unless a class of policies keeps to the contract, as far as its definition shows."""
    if code in CHECKED:
        return
    if code.select is Policy.select:
        call = show_call(Policy, "select")
        raise InvalidPolicy(f"{code.__name__} does not define {call}")
    require_declared(code, InvalidPolicy)
    declared = {field.name for field in dataclasses.fields(code)}
    for base in code.__mro__[: code.__mro__.index(Policy)]:
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in declared and not hasattr(Policy, name):
                _refuse_misspelling(code.__name__, name, value)
    for name in FUNCTIONS:
        require_function(code, Policy, name, InvalidPolicy)
    _check_memo_is_declared(code)
    CHECKED.add(code)


def _refuse_misspelling(owner: str, name: str, value: object) -> None:
    """Raise if a name that is not of the contract is close to one, or belongs to a function."""
    hook = isinstance(value, staticmethod)
    if inspect.isfunction(value):
        hook = list(inspect.signature(value).parameters)[:2] == ["c", "s"]
    words = FUNCTIONS if hook else [word for word in vars(Policy) if not word.startswith("_")]
    close = difflib.get_close_matches(name, words, 1, 0.6 if hook else 0.8)
    if not hook and not close:
        return
    meant = f"did you mean {close[0]}? " if close else ""
    raise InvalidPolicy(
        f"{owner}.{name} is not part of the contract, and would never be called: {meant}"
        f"A policy may define {', '.join(FUNCTIONS)}; let the name of a helper begin with _"
    )


def _check_memo_is_declared(code: type[Policy]) -> None:
    """Raise if a memo is used for which there is no room: it would be written elsewhere."""
    if code.memo_size is not Policy.memo_size:
        return
    for name in ("pulled", "observed"):
        function = getattr(code, name)
        if _names_parameter(function, 4):
            memo = list(inspect.signature(function).parameters)[4]
            raise InvalidPolicy(
                f"{code.__name__}.{name} uses {memo}, but there is no room in it: define "
                "memo_size(self, n_arms) and return how many numbers pulled hands over to observed"
            )


def _names_parameter(function: Any, place: int) -> bool:
    """Tell whether the code of a function names one of its parameters."""
    parameter = "".join(list(inspect.signature(function).parameters)[place : place + 1])
    instructions = dis.get_instructions(getattr(function, "py_func", function))
    used = [i.argval for i in instructions if "FAST" in i.opname]
    return any(parameter == v or (isinstance(v, tuple) and parameter in v) for v in used)


def ask(policy: Policy, method: str, *arguments: Any) -> Any:
    """Return what a policy's method says; an error of its own becomes one that names it."""
    try:
        return getattr(policy, method)(*arguments)
    except InfluentialBanditsError:
        raise
    except Exception as error:
        raise InvalidPolicy(
            f"{type(policy).__name__}.{method} failed with {type(error).__name__}: {error}"
        ) from error


def plain_parameters(policy: Policy) -> dict[str, Any]:
    """Return the parameters of a policy as Python's own numbers."""
    name = type(policy).__name__
    given = ask(policy, "parameters")
    if not isinstance(given, Mapping):
        raise InvalidPolicy(
            f"{name}.parameters() must return names and numbers, as in {{'width': 1.0}}, "
            f"got {abbreviate(given)}"
        )
    return plain_numbers(name, given, InvalidPolicy, "; override parameters() to encode it")
