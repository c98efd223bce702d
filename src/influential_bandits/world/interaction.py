"""Interaction matrices: dense, low rank and sparse, behind one small interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from influential_bandits.checks import (
    LARGEST_ARMS,
    abbreviate,
    require_losses,
    whole_number,
)
from influential_bandits.errors import InvalidInput, InvalidInstance
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.world.dynamics import DENSE, LOW_RANK, SPARSE
from influential_bandits.world.factorisation import pivoted_ldl
from influential_bandits.world.values import Value, freeze

MOST_BYTES = 1 << 31  # of a dense matrix that nobody has asked for by name
NO_INTS: Ints = np.empty(0, np.int64)
NO_INTS.flags.writeable = False  # like all arrays of a world, so that types agree


class Interaction(Value, ABC):
    """A symmetric matrix A: pulling arm i adds row i to the losses of all arms."""

    kind: ClassVar[int]
    name: ClassVar[str]
    values: Floats  # what compiled code reads; see world.dynamics.World
    columns: Ints = NO_INTS
    offsets: Ints = NO_INTS
    definite: bool  # positive semi-definite, up to the stated tolerance
    vouched: bool = False  # definite by the caller's word, not by a check

    @property
    @abstractmethod
    def n_arms(self) -> int:
        """Number of arms K."""

    @abstractmethod
    def rows(self, indices: npt.ArrayLike) -> Floats:
        """Return some rows of A as a dense array (len(indices), arms)."""

    @cached_property
    @abstractmethod
    def diagonal(self) -> Floats:
        """Diagonal of A, (arms,)."""

    @cached_property
    @abstractmethod
    def max_abs(self) -> float:
        """Largest absolute entry of A, the norm of Assumption 2.4."""

    @property
    def squares(self) -> tuple[Floats, Floats] | None:
        """L and D with dᵀAd = Σ D·(Lᵀd)², or None where they would take too much memory."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return numbers from which :func:`interaction_from_json` makes the same matrix."""

    def to_dense(self) -> Floats:
        """Return A as an array (arms, arms)."""
        return self.rows(np.arange(self.n_arms))

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Return A for ``np.asarray``: a copy, since A itself cannot be changed."""
        if copy is False:
            raise ValueError("an interaction cannot be made an array without a copy")
        size = 8 * self.n_arms**2
        if self.kind != DENSE and size > MOST_BYTES:
            raise InvalidInput(
                f"a dense matrix of {self.n_arms:,} arms takes {size / 2**30:,.1f} GiB; take some "
                "of its rows(), or call to_dense() if you mean it"
            )
        return np.asarray(self.to_dense(), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by making it again, so that a copy cannot be changed either."""
        return type(self), (self.values,)

    def _parts(self) -> tuple[Any, ...]:
        return self.values, self.columns, self.offsets

    def __repr__(self) -> str:
        rank = f", rank {self.values.shape[1]}" if self.kind == LOW_RANK else ""
        return f"{type(self).__name__}({self.n_arms} arms{rank}, max|A| = {self.max_abs:.4g})"


class DenseInteraction(Interaction):
    """An interaction given entry by entry.

    Parameters
    ----------
    matrix : array (arms, arms)
        Finite and symmetric. Asymmetry of rounding size, at most 4·K·ε·max|A|, is averaged away.

    Notes
    -----
    A counts as positive semi-definite when its smallest eigenvalue is at least −K²·ε·max|A|
    (ε = 2⁻⁵²), the size of the rounding errors of a computed BᵀB.

    Examples
    --------
    >>> DenseInteraction([[1, 1], [1, 2]]).definite
    True
    >>> DenseInteraction([[1, 2], [2, 1]]).definite
    False
    """

    kind = DENSE
    name = "dense"

    def __init__(self, matrix: npt.ArrayLike) -> None:
        a = check_numbers(matrix, "interaction")
        _require_square(a.shape)
        gap = np.abs(a - a.T)
        i, j = np.unravel_index(np.argmax(gap), gap.shape)
        if gap[i, j] > 4 * len(a) * np.finfo(float).eps * np.abs(a).max():
            raise InvalidInstance(
                f"interaction is not symmetric: |A[{i},{j}] − A[{j},{i}]| = {gap[i, j]:.3g}; "
                "pass (A + A.T) / 2 if the difference is meaningless"
            )
        self._set(values=freeze(a if gap[i, j] == 0 else (a + a.T) / 2))

    @property
    def n_arms(self) -> int:
        return len(self.values)

    def rows(self, indices: npt.ArrayLike) -> Floats:
        return self.values[np.asarray(indices)]

    @cached_property
    def diagonal(self) -> Floats:
        return freeze(np.diagonal(self.values).copy())

    @cached_property
    def max_abs(self) -> float:
        return float(np.abs(self.values).max())

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """Smallest eigenvalue of A."""
        return float(np.linalg.eigvalsh(self.values)[0])

    @property
    def tolerance(self) -> float:
        """How negative an eigenvalue may be and still count as a rounded zero."""
        return float(self.n_arms**2 * np.finfo(float).eps * self.max_abs)

    @cached_property
    def definite(self) -> bool:  # type: ignore[override]
        try:  # a Cholesky factor proves it, in a tenth of the time that eigenvalues take
            np.linalg.cholesky(self.values + self.tolerance * np.eye(self.n_arms))
        except np.linalg.LinAlgError:
            return self.smallest_eigenvalue >= -self.tolerance
        return True

    @cached_property
    def squares(self) -> tuple[Floats, Floats]:
        """L (arms, rank) and D (rank,) with dᵀAd = Σ D·(Lᵀd)²; by pivoted LDLᵀ."""
        factor, weights = pivoted_ldl(self.values, self.n_arms * np.finfo(float).eps)
        return freeze(factor), freeze(weights)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "matrix": self.values.tolist()}


