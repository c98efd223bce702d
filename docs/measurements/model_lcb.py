"""Measure what docs/explanation/model_lcb.md says.

``python docs/measurements/model_lcb.py [--quick]``

The instances are the paper's random ones (K = 3, noise N(0, 1)), numbered from 2,000,000, as many
indefinite ones, and those of the arena's fading families: settings were chosen on others, but for
two that the first results on these prompted. Takes about a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import influential_bandits as ib
from influential_bandits.optima.schedules import best_schedule, schedule_loss
from influential_bandits.studies.compare.families import FAMILIES

FIRST = 2_000_000
NOISE = ib.GaussianNoise(1.0)


def instances(number: int, first: int = FIRST) -> list[ib.Instance]:
    """Return the paper's random instances, numbered from ``first``."""
    return [ib.random_instance(n_arms=3, seed=seed) for seed in range(first, first + number)]


def regrets(
    worlds: list[ib.Instance], policy: ib.Policy, horizons: list[int], noise: ib.Noise = NOISE
) -> np.ndarray:
    """Return the regret at each horizon, (instances, horizons)."""
    run = ib.simulate(worlds, policy, horizons[-1], noise, checkpoints=horizons)
    return run.regret()[:, 0]


def once(worlds: list[ib.Instance], horizons: list[int]) -> np.ndarray:
    """Return the regret of the oracle that pulls each arm once, (instances, horizons)."""
    oracle = ib.EachArmOnceOracle()
    plans = [[oracle.knowledge(world, t)["plan"] for t in horizons] for world in worlds]
    return np.array([ib.regret(w, np.array(p, float)) for w, p in zip(worlds, plans, strict=True)])


def table(head: str, horizons: list[int], rows: dict[str, list[float]]) -> Iterator[str]:
    """Yield a Markdown table with a column for each horizon."""
    yield f"| {head} | " + " | ".join(f"T = {t:,}" for t in horizons) + " |"
    yield "|---" + "|---:" * len(horizons) + "|"
    for name, values in rows.items():
        yield f"| {name} | " + " | ".join(f"{value:.4g}" for value in values) + " |"
    yield ""


def growth(size: float) -> Iterator[str]:
    """Regret and slopes to a million rounds, all and easy instances."""
    horizons = [30, 100, 1000, 10_000, 100_000, 1_000_000]
    worlds = instances(round(100 * size))
    easy = np.array([ib.difficulty(world).verdict == "easy" for world in worlds])
    policies = (ib.ModelLCB(), ib.InfluentialLCB(), ib.LCB())
    found = {type(p).__name__: regrets(worlds, p, horizons) for p in policies}
    yield from table("mean regret", horizons, {n: list(r.mean(0)) for n, r in found.items()})
    for name, rows in found.items():
        slopes = [
            ib.log_log_slope(horizons, some.mean(0), 1000, 1_000_000) for some in (rows, rows[easy])
        ]
        yield (
            f"{name}: slope over 10³ … 10⁶ {slopes[0]:.3f}, on the {easy.sum()} easy instances "
            f"{slopes[1]:.3f}."
        )
    yield ""


