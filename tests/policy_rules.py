"""Policies against slow rules over the full history, choice by choice, also with late losses."""

import random
from typing import NamedTuple

import numpy as np

import influential_bandits as ib


class Arrival(NamedTuple):
    """A loss that has come in: of which pull, and how many pulls there were by then."""

    round: int
    arm: int
    loss: float
    now: int


def assert_follows(policy, rule, *, arms, losses, seed=0, latest=0):
    """Every choice of an agent is that of ``rule(pulls, arrivals, t)``.

    ``losses[t - 1][arm]`` is what a pull in round t shows, up to ``latest`` rounds later.
    """
    agent, draw = ib.Agent(policy, arms, seed), random.Random(seed)
    pulls, arrivals, waiting = [], [], []
    for t, row in enumerate(losses, 1):
        expected = rule(pulls, arrivals, t)
        ticket = agent.pull()
        assert ticket.arm == expected, f"round {t}: {ticket.arm} instead of {expected}"
        pulls.append(ticket.arm)
        waiting.append((t + draw.randint(0, latest), ticket, row[ticket.arm]))
        for late in [entry for entry in waiting if entry[0] <= t]:
            waiting.remove(late)
            agent.observe(late[1], late[2])
            arrivals.append(Arrival(late[1].round, late[1].arm, late[2], t))
    return pulls


def random_losses(rounds, arms, seed, spread=0.5):
    """Normal losses around means that drift, so that no policy settles."""
    draw = np.random.default_rng(seed)
    means = draw.normal(0.5, spread, arms) + np.cumsum(draw.normal(0, 0.05, (rounds, arms)), 0)
    return (means + draw.normal(0, 0.3, (rounds, arms))).tolist()


def losses_of(arrivals, arms):
    """The losses of each arm, in order of arrival."""
    return [[a.loss for a in arrivals if a.arm == arm] for arm in range(arms)]


def unseen_first(seen, pulls, index):
    """The arm of the smallest index; first those without an observation, the least pulled."""
    arms = range(len(seen))
    unseen = [arm for arm in arms if not seen[arm]]
    if unseen:
        return min(unseen, key=lambda arm: (pulls.count(arm), arm))
    return min(arms, key=lambda arm: (index(arm), arm))
