"""Finite losses up to the largest double: refused at the door, or played, saved and loaded."""

from sys import float_info

import numpy as np

import influential_bandits as ib
from hostile.agents import ARMS, POLICIES, WORLD, policy_named, privileges, require_same
from hostile.judging import LOST, OTHER, demand, prepared, tell
from influential_bandits.errors import InfluentialBanditsError

LARGE = (float_info.max, 1.7e308, 1e308, 1e300, 1e200, 1e160, 1e154, 1e100, 1e30, 1e16)
SMALL = (5e-324, 1e-300, 0.0, -0.0, 0.5, 1.0)


def play(draw, home):
    """Play as an agent, or in the simulator."""
    policy = policy_named(draw.choice(POLICIES))
    (_simulate if draw.random() < 0.3 else _play_agent)(draw, home, policy)


def _size(draw):
    """Half of the time anything, so that whatever bound there is has cases on both sides."""
    return draw.choice((draw.choice(LARGE), 10.0 ** draw.uniform(0, 308)))


def _play_agent(draw, home, policy):
    size = _size(draw)
    losses = draw.choice(
        (
            lambda: draw.choice((size, -size)),
            lambda: size,
            lambda: -size,
            lambda: draw.choice(LARGE + SMALL) * draw.choice((1, -1)),
            lambda: size if draw.random() < 0.1 else draw.gauss(0.5, 0.3),
        )
    )
    agent = ib.Agent(policy, ARMS, **privileges(policy))
    tell(f"{type(policy).__name__}: losses of about {size:g}")
    refused = None
    for _ in range(60):
        ticket, loss = agent.pull(), losses()
        try:
            agent.observe(ticket, loss)
        except InfluentialBanditsError as error:
            refused = error
            demand(ticket.round in agent.pending, LOST, f"{error}; and the ticket is gone")
            agent.observe(ticket, 0.5)
    require_same(agent, home / "agent.json")
    if refused is not None:
        raise refused


@prepared
def _compiled(policy, noise):
    ib.simulate(WORLD, policy, 20, noise(1.0), progress=False)


def _simulate(draw, home, policy):
    noise = draw.choice((ib.GaussianNoise, ib.UniformNoise))
    _compiled(policy, noise)
    size = _size(draw)
    tell(f"{type(policy).__name__}: simulated with {noise.__name__}({size:g})")
    run = ib.simulate(WORLD, policy, 200, noise(size), seeds=[draw.randrange(100)], progress=False)
    demand((run.counts.sum(-1) == run.checkpoints).all(), OTHER, "counts do not sum to the rounds")
    demand(np.isfinite(run.regret()).all(), OTHER, "regret is not finite")
