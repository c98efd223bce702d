"""ModelLCB: learn (l1, A) while playing, and look at an arm again only when it can pay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import LARGEST_LOSS, abbreviate, is_real, require_horizon
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import log
from influential_bandits.policies.contract import Policy, Scalar, Shape
from influential_bandits.policies.model_lcb import marginal_likelihood as evidence
from influential_bandits.policies.model_lcb.lookahead import add_later_costs, plan_ahead
from influential_bandits.policies.model_lcb.posterior import (
    absorb,
    learn,
    move,
    place,
    predict,
    respread,
    unknowns,
)
from influential_bandits.policies.model_lcb.prior import LossPrior, find_root
from influential_bandits.policies.selection import unseen_arm
from influential_bandits.policies.state_checks import (
    State,
    make_damage_error,
    require_equal,
    require_losses,
    require_range,
    require_sum,
    require_unseen,
)

__all__ = ["ModelLCB"]

MOST_EXACT = 24  # arms; beyond, each arm has a ray model of its own
MANY = 10  # arms; with more, priors are chosen more rarely and after fewer trials
MEMORIES = (1.0, 0.99, 0.97, 0.9, 0.7)  # candidates; the first is the paper's
ROTATION = 3  # number of the memory by which arms take turns while influence cannot be seen
LOG_PRIORS = math.log(5 * 21 * 21 * 22 * 12)  # candidates: memories, ρ_l, ρ_d, ρ_o or none, ties
PATIENCE = 64.0  # a loss that is known to so many σ is certainly not looked at for its own sake
CALM = 5.0  # the same, for looks that promise something without proof
BOLDNESS = 4.0  # of these: how many standard deviations are hoped for
STILL_BOLDNESS = 1.4  # the same where nothing moves, times √log(4 + t·variance/K)
FEW = 5.0  # arms; with more, turns get rarer with the gap the faster
AHEAD = 10.0  # with a prior, plan for so many times the rounds played
AFRESH = 1024  # pulls after which the spread is computed afresh, against rounding
SOON = 6.0  # rounds; what influence does within them decides whether looks can wait
LAST_CHOICE = 1 << 15  # observations; by then a prior hardly counts, unless it denies influence
LARGEST_PART = 1e140  # of the posterior: times counts, and squared, it stays finite
LARGEST_STATE = 1e290
EVIDENCE = 2.1e5  # for a fading memory: odds of 100, σ within e^50, candidates that weigh 41


@dataclass(frozen=True)
class ModelLCB(Policy):
    """Play the smallest posterior mean; look at an arm again only if its lower bound pays for it.

    The losses are linear in (l1, A), so that a Gaussian posterior over them is exact. A pull shows
    more the later it comes, since losses grow with t, and a pull of an arm outside the best mix
    costs (gap · T) whenever it comes. So the policy is greedy, and patient: an arm i is pulled
    although another, g, has the smallest mean m if

        m_i − r·s_i < m_g − 64·r    (then its loss may really be lower; this is what is proved), or
        m_i − 4σ·s_i < m_g − 20σ    (a guess that saves regret; less patient where A is nearly 0),

    s_i being the posterior's standard deviation in units of the noise σ, and r an anytime radius:
    if the noise is normal, memory lasts, losses come at once, all arms are on offer and the prior
    is as wide as the truth, every loss lies within m_i ± r·s_i in all rounds at once with
    probability ``confidence``, and then the regret is O(K³·T·log^{3/2}T) (docs/model_lcb.md has the
    theorem, its proof and what was tried). Noise, the scales of l1 and A, whether arms are alike,
    and memory are estimated by the marginal likelihood, anew whenever the number of observations
    has grown by half (beyond ten arms: doubled). Estimated scales may be too small for the theorem,
    and that of l1 cannot be fixed. Multiplying all losses by a power of two changes no choice.

    Where memory fades, m_i is what a pull costs now and in later rounds, so that the smallest one
    follows a schedule; arms that cannot be told apart take turns.

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
        :class:`InfluenceModel`; up to 24 arms.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> instances = [ib.random_instance(n_arms=3, seed=seed) for seed in range(20)]
    >>> for policy in (ib.LCB(), ib.InfluentialLCB(), ib.ModelLCB()):
    ...     run = ib.simulate(instances, policy, horizon=10_000, noise=ib.GaussianNoise(1.0))
    ...     print(type(policy).__name__, f"{run.regret()[..., -1].mean():.1e}")
    LCB 4.9e+04
    InfluentialLCB 2.8e+04
    ModelLCB 3.1e+03
    """

    confidence: float = 0.99
    sigma: float | str = "estimate"
    influence_scale: float | str = "estimate"
    memory: float | str = "estimate"
    horizon: int | None = None
    prior: LossPrior | None = None

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
            if fixed:
                raise InvalidInput(
                    f"a prior says all about sigma, influence_scale and memory; drop {fixed[0]}"
                )
            if self.prior.n_arms > MOST_EXACT:
                raise InvalidInput(
                    f"a prior may have up to {MOST_EXACT} arms, this one has {self.prior.n_arms}"
                )

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
        }

    def _memories(self) -> int:
        return len(MEMORIES) if self.memory == "estimate" and self.prior is None else 1

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
        }

    def memo_size(self, n_arms: int) -> int:
        """The counts at the pull: own, of the others, and one by one if there are few arms."""
        return 2 + self._exact_arms(n_arms) * self._memories()

    def check_state(self, n_arms: int, rounds: int, state: State) -> None:
        """Counts add up, choices are among the candidates, and sums have the size of losses."""
        known = np.arange(n_arms) < (0 if self.prior is None else self.prior.n_arms)
        require_range(state, "pulls", 0, rounds)
        require_sum(state, "pulls", rounds)
        require_range(state, "seen", known, state["pulls"] + known)
        require_unseen(state)
        before = 0 if self.prior is None else self.prior.events
        seen = int((state["seen"] - known).sum())
        require_equal(state, "observations", before + seen)
        most = int(state["observations"][0]) + max(n_arms, seen)
        require_range(state, "next_choice", 1, most)
        self._check_choice(state)
        for name in ("known", "told"):
            if state[name].size > 0:
                require_equal(state, name, self.initial_state(n_arms)[name])
        _check_sums(state, rounds)

    def _check_choice(self, state: State) -> None:
        """Raise unless memories are candidates, and exponents those of the search."""
        memories, largest = self._memories(), evidence.LARGEST
        least = np.array([0, -largest, -largest, -largest, 0, 0])
        tied = evidence.MOST_TIED
        most = np.array([memories - 1, largest, largest, largest, tied, tied])
        most_still = most + np.array([0, 0, 0, 0, 1, 0])
        rest = [0, 1, 4, 5]  # without influence, it has no scale
        for name, rows in (("choice", state["choice"]), ("candidates", state["candidates"][-1])):
            if (rows[2:4] == evidence.NONE).all():
                require_range({name: rows[rest]}, name, least[rest], most_still[rest])
            else:
                require_range({name: rows}, name, least, most)
        require_range({"candidates": state["candidates"][:-1]}, "candidates", least, most)
        numbers = [*range(memories), 0]
        require_equal({"candidates": state["candidates"][:, 0]}, "candidates", np.array(numbers))

    def check_memo(self, n_arms: int, rounds: int, memo: Floats) -> None:
        """Counts, discounted perhaps."""
        require_range({"memo": memo}, "memo", 0.0, float(rounds))

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
        covariance = np.linalg.inv(total)
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
        s.choice[:] = s.candidates[0]
        for arm in range(c.n_arms):
            _lay_out_arm(c, s, arm)
        _look(c, s)
        if c.warm:
            _set_radius(c, s)

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm that promises most; by default the one with the smallest mean."""
        if s.unseen[0] > 0:
            arm = unseen_arm(s.seen, s.pulls, eligible)
            if arm >= 0:
                return arm
        costs = _count_costs(c, s, t, eligible)
        greedy = -1
        for arm in range(c.n_arms):
            if eligible is not None and not eligible[arm]:
                continue
            if greedy < 0 or costs[arm] < costs[greedy]:
                greedy = arm
        best = _look_again(c, s, t, eligible, costs, greedy)
        plans = (c.warm or c.horizon > 0) and s.theta.size > 0
        if best == greedy and plans and _memory(c, s.choice[0]) == 1.0:
            return _plan(c, s, t, eligible, greedy)
        return best

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        """Follow the counts, and predict every arm's loss at the new ones."""
        memo[0] = s.own[arm]
        memo[1] = s.total[0] - s.own[arm]
        for k in range(s.weights.size):
            memo[2 + k] = s.weights[k]
        s.pulls[arm] += 1
        gamma = _memory(c, s.choice[0])
        if gamma < 1.0 or c.memories > 1:
            for j in range(s.weights.size // c.memories):
                for m in range(c.memories):
                    s.weights[j * c.memories + m] *= _memory(c, m)
        if s.weights.size > 0:
            for m in range(c.memories):
                s.weights[arm * c.memories + m] += 1.0
        if c.memory < 1.0:
            for j in range(c.n_arms):
                s.own[j] *= c.memory
        s.total[0] = c.memory * s.total[0] + 1.0
        s.own[arm] += 1.0
        if s.theta.size > 0 and t % AFRESH != 0:
            move(s.root, gamma, arm, s.spread, s.variance)
            _predict(c, s)
        else:
            _look(c, s)

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
            surprise, alpha = _learn_ray(s, arm, memo[0], memo[1], loss)
        s.rss[0] += surprise * surprise / alpha
        s.volume[0] += log(alpha)
        seen = s.observations[0] - c.events
        open_yet = seen <= LAST_CHOICE or s.choice[2] == evidence.NONE
        if s.observations[0] >= s.next_choice[0] and open_yet and s.squares[0] > 0.0:
            wait = max(1, seen // 2 if c.n_arms <= MANY else seen)
            s.next_choice[0] = s.observations[0] + wait
            _choose_prior(c, s)
        s.rss[0] = max(s.rss[0], evidence.FLOOR * s.squares[0])
        if s.theta.size > 0:
            _predict(c, s)
        else:
            _look(c, s)
        _set_radius(c, s)

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """The new arm gets the prior that the others have."""
        s.unseen[0] += 1
        if arm == MOST_EXACT and not c.warm:  # one too many for the exact posterior
            s.candidates[0, 4:] = 0  # rays have no ties
            s.choice[:] = s.candidates[0]
            _rebuild(c, s)
        elif s.choice[4] + s.choice[5] > 0:  # it is like the others
            _rebuild(c, s)
        else:
            _lay_out_arm(c, s, arm)
            _look(c, s)
        if s.observations[0] > 0:
            _set_radius(c, s)  # there are more unknowns


def _check_sums(state: State, rounds: int) -> None:
    """Raise unless sums have the size that so many rounds can give them."""
    for name in ("variance", "squares", "rss", "radius"):
        require_range(state, name, 0.0, LARGEST_STATE)
    require_range(state, "volume", -1.0, LARGEST_STATE)  # not negative but for rounding
    for name in ("own", "total", "weights"):
        require_range(state, name, 0.0, float(rounds))
    for name in ("ray_gram", "gram"):
        require_range(state, name, 0.0, float(rounds) ** 3)
    _check_gram("ray_gram", state["ray_gram"], evidence.RAY)
    if len(state["gram"]):
        _check_gram("gram", state["gram"], 1 + len(state["gram"]))
    moments = ("ray_moments", "moments")
    require_losses(state, *moments, of=float(rounds) ** 2)
    for name in ("mean", "ray_root", "ray_theta", "root", "theta", "spread"):
        require_range(state, name, -LARGEST_PART, LARGEST_PART)


def _check_gram(name: str, gram: Floats, size: int) -> None:
    """Raise unless sums of products, triangles row by row, are those of some features."""
    triangles = gram.reshape(len(gram), size * (size + 1) // 2, -1)
    rows, columns = np.tril_indices(size)
    full = np.zeros((len(gram), triangles.shape[2], size, size))
    full[:, :, rows, columns] = full[:, :, columns, rows] = triangles.transpose(0, 2, 1)
    lowest = np.linalg.eigvalsh(full)[..., 0]
    if (lowest < -1e-9 * np.trace(full, axis1=2, axis2=3)).any():
        raise make_damage_error(f"{name} has a negative eigenvalue", "sums of squares")


@inlined
def _memory(c: Any, number: int) -> float:
    """Return γ of a candidate."""
    return MEMORIES[number] if c.memories > 1 else c.memory


@inlined
def _noise(c: Any, s: Any) -> float:
    """Return σ, or its estimate."""
    if c.sigma > 0.0:
        return c.sigma
    return math.sqrt(s.rss[0] / max(s.observations[0], 1))


@inlined
def _calm(c: Any, s: Any, t: int) -> float:
    """Return how many σ an arm's loss may be off before it is worth a look.

    Losses that a few pulls move far can wait: their uncertainty grows, and a look later says more.
    Where hardly anything moves, or influence fades before it adds up, waiting is idle.
    """
    gamma = _memory(c, s.choice[0])
    if s.choice[2] == evidence.NONE or (c.warm and gamma < 1.0):
        return 0.0
    moved = 2.0 ** float(s.choice[2]) * min(float(t), SOON)
    lasting = min(1.0, 1.0 / ((1.0 - gamma) * t)) if gamma < 1.0 else 1.0
    return min(CALM, CALM * moved) * lasting


@inlined
def _lay_out_arm(c: Any, s: Any, arm: int) -> None:
    """Write the prior of an arm that nothing is known about."""
    loss, own = 2.0 ** float(s.choice[1]), 2.0 ** float(s.choice[2])
    others = 2.0 ** float(s.choice[3])
    if s.theta.size > 0:
        for k in range(unknowns(arm), unknowns(arm + 1)):
            if s.root[k, k] == 0.0:
                s.root[k, k] = others
                if k == unknowns(arm):
                    s.root[k, k] = loss
                elif k == place(arm, arm):
                    s.root[k, k] = own
    else:
        s.ray_root[arm, 0] = loss
        s.ray_root[arm, 4] = own
        s.ray_root[arm, 8] = others / math.sqrt(float(c.n_arms))


@inlined
def _look(c: Any, s: Any) -> None:
    """Compute mean and variance of every arm's loss afresh."""
    if s.theta.size > 0:
        respread(s.root, s.weights[s.choice[0] :: c.memories], s.spread, s.variance)
        _predict(c, s)
    else:
        for arm in range(c.n_arms):
            own = s.own[arm]
            others = s.total[0] - own
            mean = s.ray_theta[arm, 0] + own * s.ray_theta[arm, 1] + others * s.ray_theta[arm, 2]
            root = s.ray_root[arm]
            second = root[3] + own * root[4]
            third = root[6] + own * root[7] + others * root[8]
            s.mean[arm] = mean
            s.variance[arm] = root[0] * root[0] + second * second + third * third


@inlined
def _predict(c: Any, s: Any) -> None:
    weights = s.weights[s.choice[0] :: c.memories]
    for arm in range(c.n_arms):
        s.mean[arm] = predict(s.theta, weights, arm)


@inlined
def _learn_ray(s: Any, arm: int, own: float, others: float, loss: float) -> tuple[float, float]:
    """Take a loss into the three unknowns of an arm."""
    root = s.ray_root[arm].reshape((evidence.RAY, evidence.RAY))
    theta = s.ray_theta[arm]
    f, gain = np.empty(evidence.RAY), np.empty(evidence.RAY)
    for row in range(evidence.RAY):
        f[row] = root[row, 0] + own * root[row, 1] + others * root[row, 2]
    surprise = loss - (theta[0] + own * theta[1] + others * theta[2])
    alpha = absorb(root, f, gain)
    for k in range(evidence.RAY):
        theta[k] += gain[k] * (surprise / alpha)
    return surprise, alpha


@inlined
def _choose_prior(c: Any, s: Any) -> None:
    """Choose the prior that the losses speak for, and start again from it.

    A fading memory is taken up only if it beats the best fit of any (l1, A) with lasting memory:
    then lasting memory is given up wrongly in one world of a hundred at most.
    """
    exact = s.theta.size > 0
    size = s.theta.size if exact else evidence.RAY
    factor, solved = np.empty((size, size)), np.empty(size)
    gram, moments = (s.gram, s.moments) if exact else (s.ray_gram, s.ray_moments)
    squares, seen = s.squares[0], s.observations[0]
    memories = c.memories if exact else 0
    best, lasting, chosen = -math.inf, -math.inf, 0
    for m in range(c.memories if exact else 1):
        most = 4  # l1 and A once, up and down
        if m == s.choice[0]:
            most = evidence.MOST_TRIALS if c.n_arms <= MANY else evidence.MOST_TRIALS // 2
        if m > 0 and s.choice[0] == 0:
            s.candidates[m, 4:] = s.candidates[0, 4:]
        value = evidence.climb(
            gram,
            moments,
            s.known,
            s.told,
            memories,
            squares,
            seen,
            c.fixed_influence,
            most,
            s.candidates[m],
            factor,
            solved,
        )
        if m == 0:
            lasting = value
        if value > best:
            best, chosen = value, m
    if chosen > 0:
        loosest = np.array([0, evidence.LARGEST, evidence.LARGEST, evidence.LARGEST, 0, 0])
        _, least = evidence.evaluate(
            gram, moments, s.known, s.told, memories, squares, loosest, factor, solved
        )
        if best + 0.5 * seen * log(least / squares) < log(EVIDENCE * math.sqrt(float(seen))):
            chosen = 0
            best = lasting
    if chosen == 0 and not c.fixed_influence:
        value = evidence.climb(
            gram,
            moments,
            s.known,
            s.told,
            memories,
            squares,
            seen,
            True,
            evidence.MOST_TRIALS // 2,
            s.candidates[c.memories],
            factor,
            solved,
        )
        if value > best:
            chosen = c.memories
    choice = s.candidates[chosen].copy()
    if (choice != s.choice).any():
        s.choice[:] = choice
        _rebuild(c, s)


@inlined
def _rebuild(c: Any, s: Any) -> None:
    """Compute the posterior from the sums, with the chosen prior."""
    squares = s.squares[0]
    if s.theta.size > 0:
        factor, solved = np.empty((s.theta.size, s.theta.size)), np.empty(s.theta.size)
        s.volume[0], s.rss[0] = evidence.evaluate(
            s.gram, s.moments, s.known, s.told, c.memories, squares, s.choice, factor, solved
        )
        evidence.invert(factor, solved, s.root, s.theta)
    else:
        factor, solved = np.empty((evidence.RAY, evidence.RAY)), np.empty(evidence.RAY)
        s.volume[0], s.rss[0] = evidence.evaluate(
            s.ray_gram, s.ray_moments, s.known, s.told, 0, squares, s.choice, factor, solved
        )
        for arm in range(c.n_arms):
            evidence.assemble_ray(s.ray_gram, s.ray_moments, arm, s.choice, factor, solved)
            evidence.eliminate(factor, solved)
            root = s.ray_root[arm].reshape((evidence.RAY, evidence.RAY))
            evidence.invert(factor, solved, root, s.ray_theta[arm])
    _look(c, s)


@inlined
def _set_radius(c: Any, s: Any) -> None:
    """Compute the radius of the theorem, σ̄·(√L + √p), with an upper bound σ̄ of the noise."""
    seen = float(max(s.observations[0], 1))
    unknown = s.theta.size if s.theta.size > 0 else evidence.RAY * c.n_arms
    factor = math.sqrt(s.volume[0] + 2.0 * (c.doubt + LOG_PRIORS)) + math.sqrt(float(unknown))
    if c.sigma > 0.0:
        s.radius[0] = c.sigma * factor
        return
    chance = 2.0 * math.sqrt((c.doubt + 2.0 * log(seen + 1.0)) / seen)
    freedom = max(seen * (1.0 - chance) - factor * factor, seen / 16.0)
    s.radius[0] = math.sqrt(s.rss[0] / freedom) * factor


@inlined
def _look_again(c: Any, s: Any, t: int, eligible: Any, costs: Floats, greedy: int) -> int:
    """Return the arm that is worth a look, or else the greedy one."""
    noise, calm, rotate = _noise(c, s), _calm(c, s, t), _rotates(c, s)
    best, lowest, certain = greedy, 0.0, False
    sharp = _sharpness(c, s)
    free = 4.0 if sharp == 0.0 else (2.0 if s.choice[2] == evidence.NONE else 1.0)
    if rotate >= 0:
        lowest = log(1.0 + s.weights[greedy * c.memories + rotate])
    for arm in range(c.n_arms):
        if eligible is not None and not eligible[arm]:
            continue
        deviation = math.sqrt(s.variance[arm])
        gap = costs[arm] - costs[greedy]
        promise = gap - s.radius[0] * (deviation - PATIENCE)
        if promise < 0.0:
            if not certain or promise < lowest:
                best = arm
                lowest = promise
            certain = True
        elif not certain and rotate >= 0:
            doubt = noise * (deviation - calm)
            if doubt > 0.0 or arm == greedy:
                far = gap / doubt if doubt > 0.0 else 0.0
                near = t * s.variance[arm] / c.n_arms
                near = log(free + near) + 8.0 * calm / CALM
                beyond = max(0.0, 0.5 * far * far - near)
                turn = log(1.0 + s.weights[arm * c.memories + rotate])
                turn += sharp * beyond if sharp > 0.0 or beyond == 0.0 else math.inf
                if turn < lowest:
                    best = arm
                    lowest = turn
        elif not certain:
            bold = STILL_BOLDNESS * math.sqrt(log(4.0 + t * s.variance[arm] / c.n_arms))
            bold += (BOLDNESS - bold) * (calm / CALM)
            promise = gap - noise * bold * (deviation - calm)
            if promise < lowest:
                best = arm
                lowest = promise
    return best


@inlined
def _sharpness(c: Any, s: Any) -> float:
    """Return how fast turns get rarer with the gap; 0 if an arm takes all its turns or none."""
    if _memory(c, s.choice[0]) == 1.0 and s.choice[4] == 0:
        return 0.0
    return max(1.0, c.n_arms / FEW)


@inlined
def _rotates(c: Any, s: Any) -> int:
    """Return the memory by which arms that may be equally good take turns; −1 if they need not."""
    if s.weights.size == 0:
        return -1
    if _memory(c, s.choice[0]) < 1.0:
        return ROTATION if c.memories > 1 else 0
    return ROTATION if c.memories > 1 and s.choice[2] == evidence.NONE else -1


@inlined
def _count_costs(c: Any, s: Any, t: int, eligible: Any) -> Floats:
    """Return each arm's mean loss and, where influence fades, what its pull costs later rounds.

    These costs are planned with A as far as it is positive semi-definite: A_ii ≥ 0 and A_ij² ≤
    A_ii·A_jj. What lies beyond is taken for noise, since plans seek out arms that seem to gain.
    """
    n_arms = c.n_arms
    costs = np.empty(n_arms)
    gamma = _memory(c, s.choice[0])
    if gamma == 1.0 or s.theta.size == 0:
        for i in range(n_arms):
            costs[i] = s.mean[i]
        return costs
    interaction, initial, allowed = np.empty((n_arms, n_arms)), np.empty(n_arms), np.ones(n_arms)
    for i in range(n_arms):
        initial[i] = s.theta[unknowns(i)]
        interaction[i, i] = max(s.theta[place(i, i)], 0.0)
        if eligible is not None and not eligible[i]:
            allowed[i] = 0.0
        for j in range(i):
            most = math.sqrt(interaction[i, i] * interaction[j, j])
            interaction[i, j] = min(max(s.theta[place(i, j)], -most), most)
            interaction[j, i] = interaction[i, j]
    add_later_costs(s.mean, initial, interaction, gamma, _rounds_ahead(c, t), allowed, costs)
    return costs


@inlined
def _rounds_ahead(c: Any, t: int) -> float:
    """Return the number of rounds to plan for."""
    return max(c.horizon - t + 1.0, 1.0) if c.horizon > 0 else AHEAD * t


@inlined
def _plan(c: Any, s: Any, t: int, eligible: Any, greedy: int) -> int:
    """Return the arm with the smallest mean among those that the rounds ahead have a use for."""
    n_arms = c.n_arms
    interaction, allowed = np.empty((n_arms, n_arms)), np.ones(n_arms)
    plan, slope = np.empty(n_arms), np.empty(n_arms)
    for i in range(n_arms):
        if eligible is not None and not eligible[i]:
            allowed[i] = 0.0
        for j in range(n_arms):
            interaction[i, j] = s.theta[place(i, j)]
    plan_ahead(s.mean, interaction, _rounds_ahead(c, t), allowed, plan, slope)
    best = -1
    for i in range(n_arms):
        if plan[i] > 0.5 and (best < 0 or s.mean[i] < s.mean[best]):
            best = i
    return best if best >= 0 else greedy
