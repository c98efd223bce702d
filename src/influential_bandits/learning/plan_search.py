"""Look for the best mix of arms in a learned world, or the best order where memory fades."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from influential_bandits.errors import NotCertified
from influential_bandits.learning.logging_policy import LoggedRounds
from influential_bandits.learning.model_misfit import count_roots, own_exposures
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.bounded import Shares, bounded_optimum
from influential_bandits.optima.bounded_schedules import count_rounds, search_bounded_schedule
from influential_bandits.optima.fading import fading_lower_bound
from influential_bandits.optima.path import optimum
from influential_bandits.optima.schedules import search_schedule
from influential_bandits.world.fading import require_fading
from influential_bandits.world.instance import Instance

LONGEST = 240  # rounds of a schedule, after which it repeats
LONG_RUN = 100_000  # rounds after which the start no longer shows


class Pace(NamedTuple):
    """How fast influence fades from round to round."""

    keep: float  # what is left from a round to the next
    scale: float  # of A: by rounds, the next round meets all of it, by the clock keep·A
    by_clock: bool = False

    @property
    def lasting(self) -> bool:
        """Tell whether nothing fades, so that the order does not matter."""
        return self.keep == 1.0


def find_pace(model: InfluenceModel, memory: float) -> Pace:
    """Return how influence fades from round to round, of which so much of it is left."""
    by_clock = require_fading(model.fading).by_clock
    return Pace(memory, 1.0 if by_clock else 1.0 / memory, by_clock)


class Candidate(NamedTuple):
    """A plan, as weights of initial losses and influence, to compare with the log as it was."""

    schedule: Ints | None  # None: the order does not matter
    mix: Floats  # (arms,)
    pairs: Floats  # (arms, arms): how much of A_ij a round of the plan meets
    past: float  # how many faded pulls a round meets, on average
    own: Floats  # (3,): what a round of the plan meets of the regressors of a richer model
    totals: Floats  # (3,): the same of all arms together
    roots: Floats  # (arms, arms): what it meets of the roots of exposures, for the fourth

    def baseline_pairs(self, logged: LoggedRounds) -> Floats:
        """Return what the log's rounds meet, had they the horizon and the pace of the plan."""
        return logged.pairs + self.past * logged.squares - logged.shuffled

    def spacing_pairs(self, logged: LoggedRounds) -> Floats:
        """Return what better spacing takes away: of both, against a random order."""
        if self.schedule is None:
            return np.zeros_like(self.pairs)
        saved = self.past * np.outer(self.mix, self.mix) - self.pairs
        return saved + logged.pairs - logged.shuffled


class Search(NamedTuple):
    """Looks for the best plan in a world."""

    kind: str  # of interaction
    pace: Pace
    horizon: int
    arm_names: tuple[str, ...] = ()
    shares: Shares | None = None  # that arms may have

    def best(self, initial_loss: Floats, interaction: Floats) -> Candidate:
        """Return the best shares, and a schedule where the order matters, to be judged."""
        matrix = self._admissible(interaction)
        if self.pace.lasting:
            world = Instance(matrix, initial_loss, definite=self.kind == "psd")
            mix = self._best_counts(world) / self.horizon
            # Prop. 2.1: ½·xᵀAx − ½·diag(A)·x, whatever the order; half of a mix drawn at random
            # lies before a round.
            pairs = 0.5 * self.horizon * np.outer(mix, mix) - 0.5 * np.diag(mix)
            past = 0.5 * (self.horizon - 1.0)
            return self._describe(None, mix, pairs, past)
        keep, rounds = self.pace.keep, min(self.horizon, LONG_RUN)
        length, repeats = min(self.horizon, LONGEST), self.horizon > LONGEST
        strength = self.pace.scale * matrix
        paces = np.full(1, keep)
        schedule = search_schedule(strength, initial_loss, paces, length, repeats=repeats)
        if self.shares is not None:
            ends = count_rounds(self.shares, length, self.arm_names)
            schedule = search_bounded_schedule(
                strength, initial_loss, paces, schedule, *ends, repeats=repeats
            )
        pairs, past = add_pairs(schedule, keep, rounds, len(initial_loss))
        mix, scale = np.bincount(schedule, minlength=len(initial_loss)) / length, self.pace.scale
        return self._describe(schedule, mix, scale * pairs, scale * past)

    def _best_counts(self, world: Instance) -> Floats:
        """Return the best counts where the order does not matter."""
        if self.shares is None:
            return optimum(world, self.horizon).counts
        return bounded_optimum(world, self.horizon, self.shares).counts

    def bound_regret(
        self, best: Candidate, initial_loss: Floats, interaction: Floats
    ) -> float | None:
        """Return by how much another plan could be better in this world, per round, at most.

        None where no proof is known: for indefinite worlds, and where equations are too
        ill-conditioned.
        """
        if best.schedule is None:
            return 0.0
        keep, matrix = self.pace.keep, self._admissible(interaction)
        scale = keep * self.pace.scale
        world = Instance(scale * matrix, initial_loss, memory=keep, definite=False)
        if not world.definite:
            return None
        rounds = min(self.horizon, LONG_RUN)
        played = np.bincount(np.resize(best.schedule, rounds), minlength=len(matrix)) / rounds
        shares = self.shares
        if shares is not None:  # repeats that are cut off in the end may miss them by a little
            shares = Shares(np.minimum(shares.least, played), np.maximum(shares.most, played))
        met = (best.pairs * matrix).sum()
        loss = float(initial_loss @ played + met)
        try:
            return max(loss - fading_lower_bound(world, rounds, shares=shares), 0.0)
        except NotCertified:  # equations too ill-conditioned for a proof, not for a plan
            return None

    def choose(
        self, plans: list[Candidate], initial_loss: Floats, interaction: Floats
    ) -> Candidate:
        """Return the best of several plans; the first, unless another is better.

        A search for an order may end in a poor one, where the same search in a world that is a
        little different does not.
        """
        matrix = self._admissible(interaction)
        losses = [float(initial_loss @ plan.mix + (plan.pairs * matrix).sum()) for plan in plans]
        best = int(np.argmin(losses))
        return plans[best if losses[best] < losses[0] - 1e-9 * abs(losses[0]) else 0]

    def _describe(
        self, schedule: Ints | None, mix: Floats, pairs: Floats, past: float
    ) -> Candidate:
        """Return a plan with what its rounds meet of the regressors of a richer model."""
        rounds = min(self.horizon, LONG_RUN)
        as_played = (schedule, mix, self.pace.keep, self.pace.by_clock, rounds)
        own, totals = own_exposures(*as_played)
        return Candidate(schedule, mix, pairs, past, own, totals, count_roots(*as_played))

    def _admissible(self, matrix: Floats) -> Floats:
        """Return the matrix as the model's kind of interaction has it."""
        if self.kind == "diagonal":
            return np.diag(np.diag(matrix))
        if self.kind == "psd":
            values, vectors = np.linalg.eigh(matrix)
            matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return 0.5 * (matrix + matrix.T)


@kernel
def add_pairs(schedule: Ints, keep: float, rounds: int, arms: int) -> tuple[Floats, float]:
    """Return how much of pair (i, j) a repeated schedule meets per round, and of all pulls.

    From a fresh start, in units in which a pull counts keep after one round.
    """
    out, counts = np.zeros((arms, arms)), np.zeros(arms)
    past = 0.0
    for n in range(rounds):
        i = schedule[n % schedule.size]
        for j in range(arms):
            out[i, j] += counts[j] / rounds
            past += counts[j] / rounds
        counts[i] += 1.0
        for j in range(arms):
            counts[j] *= keep
    return out, past