class LowRankInteraction(Interaction):
    """A = FFᵀ from item embeddings F; memory and time grow with arms × rank, not arms².

    Parameters
    ----------
    factors : array (arms, rank)

    Examples
    --------
    >>> LowRankInteraction([[1.0], [0.5]]).to_dense()
    array([[1.  , 0.5 ],
           [0.5 , 0.25]])
    """

    kind = LOW_RANK
    name = "low-rank"
    definite = True

    def __init__(self, factors: npt.ArrayLike) -> None:
        f = check_numbers(factors, "factors")
        if f.ndim != 2:
            raise InvalidInstance(f"factors must be a matrix (arms, rank), got shape {f.shape}")
        if 0 in f.shape:
            raise InvalidInstance(f"factors must have arms and rank at least 1, got {f.shape}")
        require_losses("the diagonal of FFᵀ", np.einsum("ij,ij->i", f, f), InvalidInstance)
        self._set(values=freeze(f))

    @property
    def n_arms(self) -> int:
        return len(self.values)

    @cached_property
    def squares(self) -> tuple[Floats, Floats]:
        """L (arms, rank) and D (rank,) with dᵀAd = Σ D·(Lᵀd)²: the factors themselves, and ones."""
        return self.values, freeze(np.ones(self.values.shape[1]))

    def rows(self, indices: npt.ArrayLike) -> Floats:
        rows: Floats = self.values[np.asarray(indices)] @ self.values.T
        return rows

    @cached_property
    def diagonal(self) -> Floats:
        return freeze(np.einsum("ij,ij->i", self.values, self.values))

    @cached_property
    def max_abs(self) -> float:
        return float(self.diagonal.max())  # |A_ij| ≤ √(A_ii·A_jj)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, "factors": self.values.tolist()}


class SparseInteraction(Interaction):
    """An interaction with few non-zero entries.

    Parameters
    ----------
    matrix : SciPy sparse matrix or array (arms, arms)
        Symmetric; explicit zeros are dropped.
    vouched : bool
        True: the caller vouches that A is positive semi-definite, and nothing is checked. The
        check makes a dense copy, so beyond 2,000 arms it must be vouched for.

    Examples
    --------
    >>> import scipy.sparse
    >>> SparseInteraction(scipy.sparse.eye_array(3)).definite
    True
    """

    kind = SPARSE
    name = "sparse"
    CHECKED_ARMS = 2000

    def __init__(self, matrix: Any, *, vouched: bool = False) -> None:
        if not scipy.sparse.issparse(matrix):
            matrix = check_numbers(matrix, "interaction")
        if not np.can_cast(matrix.dtype, np.float64, "same_kind"):
            raise InvalidInstance(f"interaction must be an array of numbers, not of {matrix.dtype}")
        _require_square(matrix.shape)
        a = _check_rows(scipy.sparse.csr_array(matrix, dtype=float, copy=True))
        a.sum_duplicates()
        a.eliminate_zeros()
        require_losses("interaction", a.data, InvalidInstance)
        difference = abs(a - a.T)
        gap = difference.data.max(initial=0.0)
        if gap > 4 * a.shape[0] * np.finfo(float).eps * np.abs(a.data).max(initial=0.0):
            raise InvalidInstance(
                f"interaction is not symmetric: entries differ by up to {gap:.3g}; "
                "pass (A + A.T) / 2 if the difference is meaningless"
            )
        if gap > 0.0:
            a = scipy.sparse.csr_array((a + a.T) / 2)
        if a.shape[0] > self.CHECKED_ARMS and not vouched:
            raise InvalidInstance(
                f"checking {a.shape[0]:,} arms for positive semi-definiteness would need a dense "
                "matrix; pass vouched=True if you know that it holds"
            )
        a.sort_indices()
        self._set(
            values=freeze(a.data.reshape(1, -1) + 0.0),
            columns=freeze(a.indices.astype(np.int64)),
            offsets=freeze(a.indptr.astype(np.int64)),
            vouched=bool(vouched),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SparseInteraction, vouched=self.vouched), (self.matrix,)

    @cached_property
    def matrix(self) -> Any:
        """A as a SciPy CSR array."""
        return scipy.sparse.csr_array(
            (self.values[0], self.columns, self.offsets), shape=(self.n_arms, self.n_arms)
        )

    @property
    def n_arms(self) -> int:
        return len(self.offsets) - 1

    def rows(self, indices: npt.ArrayLike) -> Floats:
        rows: Floats = self.matrix[np.asarray(indices)].toarray()
        return rows

    @cached_property
    def diagonal(self) -> Floats:
        return freeze(self.matrix.diagonal())

    @cached_property
    def max_abs(self) -> float:
        return float(np.abs(self.values).max(initial=0.0))

    @cached_property
    def definite(self) -> bool:  # type: ignore[override]
        return self.vouched or self.checked.definite

    @cached_property
    def checked(self) -> DenseInteraction:
        """The same matrix as a dense interaction, for the check."""
        return DenseInteraction(self.to_dense())

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.name,
            "n_arms": self.n_arms,
            "values": self.values[0].tolist(),
            "columns": self.columns.tolist(),
            "offsets": self.offsets.tolist(),
            "vouched": self.vouched,
        }


