"""What a study is: settings as data, and two functions, settings → rows and rows → findings."""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy.typing as npt

from influential_bandits.errors import InvalidInput
from influential_bandits.studies.report.content import Analysis
from influential_bandits.studies.runner.rows import Columns


@dataclass(frozen=True)
class Settings:
    """What every study lets the caller change; studies add fields of their own."""

    seeds: int  # number of random instances, or of seeds
    max_horizon: int


@dataclass(frozen=True)
class Piece:
    """A part of a study's rows that is computed and written on its own, here or on a worker."""

    name: str  # unique within the study, and a file name
    compute: Callable[[int | None], Columns]  # number of threads → rows; picklable
    instances: range | None = None  # whose rows these are, if they are of some instances only

    @classmethod
    def of_instances(
        cls, name: str, numbers: range, compute: Callable[[range, int | None], Columns]
    ) -> Piece:
        """Return a piece of some instances, which are left out should it fail."""
        return cls(name, partial(compute, numbers), numbers)


def make_file_name(text: str) -> str:
    """Return a text as part of a file's name that every file system takes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text).strip("-")[:60]


def hash_inputs(*parts: object) -> str:
    """Return what stands for the inputs of a piece in its name."""
    return hashlib.sha256(repr(parts).encode(errors="replace")).hexdigest()[:12]


@dataclass(frozen=True)
class Study:
    """A figure or table of the paper, or one of ours."""

    name: str
    order: int  # its place in lists and in the report
    description: str  # what it shows, in one line
    settings: Mapping[str, Settings]  # by size: full, quick, tiny
    pieces: Callable[[Any], Iterable[Piece]]  # settings → rows, piece by piece
    analyse: Callable[[Any, dict[str, npt.NDArray[Any]]], Analysis]  # settings, all rows → findings


def find_studies() -> dict[str, Study]:
    """Return every study by name, in order: the ``STUDY`` of each module of ``paper/``."""
    package = import_module("influential_bandits.studies.paper")
    studies = {}
    for module in pkgutil.iter_modules(package.__path__):
        study = getattr(import_module(f"{package.__name__}.{module.name}"), "STUDY", None)
        if study is not None:
            studies[study.name] = study
    return dict(sorted(studies.items(), key=lambda item: (item[1].order, item[0])))


def choose_studies(names: Iterable[str]) -> list[Study]:
    """Return the studies of these names, or all; unknown names are an error."""
    known = find_studies()
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise InvalidInput(f"unknown study {name!r}; there are {', '.join(known)}")
    return [known[name] for name in wanted or known]
