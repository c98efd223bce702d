"""What an experiment is told: its arms, its policies, and what feedback means."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import msgspec

from influential_bandits.checks import LARGEST_LOSS, abbreviate, require_names
from influential_bandits.errors import InvalidInput
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.registry import (
    known_policies,
    policy_from_json,
    policy_from_text,
)
from influential_bandits.references import split_reference

__all__ = ["Settings"]

LONGEST_LABEL = 200  # characters of an instance, a decision, an arm or an experiment
MOST_ARMS = 1000  # a decision looks at all of them
LONGEST_WINDOW = 24.0 * 366 * 10  # hours


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of an experiment.

    Parameters
    ----------
    arms : sequence of str
        Their names.
    policy : str or dict
        Who decides: as on the command line ("Foresight", "LCB()") or as JSON ({"name",
        "settings"}).
        With shared state, "Foresight" or its JSON.
    state : "own" or "shared"
        Own: each instance has a policy of its own. Shared: all instances teach one interaction.
    control, control_share
        The policy of the control group, and the share of instances that it serves.
    explore : float
        Share of decisions taken at random, for the sake of evaluation; its probability is told.
    window_hours : float
        Feedback that has not come within the window is given up; by default a week.
    missing_loss : float, optional
        What counts then; by default nothing.
    best_rating : float, optional
        Where feedback comes as ratings, loss = best_rating − rating.
    outcome : "loss" or "reward"
        In which of them the page, reports and instances tell outcomes; reward = −loss.
    half_life_hours : float, optional
        Hours after which half of what an arm does to the losses is gone, by the clock. It is told
        to policies that have a half-life, as Foresight, unless they say one themselves.
    mode : "live", "shadow", "paused" or "closed"
        In shadow mode the caller's own choice is served, and ours is noted beside it. Paused, it
        takes feedback but no decisions; closed, neither.
    seed : int
        Of groups, exploration and the policies' own random numbers.

    Examples
    --------
    >>> Settings(arms=("tea", "coffee"), control_share=0.5).control
    'Uniform'
    """

    arms: tuple[str, ...]
    policy: str | dict[str, Any] = "Foresight"
    state: Literal["own", "shared"] = "own"
    control: str | dict[str, Any] = "Uniform"
    control_share: float = 0.0
    explore: float = 0.0
    window_hours: float = 168.0
    missing_loss: float | None = None
    best_rating: float | None = None
    outcome: Literal["loss", "reward"] = "loss"
    half_life_hours: float | None = None
    mode: Literal["live", "shadow", "paused", "closed"] = "live"
    seed: int = 0

    def check(self) -> None:
        """Raise InvalidInput unless the settings can be served."""
        for name in require_names("arms", self.arms):
            require_label("the name of an arm", name)
        if not 1 <= len(self.arms) <= MOST_ARMS:
            raise InvalidInput(f"there must be 1 to {MOST_ARMS} arms, got {len(self.arms)}")
        for name in ("control_share", "explore"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInput(f"{name} must be a share in 0 … 1, got {getattr(self, name)}")
        for name in ("missing_loss", "best_rating"):
            if getattr(self, name) is not None:
                require_loss(name, getattr(self, name))
        for name in ("window_hours", "half_life_hours"):
            hours = getattr(self, name)
            if hours is not None and not 0.0 < hours <= LONGEST_WINDOW:
                raise InvalidInput(
                    f"{name} must be above 0, and {LONGEST_WINDOW:g} at most, got {hours}"
                )
        if not 0 <= self.seed < 2**63:
            raise InvalidInput(f"seed must be in 0 … 2⁶³ − 1, got {abbreviate(self.seed)}")
        make_policy(self.policy, shared=self.state == "shared")
        make_policy(self.control)


def make_policy(
    description: str | dict[str, Any], *, shared: bool = False, half_life: float | None = None
) -> Any:
    """Return the policy that settings name, with a half-life if it has room for one and none yet.

    What was learned from a log says itself how influence fades. Policies of one's own are code, and
    code does not come over the network: import their module where the service is started, and name
    the class alone.
    """
    policy: Any = _make_policy(description)
    if shared and not isinstance(policy, Foresight):
        raise InvalidInput(
            f"with shared state the policy is Foresight, got {abbreviate(description)}; take "
            "state = own for any other"
        )
    missing = getattr(policy, "half_life", 0.0) is None and getattr(policy, "prior", None) is None
    if half_life is not None and missing:
        return dataclasses.replace(policy, half_life=half_life)
    return policy


def _make_policy(description: str | dict[str, Any]) -> Policy:
    if isinstance(description, str):
        if split_reference(description) is not None:
            raise InvalidInput(
                f"{abbreviate(description)} names a file or a module; the service knows "
                f"{', '.join(known_policies())}"
            )
        policy = policy_from_text(description)
    else:
        name = description.get("name")
        if not isinstance(name, str) or name not in known_policies():
            raise InvalidInput(
                f"there is no policy {abbreviate(name)}; there are {', '.join(known_policies())}"
            )
        policy = policy_from_json(description)
    if policy.privileged:
        raise InvalidInput(f"{type(policy).__name__} must be told the truth, which nobody knows")
    return policy


def require_label(name: str, text: object) -> str:
    """Return a text that every store keeps exactly, or say why it is none."""
    if not isinstance(text, str) or not 1 <= len(text) <= LONGEST_LABEL:
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_LABEL} characters, got {abbreviate(text)}"
        )
    if text in (".", ".."):  # an address cannot hold them
        raise InvalidInput(f"{name} must not be {text!r}, which addresses take for a folder")
    if "\0" in text or not (text.isascii() or _is_unicode(text)):
        raise InvalidInput(f"{name} must be text without null characters, got {abbreviate(text)}")
    return text


def _is_unicode(text: str) -> bool:
    """Tell whether a text has no halves of characters, which UTF-8 does not know."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def require_loss(name: str, value: object) -> float:
    """Return a number that a policy can learn from, or say why it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if abs(value) <= LARGEST_LOSS else math.nan
        if not math.isnan(number):
            return number + 0.0  # −0.0 becomes 0.0: SQLite does not tell them apart
    raise InvalidInput(
        f"{name} must be a finite number, at most {LARGEST_LOSS:g} in size, got {abbreviate(value)}"
    )
