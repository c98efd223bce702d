"""What can be asked of the service, and how a request is refused."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live.events import encode
from influential_bandits.live.settings import Settings, require_loss


class Refused(InfluentialBanditsError):
    """A request that cannot be met: the HTTP status, a word for programs, a sentence for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _digest(at: float | None, *asked: Any) -> str:
    return hashlib.sha256(encode(asked if at is None else (*asked, at))).hexdigest()[:16]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all requests."""


class Decide(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choose an arm for an instance.

    With ``activate`` "later" the pull counts when it is shown, not before. A repeat with the same
    ``decision_id`` returns the same answer. ``baseline`` is what the caller would serve by itself:
    in shadow mode it is served. ``at`` is when it happens, in seconds since 1970, by default now.
    """

    instance: str
    decision_id: str | None = None
    eligible: list[str] | None = None
    activate: Literal["now", "later"] = "now"
    baseline: str | None = None
    at: float | None = None

    def digest(self) -> str:
        """Return what tells this question from another one."""
        return _digest(self.at, self.instance, self.eligible, self.activate, self.baseline)


class Feedback(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of a decision: a loss, a reward (loss = −reward) or a rating."""

    loss: float | None = None
    reward: float | None = None
    rating: float | None = None
    at: float | None = None  # when it happened, seconds since 1970; for the record

    def read_loss(self, settings: Settings) -> float:
        """Return the outcome as a loss."""
        names = [name for name in ("loss", "reward", "rating") if getattr(self, name) is not None]
        if len(names) != 1:
            raise InvalidInput(
                f"give exactly one of loss, reward and rating, got {' and '.join(names) or 'none'}"
            )
        value = require_loss(names[0], getattr(self, names[0]))
        if names[0] == "reward":
            return 0.0 - value  # not −0.0
        if names[0] == "rating":
            if settings.best_rating is None:
                raise InvalidInput(
                    "ratings need the best rating there is: set best_rating of the experiment"
                )
            return settings.best_rating - value
        return value


class Expose(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arms that an instance has met elsewhere, in this order."""

    instance: str
    arms: list[str]
    exposure_id: str | None = None  # a repeat with the same one changes nothing
    at: float | None = None  # when, in seconds since 1970; by default now

    def digest(self) -> str:
        """Return what tells these exposures from others."""
        return _digest(self.at, self.instance, self.arms)


class CreateExperiment(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new experiment."""

    name: str
    settings: Settings


class ChangeSettings(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of an experiment can be changed while it runs; what is left out stays."""

    control_share: float | msgspec.UnsetType = msgspec.UNSET
    explore: float | msgspec.UnsetType = msgspec.UNSET
    window_hours: float | msgspec.UnsetType = msgspec.UNSET
    missing_loss: float | msgspec.UnsetType | None = msgspec.UNSET
    best_rating: float | msgspec.UnsetType | None = msgspec.UNSET
    outcome: Literal["loss", "reward"] | msgspec.UnsetType = msgspec.UNSET
    mode: Literal["live", "shadow", "paused", "closed"] | msgspec.UnsetType = msgspec.UNSET


class ChangeExperiment(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other settings for an experiment, in the form in which it was created."""

    settings: ChangeSettings


class AddArm(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new arm."""

    name: str


class StageModel(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy to be activated later, such as Foresight with a prior from a log."""

    policy: str | dict[str, Any]


class Item(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of a batch: its path below /v1, and its body.

    Names stand in the path as they are, without %-escapes.
    """

    path: str
    body: msgspec.Raw = msgspec.field(default_factory=partial(msgspec.Raw, b"{}"))


class Batch(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests that are answered one by one."""

    requests: list[Item]


class NewKey(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made."""

    label: str
    role: Literal["reader", "writer", "admin"] = "writer"
    experiment: str | None = None
    days: Annotated[float, msgspec.Meta(gt=0.0, le=36_600.0)] | None = None  # until it ends
