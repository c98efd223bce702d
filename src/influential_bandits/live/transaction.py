"""One transaction: requests become events, events move states, and all is written at once."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import (
    ARM_ADDED,
    ARM_RETIRED,
    CANCELLED,
    CHANGED,
    CREATED,
    DECIDED,
    ERASED,
    EXPIRED,
    EXPOSED,
    MODEL_ACTIVATED,
    MODEL_STAGED,
    OBSERVED,
    OPEN,
    PENDING,
    SHOWN,
    Decision,
    Event,
    encode,
)
from influential_bandits.live.experiment import Experiment, Member, describe_choice
from influential_bandits.live.requests import (
    AddArm,
    ChangeSettings,
    Decide,
    Expose,
    Feedback,
    Refused,
    StageModel,
)
from influential_bandits.live.settings import Settings, make_policy, require_label
from influential_bandits.live.states import try_out
from influential_bandits.live.store.sql import (
    Changes,
    InstanceRow,
    Snapshot,
    Store,
)
from influential_bandits.policies.fleet.estimate import SharedEstimate

__all__ = ["Transaction"]

MOST_EXPOSURES = 1000  # in one request
HOUR = 3600.0


class Transaction:
    """Requests of one batch to one experiment.

    Parameters
    ----------
    store : Store
        In a transaction that has locked the experiment.
    experiment : Experiment
        Up to date.
    changes : Changes
        To which this one adds what it writes.
    instances : int
        Number of the latest instance of the experiment.
    """

    def __init__(
        self, store: Store, experiment: Experiment, changes: Changes, instances: int
    ) -> None:
        self._store, self._experiment, self._changes = store, experiment, changes
        self._instances = instances
        self._decisions: dict[str, Decision] = {}
        self._labels: dict[str, Member] = {}

    # What a batch needs is read at once.

    def look_up(self, decisions: Iterable[str], labels: Iterable[str]) -> None:
        """Read the decisions and instances that requests name."""
        number = self._experiment.number
        for decision in self._store.decisions(number, set(decisions)):
            self._decisions[decision.id] = decision
        missing = set()
        for label in set(labels):
            member = self._experiment.by_label.get(label)
            if member is None:
                missing.add(label)
            else:
                self._labels[label] = member
        for row in self._store.instances_by_label(number, missing):
            self._labels[row.label] = self._experiment.admit(row.number, row.label, row.group)
        unknown = {d.instance for d in self._decisions.values()} - set(self._experiment.members)
        for row in self._store.instances_by_number(number, unknown):
            self._experiment.admit(row.number, row.label, row.group)

    def _find(self, decision: str) -> Decision | None:
        found = self._changes.find(self._experiment.number, decision)
        return found or self._decisions.get(decision)

    def _require(self, decision: str) -> Decision:
        found = self._find(decision)
        if found is None or found.status == EXPOSED:
            raise Refused(404, "unknown_decision", f"there is no decision {decision!r:.80}")
        return found

    def _member(self, label: str, at: float) -> Member:
        """Return an instance, a new one if need be."""
        member = self._labels.get(label)
        if member is None:
            self._instances += 1
            group = self._experiment.draw_group(self._instances)
            member = self._experiment.admit(self._instances, label, group, new=True)
            self._labels[label] = member
            row = InstanceRow(self._experiment.number, self._instances, label, group, at)
            self._changes.instances.append(row)
        return member

    # Events.

    def _event(self, kind: str, at: float, instance: int = 0, **rest: Any) -> Event:
        return Event(
            self._experiment.number, self._experiment.applied + 1, instance, kind, at, **rest
        )

    def _keep(self, event: Event) -> None:
        self._changes.events.append(event)
        self._changes.counts[self._experiment.number] = (event.number, self._instances)

    def _concern_all(self, kind: str, at: float, data: Any = None, **rest: Any) -> Event:
        """Make an event of the experiment itself."""
        text = None if data is None else encode(data).decode()
        event = self._event(kind, at, data=text, **rest)
        self._experiment.apply_to_experiment(event)
        self._keep(event)
        return event

    # Decisions.

    def decide(self, request: Decide, at: float) -> dict[str, Any]:
        """Choose an arm."""
        experiment = self._experiment
        require_label("instance", request.instance)
        name, digest = request.decision_id, request.digest()
        if name is not None:
            require_label("decision_id", name)
            found = self._find(name)
            if found is not None:
                if found.request != digest:
                    raise Refused(
                        409,
                        "decision_exists",
                        f"decision {name!r:.80} was asked for something else; take another "
                        "decision_id",
                    )
                return self._answer(found)
        mode = experiment.settings.mode
        if mode == "paused":
            raise Refused(409, "paused", "the experiment is paused: it takes no decisions")
        eligible = experiment.require_eligible(request.eligible)
        baseline = None
        if mode == "shadow":
            if request.baseline is None:
                raise InvalidInput("in shadow mode, baseline must name the arm that you serve")
            baseline = experiment.arm_numbers([request.baseline])[0]
        elif request.baseline is not None:
            experiment.arm_numbers([request.baseline])
        member = self._member(request.instance, at)
        choice = experiment.decide(member, eligible, baseline)
        later = request.activate == "later"
        if name is None:
            name = f"{int(at * 1e6):013x}{secrets.token_hex(8)}"
        data = describe_choice(choice, eligible, later, experiment.model)
        event = self._event(DECIDED, at, member.number, decision=name, arm=choice.arm, data=data)
        event = experiment.note(member, event, shown=not later)
        self._keep(event)
        decision = Decision(
            experiment=experiment.number,
            id=name,
            instance=member.number,
            request=digest,
            at=at,
            group=member.group,
            arm=choice.arm,
            probability=choice.probability,
            expected_loss=choice.expected_loss,
            model=experiment.model,
            proposed=choice.proposed,
            number=event.number,
            ticket=event.ticket,
            status=OPEN if later else PENDING,
            loss=None,
            deadline=self._deadline(at),
        )
        self._changes.decisions[experiment.number, name] = decision
        return self._answer(decision)

    def _deadline(self, at: float) -> float | None:
        window = self._experiment.settings.window_hours
        return None if window is None else at + window * HOUR

    def _answer(self, decision: Decision) -> dict[str, Any]:
        names = self._experiment.arms.names
        answer = {
            "decision_id": decision.id,
            "arm": names[decision.arm],
            "group": decision.group,
            "probability": decision.probability,
            "expected_loss": decision.expected_loss,
            "model": decision.model,
            "number": decision.number,
        }
        if decision.proposed is not None:
            answer["proposed"] = names[decision.proposed]
        return answer

    def show(self, name: str, at: float) -> dict[str, Any]:
        """Count the pull of a decision that was to be activated later."""
        decision = self._require(name)
        if decision.status in (PENDING, OBSERVED) or (
            decision.status == EXPIRED and decision.ticket is not None
        ):
            return {"decision_id": name, "status": decision.status}
        if decision.status != OPEN:
            raise Refused(409, "settled", f"decision {name!r:.80} was {decision.status}")
        member = self._experiment.members[decision.instance]
        event = self._event(SHOWN, at, member.number, decision=name, arm=decision.arm)
        event = self._experiment.note(member, event, shown=True)
        self._keep(event)
        self._changes.keep(
            decision._replace(status=PENDING, ticket=event.ticket, deadline=self._deadline(at))
        )
        return {"decision_id": name, "status": PENDING}

    def cancel(self, name: str, at: float) -> dict[str, Any]:
        """Give up a decision that was not shown."""
        decision = self._require(name)
        if decision.status == CANCELLED:
            return {"decision_id": name, "status": CANCELLED}
        if decision.status != OPEN:
            raise Refused(
                409,
                "shown",
                f"decision {name!r:.80} was shown, and moved the losses to come: it cannot be "
                "cancelled. Decide with activate = later if it may not be shown",
            )
        self._settle(decision, CANCELLED, at)
        return {"decision_id": name, "status": CANCELLED}

    def feed_back(self, name: str, request: Feedback, at: float) -> dict[str, Any]:
        """Learn the loss of a decision."""
        decision = self._require(name)
        loss = request.read_loss(self._experiment.settings)
        if decision.status == OBSERVED:
            if decision.loss != loss:
                raise Refused(
                    409,
                    "feedback_exists",
                    f"decision {name!r:.80} has the loss {decision.loss}; it cannot become {loss}",
                )
            return {"decision_id": name, "status": OBSERVED, "loss": loss}
        if decision.status == OPEN:
            raise Refused(409, "not_shown", f"decision {name!r:.80} has not been activated yet")
        if decision.status != PENDING:
            raise Refused(409, "settled", f"decision {name!r:.80} has {decision.status}: too late")
        self._settle(decision, OBSERVED, at, loss, request.at)
        return {"decision_id": name, "status": OBSERVED, "loss": loss}

    def expire(self, decision: Decision, at: float) -> None:
        """Give up a loss whose window has ended; one that was never shown is cancelled."""
        current = self._find(decision.id) or decision
        if current.status not in (OPEN, PENDING) or current.deadline is None:
            return
        if current.deadline > at:
            return
        if current.status == OPEN:
            self._settle(current, CANCELLED, at)
        else:
            self._settle(current, EXPIRED, at, self._experiment.settings.missing_loss)

    def _settle(
        self,
        decision: Decision,
        kind: str,
        at: float,
        loss: float | None = None,
        happened: float | None = None,
    ) -> None:
        member = self._experiment.members[decision.instance]
        data: dict[str, Any] = {}
        if decision.model:
            data["model"] = decision.model
        if happened is not None:
            data["at"] = happened
        event = self._event(
            kind,
            at,
            member.number,
            decision=decision.id,
            ticket=decision.ticket,
            arm=decision.arm,
            loss=loss,
            data=encode(data).decode() if data else None,
        )
        self._keep(self._experiment.note(member, event))
        self._changes.keep(decision._replace(status=kind, loss=loss, deadline=None))

    def expose(self, request: Expose, at: float) -> dict[str, Any]:
        """Follow arms that an instance has met elsewhere."""
        experiment = self._experiment
        require_label("instance", request.instance)
        if not 1 <= len(request.arms) <= MOST_EXPOSURES:
            raise InvalidInput(f"give 1 to {MOST_EXPOSURES} arms, got {len(request.arms)}")
        arms = experiment.arm_numbers(request.arms)
        name = request.exposure_id
        if name is not None:
            require_label("exposure_id", name)
            found = self._find(name)
            if found is not None:
                if found.request != request.digest():
                    raise Refused(
                        409,
                        "exposure_exists",
                        f"exposure {name!r:.80} was another one; take another exposure_id",
                    )
                return {"exposures": len(arms)}
        member = self._member(request.instance, at)
        for arm in arms:
            event = self._event(EXPOSED, at, member.number, decision=name, arm=arm)
            self._keep(experiment.note(member, event))
        if name is not None:
            self._changes.decisions[experiment.number, name] = Decision(
                experiment=experiment.number,
                id=name,
                instance=member.number,
                request=request.digest(),
                at=at,
                group=member.group,
                arm=arms[-1],
                probability=None,
                expected_loss=None,
                model=experiment.model,
                proposed=None,
                number=experiment.applied,
                ticket=None,
                status=EXPOSED,
                loss=None,
                deadline=None,
            )
        return {"exposures": len(arms)}

    # The experiment itself.

    def create(self, settings: Settings, at: float) -> None:
        """Begin."""
        self._concern_all(CREATED, at, msgspec.to_builtins(settings))

    def change(self, request: ChangeSettings, at: float) -> dict[str, Any]:
        """Take other settings."""
        given = {
            name: value
            for name in request.__struct_fields__
            if (value := getattr(request, name)) is not msgspec.UNSET
        }
        settings = msgspec.structs.replace(self._experiment.settings, **given)
        settings.check()
        if settings != self._experiment.settings:
            self._concern_all(CHANGED, at, msgspec.to_builtins(settings))
        return self.describe()

    def add_arm(self, request: AddArm, at: float) -> dict[str, Any]:
        """Take an arm on."""
        arms = self._experiment.arms
        name = require_label("the name of an arm", request.name)
        if name in arms.names:
            if arms.names.index(name) in arms.retired:
                raise Refused(
                    409, "arm_retired", f"arm {name!r:.80} was retired; give the new one a new name"
                )
            return {"arm": name, "number": arms.names.index(name)}
        settings = msgspec.structs.replace(self._experiment.settings, arms=(*arms.names, name))
        settings.check()
        if self._experiment.model or self._experiment.models:
            self._require_model_without_arms()
        self._concern_all(ARM_ADDED, at, {"name": name})
        return {"arm": name, "number": len(arms.names)}

    def _require_model_without_arms(self) -> None:
        """Raise if a model that is staged or active knows a number of arms."""
        for version, policy in self._experiment.models.items():
            made = make_policy(policy, shared=self._experiment.settings.state == "shared")
            if getattr(made, "prior", None) is not None:
                raise Refused(
                    409,
                    "model_knows_arms",
                    f"model {version} was learned for {len(self._experiment.arms.names)} arms; "
                    "stage one for the new number first, in a new experiment",
                )

    def retire_arm(self, name: str, at: float) -> dict[str, Any]:
        """Never choose an arm again."""
        arms = self._experiment.arms
        try:
            arm = self._experiment.arm_numbers([name])[0]
        except InvalidInput as error:
            raise Refused(404, "unknown_arm", str(error)) from None
        if arm not in arms.retired:
            if len(arms.retired) == len(arms.names) - 1:
                raise Refused(409, "last_arm", f"arm {name!r:.80} is the last one in use")
            self._concern_all(ARM_RETIRED, at, arm=arm)
        return {"arm": name, "retired": True}

    def stage_model(self, request: StageModel, at: float) -> dict[str, Any]:
        """Keep a model for later."""
        shared = self._experiment.settings.state == "shared"
        policy = make_policy(request.policy, shared=shared)
        try_out(policy, self._experiment.arms)
        version = max(self._experiment.models, default=0) + 1
        self._concern_all(MODEL_STAGED, at, {"version": version, "policy": request.policy})
        return {"version": version}

    def activate_model(self, version: int, at: float) -> dict[str, Any]:
        """Decide by a model from now on; 0 is the policy of the settings."""
        if version and version not in self._experiment.models:
            raise Refused(404, "unknown_model", f"there is no model {version}; stage it first")
        if version != self._experiment.model:
            self._store.write(self._changes)  # states are computed anew from the store
            self._concern_all(MODEL_ACTIVATED, at, {"version": version})
        return {"version": version}

    # A person.

    def erase(self, label: str, at: float) -> dict[str, Any]:
        """Erase a person's data.

        What a fleet has learned from it cannot be told from what others taught. There its events
        stay, without anything that tells whose they were.
        """
        member = self._labels.get(label)
        if member is None:
            raise Refused(404, "unknown_instance", f"there is no instance {label!r:.80}")
        experiment = self._experiment
        shared = experiment.settings.state == "shared" and member.group == "policy"
        # What this batch says of it must be in the store before it can be deleted there.
        self._store.write(self._changes)
        self._changes.written = {
            key: decision
            for key, decision in self._changes.written.items()
            if (key[0], decision.instance) != (experiment.number, member.number)
        }
        if shared:
            self._store.unlink(experiment.number, member.number, f"erased-{secrets.token_hex(12)}")
        else:
            self._store.erase(experiment.number, member.number)
        experiment.dismiss(member)
        del self._labels[label]
        self._decisions = {
            name: d for name, d in self._decisions.items() if d.instance != member.number
        }
        event = self._event(ERASED, at, data=encode({"instance": member.number}).decode())
        experiment.applied = event.number
        self._keep(event)
        return {"erased": True}

    # Snapshots.

    def keep_snapshot(self, member: Member) -> None:
        """Write the state of an instance that has a policy of its own."""
        packed = self._experiment.pack(member)
        if packed is not None:
            self._changes.snapshots[self._experiment.number, member.number] = Snapshot(
                self._experiment.number,
                member.number,
                self._experiment.applied,
                self._experiment.fingerprint(member.group),
                packed,
            )
            member.since_snapshot = 0

    def keep_shared_snapshot(self) -> int:
        """Write the state of a fleet, and of its users who have changed; return how many bytes."""
        experiment = self._experiment
        if experiment.shared is None:
            return 0
        fingerprint = experiment.fingerprint("policy")
        whole, users = experiment.shared.pack()
        for instance, blob in ((0, whole), *users.items()):
            self._changes.snapshots[experiment.number, instance] = Snapshot(
                experiment.number, instance, experiment.applied, fingerprint, blob
            )
        return len(whole) + sum(map(len, users.values()))

    def keep_everything(self) -> None:
        """Write all states that have changed."""
        for member in self._experiment.members.values():
            if member.since_snapshot:
                self.keep_snapshot(member)
        self.keep_shared_snapshot()

    # Questions.

    def explain(self, label: str) -> dict[str, Any]:
        """Return what an instance is expected to lose now; nothing is moved."""
        member = self._labels.get(label)
        if member is None:
            raise Refused(404, "unknown_instance", f"there is no instance {label!r:.80}")
        return {
            "instance": label,
            "number": member.number,
            "group": member.group,
            "arms": list(self._experiment.arms.names),
            **self._experiment.explain(member),
        }

    def estimate(self) -> SharedEstimate | None:
        """Return what all instances have taught, if they share a state."""
        shared = self._experiment.shared
        return None if shared is None else shared.fleet.estimate()

    def describe(self) -> dict[str, Any]:
        """Return settings, arms and models."""
        experiment = self._experiment
        settings = msgspec.to_builtins(experiment.settings)
        del settings["arms"]
        return {
            "name": experiment.name,
            "arms": list(experiment.arms.names),
            "retired": [experiment.arms.names[arm] for arm in sorted(experiment.arms.retired)],
            "settings": settings,
            "model": experiment.model,
            "models": [
                {"version": version, "policy": policy}
                for version, policy in experiment.models.items()
            ],
            "events": experiment.applied,
            "instances": self._instances,
        }
