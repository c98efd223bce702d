"""Numbers that are none, or too large, as every numeric argument and option there is."""

import dataclasses
import inspect
import itertools
import math
import os
import re
import sys
from typing import get_args, get_type_hints

import numpy as np

import influential_bandits as ib
from hostile.agents import WORLD
from hostile.judging import RAW, demand, prepared, shared, tell
from hostile.kills import in_child
from influential_bandits.cli import app, main

VALUES = (
    *(10**400, -(10**400), 2**63, 2**64, -(2**63), -1, 0, 1.5, 1e308, -1e308, 5e-324),
    *(math.nan, math.inf, -math.inf, True, np.bool_(True), "3", "x", ""),
    *(np.int8(3), np.int64(-1), np.uint64(2**63), np.float32(0.5), np.float64("nan")),
)
MANY = (2**31, 10**12)  # for what takes memory, and no time to be refused
# What a function needs beside the number that is tried, by the name of the parameter.
NEEDED = {
    "instance": WORLD,
    "instances": WORLD,
    "policy": ib.LCB(),
    "arms": 3,
    "n_arms": 3,
    "seed": 0,
}
NEEDED |= {"horizon": 20, "blocks": 1, "support": 2, "strength": 0.3, "low": 10, "high": 100}
NEEDED |= {"horizons": [10, 100], "values": [1.0, 2.0], "counts": [1, 2, 3], "arm": 1, "loss": 0.5}
NEEDED |= {"interaction": WORLD.interaction, "initial_loss": [0.5, 0.4, 0.6], "events": 5}
OWN = {  # where the same name means something else
    "synthetic_log": {"n_instances": 3, "events": 5},
    "fading_lower_bound": {"instance": ib.Instance(WORLD.interaction, [0.5, 0.4, 0.6], memory=0.9)},
    "influence_test": {"permutations": 19},
    "EventLog.last": {"share": 0.5},
    "Fleet": {"arms": 3},
    "compare": {"policies": ib.LCB(), "instances": WORLD, "horizons": [10, 20]},
    "compare_fleets": {"policies": "LCB", "populations": "small-5x30", "n_users": 3},
    "merge_rare_arms": {"below": 0.3},
    "EventLog.without_last": {"events": 1},
    "RecordedNoise": {"values": [0.1, 0.2]},
    "InfluenceModel": {"interaction": "psd", "pooling": "full"},
    "LossPrior": {"mean": [0.1] * 9, "covariance": np.eye(9), "noise": 0.3},
}
LEFT_OUT = {"fetch_movielens", "movielens", "DaskExecution", "Membership", "EventLog"}  # no numbers
LEFT_OUT.add("GpuExecution")  # which needs a graphics processor
LEFT_OUT.add("Trajectories")  # a dict, which simulate makes


@prepared
def calls():
    """Return (name, function, arguments, the numeric one) for all that is public."""
    log = ib.data.synthetic_log(14, 20, 2, seed=0)
    model = ib.InfluenceModel("symmetric", pooling="full").fit(log)
    NEEDED.update(log=log, model=model, models={"none": ib.StationaryModel()})
    NEEDED.update(candidates=[ib.StationaryModel(), ib.DriftModel()])
    objects = [WORLD, log, model, ib.optimal_path(WORLD), ib.Environment(WORLD)]
    objects.append(ib.simulate(WORLD, ib.LCB(), 100, progress=False))
    homes = [ib, ib.data, ib.logs, ib.random]
    public = {name: getattr(home, name) for home in homes for name in home.__all__}
    found = [(name, thing) for name, thing in public.items() if not inspect.ismodule(thing)]
    found += [(function.__name__, function) for function in (pull_arm, observe_loss, retire_arm)]
    for thing in objects:
        for name, method in inspect.getmembers(thing, inspect.ismethod):
            if not name.startswith("_"):
                found.append((f"{type(thing).__name__}.{name}", method))
    kept = [(name, function) for name, function in found if name not in LEFT_OUT]
    return [call for name, function in kept for call in _calls_of(name, function)]


@prepared
def call(number):
    """Return one of these calls: without hostility it works, and then all is compiled."""
    name, function, given, parameter = calls()[number]
    use(function(**given))
    return name, function, given, parameter


def pull_arm(arm: int):
    ib.Agent(ib.LCB(), 3).pull(arm)


def observe_loss(loss: float):
    agent = ib.Agent(ib.LCB(), 3)
    agent.observe(agent.pull(), loss)


def retire_arm(arm: int):
    ib.Agent(ib.LCB(), 3).retire_arm(arm)


def _calls_of(name, function):
    if name == "__version__" or (inspect.isclass(function) and issubclass(function, BaseException)):
        return
    known = NEEDED | OWN.get(name, {})
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    if any(p.name not in known for p in required):
        return
    given = {p.name: known[p.name] for p in required} | OWN.get(name, {})
    for parameter in parameters:
        if re.search(r"\b(int|float|ArrayLike)\b", str(parameter.annotation)):
            yield name, function, given, parameter.name


