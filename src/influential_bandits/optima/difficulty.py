"""Which instances are easy: where regret can stay bounded, and where it must grow with T."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.critical_line import enter, magnitudes
from influential_bandits.optima.path import optimal_path
from influential_bandits.world.instance import Instance, require_instance, require_lasting_memory

ZERO = 1e-12  # relative size under which a gap or a curvature counts as zero
ROUNDING = 1e-14  # relative size under which a share counts as zero
LARGEST = 2000  # arms of which all may be in use


@dataclass(frozen=True, eq=False)
class Difficulty:
    """How hard an instance is, and why.

    Attributes
    ----------
    verdict : {"easy", "hard", "borderline"}
        Easy: p* uses every arm and A is positive definite along the simplex, so that every mistake
        is repaid. Hard: each pull of some arm costs an amount that grows with T. Borderline: none.
    leaning : {"easy", "hard"}
        The verdict, or for borderline instances what the last ray of the optimal path says.
    reason : str
        In words.
    mix : array (arms,)
        p*, the minimiser of ½·pᵀAp on the simplex (the one the optimal path leads to).
    support : array of int
        The arms that p* uses.
    gaps : array (arms,)
        (A·p*)_i − p*ᵀA·p*: a pull of arm i costs gap·T in the long run.
    definite_directions : bool
        Whether dᵀAd > 0 for every d ≠ 0 with Σd = 0.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.difficulty(ib.linear_lower_bound())
    Difficulty(hard: each pull of arm 0 costs 0.25·T in the long run, and nothing repays it; p* uses
    1 of 2 arms)
    >>> ib.difficulty(ib.linear_lower_bound()).gaps
    array([0.25, 0.  ])
    """

    verdict: str
    leaning: str
    reason: str
    mix: Floats
    support: Ints
    gaps: Floats
    definite_directions: bool

    def __repr__(self) -> str:
        leaning = "" if self.leaning == self.verdict else f", leaning {self.leaning}"
        used = f"p* uses {self.support.size:,} of {self.mix.size:,} arms"
        return f"Difficulty({self.verdict}{leaning}: {self.reason}; {used})"


def difficulty(instance: Instance) -> Difficulty:
    """Return whether regret can stay small on an instance, by an exact rule.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> difficulty(ib.instance_with_support(n_arms=3, support=3, seed=0)).verdict
    'easy'
    >>> difficulty(ib.linear_lower_bound()).reason
    'each pull of arm 0 costs 0.25·T in the long run, and nothing repays it'
    >>> difficulty(ib.counterexample()).verdict
    'borderline'
    """
    require_lasting_memory(require_instance(instance), "difficulty")
    if not instance.definite:
        raise NotApplicable("difficulty is defined for positive semi-definite interactions")
    ray = optimal_path(instance).last
    mix = np.zeros(instance.n_arms)
    mix[ray.support] = np.maximum(ray.p[:-1, 0], 0.0)
    mix[mix <= ROUNDING * mix.max()] = 0.0
    sizes = np.empty(instance.n_arms)
    magnitudes(instance.world, ray.support, ray.p[:-1, 0].copy(), sizes)
    gaps = np.where(ray.rates[:, 0] > ZERO * sizes, ray.rates[:, 0], 0.0)
    definite = _definite_directions(instance, ray.support)
    support = np.flatnonzero(mix)

    if (gaps > 0).any():
        worst = int(np.argmax(gaps))
        verdict = leaning = "hard"
        reason = (
            f"each pull of arm {instance.arm_names[worst]} costs {gaps[worst]:.3g}·T in the long "
            "run, and nothing repays it"
        )
    elif definite and len(support) == instance.n_arms:
        verdict = leaning = "easy"
        reason = "the best mix uses every arm and is the only one, so that every mistake is repaid"
    else:
        verdict = "borderline"
        leaning, reason = _by_the_ray(instance, ray.support, support, ray.offsets[:, 0])
    return Difficulty(verdict, leaning, reason, mix, support, gaps, definite)


def _by_the_ray(
    instance: Instance, ray_support: Ints, growing: Ints, offsets: Floats
) -> tuple[str, str]:
    """Decide an instance without growing costs: whether some pull is still never repaid."""
    resting = np.setdiff1d(ray_support, growing)
    if len(resting):
        return "hard", (
            f"arm {instance.arm_names[resting[0]]} belongs to the best counts but does not grow "
            "with T: a pull too many is never repaid"
        )
    scale = np.abs(instance.linear_term).max() + instance.interaction.max_abs
    costly = np.flatnonzero(offsets > ZERO * scale)
    if len(costly):
        worst = int(costly[np.argmax(offsets[costly])])
        return "hard", (
            f"each pull of arm {instance.arm_names[worst]} costs {offsets[worst]:.3g}, whatever T, "
            "and nothing repays it"
        )
    return "easy", "some arms can stand in for others at no cost, so that no mistake lasts"


def _definite_directions(instance: Instance, ray_support: Ints) -> bool:
    """Tell whether A is positive definite on {d: Σd = 0}, by adding every arm to a support."""
    n_arms = instance.n_arms
    rank = instance.world.values.shape[1] if instance.interaction.name == "low-rank" else n_arms
    if n_arms > rank + 1:
        return False
    if n_arms > LARGEST:
        raise NotApplicable(
            f"the difficulty of an instance of full rank is found up to {LARGEST:,} arms, got "
            f"{n_arms:,}"
        )
    inverse = np.zeros((n_arms + 1, n_arms + 1))
    support = np.empty(n_arms, np.int64)
    order = np.concatenate([ray_support, np.setdiff1d(np.arange(n_arms), ray_support)])
    return all(enter(instance.world, inverse, support, m, int(arm)) for m, arm in enumerate(order))
