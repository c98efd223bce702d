"""All calls of the interface: what each takes, and who may make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from influential_bandits.live import requests
from influential_bandits.live.keys import Role

__all__ = ["CALLS", "Batch", "Call", "Item", "NewKey"]

ONE = "/v1/experiments/{experiment}"
DECISION = "/v1/decisions/{decision:label}"


@dataclass(frozen=True)
class Call:
    """One call of the interface: what it takes, and who may make it."""

    method: str
    path: str
    role: Role | None  # None: everybody
    summary: str
    handler: str  # name of a function of handlers/
    body: type | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of a batch: its path below /v1, and its body.

    Names stand in the path as they are, without %-escapes. One of a decision may end in
    ``?experiment=NAME``.
    """

    path: str
    body: dict[str, Any] = {}


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests that are answered one by one."""

    requests: list[Item]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made."""

    label: str
    role: Role = "writer"
    experiment: str | None = None


CALLS = (
    Call("GET", "/health", None, "Is the process alive?", "health"),
    Call("GET", "/ready", "reader", "Can it decide: is the store there?", "ready"),
    Call("GET", "/metrics", "reader", "Counts and times for Prometheus", "show_metrics"),
    Call("GET", "/openapi.json", "reader", "This interface", "openapi"),
    Call(
        "POST",
        "/v1/experiments",
        "admin",
        "Create an experiment",
        "create",
        requests.CreateExperiment,
    ),
    Call("GET", "/v1/experiments", "reader", "List experiments", "list_experiments"),
    Call("GET", ONE, "reader", "Show an experiment", "show_experiment"),
    Call("PATCH", ONE, "admin", "Change settings", "change", requests.ChangeSettings),
    Call(
        "POST",
        ONE + "/decisions",
        "writer",
        "Choose an arm for an instance",
        "decide",
        requests.Decide,
    ),
    Call(
        "POST", ONE + "/exposures", "writer", "Note arms met elsewhere", "expose", requests.Expose
    ),
    Call("POST", DECISION + "/activate", "writer", "The arm was shown", "activate"),
    Call("POST", DECISION + "/cancel", "writer", "The arm will not be shown", "cancel"),
    Call(
        "POST",
        DECISION + "/feedback",
        "writer",
        "Tell the loss, reward or rating",
        "feed_back",
        requests.Feedback,
    ),
    Call(
        "POST",
        "/v1/batch",
        "writer",
        "Several decisions, exposures, activations, cancellations and feedbacks",
        "serve_batch",
        Batch,
    ),
    Call("POST", ONE + "/arms", "admin", "Add an arm", "add_arm", requests.AddArm),
    Call("DELETE", ONE + "/arms/{arm:label}", "admin", "Retire an arm", "retire_arm"),
    Call(
        "GET",
        ONE + "/instances/{instance:label}",
        "reader",
        "History of an instance, losses expected now, and why its last arm",
        "show_instance",
    ),
    Call("DELETE", ONE + "/instances/{instance:label}", "admin", "Erase a person's data", "erase"),
    Call(
        "POST",
        ONE + "/models",
        "admin",
        "Stage a model: a policy, or fitted to the events",
        "stage_model",
        requests.StageModel,
    ),
    Call("GET", ONE + "/models", "reader", "List models", "list_models"),
    Call(
        "POST",
        ONE + "/models/{version:int}/activate",
        "admin",
        "Activate a model, or go back to an earlier one",
        "activate_model",
    ),
    Call(
        "GET",
        ONE + "/log",
        "reader",
        "All losses, as Parquet or CSV that read_log takes",
        "export_log",
    ),
    Call(
        "GET",
        ONE + "/report",
        "reader",
        "The A/B test, and mean losses by arm and group, over time, too",
        "report",
    ),
    Call("POST", "/v1/keys", "admin", "Make a key; it is shown once", "add_key", NewKey),
    Call("GET", "/v1/keys", "admin", "List keys, without the keys themselves", "list_keys"),
    Call("DELETE", "/v1/keys/{digest}", "admin", "Drop a key", "drop_key"),
)
