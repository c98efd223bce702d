"""What went wrong in a policy, in the policy's terms: the compiler's messages, and its own errors.

Numba speaks of types and signatures, at the place of a call inside this package. What the user
needs is the function, the line and what the contract asks for; Numba's full text stays available
as the cause of the error.
"""

from __future__ import annotations

import difflib
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba

from influential_bandits.errors import InvalidPolicy
from influential_bandits.policies.contract import FUNCTIONS, Policy

if TYPE_CHECKING:
    from influential_bandits.policies.compiled import Layout

NO_ARM = "select must return an integer, the number of an arm, but returns "
PACKAGE, NUMBA = Path(__file__).resolve().parent.parent, Path(numba.__file__).resolve().parent
FRAMING = (  # lines in which Numba says where it is, not what it does not like
    "Failed in",
    "During:",
    "^",
    "File ",
    ">>>",
    "There are",
    "- Of which",
    "With argument",
    "Overload",
    "Intrinsic",
    "Rejected as",
    "raised from",
    "No match",
    "No implementation of function Function(<function select",
)
RETURNED = {"none": "nothing (None)", "OptionalType(int64)": "nothing (None) on some paths"}


def explain(policy: Policy, layout: Layout, error: Exception, moment: str = "") -> InvalidPolicy:
    """Return the error that says what is wrong with a policy whose compiled code failed.

    ``moment`` says what it was doing; an error of the compiler has none.
    """
    name = type(policy).__name__
    text = str(error)
    meaning = _meaning(text, layout)
    if meaning is None and not isinstance(error, numba.core.errors.NumbaError):
        return InvalidPolicy(
            f"{name} failed{moment} with {type(error).__name__}: {text}{_raised_at(error)}"
        )
    if meaning is None:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        said = [line for line in lines if not line.startswith(FRAMING) and "Code(" not in line]
        meaning = (
            "its functions may use numbers, tuples, NumPy arrays and functions decorated with "
            f"numba.njit. Numba says: {' '.join(said[:3])}"
        )
    return InvalidPolicy(f"{name} cannot be compiled{_place(policy, text)}: {meaning}")


def _meaning(text: str, layout: Layout) -> str | None:
    """Return what the compiler wants to say, if it is one of the usual mistakes."""
    for pattern, meaning in MISTAKES:
        found = re.search(pattern, text)
        if found is not None:
            return meaning(found, layout)
    return None


def _explain_no_arm(found: re.Match[str], layout: Layout) -> str:
    kind = found[1].strip()
    return f"{NO_ARM}{RETURNED.get(kind, kind)}; return int(…) on every path"


def _explain_unknown_name(found: re.Match[str], layout: Layout) -> str:
    name, owner = found[1], found[2]
    of_state = owner == "State"
    there = list(layout.slices) if of_state else ["n_arms", *layout.parameters]
    close = difflib.get_close_matches(name, there, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    short, plural = ("s", "fields") if of_state else ("c", "parameters")
    return (
        f"there is no {short}.{name}: {meant}The {plural} are {', '.join(there) or 'none'}, as "
        f"{plural}() names them"
    )


def _explain_written(found: re.Match[str], layout: Layout) -> str:
    return (
        "select may only read its state and eligible, and nobody may write to what knowledge() "
        "gave; change the state in pulled or observed, or work on a copy()"
    )


def _explain_replaced(found: re.Match[str], layout: Layout) -> str:
    owner, name = found[1], found[2]
    if owner == "Parameters":
        return f"c.{name} is a parameter and cannot be changed; keep what changes in a field of s"
    return f"s.{name} cannot be replaced, only filled: write s.{name}[:] = …"


def _explain_undefined(found: re.Match[str], layout: Layout) -> str:
    return f"the name {found[1]} is not defined"


def _explain_untyped(found: re.Match[str], layout: Layout) -> str:
    name, kind = found[1], found[2]
    if kind == "function":
        return f"{name} is a plain function; decorate it with @numba.njit"
    return (
        f"the global {name} is a {kind}, which compiled code cannot use; it can use numbers, "
        "tuples of them and NumPy arrays"
    )


MISTAKES = (
    (re.escape(NO_ARM) + r"(.*)", _explain_no_arm),
    (r"Unknown attribute '(\w+)' of type (State|Parameters)\(", _explain_unknown_name),
    (
        r"Cannot modify readonly array|built-in function i\w+>(?s:.){1,80}\(readonly",
        _explain_written,
    ),
    (r"'NoneType' object has no attribute 'args'", _explain_written),  # s.x[:] += 1, in Numba 0.6x
    (r"No definition for lowering (State|Parameters)\(.*\)\.(\w+) = ", _explain_replaced),
    (r"NameError: name '(\w+)' is not defined", _explain_undefined),
    (r"Untyped global name '(\w+)'(?s:.)*?<class '([\w.]+)'>", _explain_untyped),
)


def _place(policy: Policy, text: str) -> str:
    """Return in which function and where, as far as the message or the policy says it."""
    if NO_ARM in text:
        code = _code(policy, "select")
        return f", in select ({code.co_filename}, line {code.co_firstlineno})"
    for file, number in re.findall(r" at (\S[^\n]*?) \((\d+)\)", text):
        if _is_users(file):
            hook = next((h for h in FUNCTIONS if _holds(_code(policy, h), file, number)), "")
            return f", in {hook or 'a helper'} ({file}, line {number})"
    for name in re.findall(r"name '(\w+)'", text):
        for hook in FUNCTIONS:
            code = _code(policy, hook)
            if name in code.co_names:
                return f", in {hook} ({code.co_filename}, line {code.co_firstlineno})"
    return ""


def _is_users(file: str) -> bool:
    """Tell whether a file is neither of this package nor of Numba."""
    homes = Path(file).resolve().parents
    known = bool(Path(file).suffix) or file.startswith("<ipython")
    return known and PACKAGE not in homes and NUMBA not in homes


def _holds(code: Any, file: str, number: str) -> bool:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return code.co_filename == file and min(lines) <= int(number) <= max(lines)


def _code(policy: Policy, name: str) -> Any:
    function = getattr(type(policy), name)
    return getattr(function, "py_func", function).__code__


def _raised_at(error: Exception) -> str:
    """Return where compiled code of the user raised an error, if it says so."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_users(frame.filename):
            return f" ({frame.filename}, line {frame.lineno})"
    return ""
