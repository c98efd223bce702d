"""Files of instances and models, spoilt and used; and JSON that is made to break readers."""

import copy
import json
import os

import numpy as np

import influential_bandits as ib
from hostile.agents import ARMS, policy_named
from hostile.judging import OTHER, demand, prepared, shared, tell
from hostile.mutating import differs, mutate_json, mutate_numbers
from hostile.pieces import run_study
from influential_bandits.learning.loss_model import LossModel

SPARSE, INDICES = 3, ("columns", "offsets")  # which of the instances is sparse


@prepared
def instances():
    """Return instances of every kind as JSON data; all that is done with them is compiled."""
    matrix = [[0.3, -0.1, 0.0], [-0.1, 0.2, 0.0], [0.0, 0.0, 0.1]]
    losses = [0.5, 0.4, 0.6]
    made = [
        ib.Instance(matrix, losses, ["a", "b", "c"]),
        ib.Instance(matrix, losses, memory=0.9),
        ib.Instance(ib.LowRankInteraction([[0.5], [0.1], [0.2]]), losses),
        ib.Instance(ib.SparseInteraction(matrix), losses),
        ib.indefinite_instance(3, 0),
    ]
    for instance in made:
        use_instance(instance)
    return [instance.to_json() for instance in made]


def use_instance(instance):
    """Do what one does with an instance."""
    run = ib.simulate(instance, ib.LCB(), 30, progress=False)
    if instance.memory == 1.0:
        demand(not np.isnan(run.loss()).any(), OTHER, "total losses are undefined")
        ib.optimum(instance, 30)
    ib.Environment(instance).pull(0)
    repr(instance)


def play_instance(draw, home):
    """Load a spoilt instance: it is what the file says, and can be used and saved."""
    data = copy.deepcopy(draw.choice(instances()))
    if draw.random() < 0.3:  # indices that libraries follow
        data = copy.deepcopy(instances()[SPARSE])
        lists, said = mutate_numbers(draw, {name: data["interaction"][name] for name in INDICES})
        data["interaction"] |= lists
    else:
        data, said = mutate_json(draw, data)
    tell(said)
    instance = load_spoilt(home, data, ib.Instance.load)
    # Zeros of a sparse matrix are not kept, and asymmetry of rounding size is averaged away.
    exact = data["interaction"]["kind"] != "sparse" and instance.interaction.max_abs < 1e6
    require_same(instance.to_json(), data, exact)
    use_instance(instance)


def load_spoilt(home, data, load):
    """Load what the data says; whatever can be loaded can be saved again."""
    path = home / "spoilt.json"
    path.write_text(json.dumps(data))
    value = load(path)
    value.save(home / "again.json")
    return value


def require_same(made, data, exact=True):
    where = differs(made, data) if exact else None
    demand(where is None, OTHER, f"loaded, but not as the file says: {where}")


@prepared
def populations():
    """Return populations of every kind as JSON data; all that is done with them is compiled."""
    matrix, losses = [[0.3, -0.1], [-0.1, 0.2]], [0.5, 0.4]
    law = {"stay_law": "geometric", "delay_law": "geometric", "delay": 3, "returning": 0.2}
    made = [
        ib.Population(matrix, losses, 0.25, stay=5, arm_names=["a", "b"]),
        ib.Population(matrix, losses, matrix, stay=5, concurrency=3, memory=0.9, **law),
        ib.Population(matrix, losses, 0.25, stay=5, interaction_spread=0.3),
        ib.Population(matrix, losses, 0.25, stay=5, unlike=True),
    ]
    for population in made:
        use_population(population)
    return [population.to_json() for population in made]


def use_population(population):
    """Draw a few users, if they do not stay for ever, and see that their rounds add up."""
    repr(population)
    if population.stay <= 10**6:
        users = population.draw(7)
        told = np.bincount(users.visits, minlength=7)
        demand((told == users.stays).all(), OTHER, "users do not stay as long as they should")
        demand((users.delays >= 0).all(), OTHER, "a loss is told before its round")
        for instance in users.instances():
            repr(instance)


