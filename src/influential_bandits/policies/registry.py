"""From names to policies: for files and the command line."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InfluentialBanditsError, InvalidInput, InvalidPolicy
from influential_bandits.numerics.fingerprints import fingerprint
from influential_bandits.policies.contract import FUNCTIONS, Policy, require_policy
from influential_bandits.references import (
    find_class,
    find_object,
    name_class,
    split_reference,
    subclasses,
)

PACKAGE = "influential_bandits."


def known_policies() -> dict[str, type[Policy]]:
    """Return every policy by name: those of the package, and the user's that have been imported."""
    known = sorted(
        _all_policies(), key=lambda code: (code.__name__, code.__module__.startswith(PACKAGE))
    )
    return {code.__name__: code for code in known}  # of equal names, the package's is the last


def is_own(policy: Policy) -> bool:
    """Tell whether a policy is a user's own, not one of the package.

    Examples
    --------
    >>> is_own(policy_from_text("LCB"))
    False
    """
    return not type(policy).__module__.startswith("influential_bandits.")


def policy_from_text(text: str) -> Policy:
    """Return the policy that a text such as ``LCB`` or ``MOSS(alpha=2.0)`` names.

    A policy of one's own is named with its module or file: ``package.module:Class`` or
    ``path/to/file.py:Class(width=2.0)``.

    Examples
    --------
    >>> policy_from_text("InfluentialLCB(influence_bound=2.0)")
    InfluentialLCB(influence_bound=2.0, opening='pairs', noise_bound=0.0)
    """
    reference = split_reference(text)
    name, given, named, called = _call(text if reference is None else reference[1], text)
    if reference is not None:
        found = find_object(reference[0], name)
        if isinstance(found, Policy) and not called:
            return require_policy(found)
        if not (isinstance(found, type) and issubclass(found, Policy)):
            raise InvalidPolicy(
                f"{reference[0]}:{name} is no policy but {found!r:.60}; name a subclass of "
                "influential_bandits.Policy"
            )
    else:
        known = known_policies()
        if name not in known:
            raise InvalidInput(
                f"unknown policy {name!r}; there are {', '.join(known)}; one of your own is named "
                "with its file or module, as in mine.py:Greedy"
            )
        found = known[name]
    return _make(text, found, *given, **named)


def _make(description: str, code: type[Policy], /, *given: Any, **named: Any) -> Policy:
    """Return a policy with these settings, or say why what is described makes none."""
    try:
        return require_policy(code(*given, **named))
    except InfluentialBanditsError:
        raise
    except TypeError as error:
        raise InvalidPolicy(f"{description}: {error}") from None
    except Exception as error:
        raise InvalidPolicy(f"{description}: {type(error).__name__}: {error}") from error


def take_policy(given: Policy | str) -> Policy:
    """Return the policy that is given, or that a text names."""
    return policy_from_text(given) if isinstance(given, str) else require_policy(given)


def _call(expression: str, text: str) -> tuple[str, list[Any], dict[str, Any], bool]:
    """Return name, arguments and whether there are brackets, of ``Name`` or ``Name(…)``."""
    try:
        node = ast.parse(expression.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        name = ast.unparse(call.func)
        given = [ast.literal_eval(value) for value in call.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise InvalidInput(
            f"cannot read the policy {text!r}; write a name, as in LCB or MOSS(alpha=2.0)"
        ) from None
    words = [word.arg for word in call.keywords]
    if None in words or len(set(words)) < len(words):
        raise InvalidInput(f"cannot read the policy {text!r}: name each setting once")
    return name, given, named, call is node


def code_digest(policy: Policy) -> str:
    """Return what tells the code of a policy from that of another one, or of itself when edited.

    It covers what is compiled; of a class of the user's also its file, since ``fields``,
    ``parameters`` and the like decide what it plays too.
    """
    code: Any = type(policy)
    return fingerprint(*(getattr(code, name) for name in FUNCTIONS)) + _files_digest(code)


@cache  # a file that is edited during a run is not the one that plays
def _files_digest(code: Any) -> str:
    """Return a digest of the user's files that a class, or a base of it, is written in."""
    digests = ""
    for home in dict.fromkeys(base.__module__ for base in code.__mro__):
        if home != "builtins" and not home.startswith(PACKAGE):
            with suppress(OSError, TypeError, KeyError):  # a notebook's classes have no file
                digests += hashlib.sha256(inspect.getsource(sys.modules[home]).encode()).hexdigest()
    return digests


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """Return a policy as JSON data: the one form in which files of every kind hold it.

    A policy of the package is named plainly; one of the user's as ``module:Class``.

    Examples
    --------
    >>> from influential_bandits.policies.uniform import Uniform
    >>> policy_to_json(Uniform())
    {'name': 'Uniform', 'settings': {}}
    """
    settings = {
        field.name: _plain(policy, field.name, getattr(policy, field.name))
        for field in dataclasses.fields(policy)
    }
    return {"name": name_class(type(policy)), "settings": settings}


def policy_from_json(data: Mapping[str, Any], policy: Policy | None = None) -> Policy:
    """Return the policy of a file; if one is given, it must be that one.

    The module of a policy of the user's is imported, if it has not been.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise InvalidInput(f"the file names no policy, but {abbreviate(data)}")
    if policy is not None:
        given = policy_to_json(require_policy(policy))
        if given != data:
            raise InvalidInput(
                f"the file was saved by {abbreviate(data)}, and does not fit {given}"
            )
        return policy
    hint = "give the policy, as in load(path, policy)"
    code = find_class(data["name"], Policy, _all_policies(), hint)
    settings = data.get("settings")
    if not isinstance(settings, Mapping):
        raise InvalidInput(
            f"the file has no settings of {data['name']}, but {abbreviate(settings)}"
        )
    return _make(f"{data['name']} cannot be made of {abbreviate(settings)}", code, **settings)


def _plain(policy: Policy, name: str, value: Any) -> Any:
    """Return a setting as JSON data."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(policy, name, item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidPolicy(
        f"{type(policy).__name__} cannot be saved: its setting {name} is {abbreviate(value)}; "
        "files hold numbers, texts, lists of them and what has a to_json method"
    )


def _all_policies() -> Iterator[type[Policy]]:
    """Yield the policies of the package, and those of the user that have been imported."""
    package = import_module("influential_bandits.policies")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
    yield from subclasses(Policy)
