"""Experiments from a store: a fleet of many users or events is computed beside the service.

The writer serves all experiments by one thread. What takes long is therefore done by another one,
over a connection of its own; until it is done, requests for this experiment are told to come later.
"""

from __future__ import annotations

import logging
import threading
from itertools import islice

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import Event
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.store.sql import Connection, ExperimentRow, Snapshot, Store

log = logging.getLogger("influential_bandits.live")

MOST_AT_ONCE = 10_000  # users and events of a fleet that requests may wait for
EVENTS_AT_A_TIME = 512


class Loader:
    """Loads the experiments of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads: dict[str, threading.Thread] = {}
        self._done: dict[str, Experiment] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a fleet is being computed."""
        return any(thread.is_alive() for thread in list(self._threads.values()))

    def load(self, row: ExperimentRow) -> Experiment | None:
        """Return an experiment as of its latest event; None while it is computed aside."""
        thread = self._threads.get(row.name)
        if thread is not None and thread.is_alive():
            return None
        self._threads.pop(row.name, None)
        loaded = self._done.pop(row.name, None)
        if loaded is not None:
            loaded.store = self._store
        elif count_steps(self._store, row) <= MOST_AT_ONCE:
            loaded = load_experiment(self._store, row)
        if loaded is not None and row.events - loaded.applied <= MOST_AT_ONCE:
            catch_up(self._store, loaded, row)
            return loaded
        thread = threading.Thread(target=self._load_aside, args=(row, loaded), daemon=True)
        self._threads[row.name] = thread
        thread.start()
        return None

    def _load_aside(self, row: ExperimentRow, loaded: Experiment | None) -> None:
        try:
            with self._store.open_reader() as reader:
                if loaded is None:
                    loaded = load_experiment(reader, row)
                loaded.store = reader
                catch_up(reader, loaded, row)
        except InfluentialBanditsError as error:  # the next request begins anew
            log.warning("%s could not be loaded: %s", row.name, error)
            return
        self._done[row.name] = loaded


def count_steps(store: Connection, row: ExperimentRow) -> int:
    """Return how many users and events of a fleet are to be read; 0 of what is read when needed."""
    experiment, snapshot = _find_beginning(store, row)
    if experiment.settings.state != "shared":
        return 0
    return row.instances + row.events - (0 if snapshot is None else snapshot.number)


def load_experiment(store: Connection, row: ExperimentRow) -> Experiment:
    """Read an experiment; of a fleet, the latest snapshot if it fits, and nothing if not."""
    experiment, snapshot = _find_beginning(store, row)
    if experiment.settings.state != "shared":
        experiment.applied = row.events
        return experiment
    if snapshot is not None and experiment.shared is not None:
        users = store.states_of_users(row.id, snapshot.fingerprint)
        if experiment.shared.unpack(snapshot.state, users):
            experiment.applied = snapshot.number
            experiment.snapshot_bytes = len(snapshot.state)
            return experiment
    return Experiment(row.id, row.name, store)


def _find_beginning(store: Connection, row: ExperimentRow) -> tuple[Experiment, Snapshot | None]:
    """Return an experiment as it was at the latest snapshot of its fleet, and this if it fits."""
    for snapshot in store.snapshots(row.id, [0]):
        experiment = Experiment.load(store, row, until=snapshot.number)
        if snapshot.fingerprint == experiment.fingerprint("policy"):
            return experiment, snapshot
    return Experiment.load(store, row), None


def catch_up(store: Connection, experiment: Experiment, row: ExperimentRow) -> None:
    """Apply what was written since: by another service, or before this one started."""
    is_fleet = experiment.settings.state == "shared" or experiment.applied == 0
    if experiment.applied < row.events:
        events = store.events_after(row.id, experiment.applied)
        while some := list(islice(events, EVENTS_AT_A_TIME)):
            _apply(store, experiment, some, is_fleet)
    experiment.applied = max(experiment.applied, row.events)
    experiment.instances = row.instances


def _apply(store: Connection, experiment: Experiment, events: list[Event], is_fleet: bool) -> None:
    if is_fleet:
        members = experiment.members
        missing = {e.instance for e in events if e.instance and e.instance not in members}
        for row in store.instances_by("number", experiment.number, missing):
            experiment.admit(row.number, row.label, row.group)
    for event in events:
        difference = experiment.apply(experiment.members.get(event.instance), event)
        if difference is not None:
            log.error("%s: %s", experiment.name, difference)
