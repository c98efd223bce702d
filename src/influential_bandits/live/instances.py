"""One instance: what it was shown, what it lost, what is expected now, and why this arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from influential_bandits.live.events import DECIDED, EXPOSED, Decision, Event
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import Connection, InstanceRow
from influential_bandits.live.words import describe_policy, write_number, write_share

MOST_SHOWN = 200  # arms that an instance met


def find_instance(store: Connection, experiment: int, label: str) -> InstanceRow:
    """Return an instance of the store."""
    rows = store.instances_by("label", experiment, [label])
    if not rows:
        raise Refused(404, "unknown_instance", f"there is no instance {label!r:.80}")
    return rows[0]


def load_alone(store: Connection, row: InstanceRow) -> Experiment:
    """Return an experiment that knows all its events, to look at an instance with its own state."""
    there = store.experiment(row.experiment)
    experiment = Experiment.load(store, there)
    experiment.applied = there.events
    return experiment


def describe_instance(
    store: Connection,
    row: InstanceRow,
    described: dict[str, Any],
    expected: dict[str, Any],
    before: int = 2**62,
) -> dict[str, Any]:
    """Return all that is known of an instance, as JSON data.

    Parameters
    ----------
    described, expected
        What the experiment says of itself, and of the losses that it expects.
    before : int
        Number of an event: the latest arms that were met before it are told.
    """
    names = described["arms"]
    events = store.meetings_of_instance(row.experiment, row.number, before, MOST_SHOWN)
    ids = [event.decision for event in events if event.kind == DECIDED and event.decision]
    decisions = {decision.id: decision for decision in store.decisions(row.experiment, ids)}
    met = [(event, decisions.get(event.decision or "")) for event in events]
    decided = [(decision, event) for event, decision in met if decision and event.kind == DECIDED]
    return {
        "instance": row.label,
        "group": row.group,
        "arms": names,
        **expected,
        "met": [_describe_meeting(*pair, names) for pair in met],
        "why": explain_choice(*decided[-1], described) if decided else [],
    }


def _describe_meeting(
    event: Event, decision: Decision | None, names: Sequence[str]
) -> dict[str, Any]:
    """Return what became of an arm that an instance met: by a decision, or elsewhere."""
    known = decision if event.kind == DECIDED else None
    assert event.arm is not None
    return {
        "number": event.number,
        "at": event.when(),
        "decision_id": event.decision,
        "arm": names[event.arm],
        "status": EXPOSED if known is None else known.status,
        "loss": None if known is None else known.loss,
        "expected_loss": None if known is None else known.expected_loss,
        "probability": None if known is None else known.probability,
    }


def explain_choice(decision: Decision, event: Event, described: dict[str, Any]) -> list[str]:
    """Return why an instance got an arm, in sentences."""
    settings, names = described["settings"], described["arms"]
    sentences = []
    if decision.proposed is not None:
        same = decision.proposed == decision.arm
        agreed = "the same" if same else f"“{names[decision.proposed]}”"
        sentences.append(
            f"Shadow mode: “{names[decision.arm]}” was the caller's own choice; the policy would "
            f"have chosen {agreed}."
        )
    if decision.group == "control":
        words = describe_policy(settings["control"])
        sentences.append(f"It is in the control group, which {words.name} serves. {words.rule}")
    else:
        models = {model["version"]: model["policy"] for model in described["models"]}
        policy = models.get(decision.model, settings["policy"])
        words = describe_policy(policy)
        model = f", model {decision.model}" if decision.model else ""
        sentences.append(f"It is in the group of the policy, {words.name}{model}. {words.rule}")
    eligible = event.read().get("eligible")
    if eligible is not None:
        some = ", ".join(f"“{names[arm]}”" for arm in eligible[:8])
        more = f" and {len(eligible) - 8} more" if len(eligible) > 8 else ""
        sentences.append(f"Eligible were {some}{more}.")
    else:
        sentences.append("All arms in use were eligible.")
    if decision.expected_loss is not None:
        sign = -1.0 if settings["outcome"] == "reward" else 1.0
        expected = write_number(sign * decision.expected_loss)
        sentences.append(f"A {settings['outcome']} of {expected} was expected of it then.")
    if decision.probability == 1.0:
        sentences.append("No chance was involved: with the same past it would be chosen again.")
    elif decision.probability is not None:
        share = write_share(decision.probability)
        sentences.append(f"Chance was involved: it had a probability of {share}.")
    elif decision.proposed is None:
        sentences.append("The policy draws at random and does not tell with which probability.")
    return sentences
