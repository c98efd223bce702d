"""Agent files that were changed: refused, or played with checked indices."""

import json
from dataclasses import dataclass

import pytest

import influential_bandits as ib


@dataclass(frozen=True)
class Trusting(ib.Policy):
    """Uses a number of its state as an index, and says nothing about what it may be."""

    def fields(self, arms):
        return {"next": ("int64", 1), "order": ("int64", arms)}

    @staticmethod
    def init(c, s):
        for arm in range(c.n_arms):
            s.order[arm] = arm

    @staticmethod
    def select(c, s, t, eligible, rng):
        return s.order[s.next[0]]

    @staticmethod
    def pulled(c, s, t, arm, memo):
        s.order[s.next[0]] = arm
        s.next[0] = (s.next[0] + 1) % c.n_arms


def test_indices_of_an_agent_from_data_or_a_file_without_a_checksum_are_checked(tmp_path):
    data, path = ib.Agent(Trusting(), 3).to_json(), tmp_path / "agent.json"
    assert ib.Agent.from_json(data, Trusting()).pull().arm == 0
    data["state"]["next"] = [str(10**9)]
    path.write_text(json.dumps(data))
    for agent in (ib.Agent.from_json(data, Trusting()), ib.Agent.load(path, Trusting())):
        for hook, arm in (("select", None), ("pulled", 0)):
            message = rf"Trusting failed in {hook}, round 1 .*bounds"
            with pytest.raises(ib.errors.InvalidPolicy, match=message):
                agent.pull(arm)
        assert agent.round == 0


def test_a_file_with_its_checksum_plays_the_code_of_new_agents(tmp_path):
    agent, path = ib.Agent(Trusting(), 3), tmp_path / "agent.json"
    agent.save(path)
    again = ib.Agent.load(path, Trusting())
    assert [again.pull() for _ in range(4)] == [agent.pull() for _ in range(4)]
    assert again._layout.tag is agent._layout.tag
