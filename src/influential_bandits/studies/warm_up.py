"""Compile ahead what is needed first, so that nobody waits for it later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from influential_bandits.optima.integer import integer_optimum
from influential_bandits.optima.path import optimal_path
from influential_bandits.policies.agent import Agent
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.fleet.fleet import Fleet
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.simulation.engine import simulate
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.world.environment import Environment
from influential_bandits.world.generators import random_instance
from influential_bandits.world.noise import GaussianNoise


def warm_up(policies: Sequence[Policy] = (LCB(), InfluentialLCB(), Foresight())) -> Iterator[str]:
    """Compile what plays, steps and judges these policies; yield what each step is about to do.

    Code that is on disk already is not compiled again.

    Examples
    --------
    >>> from influential_bandits import Uniform
    >>> list(warm_up([Uniform()]))
    ['optima', 'Uniform: simulations', 'Uniform: agents', 'Uniform: scenarios']
    """
    for label, step in _steps(policies):
        yield label
        step()


def _steps(policies: Sequence[Policy]) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "optima", _judge
    for policy in policies:
        name = type(policy).__name__
        yield f"{name}: simulations", partial(_play, policy, None)
        yield f"{name}: agents", partial(_decide, policy)
        yield f"{name}: scenarios", partial(_play, policy, Scenario(delay=1))
        if isinstance(policy, Foresight):
            yield f"{name}: fleets", partial(_serve_fleet, policy)


def _judge() -> None:
    instance = random_instance(n_arms=3, seed=0)
    run = simulate(instance, LCB(), 30, GaussianNoise(1.0), checkpoints=[10, 30])
    run.regret()
    run.slope(10, 30)
    optimal_path(instance)
    integer_optimum(instance, 30)


def _play(policy: Policy, scenario: Scenario | None) -> None:
    instance = random_instance(n_arms=3, seed=0)
    simulate(instance, policy, 3, GaussianNoise(1.0), progress=False, scenario=scenario)


def _decide(policy: Policy) -> None:
    instance = random_instance(n_arms=3, seed=0)
    agent = Agent(policy, 3, instance=instance, horizon=9)
    world = Environment(instance, GaussianNoise(1.0))
    for _ in range(3):
        ticket = agent.pull()
        agent.observe(ticket, world.pull(ticket.arm))
    agent.select([True, True, False])


def _serve_fleet(policy: Foresight) -> None:
    """Decide, learn and look as the service does for many users with one state."""
    fleet = Fleet(policy, arms=3)
    for at, eligible in enumerate((None, [True, True, False])):
        arm = fleet.select("user", eligible, float(at))
        fleet.expected_losses("user", float(at))
        fleet.observe(fleet.pull("user", arm, at=float(at)), 0.0)
