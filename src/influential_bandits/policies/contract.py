"""The policy contract: a frozen configuration, and functions over an explicit state.

A policy is a frozen dataclass of scalars. What it does is written in static methods, plain Python
that the package compiles: they read the configuration ``c``, own the state ``s`` and nothing else.
Influence happens when an arm is *pulled*; its loss may be *observed* later and in any order. So
the two are separate moments:

- ``init(c, s)``: fill the state, which starts as zeros;
- ``select(c, s, t, eligible, rng)``: return an arm for round t ≥ 1; only reads;
- ``pulled(c, s, t, arm, memo)``: the world has moved; may leave a memo for ``observed``;
- ``observed(c, s, t, arm, memo, loss)``: the loss of the pull of round t has come in;
- ``arm_added(c, s, arm)``: a new arm, the last one, has come; its state is zeros;
- ``arm_retired(c, s, arm)``: the arm will never be eligible again.

``c`` has the policy's parameters and ``c.arms``, the number K of arms. ``s`` has the arrays that
:meth:`Policy.fields` names. ``eligible`` is None (all arms) or a boolean array. ``rng`` is a stream
for ``ib.uniform(rng, i)`` and ``ib.normal(rng, i)``, i = 0, 1, 2, ….
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidPolicy

if TYPE_CHECKING:
    from influential_bandits.world.instance import Instance

__all__ = ["Policy"]

FUNCTIONS = ("init", "select", "pulled", "observed", "arm_added", "arm_retired")

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
    ...         return (c.start + t - 1) % c.arms
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

    def fields(self, arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Return the state: name → ("int64" or "float64", shape with at most two axes)."""
        return {}

    def memo_size(self, arms: int) -> int:
        """Return how many floats ``pulled`` hands over to ``observed``."""
        return 0

    def initial_state(self, arms: int) -> Mapping[str, npt.NDArray[Any]]:
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
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """Make room for a new arm."""

    @staticmethod
    def arm_retired(c: Any, s: Any, arm: int) -> None:
        """Forget an arm."""


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


def checked_policy(policy: object) -> Policy:
    """Return the policy, or say why it is none."""
    if not isinstance(policy, Policy):
        hint = "; construct it, as in LCB()" if inspect.isclass(policy) else ""
        raise InvalidPolicy(f"unknown policy {policy!r}: expected an instance of Policy{hint}")
    if type(policy).select is Policy.select:
        raise InvalidPolicy(
            f"{type(policy).__name__} does not define select(c, s, t, eligible, rng)"
        )
    declared = {field.name for field in dataclasses.fields(policy)}
    for name, kind in vars(type(policy)).get("__annotations__", {}).items():
        if name not in declared and "ClassVar" not in str(kind):
            raise InvalidPolicy(
                f"{type(policy).__name__}.{name} is no parameter yet: decorate the class with "
                "@dataclass(frozen=True)"
            )
    for name in FUNCTIONS:
        if not isinstance(inspect.getattr_static(policy, name), staticmethod):
            raise InvalidPolicy(f"{type(policy).__name__}.{name} must be a @staticmethod")
    for name, value in policy.parameters().items():
        if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            raise InvalidPolicy(
                f"{type(policy).__name__}: parameter {name} must be a number, got {value!r}; "
                "override parameters() to encode it"
            )
    return policy
