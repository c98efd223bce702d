"""Whether a policy keeps the contract: the rules that every policy of this package is held to."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from influential_bandits.checks import LARGEST_LOSS, whole_number
from influential_bandits.errors import InfluentialBanditsError, InvalidInput, InvalidPolicy
from influential_bandits.policies.agent import Agent, Ticket
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import take_policy
from influential_bandits.simulation.engine import simulate
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.world.environment import Environment
from influential_bandits.world.generators import random_instance
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise

__all__ = ["check_policy"]

SESSIONS = Scenario(session=5, gap=600, pause=43_200)  # when rounds are, if a policy must be told
Step = tuple[str, Any]  # what an agent does next, and which arm, arms or ticket it concerns


def check_policy(
    policy: Policy | str,
    *,
    n_arms: Iterable[int] = (1, 2, 3),
    rounds: int = 40,
    seed: int = 0,
    check: bool = True,
) -> None:
    """Print what a policy was seen to do; raise InvalidPolicy if it breaks the contract.

    It compiles; it chooses arms on offer only, and chooses without changing its state; equal seeds
    make equal choices, in :func:`simulate` and as an :class:`Agent`; it takes losses late, out of
    order and of any size; time may pass between rounds; arms may come and go; after every update
    its state can be saved and read back. An index out of range is found.

    Parameters
    ----------
    policy : Policy or str
        A text is as on the command line: ``"mine.py:Greedy"``.
    n_arms : iterable of int
        Numbers of arms to try.
    rounds : int
        How long to play each time; choose more where the policy does something else later on.
    seed : int
        Of what is drawn: the instances, the choices and the order of losses.
    check : bool
        Check indices, for which all is compiled once more. False leaves that out.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import influential_bandits as ib
    >>> @dataclass(frozen=True)
    ... class Stubborn(ib.Policy):
    ...     @staticmethod
    ...     def select(c, s, t, eligible, rng):
    ...         return 0
    >>> ib.testing.check_policy("Uniform", n_arms=[2], rounds=5)
    Uniform keeps the contract. With 2 arms, 5 rounds at a time and indices checked, it was seen to
    - play in simulate with any number of arms
    - make equal choices for equal seeds
    - choose as an Agent what it chooses in simulate
    - choose among the eligible arms
    - only read in select
    - take losses late and in any order
    - go on when arms come and go
    - take losses of every size
    - be the same after it was saved and read
    >>> ib.testing.check_policy(Stubborn())
    Traceback (most recent call last):
    influential_bandits.errors.InvalidPolicy: Stubborn must choose among the eligible arms: ...
    """
    policy = take_policy(policy)
    rounds = whole_number("rounds", rounds, 1, 2**31)
    seed = whole_number("seed", seed)
    _check_configuration(policy)
    trials = [
        _Trial(policy, whole_number("n_arms", many, 1), rounds, seed, check) for many in n_arms
    ]
    if not trials:
        raise InvalidInput("n_arms names no number of arms; give one at least, such as [2]")
    rules = {
        rule: hold_to
        for rule, hold_to in RULES.items()
        if hold_to is not _check_arrivals or not policy.privileged  # an oracle knows all arms
    }
    for rule, hold_to in rules.items():
        for trial in trials:
            try:
                hold_to(trial)
            except (_Broken, InfluentialBanditsError) as broken:
                raise InvalidPolicy(
                    f"{trial.name} must {rule}: {broken} (n_arms={trial.n_arms}, seed={seed})"
                ) from broken
    *first, last = [str(trial.n_arms) for trial in trials]
    arms = f"{', '.join(first)} and {last}" if first else last
    print(
        f"{policy.label} keeps the contract. With {arms} arm{'s' * (arms != '1')}, {rounds} rounds "
        f"at a time{' and indices checked' * check}, it was seen to",
        *rules,
        sep="\n- ",
    )


class _Broken(Exception):
    """What a policy did instead of what a rule demands."""


@dataclasses.dataclass(frozen=True)
class _Trial:
    """A policy on trial with a number of arms."""

    policy: Policy
    n_arms: int
    rounds: int
    seed: int
    check: bool

    @property
    def name(self) -> str:
        return type(self.policy).__name__

    @cached_property
    def instance(self) -> Instance:
        return random_instance(n_arms=self.n_arms, seed=self.seed)

    @property
    def knowledge(self) -> dict[str, Any]:
        """What an oracle's agent is given besides the number of arms."""
        if not self.policy.privileged:
            return {}
        return {"instance": self.instance, "horizon": self.rounds}

    def agent(self) -> Agent:
        return Agent(self.policy, self.n_arms, self.seed, check=self.check, **self.knowledge)

    def resume(self, agent: Agent) -> Agent:
        """Return the agent as it comes back from its file."""
        text = json.dumps(agent.to_json(), allow_nan=False)
        return Agent.from_json(json.loads(text), self.policy, check=self.check, **self.knowledge)

    def play(self) -> list[int]:
        """Return the arms that the engine plays."""
        run = simulate(
            self.instance,
            self.policy,
            self.rounds,
            GaussianNoise(1.0),
            [self.seed],
            record="choices",
            progress=False,
            scenario=SESSIONS if self.policy.by_clock else None,
            check=self.check,
        )
        return [] if run.choices is None else [int(arm) for arm in run.choices[0, 0]]


