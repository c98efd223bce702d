"""Play policies in worlds that the package's own model of losses does not describe.

``python docs/measurements/foreign_worlds.py [WORLD ...] [--policies …] [--size 0.1]``

The worlds follow papers, not the package, and no setting of a policy was chosen on them. Instances
are numbered from 3,000,000. Every policy plays through ``Agent``, a round at a time, and sees the
noisy losses; compared are the expected losses of what it pulled. The bar is the best of LCB,
Thompson sampling, FEWA and the retired ModelLCB, in each world the one with the smallest mean.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

import influential_bandits as ib
from influential_bandits.policies.registry import policy_from_text

sys.path.insert(0, str(Path(__file__).parent))
from retired import scores_of_retired

FIRST = 3_000_000
RETIRED = "ModelLCB"
RIVALS = ("LCB", "EstimatedThompson", "FEWA")
BAR = (*RIVALS, RETIRED)
ALWAYS = (*RIVALS, "InfluentialLCB", "Foresight", "Uniform")
ORACLE = "oracle"

Mean = Callable[[np.ndarray], np.ndarray]  # from exposures to mean losses, both (batch, arms)


@dataclass(frozen=True)
class EstimatedThompson(ib.Policy):
    """Thompson sampling for normal losses whose common variance is estimated.

    Pull the arm with the smallest draw from N(mean, s²/n), s² being the variance of losses around
    the mean of their arm; until an arm has a second loss, the variance of all losses.
    """

    def fields(self, n_arms: int) -> dict[str, tuple[str, int]]:
        """Return number, mean and squares around it, of each arm's losses and of all."""
        return dict.fromkeys(("number", "mean", "squares"), ("float64", n_arms + 1))

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm with the smallest draw; arms without a loss come first."""
        arms, losses = c.n_arms, s.number[c.n_arms]
        variance = s.squares[arms] / max(losses - 1.0, 1.0)
        if losses > arms:
            variance = s.squares[:arms].sum() / (losses - arms)
        best, least = -1, np.inf
        for arm in range(arms):
            if eligible is None or eligible[arm]:
                if s.number[arm] == 0.0:
                    return arm
                draw = np.sqrt(variance / s.number[arm]) * ib.random.normal(rng, arm)
                if s.mean[arm] + draw < least:
                    best, least = arm, s.mean[arm] + draw
        return best

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Update the sums of the arm and of all (Welford)."""
        for row in (arm, c.n_arms):
            s.number[row] += 1.0
            before = loss - s.mean[row]
            s.mean[row] += before / s.number[row]
            s.squares[row] += before * (loss - s.mean[row])


@dataclass(frozen=True)
class Window:
    """A pull r rounds ago counts ``weights[r - 1]``, and earlier ones nothing."""

    weights: tuple[float, ...]

    def start(self, n_arms: int) -> np.ndarray:
        """Return the state before the first pull, of a batch of one course."""
        return np.zeros((1, len(self.weights), n_arms))

    def after(self, state: np.ndarray, arms: np.ndarray) -> np.ndarray:
        """Return the states after one pull each, ``arms`` (batch,)."""
        state = np.roll(state, 1, axis=1)
        state[:, 0] = 0.0
        state[np.arange(len(arms)), 0, arms] = 1.0
        return state

    def exposure(self, state: np.ndarray) -> np.ndarray:
        """Return how much of each arm is remembered, (batch, arms)."""
        return np.asarray(self.weights) @ state

    def remembered(self, rounds: int) -> float:
        """Return the sum of what one pull counts in so many rounds after it."""
        return sum(self.weights[:rounds])


class Fading(Window):
    """A pull counts the one weight a round later, and fades by that factor in every round."""

    def after(self, state: np.ndarray, arms: np.ndarray) -> np.ndarray:
        """Return the states after one pull each, ``arms`` (batch,)."""
        state = self.weights[0] * state
        state[np.arange(len(arms)), 0, arms] += 1.0
        return state

    def remembered(self, rounds: int) -> float:
        """Return the sum of what one pull counts in so many rounds after it."""
        return float((self.weights[0] ** np.arange(1, rounds + 1)).sum())


@dataclass(frozen=True)
class Normal:
    """Mean losses with normal noise."""

    sigma: float

    def expected(self, mean: np.ndarray) -> np.ndarray:
        """Return the expected losses."""
        return mean

    def loss(self, mean: float, noise: float) -> float:
        """Return the loss at a standard normal ``noise``."""
        return mean + self.sigma * noise


class Clicks(Normal):
    """A click has loss 0, none has loss 1; the mean loss is the chance of none."""

    def loss(self, mean: float, noise: float) -> float:
        """Return 0 or 1."""
        return float(ndtr(noise) < mean)


