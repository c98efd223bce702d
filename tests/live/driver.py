"""A small client of the writer itself: requests without HTTP, with a clock that tests move."""

import io

import msgspec
import numpy as np
import pyarrow.parquet as pq

from influential_bandits.live.evidence import GroupTotals
from influential_bandits.live.instances import find_instance, load_alone
from influential_bandits.live.reading import describe_experiment, write_parquet
from influential_bandits.live.replay import replay_experiment
from influential_bandits.live.report import Report
from influential_bandits.live.requests import (
    AddArm,
    ChangeSettings,
    Decide,
    Expose,
    Feedback,
    StageModel,
)
from influential_bandits.live.settings import Settings
from influential_bandits.live.store.opening import open_store, open_to_read
from influential_bandits.live.writer import Writer
from influential_bandits.logs.reading import read_log

NAME = "shop"


class Clock:
    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


class Driver:
    """A writer on a store that can be closed and opened again."""

    def __init__(self, address, settings=None, clock=None, **options):
        self.address, self.options = address, options
        self.clock = Clock() if clock is None else clock
        self.open()
        if settings is not None:
            self.store(lambda work, at: work.create_experiment(NAME, settings, at))

    def open(self):
        self.writer = Writer(open_store(self.address), clock=self.clock, **self.options)

    def close(self):
        self.writer.close()

    def restart(self):
        self.close()
        self.open()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def store(self, act):
        return self.writer.ask("", act)

    def ask(self, act, **names):
        """Return the answer as clients see it."""
        return msgspec.to_builtins(self.writer.ask(NAME, act, **names))

    def decide(self, instance="ann", **rest):
        request = Decide(instance=instance, **rest)
        return self.ask(
            lambda work, at: work.decide(request, at), label=instance, decision=request.decision_id
        )

    def feed_back(self, decision, loss=None, **rest):
        request = Feedback(loss=loss, **rest)
        return self.ask(lambda work, at: work.feed_back(decision, request, at), decision=decision)

    def correct(self, decision, loss):
        request = Feedback(loss=loss)
        return self.ask(lambda work, at: work.correct(decision, request, at), decision=decision)

    def show(self, decision):
        return self.ask(lambda work, at: work.show(decision, at), decision=decision)

    def cancel(self, decision):
        return self.ask(lambda work, at: work.cancel(decision, at), decision=decision)

    def expose(self, instance, *arms, exposure_id=None, at=None):
        request = Expose(instance=instance, arms=list(arms), exposure_id=exposure_id, at=at)
        return self.ask(
            lambda work, at: work.expose(request, at), label=instance, decision=exposure_id
        )

    def change(self, **settings):
        return self.ask(lambda work, at: work.change(ChangeSettings(**settings), at))

    def add_arm(self, name):
        return self.ask(lambda work, at: work.add_arm(AddArm(name=name), at))

    def retire_arm(self, name):
        return self.ask(lambda work, at: work.retire_arm(name, at))

    def stage_model(self, policy):
        return self.ask(lambda work, at: work.stage_model(StageModel(policy=policy), at))

    def activate_model(self, version):
        return self.ask(lambda work, at: work.activate_model(version, at))

    def explain(self, instance):
        """Look as the service does: at the store, or at what is in memory of a fleet.

        A look at the store sees what is in memory, too.
        """
        now, shared = self.clock.now, self.describe()["settings"]["state"] == "shared"
        there = self.read(lambda store: find_instance(store, 1, instance))

        def expect(experiment):
            return experiment.explain(experiment.hold(there), now)

        told = self.writer.look(NAME, self.describe()["events"], expect)
        if not (shared and there.group == "policy"):
            assert self.read(lambda store: expect(load_alone(store, there))) == told
        return told

    def erase(self, instance):
        return self.ask(lambda work, at: work.erase(instance, at), label=instance)

    def describe(self):
        return self.read(lambda store: describe_experiment(store, 1))

    def read_log(self):
        file, names = io.BytesIO(), self.describe()["arms"]
        self.read(lambda store: write_parquet(store, 1, names, file))
        return read_log(pq.read_table(file), time="time", time_unit="s", loss="loss")

    def report(self, span="all"):
        return self.read(lambda store: Report(1, span).make(store, self.clock.now))

    def sweep(self):
        """Let the writer look for losses that are overdue, and wait until it has."""
        self.writer.sweep_soon()
        for _ in range(2):
            self.ask(lambda work, at: None)

    def read(self, question):
        with open_to_read(self.address) as store:
            return question(store)

    def audit(self):
        return self.read(lambda store: replay_experiment(store, store.experiments()[0]))


def make_settings(arms=("tea", "coffee", "milk"), policy="LCB", **rest):
    return Settings(arms=tuple(arms), policy=policy, **rest)


def total_up(n, values):
    """Totals of a group, from the number of each instance's losses and their sums."""
    n, values = np.asarray(n), np.asarray(values, float)
    sums = (values.sum(), values @ values, values @ n, float(n @ n))
    return GroupTotals(int((n > 0).sum()), int(n.sum()), *map(float, sums))
