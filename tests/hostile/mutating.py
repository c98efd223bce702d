"""How data is spoilt: JSON by its structure, files by their bytes."""

import copy
from fractions import Fraction

WHOLE = (0, 1, 2, 3, 7, 255, 10**4, 10**9, 2**31, 2**53, 2**62, 2**63 - 1)
WHOLE += (*(-n for n in WHOLE if n), -(2**63))
BEYOND = (2**63, 2**64, -(2**63) - 1, 10**30, 10**400)  # 64 bits
REAL = (0.0, 0.5, 1.0, 1e-300, 5e-324, 1e16, 1e154, 1e200, 1e308, 1.7976931348623157e308)
REAL += tuple(-x for x in REAL)
ODD = (None, True, False, "", "x", "NaN", "1e5", "0x10", " 7 ", "٣", "\ud800", "9" * 5000)
ODD += ([], {}, [[]], {"a": 1}, float("nan"), float("inf"), 1.5)


def hostile_value(draw, old):
    """Return another value: mostly of the same kind, so that it is not refused for its type."""
    if draw.random() < 0.2:
        return draw.choice((*WHOLE, *BEYOND, *REAL, *ODD))
    if (
        isinstance(old, str) and old.lstrip("-").isdigit() and len(old) < 99
    ):  # 64-bit integers are written as text
        return str(hostile_value(draw, int(old)))
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float)):
        near = (old + 1, old - 1, -old, old * 2, old * 10 + 3)
        values = WHOLE if isinstance(old, int) else REAL
        return draw.choice((*near, *values, *values))
    if isinstance(old, str):
        return draw.choice((old[1:], old + " ", old.upper(), "", "x", "\ud800", old * 1000))
    return draw.choice(ODD)


def mutate_json(draw, data):
    """Return JSON data with one to three things changed, and what they were."""
    data, said = copy.deepcopy(data), []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        holder, key, path = _place(draw, data)
        if holder is None:
            break
        old = holder[key]
        change = draw.choice((_replace, _replace, _replace, _drop, _swap, _repeat, _shape))
        change(draw, holder, key)
        new = holder[key] if _has(holder, key) else "(gone)"
        said.append(f"{path} {old!r:.40} → {new!r:.60} ({change.__name__[1:]})")
    return data, "; ".join(said)


def mutate_numbers(draw, data):
    """Return lists of numbers by name with some replaced by others, and what they were."""
    data, said = copy.deepcopy(data), []
    for _ in range(draw.choice((1, 1, 2, 4))):
        name = draw.choice(sorted(data))
        size = len(data[name])
        for n in draw.sample(range(size), min(size, draw.choice((1, 1, 2, 9)))):
            old = data[name][n]
            values = REAL if isinstance(old, float) else WHOLE
            by = draw.gauss(1.0, 0.5)
            near = draw.choice((float(old) + 1, float(old) - 1, -float(old), float(old) * by))
            new = draw.choice((*values, *[near] * 6, draw.choice(BEYOND[:-1])))
            data[name][n] = float(new) if isinstance(old, float) else type(old)(int(new))
            said.append(f"{name}[{n}] {old} → {data[name][n]!s:.40}")
    return data, "; ".join(said)


def _place(draw, data):
    holder, key, path = None, None, ""
    while isinstance(data, (dict, list)) and data and (not path or draw.random() < 0.85):
        holder = data
        key = draw.choice(sorted(data)) if isinstance(data, dict) else draw.randrange(len(data))
        path += f"[{key!r}]"
        data = data[key]
    return holder, key, path


def _has(holder, key):
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _replace(draw, holder, key):
    holder[key] = hostile_value(draw, holder[key])


def _drop(draw, holder, key):
    del holder[key]


def _swap(draw, holder, key):
    other = draw.choice(sorted(holder)) if isinstance(holder, dict) else draw.randrange(len(holder))
    holder[key], holder[other] = holder[other], holder[key]


def _repeat(draw, holder, key):
    if isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    else:
        holder[f"{key}_"] = holder.pop(key)  # another name: what was there is missing


def _shape(draw, holder, key):
    old = holder[key]
    if isinstance(old, list) and old:
        named = dict.fromkeys("ab", old)
        holder[key] = draw.choice((old[::-1], old[:-1], old + old, old[0], [old], named))
    else:
        holder[key] = draw.choice(([old], {"value": old}, str(old), [old] * 3))


def differs(made, given, path=""):
    """Return where what was made of some JSON data is not what the data says, or None."""
    if isinstance(made, dict):
        if not isinstance(given, dict):
            return path
        pairs = ((name, value, given[name]) for name, value in made.items() if name in given)
    elif isinstance(made, (list, tuple)):
        if not isinstance(given, list) or len(made) != len(given):
            return path
        pairs = ((n, value, given[n]) for n, value in enumerate(made))
    else:
        same = _number(made) == _number(given, kind=type(made))
        return None if same else f"{path}: {given!r:.60} read as {made!r}"
    found = (differs(value, other, f"{path}[{name!r}]") for name, value, other in pairs)
    return next((where for where in found if where is not None), None)


def _number(value, kind=None):
    """Return what a value means as a number, however it is written; itself if it is none."""
    for wanted in (int, float):
        if wanted is float or float not in {kind, type(value)}:  # which round, or would be cut
            try:
                return Fraction(wanted(value))
            except (TypeError, ValueError, OverflowError):
                continue
    return value


def mutate_bytes(draw, data):
    """Return bytes with something changed, and what."""
    n = len(data)
    at = draw.randrange(n) if n else 0
    size = min(n - at, draw.choice((1, 8, 64, 4096)))
    ways = {
        "bit": data[:at] + bytes(b ^ 1 << draw.randrange(8) for b in data[at : at + 1]),
        "byte": data[:at] + draw.randbytes(1),
        "zeros": data[:at] + bytes(size) + data[at + size :],
        "gap": data[:at] + data[at + size :],
        "cut": data[:at],
        "half": data[: n // 2],
        "empty": b"",
        "longer": data + draw.randbytes(size),
        "twice": data + data,
    }
    kind = draw.choice(("bit", *ways))
    rest = data[at + 1 :] if kind in {"bit", "byte"} else b""
    return ways[kind] + rest, f"{kind} at {at:,} of {n:,}"