def play_population(draw, home):
    """Load a spoilt population: it is what the file says, and can be drawn from and saved."""
    data, said = mutate_json(draw, copy.deepcopy(draw.choice(populations())))
    tell(said)
    population = load_spoilt(home, data, ib.Population.load)
    # A number may stand for a covariance; asymmetry of rounding size is averaged away.
    exact = max(np.abs(population.interaction).max(), np.abs(population.covariance).max()) < 1e6
    exact &= isinstance(data["covariance"], list)
    require_same(population.to_json(), data, exact)
    use_population(population)


@prepared
def models():
    """Return a log and fitted models of every kind as JSON data."""
    log = ib.data.synthetic_log(4, 25, 2, seed=3)
    kinds = [
        ib.StationaryModel(),
        ib.DriftModel(pooling="full"),
        ib.InfluenceModel(pooling="full"),
        ib.InfluenceModel("symmetric", fading=0.8, drift=True),
        ib.InfluenceModel("diagonal", fading=ib.Fading(half_life=72), pooling="full"),
    ]
    found = []
    for number, model in enumerate(kinds):
        path = shared / f"model {number} {os.getpid()}.json"
        model.fit(log).about_ = {"log": {"source": "here"}}
        model.save(path)
        use_model(type(model).load(path), log)
        found.append(json.loads(path.read_text()))
    return log, found


def use_model(model, log):
    """Do what one does with a model."""
    model.predict(log)
    if isinstance(model, ib.InfluenceModel):
        found = ib.plan(model, log, 20, days_between_rounds=1.0)
        demand(np.isfinite(found.mix).all(), OTHER, "the plan is not finite")
        str(found)
        for instance in (None, log.instances[0]):
            if instance is None or instance in model.instances_:
                model.interval(instance=instance)


def play_model(draw, home):
    """Load a spoilt model: it is what the file says, predicts, plans, and can be saved."""
    log, found = models()
    data, said = mutate_json(draw, dict(draw.choice(found)))
    tell(f"{data.get('model')}: {said}")
    model = load_spoilt(home, data, LossModel.load)
    made = json.loads((home / "again.json").read_text())
    require_same({key: made[key] for key in made if key != "checksum"}, data)
    use_model(model, log)


def load_agent(path):
    return ib.Agent.load(path, policy_named("LCB"))


def load_settings(path):
    """The settings of a folder of results are read before anything is done."""
    folder = path.parent / "out" / "figure-1b"
    folder.mkdir(parents=True)
    path.rename(folder / "settings.json")
    run_study(path.parent / "out")


def play_bomb(draw, home):
    """Read JSON that is long, deep, double or no text; by everything that reads JSON."""
    agent = ib.Agent(policy_named("LCB"), ARMS)
    readers = {
        "agent": (load_agent, agent.to_json()),
        "instance": (ib.Instance.load, instances()[0]),
        "population": (ib.Population.load, populations()[0]),
        "model": (LossModel.load, models()[1][0]),
        "settings": (load_settings, {"study": "figure-1b"}),
    }
    name = draw.choice(sorted(readers))
    read, data = readers[name]
    key = draw.choice(sorted(data))
    bomb, text = draw.choice(sorted(BOMBS.items()))
    good = json.dumps(data)
    value = json.dumps(data[key])
    inside = f"{{{json.dumps(key)}: {text}, {good[1:]}"  # the good value of the same name follows
    instead = json.dumps(data | {key: "BOMB"}).replace('"BOMB"', text)
    whole = draw.choice((instead, instead, instead, inside, text, f"[{good}, {text}]", good + text))
    path = home / "file.json"
    path.write_bytes(
        whole.encode(draw.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "surrogatepass")
    )
    tell(f"{name}: {bomb} for {key}, {value:.40}")
    read(path)


BOMBS = {
    "5,000 digits": "9" * 5000,
    "-5,000 digits": "-" + "9" * 5000,
    "5,000 decimals": "0." + "1" * 5000,
    "1e999": "1e999",
    "1e99999999999": "1e99999999999",
    "nested lists": "[" * 100_000 + "]" * 100_000,
    "nested objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "unclosed": "[" * 100_000,
    "long text": '"' + "x" * 5_000_000 + '"',
    "long list": "[" + "0," * 500_000 + "0]",
    "NaN": "NaN",
    "Infinity": "[-Infinity]",
    "surrogate": '"\\ud800"',
    "raw surrogate": '"\ud800"',
    "NUL": '"\0"',
    "BOM": "\ufeff1",
    "null": "null",
    "nothing": "",
}