def loss_of(ticket: Ticket) -> float:
    """Return a loss that is a function of the ticket, so that it can be told again."""
    return 3.0 * math.sin(12.9898 * ticket.round + 78.233 * ticket.arm)


def time_of(agent: Agent) -> float | None:
    """Return when the next round is, where the policy must be told: as in ``SESSIONS``."""
    if not agent.policy.by_clock:
        return None
    return float(SESSIONS.when(agent.round + 1)[-1])


def everything(agent: Agent) -> tuple[Any, ...]:
    """Return all that an agent is, as bytes."""
    state = {name: values.tobytes() for name, values in agent.state.items()}
    return state, agent.round, agent.time, dict(agent.pending), agent.n_arms, set(agent.retired)


def draw_steps(n_arms: int, updates: int, seed: int, *, grows: bool) -> list[Step]:
    """Return updates of every kind: arms are chosen, forced, come and go; losses come in."""
    draw = random.Random(seed)
    kinds = ["select", "select", "offer", "offer", "force", "observe", "observe", "retire"]
    steps: list[Step] = []
    pending, in_use = 0, list(range(n_arms))
    while len(steps) < updates:
        kind = draw.choice([*kinds, "add"] if grows else kinds)
        detail: Any = draw.choice(in_use)
        if kind == "observe":
            if pending == 0:
                continue
            detail = draw.randrange(pending)
        elif kind == "retire":
            if len(in_use) < 2 or draw.random() < 0.5:
                continue
            in_use.remove(detail)
        elif kind == "add":
            in_use.append(n_arms)
            n_arms += 1
        elif kind == "offer":
            detail = [arm == detail or draw.random() < 0.5 for arm in range(n_arms)]
        steps.append((kind, detail))
        pending += {"observe": -1, "retire": 0, "add": 0}.get(kind, 1)
    return steps


def follow(agent: Agent, steps: Iterable[Step]) -> list[Ticket]:
    """Let an agent do the steps; return the tickets of its pulls."""
    tickets = []
    for kind, detail in steps:
        if kind == "add":
            agent.add_arm()
        elif kind == "retire":
            agent.retire_arm(detail)
        elif kind == "observe":
            ticket = agent.pending[sorted(agent.pending)[detail]]
            agent.observe(ticket, loss_of(ticket))
        elif kind == "offer":
            tickets.append(agent.pull(eligible=detail, at=time_of(agent)))
        else:
            tickets.append(agent.pull(detail if kind == "force" else None, at=time_of(agent)))
    return tickets


def _check_configuration(policy: Policy) -> None:
    name = type(policy).__name__
    twin = dataclasses.replace(policy)
    try:
        same = twin == policy and hash(twin) == hash(policy)
    except TypeError as error:
        raise InvalidPolicy(f"{name} must be a frozen dataclass of numbers: {error}") from None
    if not same:
        raise InvalidPolicy(f"{name} must equal another one of the same settings, and hash alike")


def _check_it_plays(trial: _Trial) -> None:
    trial.play()


def _check_seeds(trial: _Trial) -> None:
    first, second = trial.play(), trial.play()
    for t, (arm, other) in enumerate(zip(first, second, strict=True), 1):
        if arm != other:
            raise _Broken(f"round {t} saw arm {arm}, and then arm {other}")