class Stars(Normal):
    """Opinions with normal noise, told in 1 to 5 whole stars; the loss is what 5 stars lack."""

    def expected(self, mean: np.ndarray) -> np.ndarray:
        """Return the expected losses, other than ``mean`` by rounding and clipping."""
        return ndtr((mean[..., None] - np.array([0.5, 1.5, 2.5, 3.5])) / self.sigma).sum(axis=-1)

    def loss(self, mean: float, noise: float) -> float:
        """Return the loss, from 0 to 4."""
        return float(np.clip(np.round(mean + self.sigma * noise), 0.0, 4.0))


def draw_satiation(strength: float, draw: np.random.Generator) -> Mean:
    """Each showing of a topic takes stars from the next ones, and this rebounds."""
    level = draw.uniform(-0.5, 4.5, 19)
    return lambda shown: level + strength * shown


def draw_boost(draw: np.random.Generator) -> Mean:
    """A topic gains 0.4 stars a showing up to a count of 2, then loses 1 star a showing."""
    level = draw.uniform(-0.5, 4.5, 19)
    return lambda shown: level - 0.4 * np.minimum(shown, 2.0) + np.maximum(shown - 2.0, 0.0)


def draw_cubic(draw: np.random.Generator) -> Mean:
    """A cubic polynomial of recency: some of it raises the reward or not, the most lowers it."""
    most = sum(RECENCY.weights)
    low, high = np.array([0.0, -0.2, -0.4, -0.8]), np.array([0.0, 0.3, 0.2, 0.0])
    values = draw.uniform(0.3, 0.8, 4)[:, None] + draw.uniform(low, high, (4, 4))
    powers = np.vander(np.linspace(0.0, most, 4), increasing=True)
    coefficients = np.linalg.solve(powers, values.T)  # (powers, arms)
    return lambda recency: -np.polynomial.polynomial.polyval(recency, coefficients, tensor=False)


def draw_moves(scale: float, draw: np.random.Generator) -> Mean:
    """Each arm bores, and moves the losses of others without being moved in return."""
    level = draw.uniform(0.0, 1.0, 5)
    moves = scale * draw.standard_normal((5, 5))  # [i, j]: of a pull of i, for arm j
    np.fill_diagonal(moves, np.abs(np.diag(moves)))
    return lambda counts: level + counts @ moves


def draw_threshold(draw: np.random.Generator) -> Mean:
    """Each showing beyond an arm's limit within 20 rounds takes a quarter of its clicks."""
    chance = draw.uniform(0.05, 0.5, 10)
    limit = draw.integers(2, 7, 10)
    return lambda shown: 1.0 - chance * np.clip(1.0 - 0.25 * (shown - limit), 0.0, 1.0)


@dataclass(frozen=True)
class Setting:
    """A kind of world."""

    arms: int
    rounds: int
    ahead: int  # rounds that the oracle looks ahead
    memory: Window
    outcome: Normal
    draw: Callable[[np.random.Generator], Mean]


RECENCY = Window(tuple(1.0 / r for r in range(1, 6)))
SETTINGS = {
    # Leqi, Kılınç-Karzan, Lipton and Montgomery (2021), "Rebounding bandits"; clipping is ours.
    "satiation": Setting(19, 100, 5, Fading((0.5,)), Stars(0.5), partial(draw_satiation, 3.0)),
    # Interest first, then boredom: neither a line nor a polynomial.
    "boost": Setting(19, 100, 5, Fading((0.8,)), Stars(0.5), draw_boost),
    "nothing": Setting(19, 100, 0, Fading((0.5,)), Stars(0.5), partial(draw_satiation, 0.0)),
    # Warlop, Lazaric and Mary (2018), "Fighting boredom in recommender systems".
    "cubic": Setting(4, 2000, 10, RECENCY, Normal(0.25), draw_cubic),
    "one-way-0.9": Setting(5, 1000, 0, Fading((0.9,)), Normal(1.0), partial(draw_moves, 0.2)),
    "one-way-1": Setting(5, 1000, 0, Fading((1.0,)), Normal(1.0), partial(draw_moves, 0.002)),
    "threshold": Setting(10, 500, 5, Window((1.0,) * 20), Clicks(1.0), draw_threshold),
}


