"""Decisions, and what becomes of them: shown, cancelled, observed, expired; arms met elsewhere."""

from __future__ import annotations

import secrets
from typing import Any

from influential_bandits.errors import InvalidInput
from influential_bandits.live.answers import Exposures, LiveDecision, Outcome
from influential_bandits.live.events import (
    CANCELLED,
    CORRECTED,
    DECIDED,
    EXPIRED,
    EXPOSED,
    OBSERVED,
    OPEN,
    PENDING,
    SHOWN,
    Decision,
    encode,
)
from influential_bandits.live.requests import Decide, Expose, Feedback, Refused
from influential_bandits.live.settings import require_label
from influential_bandits.live.transactions.base import TransactionBase

MOST_EXPOSURES = 1000  # in one request
HOUR = 3600.0
CLOCKS_DIFFER = 60.0  # seconds that a client's clock may be ahead


class DecisionRequests(TransactionBase):
    """Requests that concern decisions and exposures."""

    def decide(self, request: Decide, at: float) -> LiveDecision:
        """Choose an arm."""
        experiment = self._experiment
        require_label("instance", request.instance)
        name, digest = request.decision_id, request.digest()
        earlier = self._find_repeat("decision", name, digest)
        if earlier is not None:
            return self._answer(earlier)
        mode = experiment.settings.mode
        self._require_open()
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
        later = request.activate == "later"
        if later and request.at is not None:
            raise InvalidInput("what is activated later happens when it is activated: leave out at")
        happens = _require_past(request.at, at)
        member = self._member(request.instance, at)
        choice = experiment.decide(member, eligible, baseline, at if happens is None else happens)
        if name is None:
            name = f"{int(at * 1e6):013x}{secrets.token_hex(8)}"
        data = choice.describe(eligible, later, experiment.model, happens)
        event = self._event(
            DECIDED,
            at,
            member.number,
            decision=name,
            arm=choice.arm,
            data=data,
            proposed=choice.proposed,
        )
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
            deadline=self._deadline(at),
        )
        self._changes.decisions[experiment.number, name] = decision
        self._changes.noted.append((DECIDED, experiment.name, 0.0))
        return self._answer(decision)

    def _find_repeat(self, kind: str, name: str | None, digest: str) -> Decision | None:
        """Return what was asked under a name before; it must have been the same."""
        if name is None:
            return None
        earlier = self._find(require_label(f"{kind}_id", name))
        if earlier is not None and earlier.request != digest:
            raise Refused(
                409,
                f"{kind}_exists",
                f"{kind} {name!r:.80} was asked for something else; take another {kind}_id",
            )
        return earlier

    def _deadline(self, at: float) -> float:
        return at + self._experiment.settings.window_hours * HOUR

    def _answer(self, decision: Decision) -> LiveDecision:
        names = self._experiment.arms.names
        return LiveDecision(
            decision.id,
            names[decision.arm],
            decision.group,
            decision.probability,
            decision.expected_loss,
            decision.model,
            decision.number,
            None if decision.proposed is None else names[decision.proposed],
        )

    def show(self, name: str, at: float) -> Outcome:
        """Count the pull of a decision that was to be activated later."""
        decision = self._require(name)
        if decision.status in (PENDING, OBSERVED) or (
            decision.status == EXPIRED and decision.ticket is not None
        ):
            return Outcome(name, decision.status)
        if decision.status != OPEN:
            raise Refused(409, "settled", f"decision {name!r:.80} was cancelled")
        member = self._experiment.members[decision.instance]
        event = self._event(
            SHOWN, at, member.number, decision=name, arm=decision.arm, proposed=decision.proposed
        )
        event = self._experiment.note(member, event, shown=True)
        self._keep(event)
        self._changes.keep(
            decision._replace(status=PENDING, ticket=event.ticket, deadline=self._deadline(at))
        )
        return Outcome(name, PENDING)

    def cancel(self, name: str, at: float) -> Outcome:
        """Give up a decision that was not shown."""
        decision = self._require(name)
        if decision.status == CANCELLED:
            return Outcome(name, CANCELLED)
        if decision.status != OPEN:
            raise Refused(
                409,
                "shown",
                f"decision {name!r:.80} was shown, and moved the losses to come: it cannot be "
                "cancelled. Decide with activate = later if it may not be shown",
            )
        self._settle(decision, CANCELLED, at)
        return Outcome(name, CANCELLED)

    def feed_back(self, name: str, request: Feedback, at: float) -> Outcome:
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
            return Outcome(name, OBSERVED, loss)
        if decision.status == OPEN:
            raise Refused(409, "not_shown", f"decision {name!r:.80} has not been activated yet")
        if decision.status != PENDING:
            became = "was cancelled" if decision.status == CANCELLED else "has expired: too late"
            raise Refused(409, "settled", f"decision {name!r:.80} {became}")
        self._settle(decision, OBSERVED, at, loss, request.at)
        return Outcome(name, OBSERVED, loss)

    def correct(self, name: str, request: Feedback, at: float) -> Outcome:
        """Replace the loss of a decision; what was learned from the one before stays learned."""
        decision = self._require(name)
        loss = request.read_loss(self._experiment.settings)
        if decision.status != OBSERVED or decision.loss is None:
            raise Refused(409, "no_feedback", f"decision {name!r:.80} has no loss to be corrected")
        if decision.loss != loss:
            member = self._experiment.members[decision.instance]
            event = self._event(
                CORRECTED,
                at,
                member.number,
                decision=name,
                ticket=decision.ticket,
                arm=decision.arm,
                loss=loss - decision.loss,
                proposed=decision.proposed,
            )
            self._keep(self._experiment.note(member, event))
            self._changes.keep(decision._replace(loss=loss))
        return Outcome(name, OBSERVED, loss)

    def expire(self, decision: Decision, at: float) -> None:
        """Give up a loss that is overdue or too many; one that was never shown is cancelled."""
        current = self._find(decision.id) or decision
        if current.status not in (OPEN, PENDING) or current.deadline != decision.deadline:
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
        if self._experiment.activated:
            data["decided"] = decision.number
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
            proposed=decision.proposed,
        )
        self._keep(self._experiment.note(member, event))
        self._changes.keep(decision._replace(status=kind, loss=loss, deadline=None))
        self._changes.noted.append((kind, self._experiment.name, at - decision.at))

    def expose(self, request: Expose, at: float) -> Exposures:
        """Follow arms that an instance has met elsewhere."""
        experiment = self._experiment
        require_label("instance", request.instance)
        if not 1 <= len(request.arms) <= MOST_EXPOSURES:
            raise InvalidInput(f"give 1 to {MOST_EXPOSURES} arms, got {len(request.arms)}")
        arms = experiment.arm_numbers(request.arms)
        name, digest = request.exposure_id, request.digest()
        if self._find_repeat("exposure", name, digest) is not None:
            return Exposures(len(arms))
        self._require_open()
        happened = _require_past(request.at, at)
        data = None if happened is None else encode({"at": happened}).decode()
        member = self._member(request.instance, at)
        for arm in arms:
            event = self._event(EXPOSED, at, member.number, decision=name, arm=arm, data=data)
            self._keep(experiment.note(member, event))
        if name is not None:
            self._changes.decisions[experiment.number, name] = Decision(
                experiment=experiment.number,
                id=name,
                instance=member.number,
                request=digest,
                at=at,
                group=member.group,
                arm=arms[-1],
                model=experiment.model,
                number=experiment.applied,
                status=EXPOSED,
            )
        return Exposures(len(arms))


def _require_past(given: float | None, now: float) -> float | None:
    """Return a time that a client told, if it did; it may be ahead of the service by a minute."""
    if given is not None and not 0.0 <= given <= now + CLOCKS_DIFFER:
        raise InvalidInput(
            f"at must be seconds since 1970, and not lie in the future: got {given}, and it is "
            f"{now:.0f}"
        )
    return given
