"""Agent files changed in every way: run as a script, in a process that may die or hang.

``python agent_mutations.py CASES SEED`` plays CASES changed files of every policy; it prints a
line before each case, so that the last line names what killed it, and a summary in the end.
"""

import copy
import faulthandler
import json
import random
import sys
from collections import Counter

import influential_bandits as ib

SECONDS = 20  # of a case, compilation included
WHOLE = [-1, 0, 1, 2, 3, 4, 5, 60, 63, 64, 2**31, 2**52, 2**53, 2**62, 2**63 - 1, -(2**63), 10**30]
REAL = [-1.0, 0.0, 0.5, 1e6, 1e99, 1e308, -1e308, 5e-324, -1e-300, 10**400]
OTHER = [None, True, "x", "1.5", "NaN", [], [[1]], {}, "", "9" * 5000, "-0", " 1", float("nan")]


def places(data, path=()):
    """Every place in JSON data, as a path of keys."""
    yield path
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[key], (*path, key))


def at(data, path):
    for key in path:
        data = data[key]
    return data


def changed(data, draw):
    """The data with one or two changes, and what they are."""
    data = copy.deepcopy(data)
    told = []
    for _ in range(draw.choice([1, 1, 1, 2])):
        spots = [p for p in places(data) if p and p[0] not in ("format", "policy")]
        state = [p for p in spots if p[0] in ("state", "pending", "round") and len(p) > 1]
        path = draw.choice(state if state and draw.random() < 0.8 else spots)
        owner, key = at(data, path[:-1]), path[-1]
        value = owner[key]
        kind = draw.choice(["value", "value", "value", "value", "drop", "twice", "swap"])
        if kind == "drop":
            del owner[key]
        elif kind == "twice" and isinstance(owner, list):
            owner.append(value)
        elif kind == "swap" and isinstance(owner, list):
            other = draw.randrange(len(owner))
            owner[key], owner[other] = owner[other], value
        elif draw.random() < 0.1:
            owner[key] = draw.choice(OTHER)
        elif isinstance(value, str):
            owner[key] = str(draw.choice(WHOLE))
        else:
            owner[key] = draw.choice(WHOLE if isinstance(value, int) else REAL)
        told.append(f"{path} {kind} {str(owner)[:60] if kind == 'drop' else ''}")
    return data, told


def saved(policy, arms, told):
    """An agent file with losses under way, and an arm that came and one that went."""
    agent = ib.Agent(policy, arms, **told)
    for t in range(25):
        ticket = agent.pull()
        if t % 4:
            agent.observe(ticket, (t * 7 % 5) / 3)
    if not told:
        agent.add_arm()
        agent.retire_arm(0)
        agent.observe(agent.pull(), 0.5)
    return json.loads(json.dumps(agent.to_json()))


def play(agent):
    """Twenty rounds, with every loss under way."""
    for ticket in list(agent.pending.values()):
        agent.observe(ticket, 0.25)
    for t in range(20):
        agent.observe(agent.pull(), (t * 3 % 7) / 2)
    if not agent.policy.privileged:
        agent.add_arm()
        agent.observe(agent.pull(), 0.5)
    agent.to_json()


def main(cases, seed, policies):
    outcomes = Counter()
    for policy in policies:
        arms = 3 if policy.privileged else 2
        told = {}
        if policy.privileged:
            told = {"instance": ib.random_instance(n_arms=3, seed=0), "horizon": 60}
        for size in [arms] if policy.privileged else [arms, 34]:
            data, draw = saved(policy, size, told), random.Random(f"{seed} {policy} {size}")
            for _ in range(cases if size == arms else cases // 4):
                wrong, what = changed(data, draw)
                print(f"{policy} {size} {what}", flush=True)
                faulthandler.dump_traceback_later(SECONDS, exit=True)
                try:
                    agent = ib.Agent.from_json(wrong, policy, **told)
                except ib.errors.InfluentialBanditsError:
                    outcomes["refused"] += 1
                else:
                    play(agent)
                    outcomes["played on"] += 1
                faulthandler.cancel_dump_traceback_later()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    from policy_list import POLICIES

    main(int(sys.argv[1]), int(sys.argv[2]), POLICIES)
