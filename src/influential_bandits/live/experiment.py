"""An experiment: from events to states and choices; the same for all stores.

Nothing here looks at a clock, a disk or a random number that is not a function of the events. So
applying the events of a store again gives the same decisions, to the bit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import (
    ARM_ADDED,
    ARM_RETIRED,
    CHANGED,
    CORRECTED,
    CREATED,
    DECIDED,
    ERASED,
    EXPIRED,
    EXPOSED,
    MODEL_ACTIVATED,
    MODEL_STAGED,
    OBSERVED,
    OF_EXPERIMENT,
    SHOWN,
    Event,
    encode,
)
from influential_bandits.live.settings import Settings, make_policy
from influential_bandits.live.states import (
    AgentState,
    Arms,
    FleetState,
    FleetUser,
    count_arms,
    state_fingerprint,
)
from influential_bandits.live.store.sql import Connection, ExperimentRow, InstanceRow
from influential_bandits.numerics.streams import SERVICE, draw_uniform
from influential_bandits.policies.uniform import Uniform

GROUP, EXPLORE, EXPLORED_ARM = range(3)  # draws of a stream


@dataclass(frozen=True)
class Choice:
    """What was decided, and why."""

    arm: int
    probability: float | None
    expected_loss: float | None
    proposed: int | None = None

    def describe(
        self, eligible: list[int] | None, later: bool, model: int, at: float | None
    ) -> str | None:
        """Return what an event of a decision keeps, so that it can be made again."""
        data: dict[str, Any] = {"p": self.probability, "expected": self.expected_loss}
        if eligible is not None:
            data["eligible"] = eligible
        if later:
            data["later"] = True
        if self.proposed is not None:
            data["baseline"] = self.arm
        if model:
            data["model"] = model
        if at is not None:
            data["at"] = at
        return encode(data).decode()


@dataclass(frozen=True)
class Difference:
    """A decision that comes out otherwise when its events are applied again."""

    event: Event
    expected: Choice

    def __str__(self) -> str:
        """Say which, in one line."""
        return (
            f"event {self.event.number} (decision {self.event.decision}): arm {self.event.arm} was "
            f"served, and {self.expected.arm} comes out"
        )


@dataclass
class Member:
    """An instance that is held in memory."""

    number: int  # 1, 2, … of the experiment
    label: str
    group: str  # "policy" or "control"
    model: int = 0  # that its state was computed with
    state: AgentState | None = None
    since_snapshot: int = 0  # events
    snapshot_bytes: int = 0  # of the latest one


@dataclass
class Experiment:
    """What is known of an experiment: settings, arms, models, and instances in use."""

    number: int
    name: str
    store: Connection | None = None  # None: nothing has happened yet
    reads_snapshots: bool = True  # an audit reads none
    settings: Settings = field(default_factory=lambda: Settings(arms=("",)))
    arms: Arms = field(default_factory=lambda: Arms(()))
    arms_since: list[tuple[int, Arms]] = field(default_factory=list)  # from which event on
    applied: int = 0  # number of the latest event that is known here
    models: dict[int, dict[str, Any]] = field(default_factory=dict)
    arms_of_models: dict[int, tuple[str, ...]] = field(default_factory=dict)  # when it was staged
    model: int = 0  # the one that is active; 0: the policy of the settings
    activated: int = 0  # number of the event by which it became so; 0: it always was
    members: dict[int, Member] = field(default_factory=dict)
    by_label: OrderedDict[str, Member] = field(default_factory=OrderedDict)  # last used, last
    _shared: FleetState | None = None
    touched: dict[int, Member] = field(default_factory=dict)  # since they were last looked at
    noted: int = 0  # events since then
    instances: int = 0  # number of the latest one
    since_snapshot: int = 0  # events of a fleet
    snapshot_bytes: int = 0  # of the latest one
    crowded: dict[int, int] = field(default_factory=dict)  # by instance: decisions too many wait
    _fingerprints: dict[tuple[str, int], str] = field(default_factory=dict)  # by group and model

    # Settings, arms and models.

    @classmethod
    def load(cls, store: Connection, row: ExperimentRow, until: int | None = None) -> Experiment:
        """Return an experiment as its own events made it, all or up to one, without instances."""
        experiment = cls(row.id, row.name, store, instances=row.instances)
        for event in store.events_of_experiment(row.id):
            if event.kind in OF_EXPERIMENT and (until is None or event.number <= until):
                experiment.apply_to_experiment(event)
        return experiment

    def describe(self, events: int) -> dict[str, Any]:
        """Return settings, arms and models, and how many events and instances there are."""
        settings = msgspec.to_builtins(self.settings)
        del settings["arms"]
        return {
            "name": self.name,
            "arms": list(self.arms.names),
            "retired": [self.arms.names[arm] for arm in sorted(self.arms.retired)],
            "settings": settings,
            "policy": self.models.get(self.model, self.settings.policy),  # that is served
            "model": self.model,
            "models": [{"version": v, "policy": policy} for v, policy in self.models.items()],
            "events": events,
            "instances": self.instances,
        }

    @property
    def shared(self) -> FleetState | None:
        """The fleet of an experiment with shared state, made when it is first needed."""
        if self._shared is None and self.settings.state == "shared":
            self._shared = FleetState(self.policy, self.arms_at(self.activated))
            self._shared.follow(self.arms)
        return self._shared

    def apply_to_experiment(self, event: Event) -> None:
        """Follow an event that concerns all instances."""
        data = event.read()
        if event.kind in (CREATED, CHANGED):
            self.settings = msgspec.convert(data, Settings)
            if event.kind == CREATED:
                self.arms = Arms(self.settings.arms)
        elif event.kind == ARM_ADDED:
            self.arms = Arms((*self.arms.names, data["name"]), self.arms.retired)
        elif event.kind == ARM_RETIRED and event.arm is not None:
            self.arms = Arms(self.arms.names, self.arms.retired | {event.arm})
        elif event.kind == MODEL_STAGED:
            self.models[data["version"]] = data["policy"]
            self.arms_of_models[data["version"]] = self.arms.names
        elif event.kind == MODEL_ACTIVATED:
            self.model, self.activated = data["version"], event.number
            self.__dict__.pop("policy", None)
            self._shared = None
        if not self.arms_since or self.arms_since[-1][1] != self.arms:
            self.arms_since.append((event.number, self.arms))
        if self._shared is not None:
            self._shared.follow(self.arms)
        self.applied = event.number

    def arms_at(self, number: int) -> Arms:
        """Return the arms as they were at an event."""
        place = bisect_right(self.arms_since, number, key=lambda entry: entry[0])
        return self.arms_since[max(place - 1, 0)][1]

    def make_policy(self, version: int) -> Any:
        """Return the policy of a model; 0 is that of the settings."""
        policy = self.models[version] if version else self.settings.policy
        shared, half_life = self.settings.state == "shared", self.settings.half_life_hours
        return make_policy(policy, shared=shared, half_life=half_life)

    @cached_property
    def policy(self) -> Any:
        """The policy that is served: of the active model, or of the settings."""
        return self.make_policy(self.model)

    @cached_property
    def control(self) -> Any:
        """The policy of the control group."""
        return make_policy(self.settings.control, half_life=self.settings.half_life_hours)

    def fingerprint(self, group: str) -> str:
        """Return what snapshots of a group's states must have."""
        key = group, self.model
        if key not in self._fingerprints:
            policy = self.control if group == "control" else self.policy
            shared = group != "control" and self.settings.state == "shared"
            text = state_fingerprint(policy, self.settings.seed, shared=shared)
            self._fingerprints[key] = text if group == "control" else f"{text}-{self.model}"
        return self._fingerprints[key]

    def arm_numbers(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of arms, or say which there are."""
        places = {name: arm for arm, name in enumerate(self.arms.names)}
        for name in names:
            if name not in places:
                known = ", ".join(self.arms.names[:8])
                raise InvalidInput(f"there is no arm {name!r:.60}; there are {known:.200}")
        return [places[name] for name in names]

    def require_eligible(self, names: Sequence[str] | None) -> list[int] | None:
        """Return the numbers of the arms on offer, of which at least one must be in use."""
        if names is None:
            return None
        arms = sorted(set(self.arm_numbers(names)))
        if not set(arms) - self.arms.retired:
            raise InvalidInput("eligible must name at least one arm that is in use")
        return arms

    # Instances.

    def admit(self, number: int, label: str, group: str, *, new: bool = False) -> Member:
        """Hold an instance in memory."""
        member = Member(number, label, group)
        if new and not self._is_of_fleet(member):
            self._start(member)
        self.members[number] = self.by_label[label] = member
        return member

    def hold(self, row: InstanceRow) -> Member:
        """Return an instance of the store, held in memory from now on."""
        return self.members.get(row.number) or self.admit(row.number, row.label, row.group)

    def dismiss(self, member: Member) -> None:
        """Hold an instance in memory no more."""
        self.members.pop(member.number, None)
        self.by_label.pop(member.label, None)

    def pack(self, member: Member) -> bytes | None:
        """Return a snapshot of an instance; None if no state of its own and this model is there."""
        if not isinstance(member.state, AgentState) or self._is_of_another_model(member):
            return None
        return member.state.pack()

    def _is_of_another_model(self, member: Member) -> bool:
        """Tell whether a state was computed with a model that is not active any more."""
        return member.group == "policy" and member.model != self.model

    def _is_of_fleet(self, member: Member) -> bool:
        return self.settings.state == "shared" and member.group == "policy"

    def draw_group(self, instance: int) -> str:
        """Return the group of a new instance: a function of the seed and its number."""
        return (
            "control" if self._draw(instance, 0, GROUP) < self.settings.control_share else "policy"
        )

    def _draw(self, instance: int, t: int, draw: int) -> float:
        seed = np.uint64(self.settings.seed)
        return float(draw_uniform(seed, np.uint64(instance), SERVICE, t, draw))

    def state_of(self, member: Member) -> AgentState | FleetUser:
        """Return the state of an instance, as of all events known here."""
        if self._is_of_fleet(member):
            assert self.shared is not None
            if self.activated and not self.shared.knows(member.number):
                self._remember(member)
            return self.shared.of(member.number)
        if member.state is None or self._is_of_another_model(member):
            self._rebuild(member)
        assert member.state is not None
        member.state.follow(self.arms)
        return member.state

    def _rebuild(self, member: Member) -> None:
        """Compute a state from the latest snapshot that fits and the instance's events since."""
        policy = self.control if member.group == "control" else self.policy
        place = self.settings.seed, member.number
        assert self.store is not None
        fingerprint = self.fingerprint(member.group)
        snapshots = self.store.snapshots(self.number, [member.number] * self.reads_snapshots)
        state, after, member.since_snapshot = None, 0, 0
        for snapshot in snapshots:
            # Of another service that is further than this one, it would be too new.
            if snapshot.fingerprint == fingerprint and snapshot.number <= self.applied:
                state = AgentState.unpack(snapshot.state, policy, self.arms.names, *place)
                after = 0 if state is None else snapshot.number
                member.snapshot_bytes = len(snapshot.state)
        for event in self._events_of(member, after):
            arms = self.arms_at(event.number)
            if state is None:
                state = AgentState.start(policy, self._with_arms_of_model(member, arms), *place)
            state.follow(arms)
            self._move(member, state, event)
        if state is None:
            self._start(member)
        else:
            member.state, member.model = state, self.model

    def _events_of(self, member: Member, after: int = 0) -> list[Event]:
        assert self.store is not None
        return self.store.events_of_instance(self.number, member.number, after, self.applied)

    def _with_arms_of_model(self, member: Member, arms: Arms) -> Arms:
        """Return the arms at an event, and those that came before the model of a group was made.

        A model may know as many arms as there were then, and no fewer; whoever came earlier begins
        with all of them.
        """
        known = self.arms_of_models.get(self.model, ()) if member.group == "policy" else ()
        return Arms(max(arms.names, known, key=len), arms.retired)

    def _start(self, member: Member) -> None:
        """Give an instance of which there are no events its first state."""
        policy = self.control if member.group == "control" else self.policy
        member.state = AgentState.start(policy, self.arms, self.settings.seed, member.number)
        member.model = self.model

    def _remember(self, member: Member) -> None:
        """Tell a fleet that started with a model what an instance met before; it teaches nobody."""
        pulls: dict[int, tuple[int, float | None, float]] = {}  # by number of the event
        tickets: dict[int, int] = {}
        for event in self._events_of(member):
            if event.kind in (DECIDED, SHOWN) and event.ticket is not None:
                pulls[event.number] = _arm(event), None, event.when()
                tickets[event.ticket] = event.number
            elif event.kind == EXPOSED:
                pulls[event.number] = _arm(event), None, event.when()
            elif event.kind in (OBSERVED, EXPIRED) and event.ticket in tickets:
                number = tickets[event.ticket]
                pulls[number] = pulls[number][0], event.loss, pulls[number][2]
            elif event.kind == CORRECTED and event.ticket in tickets:
                arm, loss, when = pulls[tickets[event.ticket]]
                pulls[tickets[event.ticket]] = arm, (loss or 0.0) + (event.loss or 0.0), when
        assert self.shared is not None
        if pulls:
            arms, losses, times = zip(*pulls.values(), strict=True)
            self.shared.remember(member.number, arms, losses, times)

    def _move(self, member: Member, state: AgentState | FleetUser, event: Event) -> None:
        """Let an event move the state of its instance."""
        if event.kind == SHOWN or (event.kind == DECIDED and event.ticket is not None):
            state.pull(_arm(event), event.when())
        elif event.kind == EXPOSED:
            state.give_up(state.pull(_arm(event), event.when()))
        elif event.kind in (OBSERVED, EXPIRED) and event.ticket is not None:
            if self._is_of_this_model(member, event):
                if event.loss is None:
                    state.give_up(event.ticket)
                else:
                    state.observe(event.ticket, event.loss)
        member.since_snapshot += 1

    def _is_of_this_model(self, member: Member, event: Event) -> bool:
        """Tell whether a loss belongs to a pull that the present state has seen.

        A fleet starts afresh with another model, which knows what came before, and numbers its
        pulls anew. An instance of its own is computed anew from all its events.
        """
        if not self._is_of_fleet(member):
            return True
        data = event.read()
        since = data.get("decided", self.activated + 1) > self.activated
        return bool(since and data.get("model", 0) == self.model)

    # Decisions.

    def decide(
        self, member: Member, eligible: list[int] | None, baseline: int | None, at: float
    ) -> Choice:
        """Choose an arm for an instance; nothing is moved but what a choice moves by itself."""
        state = self.state_of(member)
        allowed = self.arms.mask(eligible)
        several = count_arms(allowed)
        if several == 0:
            raise InvalidInput("no arm that is in use is eligible")
        best = state.choose(allowed, at)
        arm, probability = best, 1.0
        explore = self.settings.explore
        if explore > 0.0:
            t = self.applied + 1  # the number of the event to come
            if self._draw(member.number, t, EXPLORE) < explore:
                place = int(self._draw(member.number, t, EXPLORED_ARM) * several)
                arm = int(np.flatnonzero(allowed)[place])
            probability = explore / several + (1.0 - explore) * (arm == best)
        policy = self.control if member.group == "control" else self.policy
        stated = None if policy.draws else probability
        if isinstance(policy, Uniform):  # it draws all alike, and exploration changes nothing
            stated = 1.0 / several
        if baseline is not None:
            return Choice(baseline, None, state.expected_loss(baseline, at), proposed=arm)
        return Choice(arm, stated, state.expected_loss(arm, at))

    def explain(self, member: Member, at: float) -> dict[str, Any]:
        """Return what each arm is expected to cost an instance at a time; moves nothing."""
        estimates = self.state_of(member).expected_losses(at)
        if estimates is None:
            return {"expected_losses": None, "deviations": None}
        names, (means, deviations) = self.arms.names, estimates
        return {
            "expected_losses": dict(zip(names, means, strict=True)),
            "deviations": dict(zip(names, deviations, strict=True)) if deviations else None,
        }

    def note(self, member: Member, event: Event, *, shown: bool = False) -> Event:
        """Let an event that has just been made move its instance; return it with its ticket."""
        state = self.state_of(member)
        if shown:
            event = event._replace(ticket=state.pull(_arm(event), event.when()))
            member.since_snapshot += 1
        else:
            self._move(member, state, event)
        self.applied = event.number
        self.touched[member.number] = member
        self.noted += 1
        return event

    def apply(self, member: Member | None, event: Event) -> Difference | None:
        """Follow an event of the store; return a difference if its decision comes out otherwise.

        A state that is not in memory stays out of it, and is computed when it is needed.
        """
        if event.kind in OF_EXPERIMENT:
            self.apply_to_experiment(event)
            return None
        difference = None
        if event.kind == ERASED:
            erased = self.members.get(event.read()["instance"])
            if erased is not None:
                self.dismiss(erased)
        elif member is not None and (member.state is not None or self._is_of_fleet(member)):
            if event.kind == DECIDED:
                # Numbers are drawn for that of the event, also where others before it were erased.
                self.applied = event.number - 1
                data = event.read()
                eligible, baseline = data.get("eligible"), data.get("baseline")
                choice = self.decide(member, eligible, baseline, event.when())
                recorded = Choice(_arm(event), data.get("p"), data.get("expected"), event.proposed)
                difference = None if choice == recorded else Difference(event, choice)
            state = self.state_of(member)
            self._move(member, state, event)
        self.applied = event.number
        return difference


def _arm(event: Event) -> int:
    assert event.arm is not None
    return event.arm
