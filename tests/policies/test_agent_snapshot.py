import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.policies.agent_snapshot import pack_agent, unpack_agent

NAMES = ["tea", "coffee", "milk"]


@pytest.mark.parametrize("policy", [ib.LCB(), ib.InfluentialLCB(), ib.Uniform()])
def test_an_unpacked_agent_goes_on_as_the_first(policy):
    random = np.random.default_rng(1)
    agent = ib.Agent(policy, NAMES, seed=5, instance_number=7)
    for _ in range(30):
        ticket = agent.pull()
        if random.random() < 0.7:
            agent.observe(ticket, random.normal())
    agent.add_arm("water")
    agent.retire_arm("tea")
    copy = unpack_agent(pack_agent(agent), policy, [*NAMES, "water", "wine"], 5, 7)
    assert copy.arm_names == agent.arm_names
    assert copy.pending == agent.pending
    for _ in range(30):
        first, second = agent.pull(), copy.pull()
        assert first == second
        loss = random.normal()
        agent.observe(first, loss)
        copy.observe(second, loss)


def test_what_does_not_fit_is_refused():
    blob = pack_agent(ib.Agent(ib.LCB(), NAMES))
    for wrong in (b"", blob[:10], blob[:-1] + bytes([blob[-1] ^ 1]), b"IBA0" + blob[4:]):
        with pytest.raises(InvalidInput):
            unpack_agent(wrong, ib.LCB(), NAMES)
    with pytest.raises(InvalidInput, match="of another policy, or of other arms"):
        unpack_agent(blob, ib.Uniform(), NAMES)
    with pytest.raises(InvalidInput, match="of another policy, or of other arms"):
        unpack_agent(blob, ib.LCB(), NAMES[:2])
