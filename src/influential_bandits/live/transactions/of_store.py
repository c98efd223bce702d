"""Requests of one batch that concern the store itself: new experiments and keys."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import CREATED
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.keys import Key
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import Settings, require_label
from influential_bandits.live.store.sql import Changes, Store
from influential_bandits.live.transactions.transaction import Transaction


class StoreTransaction:
    """Requests of one batch that concern no experiment that is there."""

    def __init__(
        self, store: Store, changes: Changes, forget: Callable[[str], None] = lambda name: None
    ) -> None:
        self._store, self._changes, self._forget = store, changes, forget

    def create_experiment(self, name: str, settings: Settings, at: float) -> None:
        """Begin an experiment; the same one again is a repeat, and changes nothing."""
        require_label("the name of an experiment", name)
        if "/" in name:
            raise InvalidInput("the name of an experiment must not hold a slash")
        settings.check()
        for there in self._store.experiments():
            if there.name == name:
                if self._settings_at_first(there.id) == settings:
                    return
                raise Refused(
                    409,
                    "experiment_exists",
                    f"there is an experiment {name!r:.80} already, made with other settings",
                )
        row = self._store.add_experiment(name)
        experiment = Experiment(row.id, name)
        Transaction(self._store, experiment, self._changes).create(settings, at)

    def delete_experiment(self, name: str, at: float) -> None:
        """Delete all there is of a closed experiment."""
        self._store.write(self._changes)
        for there in self._store.experiments():
            if there.name == name:
                (row,) = self._store.lock([there.id]).values()
                if Experiment.load(self._store, row).settings.mode != "closed":
                    raise Refused(409, "not_closed", f"close experiment {name!r:.80} first")
                self._store.delete_experiment(row, at)
                self._forget(name)
                return
        raise Refused(404, "unknown_experiment", f"there is no experiment {name!r:.80}")

    def _settings_at_first(self, experiment: int) -> Settings | None:
        """Return the settings with which an experiment began, maybe in this batch."""
        for event in (*self._changes.events, *self._store.events_of_experiment(experiment)):
            if event.experiment == experiment and event.kind == CREATED:
                return msgspec.convert(event.read(), Settings)
        return None

    def add_key(self, key: Key) -> None:
        """Keep a key."""
        self._store.add_key(key)

    def drop_key(self, digest: str) -> None:
        """Forget a key, but not the last one that opens everything: nobody could make another."""
        rulers = [key.digest for key in self._store.keys() if key.rules]  # noqa: SIM118 - no dictionary
        if rulers == [digest]:
            raise Refused(
                409, "last_key", "this is the last admin key of all experiments; make another first"
            )
        self._store.drop_key(digest)

    def write_nothing(self) -> None:
        """Write something and take it back, to see whether the store can be written."""
        probe = Key("probe", "", "reader", None, 0.0)
        self._store.add_key(probe)
        self._store.drop_key(probe.digest)
