"""Agent files of every policy, spoilt, then loaded and played."""

import json

import influential_bandits as ib
from hostile.judging import LOST, OTHER, RAW, Failed, demand, prepared, tell
from hostile.mutating import differs, mutate_json, mutate_numbers
from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.policies.registry import known_policies

ARMS = 3
WORLD = ib.Instance([[0.3, -0.1, 0.0], [-0.1, 0.2, 0.0], [0.0, 0.0, 0.1]], [0.5, 0.4, 0.6])
POLICIES = sorted(
    name
    for name, code in known_policies().items()
    if code.__module__.startswith("influential_bandits.") and code.select is not ib.Policy.select
)


def privileges(policy):
    """What an oracle has to be told."""
    every = {"instance": WORLD, "horizon": 1000}
    return {name: every[name] for name in policy.privileged}


@prepared
def policy_named(name):
    """Return a policy whose functions are all compiled."""
    policy = known_policies()[name]()
    for check in (False, True):  # spoilt files have no checksum, and play with checked indices
        agent = ib.Agent(policy, ARMS, check=check, **privileges(policy))
        agent.observe(agent.pull(), 0.5)
        agent.select([True, False, True])
        if not policy.privileged:
            agent.add_arm()
        agent.retire_arm(0)
    return policy


def played(draw, policy):
    """Return an agent after some rounds, with losses that are late and perhaps a retired arm."""
    agent = ib.Agent(policy, ARMS, seed=draw.choice((0, 2**64 - 1)), **privileges(policy))
    tickets = []
    for _ in range(draw.choice((0, 1, 12, 12, 40))):
        tickets.append(agent.pull())
        if draw.random() < 0.8:
            agent.observe(tickets.pop(draw.randrange(len(tickets))), draw.gauss(0.5, 0.3))
    if draw.random() < 0.3:
        agent.retire_arm(draw.randrange(ARMS))
    return agent


def play(draw, home):
    """Load and play a spoilt file: whatever was loaded is what the file says, and plays on."""
    name = draw.choice(POLICIES)
    policy = policy_named(name)
    agent = played(draw, policy)
    kind = draw.random()
    if kind > 0.9:
        tell(f"{name} after {agent.round} rounds and more: a good file")
        play_on(draw, agent, draw.choice((1, 30, 300)))
        require_same(agent, home / "agent.json")
        return
    data = agent.to_json()
    if data["state"] and kind < 0.5:  # numbers where numbers belong pass for good ones
        data["state"], said = mutate_numbers(draw, data["state"])
    elif data["state"] and kind < 0.7:  # parts of two good states, which do not fit each other
        other = played(draw, policy).to_json()
        names = draw.sample(sorted(data["state"]), draw.randint(1, len(data["state"])))
        data["state"] |= {name: other["state"][name] for name in names}
        data |= {key: other[key] for key in draw.sample(("round", "retired", "pending"), 1)}
        said = f"{', '.join(names)} of another one after {other['round']} rounds"
    else:
        data, said = mutate_json(draw, data)
    tell(f"{name} after {agent.round} rounds: {said}")
    path = home / "agent.json"
    path.write_text(json.dumps(data))
    agent = ib.Agent.load(path, policy, **privileges(policy))
    where = differs(_plain(agent.to_json()), _plain(data))
    demand(where is None, OTHER, f"loaded, but not as the file says: {where}")
    play_on(draw, agent, 30)
    agent.save(path)
    ib.Agent.load(path, policy, **privileges(policy))


def _plain(data):
    """The order of what is retired means nothing, nor does naming it twice."""
    return data | {"retired": sorted(set(data["retired"]))}


def require_same(agent, path):
    """A good file is loaded, and plays like the agent that was saved."""
    try:
        agent.save(path)
        again = ib.Agent.load(path, agent.policy, **privileges(agent.policy))
    except InfluentialBanditsError as error:
        raise Failed(LOST, f"what it learnt cannot be saved and loaded: {error}") from error
    for _ in range(20):
        first, second = agent.pull(), again.pull()
        demand(first == second, OTHER, f"plays {second} instead of {first} when loaded")
        agent.observe(first, 0.5)
        again.observe(second, 0.5)


def play_on(draw, agent, rounds):
    """Play some rounds, with late losses, arms that are not on offer, come and go."""
    waiting = list(agent.pending.values())
    for n in range(rounds):
        eligible = None
        if draw.random() < 0.2:
            eligible = [arm not in agent.retired for arm in range(agent.n_arms)]
        ticket = agent.pull(eligible=eligible)
        demand(0 <= ticket.arm < agent.n_arms, RAW, f"chose arm {ticket.arm}")
        waiting.append(ticket)
        while waiting and draw.random() < 0.6:
            agent.observe(waiting.pop(draw.randrange(len(waiting))), draw.gauss(0.5, 0.3))
        if n == 20 and not agent.policy.privileged:
            agent.add_arm()
