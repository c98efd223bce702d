"""ModelLCB: learn (l1, A) while playing, and look at an arm again only when it can pay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_LOSS,
    abbreviate,
    is_real,
    require_half_life,
    require_horizon,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.portable import halve, log
from influential_bandits.policies.contract import Policy, Scalar, Shape
from influential_bandits.policies.model_lcb import marginal_likelihood as evidence
from influential_bandits.policies.model_lcb.belief import (
    MANY,
    MEMORIES,
    MOST_EXACT,
    choose_prior,
    fading_of,
    lay_out_arm,
    learn_ray,
    look,
    memory_of,
    predict_all,
    rebuild,
    set_radius,
)
from influential_bandits.policies.model_lcb.indefinite import (
    choose_mix,
    count_pull,
    follow_mix,
    plans_again,
)
from influential_bandits.policies.model_lcb.looks import choose_planned, count_costs, look_again
from influential_bandits.policies.model_lcb.posterior import (
    fade,
    learn,
    move,
    unknowns,
)
from influential_bandits.policies.model_lcb.prior import LossPrior, find_root
from influential_bandits.policies.selection import unseen_arm

__all__ = ["ModelLCB"]

AFRESH = 1024  # pulls after which the spread is computed afresh, against rounding
LAST_CHOICE = 1 << 15  # observations; by then a prior hardly counts, unless it denies influence
LARGEST_PART = 1e140  # of the posterior: times counts, and squared, it stays finite
LARGEST_STATE = 1e290
HALF = 0.5  # of a pull's influence is taken to be left a round later, before any time has passed


@dataclass(frozen=True)
class ModelLCB(Policy):
    """Play the smallest posterior mean; look at an arm again only if its lower bound pays for it.

    The losses are linear in (l1, A), so that a Gaussian posterior over them is exact. A pull shows
    more the later it comes, since losses grow with t, and a pull of an arm outside the best mix
    costs (gap · T) whenever it comes. So the policy is greedy, and patient: an arm i is pulled
    although another, g, has the smallest mean m if

        m_i − r·s_i < m_g − 64·r    (then its loss may really be lower; this is what is proved), or
        m_i − 4σ·s_i < m_g − 20σ    (a guess that saves regret; less patient where A is small),

    s_i being the posterior's standard deviation in units of the noise σ, and r an anytime radius:
    if the noise is normal, memory lasts, losses come at once, all arms are on offer and the prior
    is as wide as the truth, every loss lies within m_i ± r·s_i in all rounds at once with
    probability ``confidence``, and then the regret is O(K³·T·log^{3/2}T). The theorem, its proof
    and what was tried: docs/explanation/model_lcb.md. Noise, the scales of l1 and A, whether arms
    are alike, and memory are estimated by the marginal likelihood, anew whenever the number of
    observations has grown by half (beyond ten arms: doubled). Estimated scales may be too small for
    the theorem, and that of l1 cannot be fixed. Multiplying all losses by a power of two changes no
    choice.

    Where memory fades, m_i is what a pull costs now and in later rounds, so that the smallest one
    follows a schedule. There, and where no influence is seen, arms that cannot be told apart take
    turns, the more rarely the larger their means.

    Where the losses refute that A is positive semi-definite, arms may get better for being pulled.
    There the policy follows the mix of one or two arms whose total loss over the rounds ahead has
    the lowest lower bound, unless the smallest loss of each round promises more.

    Up to 24 arms the posterior is exact, with A's symmetry shared, in O(K⁴) a round. With more,
    each arm has a model of three features, in O(K) a round: an intercept, its own pulls, and those
    of all others.

    Parameters
    ----------
    confidence : float in (0, 1)
        Of the radius.
    sigma : float or "estimate"
        Standard deviation σ of the noise.
    influence_scale : float or "estimate"
        Typical size of the entries of A, for the prior: single ones may be larger, so that it is no
        bound, as ``influence_bound`` of :class:`InfluentialLCB` is. To fix it, fix sigma as well.
    memory : float in (0, 1] or "estimate"
        γ: how much of a pull's influence is left after each further pull. Estimated, it is one of
        1, 0.99, 0.97, 0.9 and 0.7, and 1 unless the losses refute it; with more than 24 arms, 1.
    horizon : int, optional
        Number of rounds to plan for. Then arms that the best mix of the rounds left has no use for
        are not played for their present loss. Without it, rounds are planned only with a prior or
        where memory fades, for ten times as many as were played.
    prior : LossPrior, optional
        Where to start from, as in ``ModelLCB(prior=model.prior())`` for a fitted
        :class:`InfluenceModel`; up to 24 arms. It counts as an observation of (l1, A), beside which
        noise and scales are estimated as ever. The theorem does not cover it, nor ``horizon``.
    definite : bool
        Whether A is taken for positive semi-definite until the losses refute it. If not, plans are
        compared from the start, which the theorem does not cover; up to 24 arms.
    half_life : float, optional
        Hours after which half of a pull's influence is gone, by the clock; ``memory`` is then 1
        unless it is given. Pulls must have times: ``Agent.pull(at=…)``, or ``Scenario(times=…)``.
        How much is left from one round to the next, for planning, is the average so far. A prior
        says what it is.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> instances = [ib.random_instance(n_arms=3, seed=seed) for seed in range(20)]
    >>> for policy in (ib.LCB(), ib.InfluentialLCB(), ib.ModelLCB()):
    ...     run = ib.simulate(instances, policy, horizon=10_000, noise=ib.GaussianNoise(1.0))
    ...     print(type(policy).__name__, f"{run.regret()[..., -1].mean():.1e}")
    LCB 4.9e+04
    InfluentialLCB 2.8e+04
    ModelLCB 3.4e+03
    """

    confidence: float = 0.99
    sigma: float | str = "estimate"
    influence_scale: float | str = "estimate"
    memory: float | str = "estimate"
    horizon: int | None = None
    prior: LossPrior | None = None
    definite: bool = True
    half_life: float | None = None

    def __post_init__(self) -> None:
        if not is_real(self.confidence) or not 0.0 < self.confidence < 1.0:
            raise InvalidInput(
                f"confidence must lie between 0 and 1, got {abbreviate(self.confidence)}"
            )
        for name, top in (
            ("sigma", LARGEST_LOSS),
            ("influence_scale", LARGEST_LOSS),
            ("memory", 1.0),
        ):
            value = getattr(self, name)
            if isinstance(value, str) and value == "estimate":
                continue
            if not is_real(value) or not 0.0 < float(value) <= top:
                bound = " and at most 1" if top == 1.0 else f" (and at most {top:g})"
                raise InvalidInput(
                    f'{name} must be a number above 0{bound}, or "estimate", got '
                    f"{abbreviate(value)}"
                )
            object.__setattr__(self, name, float(value))
        if self.influence_scale != "estimate" and self.sigma == "estimate":
            raise InvalidInput("to fix influence_scale, fix sigma as well")
        if not isinstance(self.definite, bool):
            raise InvalidInput(f"definite must be True or False, got {abbreviate(self.definite)}")
        object.__setattr__(self, "half_life", require_half_life(self.half_life))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", require_horizon(self.horizon))
        if isinstance(self.prior, Mapping):
            object.__setattr__(self, "prior", LossPrior.from_json(self.prior))
        if self.prior is not None:
            if not isinstance(self.prior, LossPrior):
                raise InvalidInput(f"prior must be a LossPrior, got {abbreviate(self.prior)}")
            fixed = [
                n for n in ("sigma", "influence_scale", "memory") if getattr(self, n) != "estimate"
            ]
            fixed += ["half_life"] * (self.half_life is not None)
            if fixed:
                raise InvalidInput(
                    "a prior says all about sigma, influence_scale, memory and half_life; drop "
                    f"{fixed[0]}"
                )
            if self.prior.n_arms > MOST_EXACT:
                raise InvalidInput(
                    f"a prior may have up to {MOST_EXACT} arms, this one has {self.prior.n_arms}"
                )

    @property
    def by_clock(self) -> bool:
        """Whether it has a half-life, its own or its prior's."""
        return self.effective_half_life is not None

    @property
    def effective_half_life(self) -> float | None:
        """Hours after which half of a pull's influence is gone: its own, or its prior's."""
        return self.half_life if self.prior is None else self.prior.half_life

    def parameters(self) -> Mapping[str, Scalar]:
        """Return the settings as numbers; 0 stands for what is estimated or not given."""
        sigma = 0.0 if isinstance(self.sigma, str) else self.sigma
        influence = 0
        if not isinstance(self.influence_scale, str):
            most = 2.0**evidence.LARGEST
            influence = math.ceil(
                math.log2(min(max(self.influence_scale / sigma, 1.0 / most), most))
            )
        return {
            "doubt": math.log(2.0 / (1.0 - self.confidence)),
            "sigma": sigma,
            "fixed_influence": self.influence_scale != "estimate",
            "influence": influence,
            "memories": self._memories(),
            "memory": self._memory(),
            "horizon": self.horizon or 0,
            "warm": self.prior is not None,
            "events": 0 if self.prior is None else self.prior.events,
            "definite": self.definite,
            "half_life": self.effective_half_life or 0.0,
        }

    def _memories(self) -> int:
        told = self.memory != "estimate" or self.prior is not None or self.by_clock
        return 1 if told else len(MEMORIES)

    def _memory(self) -> float:
        if self.prior is not None:
            return self.prior.memory
        return 1.0 if isinstance(self.memory, str) else self.memory

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Return counts, sums for the evidence, the posterior, and each arm's predicted loss."""
        exact = self._exact_arms(n_arms)
        many = 0 if exact else n_arms
        size, memories = unknowns(exact), self._memories()
        return {
            "pulls": ("int64", n_arms),
            "seen": ("int64", n_arms),
            "unseen": ("int64", 1),
            "observations": ("int64", 1),
            "next_choice": ("int64", 1),
            "choice": ("int64", 6),  # memory's number, exponents of ρ_l, ρ_d and ρ_o, ties
            "candidates": ("int64", (memories + 1, 6)),  # of each memory, and without influence
            "squares": ("float64", 1),  # Σ loss²
            "rss": ("float64", 1),
            "volume": ("float64", 1),  # log(|D|·|Λ + D⁻¹|)
            "radius": ("float64", 1),
            "mean": ("float64", n_arms),
            "variance": ("float64", n_arms),  # of the mean, in units of σ²
            "own": ("float64", n_arms),  # discounted pulls
            "total": ("float64", 1),
            "ray_gram": ("float64", (n_arms, 6)),
            "ray_moments": ("float64", (n_arms, evidence.RAY)),
            "ray_root": ("float64", (many, evidence.RAY**2)),
            "ray_theta": ("float64", (many, evidence.RAY)),
            "weights": ("float64", exact * memories),
            "gram": ("float64", (exact, (exact + 1) * (exact + 2) // 2 * memories)),
            "moments": ("float64", (exact, (exact + 1) * memories)),
            "known": ("float64", (size, size) if self.prior is not None else (0, 0)),
            "told": ("float64", size if self.prior is not None else 0),
            "root": ("float64", (size, size)),
            "theta": ("float64", size),
            "spread": ("float64", (size, exact)),
            "mix": ("float64", exact),  # shares of the rounds ahead, if A is indefinite
            "due": ("float64", exact),  # pulls that the mix owes each arm
            "kept": ("float64", 2 * self.by_clock),  # Σ what was left a round later, and rounds
        }

    def memo_size(self, n_arms: int) -> int:
        """The counts at the pull: own, of the others, and one by one if there are few arms."""
        return 2 + self._exact_arms(n_arms) * self._memories()

    def _exact_arms(self, n_arms: int) -> int:
        return n_arms if n_arms <= MOST_EXACT or self.prior is not None else 0

    def initial_state(self, n_arms: int) -> Mapping[str, npt.NDArray[Any]]:
        """Return the prior as an observation of the unknowns, and what is known of the noise."""
        prior = self.prior
        if prior is None:
            return {}
        if prior.n_arms > n_arms:
            raise InvalidInput(f"the prior is about {prior.n_arms} arms, and there are {n_arms}")
        size, precision = prior.mean.size, prior.precision()
        known, told = np.zeros((unknowns(n_arms),) * 2), np.zeros(unknowns(n_arms))
        known[:size, :size] = precision
        told[:size] = precision @ prior.mean
        squares = prior.events * prior.sigma**2 + prior.mean @ told[:size]
        usual = np.full(len(told), 0.25**evidence.USUAL_INFLUENCE)
        usual[[unknowns(arm) for arm in range(n_arms)]] = 0.25**evidence.USUAL_LOSS
        total = known + np.diag(usual)
        covariance: Floats = np.asarray(np.linalg.inv(total), np.float64)
        theta = covariance @ told
        return {
            "known": known,
            "told": told,
            "root": find_root(covariance),
            "theta": theta,
            "volume": np.array([np.linalg.slogdet(total)[1] - np.log(usual).sum()]),
            "rss": np.array([squares - told @ theta]),
            "seen": (np.arange(n_arms) < prior.n_arms).astype(np.int64),
            "observations": np.array([prior.events]),
            "squares": np.array([squares]),
        }

    @staticmethod
    def init(c: Any, s: Any) -> None:
        """Lay out the usual prior, or look at the one given."""
        for arm in range(c.n_arms):
            if s.seen[arm] == 0:
                s.unseen[0] += 1
        s.next_choice[0] = s.observations[0] + (1 if c.warm else c.n_arms)
        for m in range(c.memories):
            s.candidates[m, 0] = m
            s.candidates[m, 1] = evidence.USUAL_LOSS
            s.candidates[m, 2] = c.influence if c.fixed_influence else evidence.USUAL_INFLUENCE
            s.candidates[m, 3] = s.candidates[m, 2]
        s.candidates[c.memories, 1] = evidence.USUAL_LOSS
        s.candidates[c.memories, 2:4] = evidence.NONE
        for k in range(s.choice.size):
            s.choice[k] = s.candidates[0, k]
        if c.half_life > 0.0:
            s.kept[0] = HALF
            s.kept[1] = 1.0
        for arm in range(c.n_arms):
            lay_out_arm(c, s, arm)
        look(c, s)
        if c.warm:
            set_radius(c, s)

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm that promises most; by default the one with the smallest mean."""
        if s.unseen[0] > 0:
            arm = unseen_arm(s.seen, s.pulls, eligible)
            if arm >= 0:
                return arm
        arm = follow_mix(s, eligible)
        if arm >= 0:
            return arm
        costs = np.empty(c.n_arms)
        count_costs(c, s, t, eligible, costs)
        greedy = -1
        for arm in range(c.n_arms):
            if eligible is not None and not eligible[arm]:
                continue
            if greedy < 0 or costs[arm] < costs[greedy]:
                greedy = arm
        best = look_again(c, s, t, eligible, costs, greedy)
        plans = (c.warm or c.horizon > 0) and s.theta.size > 0
        if best == greedy and plans and fading_of(c, s) == 1.0:
            return choose_planned(c, s, t, eligible, greedy)
        return best

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        """Follow the counts, and predict every arm's loss at the new ones."""
        memo[0] = s.own[arm]
        memo[1] = s.total[0] - s.own[arm]
        for k in range(s.weights.size):
            memo[2 + k] = s.weights[k]
        s.pulls[arm] += 1
        gamma = memory_of(c, s.choice[0])
        if gamma < 1.0 or c.memories > 1:
            for j in range(s.weights.size // c.memories):
                for m in range(c.memories):
                    s.weights[j * c.memories + m] *= memory_of(c, m)
        if s.weights.size > 0:
            for m in range(c.memories):
                s.weights[arm * c.memories + m] += 1.0
        if c.memory < 1.0:
            for j in range(c.n_arms):
                s.own[j] *= c.memory
        s.total[0] = c.memory * s.total[0] + 1.0
        s.own[arm] += 1.0
        count_pull(s, arm)
        if s.theta.size > 0 and t % AFRESH != 0:
            move(s.root, gamma, arm, s.spread, s.variance)
            predict_all(c, s)
        else:
            look(c, s)

    @staticmethod
    def elapsed(c: Any, s: Any, hours: float) -> None:
        """Let influence fade by the clock, and predict every arm's loss with what is left."""
        if c.half_life == 0.0:
            return
        kept = halve(hours / c.half_life)
        s.kept[0] += kept
        s.kept[1] += 1.0
        if kept == 1.0:
            return
        for k in range(s.weights.size):
            s.weights[k] *= kept
        for j in range(c.n_arms):
            s.own[j] *= kept
        s.total[0] *= kept
        if s.theta.size > 0:
            fade(s.root, kept, s.spread, s.variance)
            predict_all(c, s)
        else:
            look(c, s)

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Learn from a loss; now and then choose the prior again."""
        if s.seen[arm] == 0:
            s.unseen[0] -= 1
        s.seen[arm] += 1
        s.observations[0] += 1
        s.squares[0] += loss * loss
        evidence.add_ray(s.ray_gram, s.ray_moments, arm, memo[0], memo[1], loss)
        if s.theta.size > 0:
            known = min(memo.size - 2, s.weights.size)
            weights = memo[2 : 2 + known]
            evidence.add_exact(s.gram, s.moments, arm, weights, c.memories, loss)
            now = weights[s.choice[0] :: c.memories]
            surprise, alpha = learn(s.root, s.theta, now, arm, loss, s.spread, s.variance)
        else:
            surprise, alpha = learn_ray(s, arm, memo[0], memo[1], loss)
        s.rss[0] += surprise * surprise / alpha
        s.volume[0] += log(alpha)
        seen = s.observations[0] - c.events
        open_yet = seen <= LAST_CHOICE or s.choice[2] == evidence.NONE
        if s.observations[0] >= s.next_choice[0] and open_yet and s.squares[0] > 0.0:
            often = c.n_arms <= MANY or seen < 4 * c.n_arms
            s.next_choice[0] = s.observations[0] + max(1, seen // 2 if often else seen)
            choose_prior(c, s)
        s.rss[0] = max(s.rss[0], evidence.FLOOR * s.squares[0])
        if s.theta.size > 0:
            predict_all(c, s)
        else:
            look(c, s)
        set_radius(c, s)
        if plans_again(c, seen):
            choose_mix(c, s, t)

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """The new arm gets the prior that the others have."""
        s.unseen[0] += 1
        if arm == MOST_EXACT and not c.warm:  # one too many for the exact posterior
            s.candidates[0, 4:] = 0  # rays have no ties
            for k in range(s.choice.size):
                s.choice[k] = s.candidates[0, k]
            rebuild(c, s)
        elif s.choice[4] + s.choice[5] > 0:  # it is like the others
            rebuild(c, s)
        else:
            lay_out_arm(c, s, arm)
            look(c, s)
        if s.observations[0] > 0:
            set_radius(c, s)  # there are more unknowns
