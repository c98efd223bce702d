"""The Gymnasium environment ``InfluentialBandit-v0``; needs the extra ``gym``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import require_horizon
from influential_bandits.errors import InvalidInput
from influential_bandits.packages import optional_module
from influential_bandits.world.environment import Environment
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
        self.instance = counterexample() if instance is None else require_instance(instance)
        require_no_clock(self.instance, "a Gymnasium environment")
        self.noise, self.horizon = require_noise(noise), require_horizon(horizon)
        self.noise.require_rounds(self.horizon, 1)
        if observe not in ("loss", "counts"):
            raise InvalidInput(f'observe must be "loss" or "counts", got {observe!r}')
        self.observe = observe
        self.instance_number = instance_number
        self.render_mode = render_mode
        n_arms, spaces = self.instance.n_arms, gymnasium.spaces
        loss = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        counts = spaces.Box(0, self.horizon, (n_arms,), np.int64)
        seen: Any = loss if observe == "loss" else spaces.Dict({"loss": loss, "counts": counts})
        self.action_space, self.observation_space = spaces.Discrete(n_arms), seen
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


def register() -> None:
    """Make the environment known to Gymnasium; does nothing the second time."""
    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(
            ENVIRONMENT, entry_point="influential_bandits.world.gym:InfluentialBanditEnv"
        )


register()
