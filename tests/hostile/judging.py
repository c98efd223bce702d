"""How a case is judged: what may happen, and what may not."""

import functools
import importlib
import json
import shutil
import tempfile
import traceback
from pathlib import Path
from random import Random
from typing import NamedTuple

from hostile.subjects import SUBJECTS

FINE, REFUSED = "fine", "refused"
RAW, CRASH, HANG, OTHER, LOST = "raw error", "crash", "hang", "other data", "lost"
OUTCOMES = (FINE, REFUSED, RAW, CRASH, HANG, OTHER, LOST)
ALLOWED = (FINE, REFUSED)

channel = None  # to the process that judges, if there is one
shared = Path(tempfile.gettempdir())  # a folder for what all cases of a run need


class Verdict(NamedTuple):
    """What became of a case."""

    subject: str
    seed: int
    number: int
    outcome: str
    about: str = ""  # what the case was
    detail: str = ""  # what happened
    trace: str = ""

    @property
    def allowed(self):
        return self.outcome in ALLOWED


class Failed(Exception):
    """An oracle found something that may not be."""

    def __init__(self, outcome, detail):
        super().__init__(detail)
        self.outcome = outcome


def demand(good, outcome, detail):
    """Fail with this outcome unless something holds."""
    if not good:
        raise Failed(outcome, detail)


def send(**message):
    if channel is not None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()


def tell(about):
    """Say what the case is, before it can crash."""
    send(about=about[:300])


def prepared(function):
    """Do something once for all cases of a worker, such as compiling: it may take its time."""

    @functools.cache
    def once(*arguments):
        send(preparing=True)
        try:
            return function(*arguments)
        except Exception as error:  # without hostility nothing may be refused
            raise Failed(RAW, f"cannot be prepared: {error!r}") from error
        finally:
            send(preparing=False)

    return once


def judge(subject, seed, number):
    """Play one case here and return its verdict, without what was told about it."""
    from influential_bandits.errors import InfluentialBanditsError

    entry = SUBJECTS[subject]
    play = getattr(importlib.import_module(f"hostile.{entry.module}"), entry.function)
    home = Path(tempfile.mkdtemp(dir=shared))
    send(preparing=False)  # the clock starts
    outcome, detail, trace = FINE, "", ""
    try:
        play(Random(f"{subject}/{seed}/{number}"), home)
    except Failed as failure:
        outcome, detail, trace = failure.outcome, str(failure), traceback.format_exc()
    except InfluentialBanditsError as error:
        outcome, detail, trace = REFUSED, str(error), traceback.format_exc()
    except Exception as error:  # noqa: BLE001 - which is what this is about
        outcome, detail = RAW, f"{type(error).__name__}: {error!s:.200}"
        trace = traceback.format_exc()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return Verdict(subject, seed, number, outcome, "", detail[:300], trace[-6000:])
