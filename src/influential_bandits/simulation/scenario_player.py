"""Runs of a scenario: what is under way, and states that grow when arms arrive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.portable import log
from influential_bandits.numerics.streams import SCENARIO, SESSIONS, key_table
from influential_bandits.policies.compiled import Layout
from influential_bandits.simulation.kernels import (
    CHOSEN_ROUND,
    Runs,
    advance_runs,
    change_arm,
)
from influential_bandits.simulation.scenario import DELAY_LAWS, Scenario
from influential_bandits.simulation.scenario_kernels import (
    GEOMETRIC,
    Clock,
    Course,
    Rules,
    make_flight,
)

if TYPE_CHECKING:
    from influential_bandits.simulation.tasks import Chain, Simulation

MOST_UNDER_WAY = 1 << 26  # losses of a run; about 3 GB
SMALLEST_UNIFORM = 2.0**-53  # of the random streams: a geometric delay is bounded by its logarithm


class ScenarioPlayer:
    """Plays a batch of runs in one world, from call to call.

    Between compiled calls arms come and go: an arrival lays the states out anew, as an agent does.
    """

    def __init__(self, chain: Chain, scenario: Scenario, runs: Runs) -> None:
        simulation, self.chain, self.layout, self.runs = chain.simulation, chain, chain.layout, runs
        self.policy, self.noise = simulation.policy, simulation.noise.source()
        self.world = simulation.instances[0].world
        self.rules = compile_rules(scenario, simulation.horizon)
        self.events = [event for event in scenario.events if event.round <= simulation.horizon]
        self.in_use = np.ones(self.layout.config[0], np.bool_)
        self.clock = make_clock(scenario, simulation) if scenario.has_times else None
        arrivals = sum(not event.retires for event in self.events)
        memo = max(
            self.policy.memo_size(self.layout.config[0] + more) for more in range(arrivals + 1)
        )
        keys = key_table(simulation.seeds, np.uint64(simulation.numbers[0]), SCENARIO)
        self.flight = make_flight(keys, count_places(self.rules), memo)

    def play(self, first: int, last: int, fault: Ints) -> None:
        """Play rounds ``first`` … ``last`` of every run."""
        while first <= last and not fault[CHOSEN_ROUND]:
            while self.events and self.events[0].round == first:
                event = self.events.pop(0)
                self._change(event.arm, event.retires)
            stop = min(last, self.events[0].round - 1) if self.events else last
            restricts = self.rules.eligible < 1.0 or not self.in_use.all()
            course = Course(
                self.rules,
                self.flight,
                self.in_use,
                self.in_use.copy(),
                bool(restricts),
                self.layout.memo_size,
            )
            advance_runs(
                self.layout.tag,
                self.layout.config,
                self.layout.arrays(),
                self.world,
                self.noise,
                self.runs,
                self.chain.output,
                self.chain.row,
                first,
                stop,
                fault,
                course,
                self.clock,
            )
            first = stop + 1

    def _change(self, arm: int, retires: bool) -> None:
        if retires:
            self.in_use[arm] = False
        else:
            before = self.layout
            self.layout = Layout(self.policy, arm + 1, checked=before.checked)
            ints, floats = self.layout.lay_out_anew(before, self.runs.ints, self.runs.floats)
            self.runs = self.runs._replace(ints=ints, floats=floats)
            self.in_use = np.append(self.in_use, True)
        tag, config, shared = self.layout.tag, self.layout.config, self.layout.arrays()
        change_arm(tag, config, shared, self.runs, arm, retires)


def make_clock(scenario: Scenario, simulation: Simulation) -> Clock:
    """Return the times of a scenario as compiled code sees them."""
    half_life = simulation.instances[0].half_life
    return Clock(
        times=np.array(scenario.times if scenario.times is not None else (), np.float64),
        session=scenario.session or 1,
        geometric=scenario.session_law == "geometric",
        gap=float(scenario.gap),
        pause=float(scenario.pause),
        half_life=math.inf if half_life is None else half_life,
        keys=key_table(simulation.seeds, np.uint64(simulation.numbers[0]), SESSIONS),
    )


def compile_rules(scenario: Scenario, horizon: int) -> Rules:
    """Return a scenario as compiled code sees it."""
    delay = scenario.delay
    return Rules(
        law=DELAY_LAWS.index(scenario.delay_law),
        delay=delay,
        log_ratio=float(log(delay / (delay + 1.0))) if delay else -math.inf,
        batch=scenario.batch,
        eligible=scenario.eligible,
        horizon=horizon,
    )


def count_places(rules: Rules) -> int:
    """Return how many losses can be under way at once; none is kept beyond the horizon."""
    longest = rules.delay
    if rules.law == GEOMETRIC and rules.delay:
        longest = 1 + int(math.log(SMALLEST_UNIFORM) / rules.log_ratio)
    most = min(longest + rules.batch, rules.horizon)
    if most > MOST_UNDER_WAY:
        raise InvalidInput(
            f"up to {most:,} losses would be under way at once, more than the {MOST_UNDER_WAY:,} "
            "there is room for; take a shorter delay or batch"
        )
    return most
