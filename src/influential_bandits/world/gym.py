"""The Gymnasium environment ``InfluentialBandit-v0``, one or many at a time; the extra ``gym``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, require_horizon, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.streams import NOISE, key_table
from influential_bandits.packages import optional_module
from influential_bandits.world.dynamics import Progress, start_progress
from influential_bandits.world.environment import Environment, expect_all, pull_all
from influential_bandits.world.generators import counterexample
from influential_bandits.world.instance import Instance, require_instance, require_no_clock
from influential_bandits.world.noise import Noise, require_noise

if TYPE_CHECKING:
    import gymnasium
else:
    gymnasium = optional_module("gymnasium")

ENVIRONMENT = "InfluentialBandit-v0"

Observation = npt.NDArray[np.float64] | dict[str, npt.NDArray[Any]]
Info = dict[str, Any]


class InfluentialBanditEnv(gymnasium.Env[Observation, np.int64]):
    """An influential bandit as a Gymnasium environment: the reward is minus the observed loss.

    ``info["expected_losses"]`` holds the losses before noise that the arms would have in the next
    round, (arms,).

    Parameters
    ----------
    instance : Instance
        By default Prop. 2.2's counterexample.
    noise : Noise, optional
        By default none.
    horizon : int
        The episode is truncated after so many rounds.
    observe : {"loss", "counts"}
        "loss": the last observed loss, (1,), 0 before the first. "counts": a dictionary with that
        loss and the counts of all arms, the state of the paper's MDP view.
    instance_number : int
        With the seed, chooses the stream of the noise, as in :func:`simulate`.

    Examples
    --------
    >>> import gymnasium, influential_bandits as ib
    >>> name = "influential_bandits.world.gym:InfluentialBandit-v0"
    >>> env = gymnasium.make(name, instance=ib.counterexample(), horizon=2)
    >>> observation, info = env.reset(seed=0)
    >>> info["expected_losses"]
    array([1., 1.])
    >>> env.step(1)[1:4]
    (-1.0, False, False)
    >>> env.step(1)[1:4]
    (-3.0, False, True)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        instance: Instance | None = None,
        noise: Noise | None = None,
        horizon: int = 1000,
        observe: str = "loss",
        instance_number: int = 0,
        render_mode: None = None,
    ) -> None:
        self.instance, self.noise, self.horizon = _settings(instance, noise, horizon)
        self.observe = observe
        self.instance_number = instance_number
        self.render_mode = render_mode
        self.action_space, self.observation_space = _spaces(
            self.instance.n_arms, self.horizon, observe
        )
        self._play: Environment | None = None

    def __repr__(self) -> str:
        return f"InfluentialBanditEnv({self.instance!r}, {self.noise!r}, horizon {self.horizon:,})"

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**63))
        self._play = Environment(self.instance, self.noise, seed, self.instance_number)
        return self._observation(0.0), {"expected_losses": self._play.expected_losses()}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, Info]:
        if self._play is None or self._play.round >= self.horizon:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() first")
        loss = self._play.pull(action)  # type: ignore[arg-type]
        truncated = self._play.round >= self.horizon
        info = {"expected_losses": self._play.expected_losses()}
        return self._observation(loss), -loss, False, truncated, info

    def _observation(self, loss: float) -> Observation:
        last = np.array([loss])
        if self.observe == "loss" or self._play is None:
            return last
        return {"loss": last, "counts": self._play.counts}


class InfluentialBanditVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many environments of one instance, played side by side in compiled code.

    The same bits as of so many single environments: with ``reset(seed=s)`` the i-th has the seed
    s + i. All of them are truncated in the same round, and start again with the next step, whose
    actions are not played (Gymnasium's autoreset mode ``NEXT_STEP``).

    Parameters
    ----------
    num_envs : int
    instance, noise, horizon, observe, instance_number
        As of :class:`InfluentialBanditEnv`.

    Examples
    --------
    >>> import gymnasium, influential_bandits as ib
    >>> name = "influential_bandits.world.gym:InfluentialBandit-v0"
    >>> envs = gymnasium.make_vec(name, num_envs=3, instance=ib.counterexample(), horizon=2)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations, rewards, terminated, truncated, infos = envs.step([0, 1, 1])
    >>> infos["expected_losses"]
    array([[2., 2.],
           [2., 3.],
           [2., 3.]])
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own form
        "render_modes": [],
        "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        instance: Instance | None = None,
        noise: Noise | None = None,
        horizon: int = 1000,
        observe: str = "loss",
        instance_number: int = 0,
        render_mode: None = None,
    ) -> None:
        self.num_envs = whole_number("num_envs", num_envs, 1)
        self.instance, self.noise, self.horizon = _settings(instance, noise, horizon)
        self.observe = observe
        self.instance_number = whole_number("instance_number", instance_number)
        self.render_mode = render_mode
        self.single_action_space, self.single_observation_space = _spaces(
            self.instance.n_arms, self.horizon, observe
        )
        batch = gymnasium.vector.utils.batch_space
        self.action_space = batch(self.single_action_space, self.num_envs)
        self.observation_space = batch(self.single_observation_space, self.num_envs)
        self.round = self.horizon  # pulls so far; nothing can be played before a reset
        self._draws: list[np.random.Generator] = []
        self._source = self.noise.source()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Info | None = None,
    ) -> tuple[Observation, Info]:
        """Start all again; a seed is that of the first, the others count on from there."""
        given = [None] * self.num_envs if seed is None else seed
        if isinstance(given, (int, np.integer)):
            given = [int(given) + n for n in range(self.num_envs)]
        if len(given) != self.num_envs:
            raise InvalidInput(f"seed must be one, or one for each of the {self.num_envs}")
        super().reset(seed=given[0])
        create = gymnasium.utils.seeding.np_random
        self._draws = [
            self._draws[n] if self._draws and chosen is None else create(chosen)[0]
            for n, chosen in enumerate(given)
        ]
        self._start(
            int(draw.integers(2**63)) if chosen is None else whole_number("seed", chosen)
            for draw, chosen in zip(self._draws, given, strict=True)
        )
        return self._observation(np.zeros(self.num_envs)), self._info()

    def _start(self, seeds: Any) -> None:
        """Begin an episode of each environment, with a seed for each."""
        numbers = np.array(list(seeds), np.uint64)
        self._keys = key_table(numbers, np.uint64(self.instance_number), NOISE)
        parts: Any = (
            np.tile(part, (self.num_envs, 1)) for part in start_progress(self.instance.world)
        )
        self._progress = Progress(*parts)
        self.round = 0

    def step(self, actions: npt.ArrayLike) -> tuple[Observation, Any, Any, Any, Info]:
        """Pull an arm in each environment; after the last round, start all of them again."""
        if not self._draws:
            raise gymnasium.error.ResetNeeded("call reset() first")
        losses, over = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        if self.round >= self.horizon:
            self._start(int(draw.integers(2**63)) for draw in self._draws)
        else:
            arms = self._check(actions)
            self.round += 1
            world, source = self.instance.world, self._source
            pull_all(world, self._progress, source, self._keys, self.round, arms, losses)
        truncated = np.full(self.num_envs, self.round >= self.horizon)
        return self._observation(losses), -losses, over, truncated, self._info()

    def _check(self, actions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        arms = np.asarray(actions)
        if arms.shape != (self.num_envs,) or arms.dtype.kind not in "iu":
            raise InvalidInput(
                f"actions must be {self.num_envs} numbers of arms, got {abbreviate(actions)}"
            )
        if (arms < 0).any() or (arms >= self.instance.n_arms).any():
            raise InvalidInput(
                f"actions must be arms 0 … {self.instance.n_arms - 1}, got {abbreviate(actions)}"
            )
        return arms.astype(np.int64)

    def _observation(self, losses: npt.NDArray[np.float64]) -> Observation:
        if self.observe == "loss":
            return losses[:, None].copy()
        return {"counts": self._progress.counts.copy(), "loss": losses[:, None].copy()}

    def _info(self) -> Info:
        expected = np.empty((self.num_envs, self.instance.n_arms))
        expect_all(self.instance.world, self._progress, self.round + 1, expected)
        # Gymnasium's form: a key with a mask of the environments that have it
        there = np.ones(self.num_envs, np.bool_)
        return {"expected_losses": expected, "_expected_losses": there}


def _settings(
    instance: Instance | None, noise: Noise | None, horizon: int
) -> tuple[Instance, Noise, int]:
    world = counterexample() if instance is None else require_instance(instance)
    require_no_clock(world, "a Gymnasium environment")
    heard, rounds = require_noise(noise), require_horizon(horizon)
    heard.require_rounds(rounds, 1)
    return world, heard, rounds


def _spaces(n_arms: int, horizon: int, observe: str) -> tuple[Any, Any]:
    """Return the spaces of actions and of observations."""
    if observe not in ("loss", "counts"):
        raise InvalidInput(f'observe must be "loss" or "counts", got {observe!r}')
    loss = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    counts = gymnasium.spaces.Box(0, horizon, (n_arms,), np.int64)
    seen = loss if observe == "loss" else gymnasium.spaces.Dict({"loss": loss, "counts": counts})
    return gymnasium.spaces.Discrete(n_arms), seen


def register() -> None:
    """Make the environment known to Gymnasium; does nothing the second time."""
    if ENVIRONMENT not in gymnasium.registry:
        home = "influential_bandits.world.gym"
        gymnasium.register(
            ENVIRONMENT,
            entry_point=f"{home}:InfluentialBanditEnv",
            vector_entry_point=f"{home}:InfluentialBanditVectorEnv",
        )


register()