def as_interaction(given: object) -> Interaction:
    """Return an interaction for an interaction, a SciPy sparse matrix or anything array-like."""
    if isinstance(given, Interaction):
        return given
    if scipy.sparse.issparse(given):
        return SparseInteraction(given)
    return DenseInteraction(given)  # type: ignore[arg-type]


def interaction_from_json(data: Mapping[str, Any]) -> Interaction:
    """Return the interaction that :meth:`Interaction.to_json` described."""
    if not isinstance(data, Mapping):
        raise InvalidInstance(f"the interaction of the file is no JSON object: {abbreviate(data)}")
    kind = data["kind"]
    if kind == DenseInteraction.name:
        return DenseInteraction(data["matrix"])
    if kind == LowRankInteraction.name:
        return LowRankInteraction(data["factors"])
    if kind == SparseInteraction.name:
        if not isinstance(data["vouched"], bool):
            raise InvalidInstance(
                f"vouched must be true or false, got {abbreviate(data['vouched'])}"
            )
        return SparseInteraction(_sparse_matrix(data), vouched=data["vouched"])
    raise InvalidInstance(f"unknown kind of interaction {kind!r}")


def _sparse_matrix(data: Mapping[str, Any]) -> Any:
    try:
        n_arms = whole_number("n_arms", data["n_arms"], 1, LARGEST_ARMS)
        columns = [whole_number("column", column, 0, n_arms) for column in data["columns"]]
        ends = len(columns) + 1
        offsets = [whole_number("offset", offset, 0, ends) for offset in data["offsets"]]
        entries = data["values"], columns, offsets
        return _check_rows(scipy.sparse.csr_array(entries, shape=(n_arms, n_arms), dtype=float))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInstance(f"the sparse interaction of the file is broken: {error}") from None


def _check_rows(matrix: Any) -> Any:
    """Return a CSR array whose rows and columns are where they say; SciPy takes its word for it."""
    offsets, columns = matrix.indptr, matrix.indices
    if (
        len(offsets) != matrix.shape[0] + 1
        or offsets[0] != 0
        or (np.diff(offsets) < 0).any()
        or not offsets[-1] == len(columns) == len(matrix.data)
        or (columns < 0).any()
        or (columns >= matrix.shape[1]).any()
    ):
        raise InvalidInstance(
            "interaction is a broken sparse matrix: its offsets must rise from 0 to the number of "
            f"its entries, {len(matrix.data)}, and its columns be 0 … {matrix.shape[1] - 1}"
        )
    return matrix


def _require_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InvalidInstance(f"interaction must be a square matrix, got shape {shape}")
    if shape[0] == 0:
        raise InvalidInstance("interaction has no arms: there must be at least 1")


def check_numbers(given: object, what: str) -> Floats:
    """Return finite float64 numbers, without negative zeros, or say what is wrong with them."""
    try:
        array = np.array(given, order="C").astype(np.float64, casting="same_kind")
    except (TypeError, ValueError, OverflowError):
        raise InvalidInstance(
            f"{what} must be an array of numbers, got {abbreviate(given)}"
        ) from None
    require_losses(what, array, InvalidInstance)
    return array + 0.0
