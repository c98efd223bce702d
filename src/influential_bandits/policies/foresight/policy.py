"""Foresight: count what a pull will cost later, and look again where that is worth its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from influential_bandits.checks import (
    abbreviate,
    is_real,
    require_half_life,
    require_horizon,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.portable import halve
from influential_bandits.policies.contract import Policy, Scalar, Shape
from influential_bandits.policies.foresight.hypotheses import (
    MEANS,
    MEMORIES,
    MOST_ARMS,
    add_loss,
)
from influential_bandits.policies.foresight.posterior import (
    HYPOTHESES,
    choose_hypotheses,
    fit,
    posterior_fields,
)
from influential_bandits.policies.foresight.prior import LossPrior
from influential_bandits.policies.foresight.rule import (
    EXACT_ARMS,
    choose_arm,
    count_pull,
    expect_losses,
)
from influential_bandits.policies.foresight.users import (
    DIFFERENCES,
    TASTES,
    Rules,
    Shared,
    make_shared,
    take_loss,
    take_prior,
)
from influential_bandits.policies.selection import unseen_arm


@dataclass(frozen=True)
class Foresight(Policy):
    """Pull the arm that costs least, now and later, less what its loss would teach.

    The loss of an arm is taken to be a level plus what recent pulls of all arms add. Levels and
    influence are drawn around common means that are unknown, so that what is seen of one arm tells
    of all; noise, spreads and memory are weighed by how likely they make the losses. There is no
    randomness: every choice has probability 1. docs/explanation/foresight.md has the model, the
    rule, every constant, and what was measured.

    Up to 24 arms, each pair has an influence of its own, in O(K³) a round. With more, each arm has
    its own and that of all others together, in O(K).

    Parameters
    ----------
    memory : float in (0, 1] or "estimate"
        γ: how much of a pull's influence is left after each further round. If estimated, 1, 0.97,
        0.85 and 0.5 are weighed.
    horizon : int, optional
        How many rounds will be played. The rounds ahead are taken to be half of those played, and
        at least one for each arm, but no more than are left.
    half_life : float, optional
        Hours after which half of a pull's influence is gone, by the clock; ``memory`` is then 1
        unless it is given. Pulls must have times: ``Agent.pull(at=…)``, or ``Scenario(times=…)``.
    prior : LossPrior, optional
        What is known before, as in ``Foresight(prior=model.prior())`` for a fitted
        :class:`InfluenceModel`; it says how influence fades, too. Arms beyond those that it is
        about start from nothing.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> instances = [ib.random_instance(n_arms=3, seed=seed) for seed in range(20)]
    >>> for policy in (ib.LCB(), Foresight()):
    ...     run = ib.simulate(instances, policy, horizon=10_000, noise=ib.GaussianNoise(1.0))
    ...     print(type(policy).__name__, f"{run.regret()[..., -1].mean():.1e}")
    LCB 4.9e+04
    Foresight 2.6e+03
    """

    memory: float | str = "estimate"
    horizon: int | None = None
    half_life: float | None = None
    prior: LossPrior | None = None

    def __post_init__(self) -> None:
        if isinstance(self.prior, Mapping):
            object.__setattr__(self, "prior", LossPrior.from_json(self.prior))
        if self.prior is not None:
            if not isinstance(self.prior, LossPrior):
                raise InvalidInput(f"prior must be a LossPrior, got {abbreviate(self.prior)}")
            if self.memory != "estimate" or self.half_life is not None:
                raise InvalidInput(
                    "a prior says how influence fades; drop memory and half_life, or make the "
                    "prior with them"
                )
            if self.prior.n_arms > MOST_ARMS:
                raise InvalidInput(
                    f"a prior may have up to {MOST_ARMS} arms, this one has {self.prior.n_arms}"
                )
        if not (isinstance(self.memory, str) and self.memory == "estimate"):
            if not is_real(self.memory) or not 0.0 < float(self.memory) <= 1.0:
                raise InvalidInput(
                    'memory must be a number above 0 and at most 1, or "estimate", got '
                    f"{abbreviate(self.memory)}"
                )
            object.__setattr__(self, "memory", float(self.memory))
        object.__setattr__(self, "half_life", require_half_life(self.half_life))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", require_horizon(self.horizon))

    @property
    def by_clock(self) -> bool:
        """Whether it has a half-life, its own or its prior's."""
        return self.effective_half_life is not None

    @property
    def effective_half_life(self) -> float | None:
        """Hours after which half of a pull's influence is gone: its own, or its prior's."""
        return self.half_life if self.prior is None else self.prior.half_life

    def parameters(self) -> Mapping[str, Scalar]:
        """Return the settings as numbers; 0 stands for what is not given."""
        memory = self.memory if self.prior is None else self.prior.memory
        return {
            "memories": self._memories(),
            "memory": 1.0 if isinstance(memory, str) else memory,
            "tastes": 1,
            "differences": 1,
            "horizon": self.horizon or 0,
            "half_life": self.effective_half_life or 0.0,
        }

    def rules(self, n_arms: int) -> Rules:
        """Return the settings of a fleet of users."""
        differences = DIFFERENCES if n_arms <= EXACT_ARMS else 1
        of_users = {"tastes": TASTES, "differences": differences}
        return Rules(n_arms, **{**self.parameters(), **of_users})  # type: ignore[arg-type]

    def start(self, n_arms: int) -> Shared:
        """Return what a fleet of users knows before the first loss."""
        rules = self.rules(n_arms)
        shared = make_shared(rules)
        if self.prior is not None:
            self._require_room(n_arms)
            take_prior(rules, shared, self.prior)
        return shared

    def _require_room(self, n_arms: int) -> None:
        if self.prior is not None and self.prior.n_arms > n_arms:
            raise InvalidInput(
                f"the prior is about {self.prior.n_arms} arms, and there are {n_arms}"
            )

    def _memories(self) -> int:
        told = self.memory != "estimate" or self.by_clock or self.prior is not None
        return 1 if told else len(MEMORIES)

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Counts, sums of losses by arm and memory, and the posterior of each hypothesis."""
        memories = self._memories()
        return {
            **posterior_fields(n_arms, memories),
            "pulls": ("int64", n_arms),
            "counts": ("float64", n_arms * memories),  # faded pulls
            "total": ("float64", memories),
            # With few arms these are kept as well, and ready should there be many.
            "coarse_products": ("float64", (n_arms, 6 * memories)),
            "coarse_moments": ("float64", (n_arms, 3 * memories)),
            "kept": ("float64", 2 * self.by_clock),  # Σ what was left a round later, and rounds
            "stays": ("float64", 0),  # of users, in a fleet
        }

    def initial_state(self, n_arms: int) -> Mapping[str, Any]:
        """Return the prior as losses that were seen before."""
        self._require_room(n_arms)
        if self.prior is None or n_arms > MOST_ARMS:
            return {}
        products, moments, squares, seen = self.prior.sums(n_arms, self.prior.taste)
        return {
            "products": products,
            "moments": moments,
            "squares": np.array([squares]),
            "seen": seen,
            "observations": np.array([seen.sum()]),
        }

    def memo_size(self, n_arms: int) -> int:
        """The counts at the pull: own, those of all others, and of each arm if they are few."""
        return ((n_arms if n_arms <= MOST_ARMS else 0) + 2) * self._memories()

    @staticmethod
    def init(c: Any, s: Any) -> None:
        """Nothing is known; the first loss sets the scale."""
        s.next_choice[0] = 1
        if s.observations[0] > 0:
            choose_hypotheses(c, s)
        if c.half_life > 0.0:
            s.kept[0] = 0.5
            s.kept[1] = 1.0

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm with the smallest price less the value of a look."""
        if s.observations[0] == 0:
            return unseen_arm(s.seen, s.pulls, eligible)
        return choose_arm(c, s, s, t, eligible, np.zeros(c.n_arms))

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        """Leave the counts as they were for the loss, and count the pull."""
        count_pull(c, s, arm, memo)

    @staticmethod
    def elapsed(c: Any, s: Any, hours: float) -> None:
        """Let influence fade by the clock."""
        if c.half_life == 0.0:
            return
        kept = halve(hours / c.half_life)
        s.kept[0] += kept
        s.kept[1] += 1.0
        for k in range(s.counts.size):
            s.counts[k] *= kept
        for m in range(c.memories):
            s.total[m] *= kept

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Take the loss into all sums, and into the posteriors."""
        few, coarse = s.products.shape[0], memo[: 2 * c.memories]
        if few == 0:
            take_loss(c, s, s, arm, coarse, loss)
        else:
            add_loss(s.coarse_products, s.coarse_moments, arm, coarse, c.memories, loss)
            take_loss(c, s, s, arm, memo[coarse.size :][: few * c.memories], loss)

    @staticmethod
    def expected(c: Any, s: Any, losses: Any) -> None:
        """Write what each arm would cost now, averaged over the hypotheses."""
        size = s.response.shape[1] // MEANS
        soon, later = np.zeros((c.n_arms, size)), np.zeros((c.n_arms, size))
        if s.observations[0] > 0:
            expect_losses(c, s, s, 0.0, losses, soon, later)

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """The new arm has the coefficients that are expected of any."""
        for h in range(HYPOTHESES):
            if s.weight[h] > 0.0:
                fit(c, s, h)
