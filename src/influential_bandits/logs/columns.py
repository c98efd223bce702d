"""Columns of a table as labels, codes of labels and numbers, and the rows that cannot be cast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import make_printable
from influential_bandits.errors import InvalidLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.packages import optional_module

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
TRUTHS = {"1": r"^(?i:true|t|yes|y)$", "0": r"^(?i:false|f|no|n)$"}


class Cast(NamedTuple):
    """A column that was cast, and the rows in which it could not be."""

    values: Any  # an Arrow array of text, or (rows,) of float64 with anything where it failed
    missing: Mask
    wrong: Mask


def arrow() -> Any:
    """Return pyarrow with its compute functions loaded, or say how to install it."""
    optional_module("pyarrow.compute")
    return optional_module("pyarrow")


def label_texts(column: Any) -> Cast:
    """Return labels as text; empty ones are missing."""
    pa = arrow()
    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not kinds.is_string(column.type):
        if kinds.is_nested(column.type):
            raise pa.ArrowInvalid(f"values of type {column.type}")
        column = column.cast(pa.string())
    return Cast(column, missing_texts(column), np.zeros(len(column), bool))


def valid_texts(column: Any) -> tuple[Any, Mask]:
    """Return a column without texts that are no UTF-8, and where these were, (rows,).

    Views of text become text: Polars hands them over, and few of Arrow's functions take them.
    """
    pa = arrow()
    kinds = pa.types
    broken: Mask = np.zeros(len(column), bool)
    if kinds.is_string_view(column.type):
        column = column.cast(pa.large_string())
    texts = column.dictionary if kinds.is_dictionary(column.type) else column
    if not is_text(texts.type):
        return column, broken
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        if kinds.is_dictionary(column.type):
            column = column.dictionary_decode()
        shown = [
            None if text is None else text.decode("utf-8", "surrogateescape")
            for text in column.cast(pa.large_binary()).to_pylist()
        ]
        broken = np.array(
            [text is not None and make_printable(text) != text for text in shown], bool
        )
        column = pa.array([text and make_printable(text) for text in shown], pa.string())
    return column, broken


def is_text(type_: Any) -> bool:
    """Tell whether an Arrow type is that of text."""
    kinds = arrow().types
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_))


def contains(texts: Any, part: str) -> Mask:
    """Tell where texts contain a part, (rows,)."""
    return _mask(arrow().compute.match_substring(texts, part), null=False)


def missing_texts(texts: Any) -> Mask:
    """Tell where text is null or empty, (rows,)."""
    pc = arrow().compute
    return _mask(pc.equal(pc.binary_length(texts), 0), null=True)


def _mask(truths: Any, *, null: bool) -> Mask:
    values = truths if truths.null_count == 0 else arrow().compute.fill_null(truths, null)
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask


def looks_numeric(texts: Any) -> bool:
    """Tell whether at least half of the texts that are not empty are numbers."""
    pc = arrow().compute
    trimmed = pc.utf8_trim_whitespace(texts)
    filled = np.count_nonzero(~missing_texts(trimmed))
    return bool(2 * np.count_nonzero(_is_number(trimmed)) >= filled)


def _is_number(texts: Any) -> Mask:
    return _mask(arrow().compute.match_substring_regex(texts, NUMBER), null=False)


def numbers(column: Any, *, truths: bool = False) -> Cast:
    """Return numbers as float64; ``wrong`` marks what is no number.

    Truth values are 1 and 0, and so are, with ``truths``, texts such as True, yes, false and n.
    """
    pa = arrow()
    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        return _parsed_numbers(column, truths)
    if kinds.is_temporal(column.type) or kinds.is_nested(column.type):
        raise pa.ArrowInvalid(f"values of type {column.type}")
    nothing = np.zeros(len(column), bool)
    return Cast(real_values(column.cast(pa.float64(), safe=False)), null_values(column), nothing)


def _parsed_numbers(texts: Any, truths: bool) -> Cast:
    pa = arrow()
    nothing = np.zeros(len(texts), bool)
    try:
        return Cast(real_values(texts.cast(pa.float64())), null_values(texts), nothing)
    except pa.ArrowInvalid:  # at least one is empty, padded or no number
        trimmed = pa.compute.utf8_trim_whitespace(texts)
        missing = missing_texts(trimmed)
        for digit, pattern in TRUTHS.items() if truths else ():
            trimmed = pa.compute.replace_substring_regex(trimmed, pattern, digit)
        number = _is_number(trimmed)
        kept = pa.compute.if_else(pa.array(number), trimmed, None)
        return Cast(real_values(kept.cast(pa.float64())), missing, ~missing & ~number)


def real_values(column: Any) -> Floats:
    """Return an Arrow column of float64 as an array, (rows,)."""
    values: Floats = column.to_numpy(zero_copy_only=False)
    return values


def null_values(column: Any) -> Mask:
    """Tell where a column is null, (rows,)."""
    return (
        np.zeros(len(column), bool)
        if column.null_count == 0
        else _mask(column.is_null(), null=True)
    )


def make_column_error(column: str, error: Exception, expected: str) -> InvalidLog:
    """Return the error for a column whose type cannot be cast at all."""
    return InvalidLog(f"column {column!r} cannot be used as {expected}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:120]


class LabelCodes:
    """Different labels, coded in the order of their first appearance.

    Parameters
    ----------
    labels : iterable of str
        Labels that are known from the beginning.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self.labels = list(labels)
        self._codes = {label: code for code, label in enumerate(self.labels)}

    def encode(self, texts: Any) -> Codes:
        """Return the code of each text of an Arrow column without nulls, (rows,)."""
        coded, codes, known = texts.dictionary_encode(), self._codes, len(self._codes)
        labels = coded.dictionary.to_pylist()
        each = [codes.setdefault(label, len(codes)) for label in labels]
        self.labels += [label for label, code in zip(labels, each, strict=True) if code >= known]
        return np.array(each, np.int32)[coded.indices.to_numpy()]
