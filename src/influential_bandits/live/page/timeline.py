"""One instance: what it was shown, what it lost, what is expected now, and why this arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from influential_bandits.live.events import DECIDED, EXPOSED, Decision, Event
from influential_bandits.live.page.words import describe_policy, write_number, write_share
from influential_bandits.live.store.sql import Connection

__all__ = ["Entry", "explain_choice", "order_arms", "read_timeline"]

EVENTS_READ = 600  # of an instance, the latest
MOST_SHOWN = 200


class Entry(NamedTuple):
    """An arm that an instance met: by a decision, or elsewhere."""

    number: int  # of the event
    at: float
    arm: int
    status: str  # of the decision, or "exposed"
    loss: float | None = None
    expected_loss: float | None = None
    probability: float | None = None
    group: str | None = None
    decision: str | None = None
    eligible: tuple[int, ...] | None = None
    model: int = 0
    proposed: int | None = None


def read_timeline(store: Connection, experiment: int, instance: int) -> list[Entry]:
    """Return the arms that an instance met lately, in order."""
    rows = store.run(
        "SELECT * FROM events WHERE experiment = ? AND instance = ? ORDER BY number DESC LIMIT ?",
        (experiment, instance, EVENTS_READ),
    )
    events = [Event(*row) for row in reversed(rows)]
    names = [event.decision for event in events if event.kind == DECIDED and event.decision]
    decisions = {found.id: found for found in store.decisions(experiment, names[-MOST_SHOWN:])}
    entries = [entry for event in events if (entry := _enter(event, decisions)) is not None]
    return entries[-MOST_SHOWN:]


def _enter(event: Event, decisions: dict[str, Decision]) -> Entry | None:
    if event.arm is None:
        return None
    if event.kind == EXPOSED:
        return Entry(event.number, event.when(), event.arm, EXPOSED)
    if event.kind != DECIDED:
        return None
    decision = decisions.get(event.decision or "")
    if decision is None:
        return None
    eligible = event.read().get("eligible")
    return Entry(
        event.number,
        event.when(),
        event.arm,
        decision.status,
        decision.loss,
        decision.expected_loss,
        decision.probability,
        decision.group,
        decision.id,
        None if eligible is None else tuple(eligible),
        decision.model,
        decision.proposed,
    )


class Expected(NamedTuple):
    """What an arm would cost now."""

    arm: int
    name: str
    mean: float
    low: float
    high: float
    deviation: float | None


def order_arms(explained: dict[str, Any], boldness: float = 1.0) -> list[Expected]:
    """Return what each arm would cost now, the least first, and bounds so many deviations away."""
    means, deviations = explained["expected_losses"], explained["deviations"] or {}
    if means is None:
        return []
    rows = []
    for arm, name in enumerate(explained["arms"]):
        mean, deviation = means[name], deviations.get(name)
        spread = boldness * (deviation or 0.0)
        rows.append(Expected(arm, name, mean, mean - spread, mean + spread, deviation))
    return sorted(rows, key=lambda row: row.mean)


def explain_choice(entry: Entry, described: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return why an instance got an arm, in sentences."""
    settings = described["settings"]
    sentences = []
    if entry.proposed is not None:
        agreed = "the same" if entry.proposed == entry.arm else f"“{names[entry.proposed]}”"
        sentences.append(
            f"Shadow mode: “{names[entry.arm]}” was the caller's own choice; the policy would have "
            f"chosen {agreed}."
        )
    if entry.group == "control":
        words = describe_policy(settings["control"])
        sentences.append(f"It is in the control group, which {words.name} serves. {words.rule}")
    else:
        models = {model["version"]: model["policy"] for model in described["models"]}
        given = models.get(entry.model, settings["policy"])
        words = describe_policy(given, shared=settings["state"] == "shared")
        model = f", model {entry.model}" if entry.model else ""
        sentences.append(f"It is in the group of the policy, {words.name}{model}. {words.rule}")
    if entry.eligible is not None:
        some = ", ".join(f"“{names[arm]}”" for arm in entry.eligible[:8])
        more = f" and {len(entry.eligible) - 8} more" if len(entry.eligible) > 8 else ""
        sentences.append(f"Eligible were {some}{more}.")
    else:
        sentences.append("All arms in use were eligible.")
    if entry.expected_loss is not None:
        sentences.append(f"A loss of {write_number(entry.expected_loss)} was expected of it then.")
    if entry.probability == 1.0:
        sentences.append("No chance was involved: with the same past it would be chosen again.")
    elif entry.probability is not None:
        sentences.append(
            f"Chance was involved: it had a probability of {write_share(entry.probability)}."
        )
    elif entry.proposed is None:
        sentences.append("The policy draws at random and does not tell with which probability.")
    return sentences


def draw_timeline(entries: Sequence[Entry], names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of the charts: places, arms, losses, and losses expected then."""
    return {
        "timeline": {
            "names": list(names),
            "columns": [
                list(range(1 - len(entries), 1)),
                [entry.arm for entry in entries],
                [entry.loss for entry in entries],
                [entry.expected_loss for entry in entries],
            ],
        }
    }
