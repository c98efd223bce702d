"""NUMBA_DISABLE_JIT=1: the same bits from the interpreter, where print and a debugger work."""

import json

import pytest
from cluster_processes import environment
from python_process import run_python

# Everything that a user writes or steps through: policies, agents, scenarios, noise, optima.
SCRIPT = """
import json
from dataclasses import dataclass
import influential_bandits as ib

@dataclass(frozen=True)
class Clicks(ib.Noise):
    factor: float = 0.5

    @staticmethod
    def observe(c, t, arm, expected, rng):
        return ib.random.uniform(rng, 0) < c.factor * expected

instance = ib.random_instance(n_arms=3, seed=0)
told = {}
for policy in (
    ib.LCB(), ib.InfluentialLCB(), ib.Foresight(), ib.GaussianThompson(), ib.EXP3(), ib.FEWA(),
    ib.SlidingWindowLCB(window=5), ib.OptimalOracle(),
):
    run = ib.simulate(instance, policy, 40, ib.GaussianNoise(1.0), seeds=range(2), record="choices")
    name = type(policy).__name__
    told[name] = [run.choices.tolist(), [value.hex() for value in run.regret().ravel()]]
late = ib.simulate(
    instance, ib.LCB(), 40, ib.UniformNoise(1.0), scenario=ib.Scenario(delay=3, eligible=0.8)
)
told["late"] = late.counts.tolist()
agent, world = ib.Agent(ib.Foresight(), 3), ib.Environment(instance, ib.GaussianNoise(1.0))
for _ in range(9):
    ticket = agent.pull()
    agent.observe(ticket, world.pull(ticket.arm))
told["agent"] = agent.to_json()["state"]
told["optimum"] = [count.hex() for count in ib.optimum(instance, 1000).counts]
fading = ib.Instance(instance.interaction, instance.initial_loss, memory=0.9)
told["fading"] = ib.simulate(fading, ib.LCB(), 40).loss().tolist()
told["clicks"] = ib.simulate(instance, ib.LCB(), 40, Clicks(), record="losses").losses.tolist()
for more in ({"interaction_spread": 0.5}, {"unlike": True}):
    population = ib.Population(
        instance.interaction, [0.0] * 3, 0.5, stay=4, stay_law="geometric", concurrency=2,
        returning=0.3, delay=2, delay_law="geometric", **more,
    )
    told[str(more)] = [array.tolist() for array in population.draw(9)[:5]]
print(json.dumps(told))
"""


@pytest.mark.long
def test_the_interpreter_gives_the_same_bits_as_compiled_code():
    strict = {"PYTHONWARNINGS": "error"}
    interpreted = json.loads(run_python(SCRIPT, NUMBA_DISABLE_JIT="1", **strict))
    assert interpreted == json.loads(run_python(SCRIPT, **strict))


# With 40 arms influential LCB has a tree, and Foresight no influence of each pair. The five
# below have states full of indices: they also meet late losses, and arms that come and go.
INDICES = """
import influential_bandits as ib
from policy_list import POLICIES

for n_arms in (1, 40):
    instance = ib.random_instance(n_arms=n_arms, seed=1)
    for policy in POLICIES:
        ib.simulate(instance, policy, 60, ib.GaussianNoise(1.0))
for policy in (
    ib.InfluentialLCB(influence_bound="estimate"), ib.SlidingWindowLCB(window=5), ib.RAWUCB(),
    ib.RLessUCB(), ib.FrankWolfeOracle(),
):
    ib.testing.check_policy(policy, n_arms=(1, 3), rounds=60, check=False)
"""


@pytest.mark.long
def test_no_policy_reads_or_writes_beyond_its_state():
    """Compiled code does not look at indices; the interpreter finds those beyond the end."""
    run_python(INDICES, **environment(NUMBA_DISABLE_JIT="1"))
