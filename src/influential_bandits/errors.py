"""The exceptions of the package; catch :class:`InfluentialBanditsError` for all of them.

::

    InfluentialBanditsError
    ├── InvalidInput (also a ValueError)    what was given cannot be used
    │   ├── InvalidInstance                 an interaction, a loss vector, an instance file
    │   ├── InvalidLog                      a log file, or columns of events
    │   ├── MissingFile (FileNotFoundError) there is no such file or folder
    │   └── InvalidPolicy                   a policy that breaks the contract, or cannot be compiled
    ├── NotApplicable (also a ValueError)   the question has no answer here (memory < 1, indefinite)
    ├── NotCertified (also ArithmeticError) an optimum was found but could not be proved
    ├── Unfinished (also RuntimeError)      some pieces failed; all others are kept
    ├── ClusterError (also RuntimeError)    a scheduler that is not there, or workers that differ
    │   └── ClusterLost (also Unfinished)   a scheduler that went away in the middle
    ├── GpuError (also RuntimeError)        no graphics processor, or too little memory on it
    ├── ServiceError (also RuntimeError)    a live service refused a request, or is not there
    ├── TaskLost (also RuntimeError)        a task whose process died every time it was tried
    └── MissingExtra (also ImportError)     an optional dependency is not installed

    Interrupted (a KeyboardInterrupt)       Ctrl-C ended a run; every thread has stopped
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ClusterError",
    "ClusterLost",
    "GpuError",
    "InfluentialBanditsError",
    "Interrupted",
    "InvalidInput",
    "InvalidInstance",
    "InvalidLog",
    "InvalidPolicy",
    "MissingExtra",
    "MissingFile",
    "NotApplicable",
    "NotCertified",
    "ServiceError",
    "TaskLost",
    "Unfinished",
]


class InfluentialBanditsError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidInput(InfluentialBanditsError, ValueError):
    """An argument cannot be used; the message says what was given and what is expected."""


class InvalidInstance(InvalidInput):
    """The numbers do not describe an influential bandit."""


class InvalidLog(InvalidInput):
    """A log cannot be read; the message says which lines are bad, how many, and why."""


class MissingFile(InvalidInput, FileNotFoundError):
    """There is no such file or folder."""


class InvalidPolicy(InvalidInput):
    """A policy breaks the contract, or its functions cannot be compiled."""


class NotApplicable(InfluentialBanditsError, ValueError):
    """The question makes no sense for this instance, for example regret with fading memory."""


class NotCertified(InfluentialBanditsError, ArithmeticError):
    """A candidate optimum failed its certificate, so no number is returned."""


class Unfinished(InfluentialBanditsError, RuntimeError):
    """Some pieces of a job failed; the message names them, and all others are kept.

    ``results`` is what the others gave, in the form in which all of them would have been returned;
    None if there is nothing to return.
    """

    results: Any = None


class ClusterError(InfluentialBanditsError, RuntimeError):
    """The cluster cannot be reached, or runs other code."""


class ClusterLost(ClusterError, Unfinished):
    """The scheduler went away in the middle of the work."""


class GpuError(InfluentialBanditsError, RuntimeError):
    """There is no graphics processor that can be used, or it is too small for the work."""


class ServiceError(InfluentialBanditsError, RuntimeError):
    """A live service refused a request, or cannot be reached.

    ``status`` is the HTTP status, 0 if there was no answer, and ``code`` a word for programs.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class TaskLost(InfluentialBanditsError, RuntimeError):
    """A task whose process died each time it was tried."""


class MissingExtra(InfluentialBanditsError, ImportError):
    """A package that is needed is missing; the message names it and how to install it."""


class Interrupted(KeyboardInterrupt):
    """A run was ended by Ctrl-C; no thread is left behind."""
