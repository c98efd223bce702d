"""A client of the service: calls are sent again, under the same identifiers, until answered."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import requests

from influential_bandits.bases import Closing
from influential_bandits.errors import InvalidInput, ServiceError
from influential_bandits.live.answers import LiveDecision
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.reading import read_log
from influential_bandits.packages import optional_module

__all__ = ["Client"]

SECONDS_TO_WAIT = 10.0  # for one answer
SECONDS_TO_WORK = 600.0  # for what compiles the first time, or reads all events
FIRST_PAUSE = 0.05  # seconds before a call is sent again; each pause is twice the one before
LONGEST_PAUSE = 2.0


class Client(Closing):
    """Ask a live service, from Python.

    Decisions and exposures get identifiers here, so that a call whose answer was lost is sent again
    without harm: the service recognises it.

    Parameters
    ----------
    address : str
        As in ``"http://127.0.0.1:8000"``.
    key : str
    experiment : str
    patience : float
        Seconds for which calls are sent again while the service is busy, restarting or away.

    Examples
    --------
    >>> import os, tempfile
    >>> import influential_bandits as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ib.live.serve_in_background(os.path.join(folder, "shop.db")) as (address, key):
    ...         client = Client(address, key, "shop")
    ...         client.create(["tea", "coffee", "milk"], policy="LCB")
    ...         decision = client.decide("ann", eligible=["coffee", "milk"])
    ...         client.feed_back(decision, loss=0.3)  # or reward=1.0, or rating=4.0
    >>> decision.arm
    'coffee'
    """

    def __init__(
        self, address: str, key: str, experiment: str = "", *, patience: float = 30.0
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise InvalidInput(f"address must begin with http:// or https://, got {address!r:.80}")
        self.address, self.experiment = address.rstrip("/"), experiment
        self._patience = patience
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {key}"

    def __repr__(self) -> str:
        """Say whom it asks; the key is not shown."""
        return f"Client({self.address!r}, experiment={self.experiment!r})"

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    # Decisions.

    def decide(
        self,
        instance: str,
        *,
        eligible: Sequence[str] | None = None,
        activate: str = "now",
        baseline: str | None = None,
        decision_id: str | None = None,
        at: float | None = None,
    ) -> LiveDecision:
        """Return the arm to show to an instance.

        Parameters
        ----------
        instance : str
            A user, a shop, a campaign.
        eligible : sequence of str, optional
            The arms that may be shown; by default all.
        activate : {"now", "later"}
            "later": the pull counts when :meth:`activate` says so.
        baseline : str, optional
            In shadow mode, the arm that you show yourself.
        decision_id : str, optional
            A name of your own for it.
        at : float, optional
            When it happens, in seconds since 1970; by default now.
        """
        body = {
            "instance": instance,
            "decision_id": decision_id or uuid.uuid4().hex,
            "eligible": None if eligible is None else list(eligible),
            "activate": activate,
            "baseline": baseline,
            "at": at,
        }
        return LiveDecision(**self._post(f"{self._path()}/decisions", body))

    def activate(self, decision: LiveDecision | str) -> None:
        """Say that an arm decided on earlier has been shown."""
        self._settle(decision, "activate", {})

    def cancel(self, decision: LiveDecision | str) -> None:
        """Say that an arm decided on earlier will not be shown."""
        self._settle(decision, "cancel", {})

    def correct(self, decision: LiveDecision | str, *, loss: float) -> None:
        """Replace the loss that was told, as after a refund.

        Reports, the log and models that are learned from it have the new one. What the policy has
        learned from the one before stays learned.
        """
        self._settle(decision, "correct", {"loss": loss})

    def feed_back(
        self,
        decision: LiveDecision | str,
        *,
        loss: float | None = None,
        reward: float | None = None,
        rating: float | None = None,
    ) -> None:
        """Tell the outcome of a decision: one of loss, reward and rating."""
        self._settle(decision, "feedback", {"loss": loss, "reward": reward, "rating": rating})

    def expose(self, instance: str, arms: Sequence[str], *, at: float | None = None) -> None:
        """Say which arms an instance has met elsewhere, and when, if not now."""
        exposure_id = uuid.uuid4().hex
        body = {"instance": instance, "arms": list(arms), "exposure_id": exposure_id, "at": at}
        self._post(f"{self._path()}/exposures", body)

    def decide_many(
        self, instances: Iterable[str], *, at: Sequence[float] | None = None
    ) -> list[LiveDecision]:
        """Return decisions for several instances, in one request, each at a time of its own."""
        visits = list(instances)
        times = [None] * len(visits) if at is None else at
        calls = [
            {
                "path": f"/experiments/{self.experiment}/decisions",
                "body": {"instance": instance, "decision_id": uuid.uuid4().hex, "at": when},
            }
            for instance, when in zip(visits, times, strict=True)
        ]
        return [LiveDecision(**answer) for answer in self._batch(calls)]

    def feed_back_many(self, losses: Iterable[tuple[LiveDecision, float]]) -> None:
        """Tell the losses of several decisions, in one request."""
        decisions = f"/experiments/{self.experiment}/decisions"
        self._batch(
            [
                {"path": f"{decisions}/{decision.decision_id}/feedback", "body": {"loss": loss}}
                for decision, loss in losses
            ]
        )

    # Experiments.

    def create(self, arms: Sequence[str], **settings: Any) -> None:
        """Create the experiment; the settings are those of ``Settings``."""
        body = {"name": self.experiment, "settings": {"arms": list(arms), **settings}}
        self._call("POST", "/v1/experiments", body, wait=SECONDS_TO_WORK)

    def change(self, **settings: Any) -> dict[str, Any]:
        """Change settings while it runs."""
        return self._call("PATCH", self._path(), {"settings": settings})

    def delete(self, *, confirm: str) -> None:
        """Delete a closed experiment (``change(mode="closed")``) for good; confirm its name."""
        self._call("DELETE", f"{self._path()}?confirm={quote(confirm, safe='')}")

    def describe(self) -> dict[str, Any]:
        """Return settings, arms and models."""
        return self._call("GET", self._path())

    def add_arm(self, name: str) -> None:
        """Take an arm on."""
        self._post(f"{self._path()}/arms", {"name": name})

    def retire_arm(self, name: str) -> None:
        """Never choose an arm again."""
        self._call("DELETE", f"{self._path()}/arms/{quote(name, safe='')}")

    def stage_model(self, policy: str | dict[str, Any]) -> int:
        """Keep a policy, such as one with a prior from a log, for later; return its version."""
        body = {"policy": policy}
        answer = self._call("POST", f"{self._path()}/models", body, SECONDS_TO_WORK)
        return int(answer["version"])

    def fit_model(
        self, *, memory: float | None = None, half_life_hours: float | None = None
    ) -> int:
        """Learn a model from the log of the experiment, here, and stage it; return its version.

        Parameters
        ----------
        memory, half_life_hours : float, optional
            How influence fades in the model: by pulls, or by the clock. By default as the
            ``half_life_hours`` of the experiment say, and without them not at all.
        """
        from influential_bandits.live.fitting import fit_policy

        policy = fit_policy(self.read_log(), self.describe(), memory, half_life_hours)
        return self.stage_model(policy)

    def activate_model(self, version: int) -> None:
        """Decide by a model from now on; 0 is the policy of the settings."""
        self._post(f"{self._path()}/models/{version}/activate", {})

    # What is there.

    def report(self) -> dict[str, Any]:
        """Return the A/B test, and mean losses by arm and group, in all and over time."""
        return self._call("GET", f"{self._path()}/report", wait=SECONDS_TO_WORK)

    def show(self, instance: str) -> dict[str, Any]:
        """Return the history of an instance, losses expected now, and why it got its last arm."""
        return self._call("GET", f"{self._path()}/instances/{quote(instance, safe='')}")

    def erase(self, instance: str) -> None:
        """Erase a person's data."""
        self._call("DELETE", f"{self._path()}/instances/{quote(instance, safe='')}")

    def read_log(self) -> EventLog:
        """Return all losses so far as a log, for models and tests."""
        answer = self._send("GET", f"{self._path()}/log?format=parquet", wait=SECONDS_TO_WORK)
        table = optional_module("pyarrow.parquet").read_table(io.BytesIO(answer.content))
        if not table.num_rows:
            raise InvalidInput("there are no losses yet")
        return read_log(
            table, instance="instance", arm="arm", time="time", time_unit="s", loss="loss"
        )

    # How calls are made.

    def _path(self) -> str:
        return f"/v1/experiments/{quote(self.experiment, safe='')}"

    def _settle(self, decision: LiveDecision | str, outcome: str, body: dict[str, Any]) -> None:
        name = decision if isinstance(decision, str) else decision.decision_id
        self._post(f"{self._path()}/decisions/{quote(name, safe='')}/{outcome}", body)

    def _batch(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = self._post("/v1/batch", {"requests": calls})["answers"]
        for answer in answers:
            if answer["status"] != 200:
                raise ServiceError(answer["status"], **answer["error"])
        return [answer["answer"] for answer in answers]

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", path, body)

    def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        wait: float = SECONDS_TO_WAIT,
    ) -> dict[str, Any]:
        return self._send(method, path, body, wait).json()

    def _send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        wait: float = SECONDS_TO_WAIT,
    ) -> requests.Response:
        """Send a call until it is answered, or patience ends."""
        until, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                answer = self._session.request(
                    method, f"{self.address}{path}", json=body, timeout=wait
                )
            except requests.RequestException as error:
                failure = ServiceError(0, "unreachable", f"cannot reach {self.address}: {error}")
            else:
                if answer.ok:
                    return answer
                failure = _failure(answer)
                if answer.status_code != 503:
                    raise failure
            if time.monotonic() + pause > until:
                raise failure
            time.sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE)


def _failure(answer: requests.Response) -> ServiceError:
    try:
        error = answer.json()["error"]
        return ServiceError(answer.status_code, error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.text[:200]
        return ServiceError(answer.status_code, "unknown", f"{answer.status_code}: {text}")
