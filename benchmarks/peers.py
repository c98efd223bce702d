"""K = 10, one core: rounds per second beside the bandit libraries people use.

Each plays its own UCB on the same instance with the same noise, in the loop its documentation
shows. The environment is what its user would write: NumPy, with the noise drawn in advance.
"""

from importlib.util import find_spec

import numpy as np

import influential_bandits as ib
from benchmarks.timing import Bar, Row, fastest

ARMS = 10
INSTANCE = ib.random_instance(n_arms=ARMS, seed=0)


class PlainEnvironment:
    """The influential bandit as few lines of NumPy; reward is −loss."""

    def __init__(self, horizon):
        self.matrix = INSTANCE.interaction.to_dense()
        self.losses = INSTANCE.initial_loss.copy()
        self.noise = iter(np.random.default_rng(0).normal(size=horizon).tolist())

    def pull(self, arm):
        # item() gives a Python float, with which these libraries are faster than with NumPy's.
        loss = self.losses.item(arm) + next(self.noise)
        self.losses += self.matrix[arm]
        return -loss


def river(environment, horizon):
    from river import bandit

    arms = range(ARMS)
    policy = bandit.UCB(delta=1, seed=0)
    for _ in range(horizon):
        arm = policy.pull(arms)
        policy.update(arm, environment.pull(arm))


def coba(environment, horizon):
    from coba.learners import BanditUCBLearner

    # The learner by itself: its evaluators would add their book-keeping to every round.
    arms = list(range(ARMS))
    learner = BanditUCBLearner()
    for _ in range(horizon):
        arm, probability = learner.predict(None, arms)
        learner.learn(None, arm, environment.pull(arm), probability)


def mabwiser(environment, horizon):
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(ARMS))
    mab = MAB(arms, LearningPolicy.UCB1(alpha=1.0))
    mab.fit(arms, [environment.pull(arm) for arm in arms])
    for _ in range(horizon - ARMS):
        arm = mab.predict()
        mab.partial_fit([arm], [environment.pull(arm)])


PEERS = (river, coba, mabwiser)


def rows(quick):
    ours, theirs = (200_000, 1_000) if quick else (2_000_000, 10_000)
    installed = [peer for peer in PEERS if find_spec(peer.__name__)]
    jobs = {
        policy: lambda policy=policy: ib.simulate(
            INSTANCE, policy, ours, ib.GaussianNoise(1.0), execution=1, progress=False
        )
        for policy in (ib.InfluentialLCB(), ib.LCB())
    }
    for peer in installed:
        jobs[peer.__name__] = lambda peer=peer: peer(PlainEnvironment(theirs), theirs)
    times, _ = fastest(jobs, 2 if quick else 7)
    speeds = {
        name: (theirs if isinstance(name, str) else ours) / time for name, time in times.items()
    }
    peers = {name: speed for name, speed in speeds.items() if isinstance(name, str)}
    best = max(peers, key=peers.get, default=None)
    for policy in (ib.InfluentialLCB(), ib.LCB()):
        for peer in PEERS:
            name = peer.__name__
            bar = None
            if isinstance(policy, ib.InfluentialLCB) and name == best:
                bar = Bar("≥", 100, "× its rounds/s")
            yield Row(
                f"{type(policy).__name__}, K = {ARMS}",
                speeds[policy],
                "rounds/s",
                name,
                peers.get(name),
                speeds[policy] / peers[name] if name in peers else None,
                bar,
                "the fastest of them" if name == best else "" if name in peers else "not installed",
            )
