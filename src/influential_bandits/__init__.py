"""Influential bandits: pulling one arm changes the future losses of all arms.

Everything public is here; modules below may change. Names are loaded when first used, so that
importing the package, and ``influential-bandits --help``, is instant. What needs a package that is
not installed is not listed, and says what to install when it is asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from influential_bandits.datasets.download import fetch_movielens
    from influential_bandits.datasets.movielens import movielens
    from influential_bandits.datasets.synthetic import (
        planted_interaction,
        synthetic_log,
        synthetic_parts,
    )
    from influential_bandits.errors import (
        ClusterError,
        ClusterLost,
        InfluentialBanditsError,
        Interrupted,
        InvalidInput,
        InvalidInstance,
        InvalidLog,
        InvalidPolicy,
        MissingExtra,
        NotApplicable,
        NotCertified,
        TaskLost,
        Unfinished,
    )
    from influential_bandits.execution.dask import DaskExecution
    from influential_bandits.execution.local import LocalExecution
    from influential_bandits.learning.influence_test import InfluenceTest, influence_test
    from influential_bandits.learning.model_files import load_model, save_model
    from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
    from influential_bandits.learning.planning import Plan, plan
    from influential_bandits.learning.selection import Validation, choose, ladder, validate
    from influential_bandits.logs.log import EventLog
    from influential_bandits.logs.membership import Membership
    from influential_bandits.logs.partitions import Partition, PartitionedLog, open_partitions
    from influential_bandits.logs.reading import read_log
    from influential_bandits.logs.repartitioning import repartition_log
    from influential_bandits.logs.streaming import LogStream, stream_log
    from influential_bandits.numerics.slopes import log_log_slope
    from influential_bandits.numerics.streams import normal, uniform
    from influential_bandits.optima.bound import regret_bound
    from influential_bandits.optima.certificate import Certificate
    from influential_bandits.optima.difficulty import Difficulty, difficulty
    from influential_bandits.optima.fading import fading_lower_bound
    from influential_bandits.optima.integer import IntegerOptimum, integer_optimum
    from influential_bandits.optima.path import OptimalPath, Optimum, optimal_path, optimum
    from influential_bandits.optima.regret import regret
    from influential_bandits.policies.agent import Agent, Ticket
    from influential_bandits.policies.classic import (
        EXP3,
        MOSS,
        UCBV,
        EpsilonGreedy,
        GaussianThompson,
    )
    from influential_bandits.policies.contract import Policy
    from influential_bandits.policies.influential_lcb import InfluentialLCB
    from influential_bandits.policies.lcb import LCB
    from influential_bandits.policies.model_lcb.policy import ModelLCB
    from influential_bandits.policies.model_lcb.prior import LossPrior
    from influential_bandits.policies.nonstationary import (
        MUCB,
        DiscountedLCB,
        SlidingWindowLCB,
    )
    from influential_bandits.policies.oracles import (
        EachArmOnceOracle,
        FrankWolfeOracle,
        OptimalOracle,
    )
    from influential_bandits.policies.restless import DSEE
    from influential_bandits.policies.rising import REdUCB, RLessUCB
    from influential_bandits.policies.rotting import FEWA, RAWUCB
    from influential_bandits.policies.uniform import Uniform
    from influential_bandits.simulation.engine import simulate
    from influential_bandits.simulation.scenario import Scenario
    from influential_bandits.simulation.trajectory import Trajectory
    from influential_bandits.studies.arena.compare import Comparison, compare
    from influential_bandits.studies.arena.families import Family
    from influential_bandits.studies.logs.partitioned_fit import fit_partitions
    from influential_bandits.world.environment import Environment
    from influential_bandits.world.generators import (
        block_instance,
        counterexample,
        indefinite_instance,
        instance_with_support,
        linear_lower_bound,
        random_instance,
        recovery_instance,
    )
    from influential_bandits.world.gym import InfluentialBanditEnv
    from influential_bandits.world.instance import Instance
    from influential_bandits.world.interaction import (
        DenseInteraction,
        LowRankInteraction,
        SparseInteraction,
    )
    from influential_bandits.world.noise import (
        GaussianNoise,
        Noise,
        NoNoise,
        RecordedNoise,
        UniformNoise,
    )

__version__ = "0.1.0"

_HOMES = {
    "datasets.download": ("fetch_movielens",),
    "datasets.movielens": ("movielens",),
    "datasets.synthetic": ("planted_interaction", "synthetic_log", "synthetic_parts"),
    "errors": (
        "ClusterError",
        "ClusterLost",
        "InfluentialBanditsError",
        "Interrupted",
        "InvalidInput",
        "InvalidInstance",
        "InvalidLog",
        "InvalidPolicy",
        "MissingExtra",
        "NotApplicable",
        "NotCertified",
        "TaskLost",
        "Unfinished",
    ),
    "logs.log": ("EventLog",),
    "logs.membership": ("Membership",),
    "learning.influence_test": ("InfluenceTest", "influence_test"),
    "learning.model_files": ("load_model", "save_model"),
    "learning.models": ("DriftModel", "InfluenceModel", "StationaryModel"),
    "learning.planning": ("Plan", "plan"),
    "logs.partitions": ("Partition", "PartitionedLog", "open_partitions"),
    "logs.reading": ("read_log",),
    "logs.repartitioning": ("repartition_log",),
    "logs.streaming": ("LogStream", "stream_log"),
    "learning.selection": ("Validation", "choose", "ladder", "validate"),
    "numerics.streams": ("normal", "uniform"),
    "optima.bound": ("regret_bound",),
    "optima.certificate": ("Certificate",),
    "optima.difficulty": ("Difficulty", "difficulty"),
    "optima.fading": ("fading_lower_bound",),
    "optima.integer": ("IntegerOptimum", "integer_optimum"),
    "optima.path": ("OptimalPath", "Optimum", "optimal_path", "optimum"),
    "optima.regret": ("regret",),
    "policies.agent": ("Agent", "Ticket"),
    "policies.classic": ("EXP3", "MOSS", "UCBV", "EpsilonGreedy", "GaussianThompson"),
    "policies.contract": ("Policy",),
    "policies.influential_lcb": ("InfluentialLCB",),
    "policies.lcb": ("LCB",),
    "policies.model_lcb.policy": ("ModelLCB",),
    "policies.model_lcb.prior": ("LossPrior",),
    "policies.nonstationary": ("MUCB", "DiscountedLCB", "SlidingWindowLCB"),
    "policies.oracles": ("EachArmOnceOracle", "FrankWolfeOracle", "OptimalOracle"),
    "policies.restless": ("DSEE",),
    "policies.rising": ("REdUCB", "RLessUCB"),
    "policies.rotting": ("FEWA", "RAWUCB"),
    "policies.uniform": ("Uniform",),
    "execution.dask": ("DaskExecution",),
    "simulation.engine": ("simulate",),
    "execution.local": ("LocalExecution",),
    "simulation.scenario": ("Scenario",),
    "numerics.slopes": ("log_log_slope",),
    "simulation.trajectory": ("Trajectory",),
    "studies.arena.compare": ("Comparison", "compare"),
    "studies.arena.families": ("Family",),
    "studies.logs.partitioned_fit": ("fit_partitions",),
    "world.environment": ("Environment",),
    "world.generators": (
        "block_instance",
        "counterexample",
        "indefinite_instance",
        "instance_with_support",
        "linear_lower_bound",
        "random_instance",
        "recovery_instance",
    ),
    "world.gym": ("InfluentialBanditEnv",),
    "world.instance": ("Instance",),
    "world.interaction": ("DenseInteraction", "LowRankInteraction", "SparseInteraction"),
    "world.noise": ("GaussianNoise", "NoNoise", "Noise", "RecordedNoise", "UniformNoise"),
}
_MODULES = ("testing",)  # public as a whole
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_NEEDS = {"InfluentialBanditEnv": "gymnasium"}  # classes that an optional package is the base of


def _loadable(name: str) -> bool:
    """Tell whether a name can be had in this installation; others must not break ``import *``."""
    try:
        return name not in _NEEDS or find_spec(_NEEDS[name]) is not None
    except ImportError:
        return False


__all__ = [*filter(_loadable, sorted(_HOME_OF)), "__version__"]  # noqa: PLE0604 - all are strings


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _register_environment()
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


def _register_environment() -> None:
    """Register the Gymnasium environment if Gymnasium is in use; never import it for nothing."""
    in_use = sys.modules.get("gymnasium") is not None
    if in_use and "influential_bandits.world.gym" not in sys.modules:
        import_module("influential_bandits.world.gym")


_register_environment()