def tail(size: float) -> Iterator[str]:
    """Percentiles of regret / T over many instances."""
    horizons = [1000, 10_000, 100_000]
    number = round(10_000 * size)
    found = regrets(instances(number, FIRST + 10_000), ib.ModelLCB(), horizons) / horizons
    rows = {
        name: list(np.quantile(found, q, axis=0))
        for name, q in (("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999), ("largest", 1.0))
    }
    yield from table(f"regret / T, {number:,} instances", horizons, rows)


def against_oracle(size: float) -> Iterator[str]:
    """How many times the regret of the oracle that pulls each arm once."""
    horizons = [1000, 10_000, 100_000]
    worlds = instances(round(1000 * size), FIRST + 30_000)
    own, oracle = regrets(worlds, ib.ModelLCB(), horizons), once(worlds, horizons)
    rows = {
        "ModelLCB": list(own.mean(0)),
        "EachArmOnceOracle": list(oracle.mean(0)),
        "ratio": list(own.mean(0) / oracle.mean(0)),
    }
    yield from table(f"mean regret, {len(worlds):,} instances", horizons, rows)


def quiet(size: float) -> Iterator[str]:
    """The same with little noise, and with none."""
    horizons = [100, 1000, 10_000]
    worlds = instances(round(1000 * size), FIRST + 60_000)
    oracle = once(worlds, horizons).mean(0)
    rows = {}
    for name, noise in (("σ = 0.1", ib.GaussianNoise(0.1)), ("no noise", ib.NoNoise())):
        own = regrets(worlds, ib.ModelLCB(), horizons, noise).mean(0)
        rows |= {f"ModelLCB, {name}": list(own), f"ratio, {name}": list(own / oracle)}
    rows["EachArmOnceOracle"] = list(oracle)
    yield from table(f"mean regret, {len(worlds):,} instances", horizons, rows)


def warm(size: float) -> Iterator[str]:
    """The same for a start from a model fitted to 500 logged rounds of a uniform policy."""
    horizons = [1000, 10_000]
    worlds = instances(round(200 * size), FIRST + 40_000)
    rows: dict[str, list[list[float]]] = {"cold": [], "warm": [], "warm, told the horizon": []}
    for number, world in enumerate(worlds):
        prior = logged_prior(world, number)
        known = {t: ib.ModelLCB(prior=prior, horizon=t) for t in horizons}
        for name, policies in (
            ("cold", dict.fromkeys(horizons, ib.ModelLCB())),
            ("warm", dict.fromkeys(horizons, ib.ModelLCB(prior=prior))),
            ("warm, told the horizon", known),
        ):
            rows[name].append([_last(world, policies[t], t, number) for t in horizons])
    means = {name: np.mean(values, axis=0) for name, values in rows.items()}
    oracle = once(worlds, horizons).mean(0)
    ratios = {f"{name}, ratio": list(mean / oracle) for name, mean in means.items()}
    shown = {name: list(mean) for name, mean in means.items()}
    shown["EachArmOnceOracle"] = list(oracle)
    yield from table(f"mean regret, {len(worlds)} instances", horizons, shown | ratios)


def _last(world: ib.Instance, policy: ib.Policy, horizon: int, number: int) -> float:
    run = ib.simulate(
        world, policy, horizon, NOISE, checkpoints=[horizon], instance_numbers=[number]
    )
    return float(run.regret()[0, 0, -1])


def logged_prior(world: ib.Instance, number: int) -> ib.LossPrior:
    """Return the prior that 500 rounds of a uniform policy in this world teach."""
    env = ib.Environment(world, NOISE, seed=1, instance_number=number)
    agent = ib.Agent(ib.Uniform(), world.n_arms, seed=1, instance_number=number)
    arms, losses = [], []
    for _ in range(500):
        ticket = agent.pull()
        arms.append(str(ticket.arm))
        losses.append(env.pull(ticket.arm))
    log = ib.EventLog(["log"] * 500, arms, losses)
    model = ib.InfluenceModel(ridge=1e-3, shrinkage=0.0).fit(log)
    return model.prior(arm_names=[str(k) for k in range(world.n_arms)])


def practice(size: float) -> Iterator[str]:
    """What delays, batches and missing arms cost."""
    worlds = instances(round(100 * size), FIRST + 50_000)
    horizons = [1000, 10_000]
    yield "| mean regret | " + " | ".join(f"T = {t:,}" for t in horizons) + " |"
    yield "|---" + "|---:" * len(horizons) + "|"
    for name, scenario in (
        ("at once", None),
        ("10 rounds late", ib.Scenario(delay=10)),
        ("10 rounds late on average, in any order", ib.Scenario(delay=10, delay_law="geometric")),
        ("in batches of 10", ib.Scenario(batch=10)),
        ("in batches of 100", ib.Scenario(batch=100)),
    ):
        for policy in (ib.ModelLCB(), ib.InfluentialLCB()):
            run = ib.simulate(
                worlds, policy, horizons[-1], NOISE, checkpoints=horizons, scenario=scenario
            )
            means = run.regret()[:, 0].mean(0)
            cells = " | ".join(f"{value:.4g}" for value in means)
            yield f"| {type(policy).__name__}, {name} | {cells} |"
    yield ""


def fading(size: float) -> Iterator[str]:
    """Loss a round beyond the lower bound where memory fades, on the arena's families."""
    horizons = [100, 1000, 10_000]
    for family in [f for f in FAMILIES.values() if f.make(0).memory < 1.0]:
        worlds = [family.make(n) for n in range(round(20 * size))]
        bound = np.array([[ib.fading_lower_bound(w, t) for t in horizons] for w in worlds])
        rows = {"best schedule found": scheduled(worlds, horizons)}
        for name, sd in (("(l1, A) known", 1e-9), ("warm, every entry ± σ/20", 0.05)):
            rows[name] = np.array(
                [informed(w, n, family, sd, horizons) for n, w in enumerate(worlds)]
            )
        for policy in (
            ib.ModelLCB(),
            ib.Uniform(),
            ib.InfluentialLCB(),
            ib.GaussianThompson(),
            ib.FrankWolfeOracle(),
        ):
            rows[type(policy).__name__] = losses(worlds, policy, family.noise, horizons)
        shown = {name: list((values - bound).mean(0)) for name, values in rows.items()}
        yield from table(f"{family.name}, {len(worlds)} instances", horizons, shown)


def rivals(size: float) -> Iterator[str]:
    """The same of more instances, beside policies that do well there, and what the best one is."""
    horizons = [100, 1000, 10_000]
    others = (
        ib.Uniform(),
        ib.InfluentialLCB(),
        ib.DiscountedLCB(),
        ib.GaussianThompson(),
        ib.EXP3(),
        ib.FEWA(),
        ib.LCB(),
    )
    for family in [f for f in FAMILIES.values() if f.make(0).memory < 1.0]:
        worlds = [family.make(n) for n in range(round(100 * size))]
        bound = np.array([[ib.fading_lower_bound(w, t) for t in horizons] for w in worlds])
        rows = {
            type(policy).__name__: (losses(worlds, policy, family.noise, horizons) - bound).mean(0)
            for policy in (ib.ModelLCB(), *others)
        }
        best = np.min([rows[type(policy).__name__] for policy in others], axis=0)
        shown = {name: list(values) for name, values in rows.items()}
        shown["ModelLCB / best of the others"] = list(rows["ModelLCB"] / best)
        shown["ModelLCB / Uniform"] = list(rows["ModelLCB"] / rows["Uniform"])
        yield from table(f"{family.name}, {len(worlds)} instances", horizons, shown)


def scheduled(worlds: list[ib.Instance], horizons: list[int]) -> np.ndarray:
    """Return the loss a round of the best schedule that the search finds."""
    best = [best_schedule(world, 120) for world in worlds]
    return np.array(
        [[schedule_loss(w, b, t) / t for t in horizons] for w, b in zip(worlds, best, strict=True)]
    )


def informed(
    world: ib.Instance, number: int, family: ib.Family, sd: float, horizons: list[int]
) -> np.ndarray:
    """Return the loss a round of ModelLCB with a prior around draws so wide about the truth."""
    sigma = getattr(family.noise, "sigma", 0.35)  # that of clicks
    arms, draw = world.n_arms, np.random.default_rng(number)
    error = sd * sigma * draw.normal(size=(arms, arms + 1))
    matrix = (
        world.interaction.to_dense() + np.tril(error[:, :arms]) + np.tril(error[:, :arms], -1).T
    )
    prior = ib.LossPrior.around(
        matrix, world.initial_loss + error[:, arms], sd * sigma, sigma, memory=world.memory
    )
    return losses([world], ib.ModelLCB(prior=prior), family.noise, horizons, number)[0]


def losses(
    worlds: list[ib.Instance],
    policy: ib.Policy,
    noise: ib.Noise,
    horizons: list[int],
    first: int = 0,
) -> np.ndarray:
    """Return the loss a round at each horizon, (instances, horizons)."""
    run = ib.simulate(
        worlds,
        policy,
        horizons[-1],
        noise,
        checkpoints=horizons,
        instance_numbers=[first + n for n in range(len(worlds))],
    )
    return run.loss()[:, 0] / horizons


def indefinite(size: float) -> Iterator[str]:
    """Where A is not positive semi-definite, and what comparing plans costs where it is."""
    horizons = [100, 1000, 10_000]
    policies = {
        "ModelLCB": ib.ModelLCB(),
        "ModelLCB(definite=False)": ib.ModelLCB(definite=False),
        "InfluentialLCB": ib.InfluentialLCB(),
        "FEWA": ib.FEWA(),
    }
    number = round(100 * size)
    strange = [ib.indefinite_instance(3, FIRST + k) for k in range(number)]
    for name, worlds in (("indefinite", strange), ("random", instances(number))):
        rows = {n: list(regrets(worlds, p, horizons).mean(0)) for n, p in policies.items()}
        yield from table(f"mean regret, {number} {name} instances", horizons, rows)


PARTS: dict[str, Callable[[float], Iterator[str]]] = {
    "growth": growth,
    "tail": tail,
    "oracle": against_oracle,
    "quiet": quiet,
    "warm": warm,
    "practice": practice,
    "fading": fading,
    "rivals": rivals,
    "indefinite": indefinite,
}


def main() -> None:
    """Print the tables, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--quick", action="store_true", help="a tenth of the instances")
    given = parser.parse_args()
    for name in given.parts or PARTS:
        for line in PARTS[name](0.1 if given.quick else 1.0):
            print(line, flush=True)


if __name__ == "__main__":
    main()
