"""What a fleet remembers: sums that all users share, and a few numbers of each user.

The initial losses of user u are μ + b_u with b_u ~ N(0, σ²·(arm·I + common·11ᵀ)), and its
interaction is the shared A, or A + E_u with entries of E_u ~ N(0, σ²·spread). The unknowns
θ = (μ, A) lie arm by arm, as in ``model_lcb/posterior.py``; there are p = K(K + 3)/2 of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.model_lcb.posterior import unknowns

MEMORIES = (1.0, 0.99, 0.97, 0.9, 0.7)  # candidates, as of ModelLCB; the first is the paper's
EPOCHS = 1024  # at 2 % more losses each, enough for 10¹⁰ of them
AGES = 1024  # rounds of a user for which the rounds still to come are estimated
FEW_LOSSES = 256  # of a fleet: before that, a user's own posterior costs little, alike or not
KEPT = (0.5, 1.0)  # before any time has passed, half of it is taken to be left a round later
ASIDE = 8  # losses that are added to the Gram matrices at once
EXACT_ARMS = 8  # up to so many arms, a user's exposures are kept one by one

# Entries of Shared.numbers.
OBSERVED, NEXT_CHOICE, NEXT_EPOCH, EPOCH, MEMORY = range(5)
DECISIONS, NEXT_STAYS, SETTLED, NEXT_SLOT, EFFECT, AUDITS, WAITING, DRIFT = range(5, 13)
NUMBERS = 13
# Entries of Shared.scales: three variances in units of the noise's, that variance, and the first
# loss, from which all others are counted: levels far from zero change nothing then.
ARM, COMMON, SPREAD, NOISE_VARIANCE, ORIGIN = range(5)

ARM_TRIALS = tuple(4.0**k for k in range(-5, 4))
COMMON_TRIALS = (0.0, 0.5, 4.0)  # times the variance of an arm
SPREAD_TRIALS = (0.0, 4.0**-6, 4.0**-4, 4.0**-2, 4.0**-1)
EFFECT_TRIALS = len(ARM_TRIALS) * len(COMMON_TRIALS)
AUDIT = len(SPREAD_TRIALS)

Counts = npt.NDArray[np.int32]


class Rules(NamedTuple):
    """The settings of a fleet as compiled code sees them."""

    n_arms: int
    memories: Floats  # (memories,): candidates for γ
    exact: bool  # exposures are kept one by one
    boldness: float  # how many standard deviations an arm is given the benefit of the doubt
    learns: bool  # False: (μ, A) are known, and stay as they are
    half_life: float  # hours; 0: influence does not fade by the clock
    drifts: Floats  # (drifts, 3): candidates for how levels drift, none if they do not: variances
    # of level and noise in units of what no loss can be expected without, and ρ


class Shared(NamedTuple):
    """What all users have taught; its size does not depend on their number."""

    gram: Floats  # (memories, p, p): Σ x̃x̃ᵀ/α, lower triangles, but for what waits in rows
    rows: Floats  # (memories, ASIDE, p): x̃ of the latest losses
    alphas: Floats  # (ASIDE,): α of these
    right: Floats  # (memories, p): Σ x̃ỹ/α
    squares: Floats  # (memories,): Σ ỹ²/α
    theta: Floats  # (memories, p): mean of (μ, A)
    covariance: Floats  # (p, p): of θ with the memory chosen, in units of σ²
    centre: Floats  # (p,): the prior's mean
    precision: Floats  # (p,): the prior's, in 1/σ²; of one from a log, the share that counts of its
    known: Floats  # (k, p, p), k ≤ 1: the precision of a prior that came from a log
    epochs: Floats  # (EPOCHS, memories, p): θ at the beginning of each epoch
    trials: Floats  # (candidates, 2): Σ e²/v and Σ log v for the variances of initial losses
    tried: Floats  # (1,): how many losses these sums are of; old ones count less
    spreads: Floats  # (candidates, 2): the same for the spread of A, of audited users
    audited: Floats  # (1,): of how many losses
    scales: Floats  # (5,)
    numbers: Ints  # (NUMBERS,)
    stays: Floats  # (AGES,): rounds still to come at each age; 0 where nothing is known
    kept: Floats  # (2,): Σ what was left of a user's influence a round later, and of how many
    drifts: Floats  # (drifts, 3): Σ e²/v, Σ log v, and of how many, for how levels drift


class Own(NamedTuple):
    """The users, a row each."""

    pulls: Counts  # (users, arms)
    seen: Counts  # (users, arms): how many losses have come in
    faded: Floats  # (users, memories, arms): faded pulls
    sums: Floats  # (users, memories, arms): of residuals, as of θ at the user's epoch
    exposures: Floats  # (users, memories, arms, arms or 2): of the pulls whose losses came in;
    # 32 bits where they are approximated anyway
    epoch: Counts  # (users,)
    slot: Counts  # (users,): of its own posterior among Apart, or −1
    first: Ints  # (users,): number of the fleet's decision at which it came
    last: Ints  # (users,): and of its latest one
    time: Floats  # (users,): of the latest pull, in seconds, where influence fades by the clock
    level: Floats  # (users, drifts, 2): expected level, and by how much less its variance is now


class Apart(NamedTuple):
    """Posteriors of users who have an interaction of their own, in slots.

    The first slots are for the user who is audited: one for each candidate for the spread of A.
    """

    theta: Floats  # (slots, p)
    covariance: Floats  # (slots, p, p), in units of σ²
    centre: Floats  # (slots, p): the population's mean that they started from
    precision: Floats  # (slots, p): of the prior they started from
    memory: Counts  # (slots,): the candidate's number
    owner: Counts  # (slots,): the user, or −1
    losses: Counts  # (slots,): how many it has learned from
    since: Ints  # (slots,): how many losses the fleet had when it began


def make_shared(
    memories: int, n_arms: int, prior: tuple[Floats, Floats] | None = None, drifts: int = 0
) -> Shared:
    """Return what is known before the first user.

    Parameters
    ----------
    prior : (mean (p,), precision (p, p)), optional
        What a log says about (μ, A).
    drifts : int
        Candidates for how levels drift.
    """
    size = unknowns(n_arms)
    centre = np.zeros(size) if prior is None else prior[0].copy()
    known = np.zeros((0, size, size)) if prior is None else prior[1][None].copy()
    shared = Shared(
        gram=np.zeros((memories, size, size)),
        rows=np.zeros((memories, ASIDE, size)),
        alphas=np.ones(ASIDE),
        right=np.zeros((memories, size)),
        squares=np.zeros(memories),
        theta=np.tile(centre, (memories, 1)),
        covariance=np.zeros((size, size)),
        centre=centre,
        precision=np.full(size, 4.0 if prior is None else 1.0),
        known=known,
        epochs=np.zeros((EPOCHS, memories, size)),
        trials=np.zeros((EFFECT_TRIALS, 2)),
        tried=np.zeros(1),
        spreads=np.zeros((len(SPREAD_TRIALS), 2)),
        audited=np.zeros(1),
        scales=np.array([0.25, 0.0, 0.0, 1.0, 0.0]),
        numbers=np.zeros(NUMBERS, np.int64),
        stays=np.zeros(AGES),
        kept=np.array(KEPT),
        drifts=np.zeros((drifts, 3)),
    )
    shared.epochs[0] = shared.theta
    shared.numbers[NEXT_CHOICE] = 2 * n_arms
    shared.numbers[NEXT_EPOCH] = 1
    shared.numbers[NEXT_STAYS] = 64
    return shared


def make_own(users: int, rules: Rules) -> Own:
    """Return users who have not done anything yet."""
    n_arms, memories, exact = rules.n_arms, rules.memories.size, rules.exact
    width = n_arms if exact else 2
    return Own(
        pulls=np.zeros((users, n_arms), np.int32),
        seen=np.zeros((users, n_arms), np.int32),
        faded=np.zeros((users, memories, n_arms)),
        sums=np.zeros((users, memories, n_arms)),
        exposures=np.zeros((users, memories, n_arms, width), np.float64 if exact else np.float32),
        epoch=np.zeros(users, np.int32),
        slot=np.full(users, -1, np.int32),
        first=np.zeros(users, np.int64),
        last=np.zeros(users, np.int64),
        time=np.zeros(users),
        level=np.zeros((users, len(rules.drifts), 2)),
    )


def make_apart(slots: int, n_arms: int) -> Apart:
    """Return empty slots, and those of the audit."""
    size = unknowns(n_arms)
    slots += AUDIT
    return Apart(
        theta=np.zeros((slots, size)),
        covariance=np.zeros((slots, size, size)),
        centre=np.zeros((slots, size)),
        precision=np.zeros((slots, size)),
        memory=np.zeros(slots, np.int32),
        owner=np.full(slots, -1, np.int32),
        losses=np.zeros(slots, np.int32),
        since=np.zeros(slots, np.int64),
    )
