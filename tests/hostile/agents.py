"""Agent files of every policy, spoilt, then loaded and played."""

import json

import influential_bandits as ib
from hostile.judging import OTHER, RAW, demand, prepared, tell
from hostile.mutating import differs, mutate_json, mutate_numbers
from influential_bandits.policies.naming import known_policies

ARMS = 3
WORLD = ib.Instance([[0.3, -0.1, 0.0], [-0.1, 0.2, 0.0], [0.0, 0.0, 0.1]], [0.5, 0.4, 0.6])
POLICIES = sorted(
    name
    for name, code in known_policies().items()
    if code.__module__.startswith("influential_bandits.") and code.select is not ib.Policy.select
)


def told(policy):
    """What an oracle has to be told."""
    every = {"instance": WORLD, "horizon": 1000}
    return {name: every[name] for name in policy.privileged}


@prepared
def policy_named(name):
    """Return a policy whose functions are all compiled."""
    policy = known_policies()[name]()
    agent = ib.Agent(policy, ARMS, **told(policy))
    agent.observe(agent.pull(), 0.5)
    agent.select([True, False, True])
    if not policy.privileged:
        agent.add_arm()
    agent.retire_arm(0)
    return policy


def play(draw, home):
    """Load and play a spoilt file: whatever was loaded is what the file says, and plays on."""
    name = draw.choice(POLICIES)
    policy = policy_named(name)
    agent = ib.Agent(policy, ARMS, seed=draw.choice((0, 2**64 - 1)), **told(policy))
    tickets = []
    for _ in range(draw.choice((0, 1, 12, 12, 40))):
        tickets.append(agent.pull())
        if draw.random() < 0.8:
            agent.observe(tickets.pop(draw.randrange(len(tickets))), draw.gauss(0.5, 0.3))
    if draw.random() < 0.3:
        agent.retire_arm(draw.randrange(ARMS))
    data = agent.to_json()
    if data["state"] and draw.random() < 0.7:  # numbers where numbers belong pass for good ones
        data["state"], said = mutate_numbers(draw, data["state"])
    else:
        data, said = mutate_json(draw, data)
    tell(f"{name} after {agent.round} rounds: {said}")
    path = home / "agent.json"
    path.write_text(json.dumps(data))
    agent = ib.Agent.load(path, policy, **told(policy))
    where = differs(_plain(agent.to_json()), _plain(data))
    demand(where is None, OTHER, f"loaded, but not as the file says: {where}")
    play_on(draw, agent, 30)
    agent.save(path)
    ib.Agent.load(path, policy, **told(policy))


def _plain(data):
    """The order of what is retired means nothing, nor does naming it twice."""
    return data | {"retired": sorted(set(data["retired"]))}


def play_on(draw, agent, rounds):
    """Play some rounds, with late losses, arms that are not on offer, come and go."""
    waiting = list(agent.pending.values())
    for n in range(rounds):
        eligible = None
        if draw.random() < 0.2:
            eligible = [arm not in agent.retired for arm in range(agent.arms)]
        ticket = agent.pull(eligible=eligible)
        demand(0 <= ticket.arm < agent.arms, RAW, f"chose arm {ticket.arm}")
        waiting.append(ticket)
        while waiting and draw.random() < 0.6:
            agent.observe(waiting.pop(draw.randrange(len(waiting))), draw.gauss(0.5, 0.3))
        if n == 20 and not agent.policy.privileged:
            agent.add_arm()
