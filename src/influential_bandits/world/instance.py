"""Instance: one influential bandit problem, immutable and validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    abbreviate,
    real_array,
    real_number,
    require_half_life,
    require_names,
)
from influential_bandits.display import draw_matrix
from influential_bandits.errors import InvalidInput, InvalidInstance, NotApplicable
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.dynamics import World, all_deviations, start_progress, total_losses
from influential_bandits.world.fading import Fading
from influential_bandits.world.interaction import (
    DenseInteraction,
    Interaction,
    as_interaction,
    check_numbers,
    interaction_from_json,
)
from influential_bandits.world.values import StoredValue, freeze

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = TypeVar("Result")
FORMAT = "influential-bandits/instance/1"
MOST_DRAWN = 200  # arms


class Instance(StoredValue):
    """An influential bandit problem: pulling arm i adds row i of A to the losses of all arms.

    Parameters
    ----------
    interaction : array (arms, arms), SciPy sparse matrix, or Interaction
        The symmetric interaction matrix A.
    initial_loss : array (arms,)
        The losses l1 before the first pull.
    arm_names : sequence of str, optional
        Names of the arms, unique; by default "0", "1", ….
    memory : float in (0, 1]
        γ, how much of the past influence is left after each round: deviation ← γ·deviation + A[i].
        1 is the paper's model.
    definite : bool
        True demands a positive semi-definite A (tolerance: :class:`DenseInteraction`). False also
        admits an indefinite one (Sec. 5.1).
    half_life : float, optional
        Hours after which half of the influence of a pull is gone, by the clock: between two pulls
        that are h hours apart, deviation ← 2^(−h/half_life)·deviation, besides ``memory``. Rounds
        then have times: see :class:`Scenario` and :meth:`Environment.pull`.

    Examples
    --------
    >>> instance = Instance([[1, 1], [1, 2]], [1, 1])
    >>> instance
    Instance(2 arms, dense interaction, max|A| = 2)
    >>> instance.losses([3, 1])
    array([5., 6.])
    >>> instance.total_loss([3, 1])
    10.0
    """

    def __init__(
        self,
        interaction: Interaction | npt.ArrayLike,
        initial_loss: npt.ArrayLike,
        arm_names: Sequence[str] | None = None,
        memory: float = 1.0,
        *,
        definite: bool = True,
        half_life: float | None = None,
    ) -> None:
        matrix = as_interaction(interaction)
        loss = check_numbers(initial_loss, "initial_loss")
        if loss.shape != (matrix.n_arms,):
            raise InvalidInstance(
                f"initial_loss must have one number for each of the {matrix.n_arms} arms of the "
                f"interaction, got shape {loss.shape}"
            )
        kept = real_number("memory", memory, 0.0, 1.0, above=True, error=InvalidInstance)
        if definite and not matrix.definite:
            raise InvalidInstance(_indefinite(matrix))
        self._set(
            _interaction=matrix,
            _initial_loss=freeze(loss),
            _names=None if arm_names is None else _names(arm_names, matrix.n_arms),
            _memory=kept,
            _half_life=require_half_life(half_life, InvalidInstance),
            _remembered={},
        )

    _interaction: Interaction
    _initial_loss: Floats
    _names: tuple[str, ...] | None
    _memory: float
    _half_life: float | None
    _remembered: dict[str, Any]

    @property
    def interaction(self) -> Interaction:
        """The interaction matrix A."""
        return self._interaction

    @property
    def initial_loss(self) -> Floats:
        """The losses before the first pull, l1, (arms,); read-only."""
        return self._initial_loss

    @property
    def memory(self) -> float:
        """γ, how much of the past influence is left after each round."""
        return self._memory

    @property
    def half_life(self) -> float | None:
        """Hours after which half of the influence of a pull is gone; None: it stays."""
        return self._half_life

    @property
    def fading(self) -> Fading:
        """How influence fades, as one value to hand on."""
        return Fading(self._memory, self._half_life)

    @property
    def fades(self) -> bool:
        """Whether influence fades, by rounds or by the clock: then the order of pulls matters."""
        return self._memory < 1.0 or self._half_life is not None

    @cached_property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self._names or tuple(str(i) for i in range(self.n_arms))

    @property
    def n_arms(self) -> int:
        """Number of arms K."""
        return self._interaction.n_arms

    @property
    def definite(self) -> bool:
        """Whether A is positive semi-definite."""
        return self._interaction.definite

    @cached_property
    def linear_term(self) -> Floats:
        """The vector b = l1 − ½·diag(A), (arms,): the total loss is b·x + ½·xᵀAx (Prop. 2.1)."""
        require_lasting_memory(self, "linear_term")
        return freeze(self._initial_loss - 0.5 * self._interaction.diagonal)

    @cached_property
    def world(self) -> World:
        """The arrays that compiled code reads."""
        matrix = self._interaction
        return World(
            matrix.kind,
            matrix.values,
            matrix.columns,
            matrix.offsets,
            self._initial_loss,
            self._memory,
        )

    def losses(self, counts: npt.ArrayLike) -> Floats:
        """Return the losses of all arms after ``counts`` pulls: l1 + A·counts.

        Parameters
        ----------
        counts : array (arms,)

        Returns
        -------
        array (arms,)
        """
        require_lasting_memory(self, "losses from counts")
        x = check_counts(self, counts)
        if x.ndim != 1:
            raise InvalidInput(f"losses takes one vector of counts, got shape {x.shape}")
        deviations = np.empty(self.n_arms)
        all_deviations(self.world, start_progress(self.world), x, deviations)
        return self._initial_loss + deviations

    def total_loss(self, counts: npt.ArrayLike) -> Any:
        """Return the expected total loss b·x + ½·xᵀAx of any order of ``counts`` pulls (Prop. 2.1).

        Parameters
        ----------
        counts : array (..., arms)

        Returns
        -------
        float or array (...)
        """
        require_lasting_memory(self, "total loss from counts (Prop. 2.1)")
        x = check_counts(self, counts)
        flat = np.ascontiguousarray(x.reshape(-1, self.n_arms))
        totals = total_losses(self.world, start_progress(self.world), self.linear_term, flat)
        return float(totals[0]) if x.ndim == 1 else totals.reshape(x.shape[:-1])

    def to_json(self) -> dict[str, Any]:
        data = {
            "format": FORMAT,
            "interaction": self._interaction.to_json(),
            "initial_loss": self._initial_loss.tolist(),
            "arm_names": None if self._names is None else list(self._names),
            "memory": self._memory,
        }
        return data if self._half_life is None else {**data, "half_life": self._half_life}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Instance:
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInstance(f'this is no instance file: expected "format": "{FORMAT}"')
        try:
            interaction = interaction_from_json(data["interaction"])
            return cls(
                interaction,
                data["initial_loss"],
                data["arm_names"],
                data["memory"],
                definite=False,
                half_life=data.get("half_life"),
            )
        except KeyError as missing:
            raise InvalidInstance(f"the instance file has no {missing} entry") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by making it again, so that a copy cannot be changed either."""
        make = partial(Instance, definite=False, half_life=self._half_life)
        return make, (self._interaction, self._initial_loss, self._names, self._memory)

    def _parts(self) -> tuple[Any, ...]:
        fading = self._memory, self._half_life
        return self._interaction, self._initial_loss, self.arm_names, *fading

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the interaction: red entries raise later losses, blue ones lower them."""
        if self.n_arms > MOST_DRAWN:
            raise NotApplicable(
                f"an interaction of {self.n_arms:,} arms has too many entries to be seen; draw one "
                f"of {MOST_DRAWN} arms or fewer"
            )
        ax = draw_matrix(ax, self.arm_names, np.asarray(self._interaction), title="Interaction A")
        ax.set(xlabel="arm that was pulled", ylabel="arm whose loss changes")
        return ax

    def __repr__(self) -> str:
        matrix = self._interaction
        rank = f" (rank {matrix.values.shape[1]})" if matrix.name == "low-rank" else ""
        parts = [
            f"{self.n_arms} arms",
            f"{matrix.name} interaction{rank}",
            f"max|A| = {matrix.max_abs:.4g}",
        ]
        if matrix.vouched:
            parts.append("definiteness vouched for by the caller")
        if not matrix.definite:
            parts.append("indefinite")
        if self._memory < 1.0:
            parts.append(f"memory = {self._memory:.4g}")
        if self._half_life is not None:
            parts.append(f"half-life = {self._half_life:.4g} hours")
        if self._names is not None:
            shown = ", ".join(self._names[:4]) + (", …" if len(self._names) > 4 else "")
            parts.append(f"arms: {shown}")
        return f"Instance({', '.join(parts)})"


def require_instance(given: object) -> Instance:
    """Return an instance, or say that this is none."""
    if not isinstance(given, Instance):
        raise InvalidInput(f"expected an Instance, got {abbreviate(given)}")
    return given


def require_lasting_memory(instance: Instance, what: str) -> None:
    """Raise unless γ = 1, for what depends on counts alone."""
    require_no_clock(instance, what)
    if instance.memory < 1.0:
        raise NotApplicable(
            f"{what} needs memory = 1, but here memory = {instance.memory}: with fading influence "
            "the order of the pulls matters, not only how many there were"
        )


def require_no_clock(instance: Instance, what: str) -> None:
    """Raise where influence fades by the clock, for what counts rounds and knows no times."""
    if instance.half_life is not None:
        raise NotApplicable(
            f"{what} needs times of rounds, as here influence fades by the clock (half-life "
            f"{instance.half_life:g} hours): simulate with scenario=Scenario(times=…) or "
            "Scenario(session=…), and compare losses"
        )


def remember(instance: Instance, name: str, make: Callable[[], Result]) -> Result:
    """Return what ``make`` gives, made once: nothing about an instance ever changes."""
    known = instance._remembered
    if name not in known:
        known[name] = make()
    return known[name]


def check_counts(instance: Instance, counts: npt.ArrayLike) -> Floats:
    """Return counts (..., arms) as floats, or say what is wrong with them."""
    x = real_array("counts", counts)
    if x.shape[-1:] != (instance.n_arms,):
        raise InvalidInput(
            f"counts must have one number for each of the {instance.n_arms} arms in the last axis, "
            f"got shape {x.shape}"
        )
    if not np.isfinite(x).all() or (x < 0).any():
        raise InvalidInput("counts must be finite and not negative")
    return x


def _indefinite(matrix: Interaction) -> str:
    dense = matrix if isinstance(matrix, DenseInteraction) else matrix.checked  # type: ignore[attr-defined]
    return (
        f"interaction is not positive semi-definite: its smallest eigenvalue is "
        f"{dense.smallest_eigenvalue:.3g}, below the tolerance −{dense.tolerance:.1g}; "
        "pass definite=False to admit an indefinite interaction (Sec. 5.1)"
    )


def _names(arm_names: Sequence[str], expected: int) -> tuple[str, ...]:
    names = require_names("arm_names", arm_names, InvalidInstance)
    if len(names) != expected:
        raise InvalidInstance(f"arm_names must name all {expected} arms, got {len(names)} names")
    return names