class World:
    """An instance in play."""

    def __init__(self, name: str, number: int) -> None:
        self.setting = SETTINGS[name]
        draw = np.random.default_rng([FIRST + number, list(SETTINGS).index(name)])
        self._mean = self.setting.draw(draw)
        self._noise = draw.standard_normal(self.setting.rounds)
        self.state = self.setting.memory.start(self.setting.arms)
        self.counts = np.zeros(self.setting.arms)
        self.round, self.total = 0, 0.0  # rounds played, and the expected losses of their pulls

    def expected(self, state: np.ndarray, more: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the expected losses, (batch, arms), if ``more`` were remembered."""
        exposure = self.setting.memory.exposure(state) + more
        return self.setting.outcome.expected(self._mean(exposure))

    def pull(self, arm: int) -> float:
        """Return the loss of a pull, after which the world has moved."""
        mean = self._mean(self.setting.memory.exposure(self.state))[0, arm]
        self.total += float(self.setting.outcome.expected(mean))
        loss = self.setting.outcome.loss(mean, self._noise[self.round])
        self.state = self.setting.memory.after(self.state, np.array([arm]))
        self.counts[arm] += 1.0
        self.round += 1
        return loss


def look_ahead(world: World) -> int:
    """Return the arm that is best if the smallest expected losses are pulled after it."""
    setting, arms = world.setting, np.arange(world.setting.arms)
    total, picks = world.expected(world.state)[0], arms
    states = np.repeat(world.state, len(arms), axis=0)
    for _ in range(min(setting.ahead, setting.rounds - world.round - 1)):
        states = setting.memory.after(states, picks)
        losses = world.expected(states)
        picks = losses.argmin(axis=1)
        total += losses[arms, picks]
    return int(total.argmin())


def count_later(world: World) -> int:
    """Return the arm that costs least with what it adds to later losses, arms in their shares."""
    now = world.expected(world.state)[0]
    added = world.expected(world.state, np.eye(len(now))) - now  # [i, j]: to the loss of j by i
    shares = world.counts / max(world.round, 1)
    rest = world.setting.memory.remembered(world.setting.rounds - world.round - 1)
    return int((now + rest * added @ shares).argmin())


def play_oracle(name: str, number: int) -> float:
    """Return the mean loss of the better one of two rules that see the expected losses."""
    totals = []
    for rule in (look_ahead, count_later):
        world = World(name, number)
        while world.round < world.setting.rounds:
            world.pull(rule(world))
        totals.append(world.total)
    return min(totals) / SETTINGS[name].rounds


def play(name: str, policy: str, number: int) -> float:
    """Return the mean expected loss of the arms that a policy pulls."""
    if policy == ORACLE:
        return play_oracle(name, number)
    world = World(name, number)
    agent = ib.Agent(policy_from_text(policy), world.setting.arms, seed=FIRST + number)
    for _ in range(world.setting.rounds):
        ticket = agent.pull()
        agent.observe(ticket, world.pull(ticket.arm))
    return world.total / world.setting.rounds


def estimate(values: np.ndarray, style: str = ".4f") -> str:
    """Return a mean ± its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{style}} ± {error:{style.strip('+')}}"


def table(name: str, losses: dict[str, np.ndarray]) -> Iterator[str]:
    """Yield the table of a world: losses a round, and how far from the best rival."""
    setting = SETTINGS[name]
    rival = min(BAR, key=lambda policy: losses[policy].mean())
    span = losses["Uniform"].mean() - losses[ORACLE].mean()
    yield f"{name}: {setting.arms} arms, {setting.rounds} rounds, {len(losses[rival])} instances;"
    yield f"from Uniform to the oracle {span:.4f} a round"
    yield ""
    yield f"| policy | loss a round | less {rival} | in % of the range |"
    yield "|---|---:|---:|---:|"
    for policy, values in sorted(losses.items(), key=lambda row: row[1].mean()):
        less, share = values - losses[rival], 100.0 * (values - losses[rival]) / span
        cells = f"{estimate(values)} | {estimate(less, '+.4f')} | {estimate(share, '+.1f')}"
        yield f"| {policy} | {cells} |"
    yield ""


def main() -> None:
    """Print a table for each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", choices=[[], *SETTINGS])
    parser.add_argument("--policies", default="", help="more of them, as in LCB,mine.py:Own(c=2)")
    parser.add_argument("--size", type=float, default=1.0, help="share of the instances")
    options = parser.parse_args()
    more = [text for text in re.split(r",(?![^(]*\))", options.policies) if text]
    policies = list(dict.fromkeys([ORACLE, *ALWAYS, *more]))
    retired = scores_of_retired("foreign")
    with ProcessPoolExecutor(2) as pool:
        for name in options.worlds or SETTINGS:
            numbers = range(max(2, round(options.size * len(retired[name]))))
            losses = {
                policy: np.array(list(pool.map(partial(play, name, policy), numbers, chunksize=8)))
                for policy in policies
            }
            losses[RETIRED] = retired[name][: len(numbers)]
            print("\n".join(table(name, losses)), flush=True)


if __name__ == "__main__":
    main()