def use(result):
    """Do something with what was made: mistakes may be found when it is used."""
    if isinstance(result, ib.Policy):
        if type(result).select is ib.Policy.select:
            return
        told = {name: {"instance": WORLD, "horizon": 50}[name] for name in result.privileged}
        agent = ib.Agent(result, 3, **told)
        for _ in range(8):
            agent.observe(agent.pull(), 0.5)
    elif isinstance(result, (ib.NoNoise, ib.GaussianNoise, ib.UniformNoise, ib.RecordedNoise)):
        ib.simulate(WORLD, ib.LCB(), 2, result, progress=False)
    elif isinstance(result, ib.Scenario):
        ib.simulate(WORLD, ib.LCB(), 10, scenario=result, progress=False)
    elif isinstance(result, (ib.StationaryModel, ib.DriftModel, ib.InfluenceModel)):
        result.fit(NEEDED["log"]).predict(NEEDED["log"])
    elif isinstance(result, ib.Agent):
        result.pull()
    elif isinstance(result, ib.Instance):
        result.losses([1] * result.n_arms)
    elif isinstance(result, ib.LossPrior):
        use(ib.Foresight(prior=result))
    elif inspect.isgenerator(result):
        list(itertools.islice(result, 3))
    elif dataclasses.is_dataclass(result):
        repr(result)


def play(draw, home):
    """Call one function with one number spoilt."""
    name, function, given, parameter = call(draw.randrange(len(calls())))
    value = draw.choice(VALUES + (MANY if parameter in ("arms", "n_arms") else ()))
    if isinstance(given.get(parameter), list) and draw.random() < 0.7:
        value = [value, *given[parameter][1:]]
    tell(f"{name}({parameter}={value!r:.40})")
    use(function(**(given | {parameter: value})))


@prepared
def options():
    """Return a folder of files, and (command, option) for all numeric options there are."""
    log = ib.data.synthetic_log(6, 20, 2, seed=1)
    home = shared / f"options {os.getpid()}"
    home.mkdir()
    log.to_frame().rename(columns={"instance": "user"}).to_csv(home / "log.csv", index=False)
    model = ib.InfluenceModel(pooling="full").fit(log)
    reading = {"instance": "user", "arm": "item", "time": "time", "loss": "loss"}
    model.about_ = {"command": {"reading": reading, "merge_below": None, "adjust": False}}
    model.save(home / "model.json")
    every = [app, *(group.typer_instance for group in app.registered_groups)]
    entries = [entry for part in every for entry in part.registered_commands]
    named = ((entry.name or entry.callback.__name__, entry.callback) for entry in entries)
    return home, [
        (name, f"--{option.replace('_', '-')}")
        for name, function in sorted(named)
        if name in WORDS
        for option, kind in get_type_hints(function).items()
        if {int, float} & {kind, *get_args(kind)}
    ]


COLUMNS = ("--arm", "item", "--instance", "user", "--time", "time", "--loss", "loss")
WORDS = {
    "plan": ("{files}/model.json", "--log", "{files}/log.csv", "--horizon", "20"),
    "fit": ("{files}/log.csv", *COLUMNS, "--ridge=1", "--memory=1", "--out={home}/model.json"),
    "reproduce": ("figure-1a", "--tiny", "--out", "{home}/out"),
    "compare": (
        "--policies=LCB",
        "--families=random-3",
        "--horizons=30",
        "--instances=2",
        "--out={home}/out",
    ),
}
TEXTS = ("1" + "0" * 400, "-1" + "0" * 400, "1" * 5000, "", str(2**63), str(2**64), str(-(2**63)))
TEXTS += ("-1", "0", "nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "x", "1.5", str(10**18))


def run_command(home, name, *more, limit=15.0):
    """Run a command as a user does; return its exit status and what it said."""
    words = [word.format(files=options()[0], home=home) for word in WORDS[name]]

    def run():
        sys.argv = ["influential-bandits", name, *words, *more]
        main()

    status = in_child(run, limit=limit, said=home / "said")
    return status, (home / "said").read_text(errors="replace")


@prepared
def require_work(name):
    """Without hostility a command works, and then all is compiled."""
    home = options()[0] / name
    home.mkdir()
    status, said = run_command(home, name, limit=500.0)
    demand(status == 0, RAW, f"exit status {status}: {said[-250:]}")


def play_option(draw, home):
    """Run a command with one number spoilt: a result, or one sentence."""
    name, option = draw.choice(options()[1])
    require_work(name)
    text = draw.choice(TEXTS + (("1000000000",) if option in {"--instances", "--seeds"} else ()))
    tell(f"{name} {option} {text:.60}")
    status, said = run_command(home, name, f"{option}={text}")
    good = "Traceback" not in said and status in {0, 1, 2}
    demand(good, RAW, f"exit status {status}: {said[-250:]}")
