"""Influential LCB (Algorithm 1): the paper's policy, with a known or an estimated bound of A."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from influential_bandits.checks import LARGEST_LOSS, abbreviate, is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.compiling import count_one, inlined
from influential_bandits.policies.contract import Policy, Scalar, Shape
from influential_bandits.policies.selection import lowest_arm, real_setting

SCANNED_ARMS = 32  # up to here a scan is faster than the tree
OPENINGS = {"pairs": 1, "paper": 2}


@dataclass(frozen=True)
class InfluentialLCB(Policy):
    """Pull the arm with the smallest l̂ − B·c, ties to the smallest index (Algorithm 1).

    l̂ is the arm's last observed loss and c the number of rounds since. As max|A| ≤ B, the loss
    cannot have fallen by more than B·c. Regret is O(K·T·log T) (Theorem 2.6).

    Between its pulls the index of an arm moves by the same amount as every other's, so that
    l̂ + B·(round of the last observation) orders the arms and changes for the pulled arm alone: a
    tournament tree selects in O(log K).

    Parameters
    ----------
    influence_bound : float or "estimate"
        B, an upper bound of max|A| (Assumption 2.4: 1), which no entry may exceed. "estimate"
        measures it in an opening.
    opening : {"pairs", "paper"}
        How "estimate" measures. "pairs": each arm twice in a row, 2K rounds, which suffices since
        max|A| lies on the diagonal of a positive semi-definite A. "paper": the remark's opening,
        each arm twice in a row and then in turn with every other, K·(K + 1) rounds.
    noise_bound : float
        A bound N of the noise; the estimate is raised by 2N ("pairs") or 4N ("paper"), and then
        certainly not below max|A|.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), InfluentialLCB(), horizon=10_000).counts[0, 0, -1]
    array([9802,  198])
    """

    influence_bound: float | str = 1.0
    opening: str = "pairs"
    noise_bound: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.influence_bound, str) and self.influence_bound == "estimate"):
            if (
                not is_real(self.influence_bound)
                or not 0.0 < float(self.influence_bound) <= LARGEST_LOSS
            ):
                raise InvalidInput(
                    'influence_bound must be a positive number or "estimate", got '
                    f"{abbreviate(self.influence_bound)}; numbers go up to {LARGEST_LOSS:g}"
                )
            object.__setattr__(self, "influence_bound", float(self.influence_bound))
        if not isinstance(self.opening, str) or self.opening not in OPENINGS:
            raise InvalidInput(
                f'opening must be "pairs" or "paper", got {abbreviate(self.opening)}'
            )
        real_setting(self, "noise_bound", closed=True)

    def parameters(self) -> Mapping[str, Scalar]:
        """The bound (0: estimate it), the opening (0: none) and the margin of the estimate."""
        estimated = self.influence_bound == "estimate"
        margin = (2.0 if self.opening == "pairs" else 4.0) * self.noise_bound
        return {
            "influence_bound": 0.0 if estimated else float(self.influence_bound),
            "opening": OPENINGS[self.opening] if estimated else 0,
            "margin": margin,
        }

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """What was last seen of each arm, the keys that order them, and the opening's progress."""
        estimated = n_arms if self.influence_bound == "estimate" else 0
        return {
            "pulls": ("int64", n_arms),
            "seen": ("int64", n_arms),
            "seen_at": ("int64", n_arms),  # round of the newest pull whose loss is known
            "loss": ("float64", n_arms),  # that loss, l̂
            "key": ("float64", n_arms),  # l̂ + B·seen_at
            "unseen": ("int64", 1),
            "tree": ("int64", 2 * _leaves(n_arms) if n_arms > SCANNED_ARMS else 0),
            "influence_bound": ("float64", 1),  # B, or what the opening has found so far
            "scheduled": ("int64", 1),  # pulls of the opening made so far
            "last_arm": ("int64", 1),
            "own_influence": ("float64", estimated),  # estimates of A_jj
            "own_known": ("int64", estimated),
            "retired": ("int64", estimated),  # the opening passes over these
        }

    def memo_size(self, n_arms: int) -> int:
        """Which arm was pulled in the round before, and whether the opening wanted this pull."""
        return 2 if self.influence_bound == "estimate" else 0

    @staticmethod
    def init(c: Any, s: Any) -> None:
        s.unseen[0] = c.n_arms
        s.influence_bound[0] = c.influence_bound
        s.last_arm[0] = -1
        if s.tree.size > 0:
            _build_tree(s)

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm with the smallest lower bound; during the opening, the scheduled one."""
        if c.opening != 0 and s.scheduled[0] < _opening_rounds(c.opening, c.n_arms):
            arm = _scheduled_arm(c.opening, c.n_arms, s.scheduled[0])
            if eligible is None:
                return arm
            if eligible[arm]:
                return arm
        if eligible is None and s.tree.size > 0:
            return s.tree[1]
        return lowest_arm(_key_of, c, s, 0.0, eligible)

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        count_one(s.pulls, arm)
        if c.opening != 0:
            memo[0] = s.last_arm[0]
            s.last_arm[0] = arm
            if s.scheduled[0] < _opening_rounds(c.opening, c.n_arms):
                if arm == _scheduled_arm(c.opening, c.n_arms, s.scheduled[0]):
                    s.scheduled[0] += 1
                    memo[1] = 1.0
                    _pass_over_retired(c, s)
        if s.seen[arm] == 0 and s.tree.size > 0:
            _replay(s, arm)

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Keep the newest loss of the arm; during the opening, improve the estimate of B."""
        if s.seen[arm] == 0:
            s.unseen[0] -= 1
        elif t < s.seen_at[arm]:
            return  # late news about a pull that is older than what is known
        elif c.opening != 0:
            if memo[1] == 1.0 and _estimate(c, s, t, arm, int(memo[0]), loss):
                for other in range(c.n_arms):
                    s.key[other] = s.loss[other] + s.influence_bound[0] * s.seen_at[other]
                if s.tree.size > 0:
                    _build_tree(s)
        count_one(s.seen, arm)
        s.seen_at[arm] = t
        s.loss[arm] = loss
        s.key[arm] = loss + s.influence_bound[0] * t
        if s.tree.size > 0:
            _replay(s, arm)

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """One more arm to observe; the tree is laid out anew."""
        s.unseen[0] += 1
        if s.tree.size > 0:
            _build_tree(s)

    @staticmethod
    def arm_retired(c: Any, s: Any, arm: int) -> None:
        """The opening does not wait for the arm."""
        if c.opening != 0:
            s.retired[arm] = 1
            _pass_over_retired(c, s)