def _check_engine_and_agent(trial: _Trial) -> None:
    agent = trial.agent()
    environment = Environment(trial.instance, GaussianNoise(1.0), trial.seed)
    for arm in trial.play():
        ticket = agent.pull(at=time_of(agent))
        if ticket.arm != arm:
            raise _Broken(f"in round {ticket.round} simulate took arm {arm}, Agent {ticket.arm}")
        agent.observe(ticket, environment.pull(ticket.arm))


def _check_offers(trial: _Trial) -> None:
    draw, agent, n_arms = random.Random(trial.seed), trial.agent(), trial.n_arms
    everyone = np.ones(n_arms, bool)
    for _ in range(trial.rounds):
        if agent.select() != agent.select(everyone):
            raise _Broken(f"round {agent.round + 1}: eligible=None, and all arms, differ")
        single = draw.randrange(n_arms)
        agent.select(np.arange(n_arms) == single)
        mask = [arm == single or draw.random() < 0.3 for arm in range(n_arms)]
        ticket = agent.pull(eligible=mask, at=time_of(agent))
        agent.observe(ticket, loss_of(ticket))


def _check_select_reads(trial: _Trial) -> None:
    agent = trial.agent()
    mask = np.arange(trial.n_arms) >= trial.n_arms // 2
    for step in draw_steps(trial.n_arms, trial.rounds, trial.seed, grows=False):
        follow(agent, [step])
        offered = np.isin(np.arange(trial.n_arms), list(agent.retired), invert=True)
        before, choice = everything(agent), agent.select()
        if (mask & offered).any():
            agent.select(mask)
        if everything(agent) != before or agent.select() != choice:
            raise _Broken(f"the state after round {agent.round} was changed by select")


def _check_late_losses(trial: _Trial) -> None:
    for order in ("in order", "backwards", "shuffled", "never"):
        agent = trial.agent()
        tickets = [agent.pull(at=time_of(agent)) for _ in range(trial.rounds // 2 + 1)]
        if order == "backwards":
            tickets.reverse()
        elif order == "shuffled":
            random.Random(trial.seed).shuffle(tickets)
        elif order == "never":
            tickets = []
        for ticket in tickets:
            agent.observe(ticket, loss_of(ticket))
            agent.select()
        for _ in range(trial.rounds // 2):
            ticket = agent.pull(at=time_of(agent))
            agent.observe(ticket, loss_of(ticket))


def _check_large_losses(trial: _Trial) -> None:
    agent = trial.agent()
    for n in range(trial.rounds):
        ticket = agent.pull(at=time_of(agent))
        agent.observe(ticket, LARGEST_LOSS if n % 2 else -LARGEST_LOSS)
    trial.resume(agent).select()


def _check_files(trial: _Trial) -> None:
    """After every update the agent is saved and read, and plays on like one that never was."""
    grows = not trial.policy.privileged
    for seed in (trial.seed, trial.seed + 1):
        original = resume = trial.agent()
        for step in draw_steps(trial.n_arms, 2 * trial.rounds, seed, grows=grows):
            resume = trial.resume(resume)
            if follow(resume, [step]) != follow(original, [step]):
                raise _Broken(f"read back in round {original.round}, it chose another arm")
            if everything(resume) != everything(original):
                raise _Broken(f"read back before {step[0]!r}, its state went another way")


def _check_arrivals(trial: _Trial) -> None:
    """An arm that has come is chosen in the end, if it is the only one on offer at least."""
    agent = trial.agent()
    follow(agent, [("select", None)] * (trial.rounds // 2))
    new = agent.add_arm()
    agent.retire_arm(0)
    for _ in range(trial.rounds // 2):
        ticket = agent.pull(at=time_of(agent))
        agent.observe(ticket, loss_of(ticket))
    agent.select(np.arange(agent.n_arms) == new)


RULES: dict[str, Callable[[_Trial], None]] = {
    "play in simulate with any number of arms": _check_it_plays,
    "make equal choices for equal seeds": _check_seeds,
    "choose as an Agent what it chooses in simulate": _check_engine_and_agent,
    "choose among the eligible arms": _check_offers,
    "only read in select": _check_select_reads,
    "take losses late and in any order": _check_late_losses,
    "go on when arms come and go": _check_arrivals,
    "take losses of every size": _check_large_losses,
    "be the same after it was saved and read": _check_files,
}
