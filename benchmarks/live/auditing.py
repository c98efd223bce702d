"""Compare a store with what its clients were told."""

from collections import Counter
from dataclasses import dataclass

from influential_bandits.live.events import CANCELLED, DECIDED, EXPOSED, OBSERVED, SHOWN
from influential_bandits.live.replay import replay_store
from influential_bandits.live.store.opening import open_to_read


@dataclass(frozen=True)
class Verdict:
    """What an audit has found; all but ``acknowledged`` should be nothing."""

    acknowledged: int
    lost: list
    doubled: list
    wrong: list
    replay: list  # experiments that come out otherwise

    @property
    def clean(self):
        return not (self.lost or self.doubled or self.wrong or self.replay)


def audit(store, record):
    """Read a store and compare it with what its clients were told."""
    lost, doubled, wrong = [], [], list(record.faults)
    with open_to_read(store) as reader:
        for row in reader.experiments():
            events = list(reader.events_after(row.id, 0))
            if [event.number for event in events] != list(range(1, row.events + 1)):
                wrong.append(f"{row.name}: events are not numbered 1 … {row.events}")
            seen = Counter((event.kind, event.decision) for event in events)
            by_key = {(event.kind, event.decision): event for event in events}
            names = {
                name: arm for arm, name in enumerate(events[0].read()["arms"] if events else [])
            }
            for (kind, name), times in seen.items():
                allowed = len(record.exposed.get((row.name, name), "12")) if kind == EXPOSED else 1
                if name is not None and times > allowed:
                    doubled.append((row.name, kind, name))
            told = [
                *((DECIDED, key) for key in record.decided),
                *((OBSERVED, key) for key in record.observed),
                *((SHOWN, key) for key in record.shown),
                *((CANCELLED, key) for key in record.cancelled),
                *((EXPOSED, key) for key in record.exposed),
            ]
            for kind, (experiment, name) in told:
                if experiment == row.name and (kind, name) not in by_key:
                    lost.append((experiment, kind, name))
            for (experiment, name), answer in record.decided.items():
                event = by_key.get((DECIDED, name)) if experiment == row.name else None
                if event is not None:
                    data = event.read()
                    kept = event.number, event.arm, data["p"], data["expected"]
                    said = (
                        answer["number"],
                        names[answer["arm"]],
                        answer["probability"],
                        answer["expected_loss"],
                    )
                    if kept != said:
                        wrong.append(f"{name}: {said} was answered, and {kept} is kept")
            for (experiment, name), loss in record.observed.items():
                event = by_key.get((OBSERVED, name)) if experiment == row.name else None
                if event is not None and event.loss != loss:
                    wrong.append(f"{name}: the loss {loss} was taken, and {event.loss} is kept")
    replay = [str(found) for found in replay_store(store) if found.differences]
    return Verdict(record.acknowledged, lost, doubled, wrong, replay)