def _leaves(n_arms: int) -> int:
    """Return the smallest power of two that holds all arms."""
    return 1 << max(n_arms - 1, 0).bit_length()


@inlined
def _key_of(c: Any, s: Any, common: float, arm: int) -> float:
    return s.key[arm]


@inlined
def _opening_rounds(opening: int, n_arms: int) -> int:
    return 2 * n_arms if opening == 1 else n_arms * (n_arms + 1)


@inlined
def _scheduled_arm(opening: int, n_arms: int, step: int) -> int:
    """Return the arm of a step of the opening.

    "pairs" plays 0 0 1 1 2 2 …. "paper" plays for each arm j the block j j, j+1 j, j+2 j, …, K−1 j.
    """
    if opening == 1:
        return step // 2
    arm = 0
    while step >= 2 * (n_arms - arm):
        step -= 2 * (n_arms - arm)
        arm += 1
    return arm + step // 2 if step % 2 == 0 else arm


@inlined
def _pass_over_retired(c: Any, s: Any) -> None:
    """Move the opening on to the next arm that is in use."""
    while s.scheduled[0] < _opening_rounds(c.opening, c.n_arms):
        if s.retired[_scheduled_arm(c.opening, c.n_arms, s.scheduled[0])] == 0:
            break
        s.scheduled[0] += 1


@inlined
def _estimate(c: Any, s: Any, t: int, arm: int, between: int, loss: float) -> bool:
    """Take a new estimate of an entry of A from two pulls of an arm; tell whether B has grown.

    Consecutive pulls of j show A_jj; pulls of j around one of k show A_jj + A_jk.
    """
    gap = t - s.seen_at[arm]
    if gap == 1:
        s.own_influence[arm] = loss - s.loss[arm]
        s.own_known[arm] = 1
        entry = s.own_influence[arm]
    elif gap == 2 and c.opening == 2 and s.own_known[arm] == 1 and between != arm:
        entry = loss - s.loss[arm] - s.own_influence[arm]
    else:
        return False
    if abs(entry) + c.margin <= s.influence_bound[0]:
        return False
    s.influence_bound[0] = abs(entry) + c.margin
    return True


@inlined
def _first(s: Any, left: int, right: int) -> int:
    """Return which of two arms (−1: none) goes first; left has the lower index."""
    if right < 0:
        return left
    if s.unseen[0] > 0 and (s.seen[left] == 0 or s.seen[right] == 0):
        if s.seen[left] == 0 and s.seen[right] == 0:
            return left if s.pulls[left] <= s.pulls[right] else right
        return left if s.seen[left] == 0 else right
    return left if s.key[left] <= s.key[right] else right


@inlined
def _build_tree(s: Any) -> None:
    """Play the whole tournament: node n holds the winner of nodes 2n and 2n + 1."""
    leaves = s.tree.size // 2
    for leaf in range(leaves):
        s.tree[leaves + leaf] = leaf if leaf < s.key.size else -1
    for node in range(leaves - 1, 0, -1):
        s.tree[node] = _first(s, s.tree[2 * node], s.tree[2 * node + 1])


@inlined
def _replay(s: Any, arm: int) -> None:
    """Play again the matches that an arm takes part in."""
    node = (s.tree.size // 2 + arm) // 2
    while node > 0:
        s.tree[node] = _first(s, s.tree[2 * node], s.tree[2 * node + 1])
        node //= 2
