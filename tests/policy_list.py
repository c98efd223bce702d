"""Every policy of the package, found by discovery, in the configurations that matter."""

import importlib
import pkgutil

import pytest

import influential_bandits as ib

CONFIGURATIONS = {
    ib.InfluentialLCB: (
        ib.InfluentialLCB(),
        ib.InfluentialLCB(influence_bound=2.5),
        ib.InfluentialLCB(influence_bound="estimate"),
        ib.InfluentialLCB(influence_bound="estimate", opening="paper", noise_bound=0.25),
    ),
    ib.EpsilonGreedy: (ib.EpsilonGreedy(), ib.EpsilonGreedy(2.0, decreasing=True)),
    ib.EXP3: (ib.EXP3(low=-3.0, high=3.0),),  # the range of the losses that tests take
    ib.SlidingWindowLCB: (ib.SlidingWindowLCB(), ib.SlidingWindowLCB(window=5)),
    ib.DiscountedLCB: (ib.DiscountedLCB(), ib.DiscountedLCB(discount=1e-30)),
    ib.MUCB: (ib.MUCB(), ib.MUCB(window=2, exploration=0.5, planned_rounds=1, loss_range=0.5)),
    ib.FEWA: (ib.FEWA(), ib.FEWA(alpha=0.06, sigma=0.1)),
}


def discovered():
    """Every policy that some module of the package defines, not those of tests."""
    for module in pkgutil.walk_packages(ib.__path__, ib.__name__ + "."):
        importlib.import_module(module.name)
    found, queue = [], list(ib.Policy.__subclasses__())
    while queue:
        code = queue.pop()
        queue.extend(code.__subclasses__())
        if code.__module__.startswith(f"{ib.__name__}."):
            found.append(code)
    return sorted(found, key=lambda code: code.__name__)


POLICIES = [policy for code in discovered() for policy in CONFIGURATIONS.get(code, (code(),))]

# One of each kind of state and of code: the others take long to compile, and `make test-long` plays
# them.
EXEMPLARS = {
    ib.LCB(),
    ib.InfluentialLCB(influence_bound="estimate"),
    ib.Foresight(),
    ib.EXP3(low=-3.0, high=3.0),
    ib.SlidingWindowLCB(window=5),
    ib.EachArmOnceOracle(),
}

every_policy = pytest.mark.parametrize(
    "policy",
    [
        policy if policy in EXEMPLARS else pytest.param(policy, marks=pytest.mark.long)
        for policy in POLICIES
    ],
    ids=repr,
)
