"""The optimum for one horizon, and for all horizons at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_HORIZON,
    abbreviate,
    is_real,
    real_array,
    require_horizon,
    whole_number,
)
from influential_bandits.errors import InvalidInput, NotApplicable, NotCertified
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import lazy_kernel
from influential_bandits.numerics.double_double import add
from influential_bandits.optima.critical_line import (
    ENDED,
    TOO_LARGE,
    add_products,
    follow_path,
    line_at,
    magnitudes,
    replay,
    solve_support,
)
from influential_bandits.optima.faces import best_face
from influential_bandits.world.dynamics import LOW_RANK, SPARSE, World
from influential_bandits.world.instance import (
    Instance,
    remember,
    require_instance,
    require_lasting_memory,
)

TOLERANCE = 1e-11  # far above the rounding of sums over many arms, far below what data mean


@dataclass(frozen=True)
class Certificate:
    """Residuals of the optimality conditions, each relative to the size of its own terms.

    For convex problems a small duality gap alone proves optimality: no feasible point has a total
    loss lower by more than ``gap`` times Σ x_i·(|b_i| + Σ_j |A_ij|·x_j).

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.optimum(ib.counterexample(), 100).certificate.is_optimal()
    True
    """

    primal: float  # violation of x ≥ 0 and Σx = T, over T
    dual: float  # how far some ∇_i lies below λ, over |b_i| + Σ_j |A_ij|·x_j and their mean
    gap: float  # ∇·x − T·min ∇, the Frank-Wolfe gap, over Σ x_i·(|b_i| + Σ_j |A_ij|·x_j)
    method: str = "optimality conditions"  # or "all faces", for indefinite instances

    def is_optimal(self, tolerance: float = TOLERANCE) -> bool:
        """Tell whether every residual is within the tolerance."""
        residuals = (self.primal, self.dual, self.gap)
        return all(residual <= tolerance for residual in residuals)  # nan proves nothing


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best counts for a horizon, with proof.

    Attributes
    ----------
    horizon : float
    counts : array (arms,)
        x*, the minimiser of b·x + ½·xᵀAx over x ≥ 0, Σx = horizon.
    multiplier : float
        λ, the gradient entry of the arms in use: what one more round costs.
    loss : float
        The total loss of x*.
    certificate : Certificate

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.optimum(ib.counterexample(), 100)
    Optimum(T = 100, 2 of 2 arms in use, loss 5,049.88)
    >>> ib.optimum(ib.counterexample(), 100).multiplier
    100.5
    """

    horizon: float
    counts: Floats
    multiplier: float
    loss: float
    certificate: Certificate

    def __repr__(self) -> str:
        used = f"{np.count_nonzero(self.counts):,} of {self.counts.size:,} arms in use"
        return f"Optimum(T = {self.horizon:,.12g}, {used}, loss {self.loss:,.6g})"


@dataclass(frozen=True, eq=False)
class Segment:
    """A piece of the path on which the support does not change: x* = q + T·p on the support."""

    start: float
    support: Ints  # (m,) the arms that may have counts, in increasing order
    p: Floats  # (m + 1, 2) double-double; the last row belongs to the multiplier
    q: Floats  # (m + 1, 2)
    rates: Floats  # (arms, 2) the gap of arm i is offsets[i] + T·rates[i]; 0 on the support
    offsets: Floats  # (arms, 2)

    def point(self, horizon: float) -> Floats:
        """Return x* on the support, and λ, in double-double: (m + 1, 2)."""
        return line_at(self.p, self.q, horizon)

    def gaps(self, horizon: float) -> Floats:
        """Return (b + A·x*)_i − λ for each arm, (arms,)."""
        return line_at(self.rates, self.offsets, horizon)[:, 0]


class OptimalPath:
    """x*(T) for every horizon T > 0, by the parametric (critical-line) method.

    Parameters
    ----------
    instance : Instance
        Positive semi-definite, memory = 1.
    largest_support : int
        How many arms may be in use where the interaction is sparse, and all of them could be.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> path = optimal_path(ib.counterexample())
    >>> path.breakpoints
    array([0. , 0.5])
    >>> path.counts([10, 1_000_000_000])
    array([[9.5e+00, 5.0e-01],
           [1.0e+09, 5.0e-01]])
    """

    def __init__(self, instance: Instance, *, largest_support: int = 2000) -> None:
        require_lasting_memory(require_instance(instance), "the optimal path")
        if not instance.definite:
            raise NotApplicable(
                "the optimal path needs a positive semi-definite interaction; "
                "ask optimum() for one horizon, which for few arms searches all faces"
            )
        self.instance = instance
        self._largest_support = whole_number("largest_support", largest_support, 1)
        self._segments: dict[int, Segment] = {}
        self._followed = 0.0  # the path is known up to this horizon
        if instance.world.kind != SPARSE:
            self._follow(float(LARGEST_HORIZON))

    def __repr__(self) -> str:
        return f"OptimalPath({self.instance!r}, known to T = {self._followed:.4g})"

    def _follow(self, horizon: float) -> None:
        """Walk along the path at least to a horizon.

        Supports of dense and low-rank interactions are small enough to walk to the end at once; the
        sparse may have as many arms in use as there are.
        """
        if horizon <= self._followed:
            return
        world = self.instance.world
        rank = world.values.shape[1] + 1 if world.kind == LOW_RANK else self.instance.n_arms
        largest = min(self.instance.n_arms, rank)
        if world.kind == SPARSE:
            largest = min(largest, self._largest_support)
        events, times, outcome = follow_path(world, self.instance.linear_term, largest, horizon)
        if outcome == TOO_LARGE:
            raise NotApplicable(
                f"the optimum for T = {horizon:g} uses more than {largest} arms, the most that are "
                f"followed for sparse interactions; the path is known to T = {times[-1]:g}"
            )
        if outcome != ENDED:
            raise NotCertified(
                f"the path of this {self.instance.n_arms}-arm instance could not be followed to "
                f"T = {horizon:g}: its equations are too ill-conditioned after {len(events)} steps"
            )
        self._events, self._times, self._followed = events, times, horizon

    @property
    def breakpoints(self) -> Floats:
        """Horizons at which the support changes, starting with 0."""
        self._follow(float(LARGEST_HORIZON))
        return np.unique(self._times)

    @property
    def last(self) -> Segment:
        """The last segment, a ray: it holds for all large T."""
        self._follow(float(LARGEST_HORIZON))
        return self._segment(len(self._events) - 1)

    def segment(self, horizon: float) -> Segment:
        """Return the segment that a horizon lies on."""
        return self._segment(self._number(horizon))

    def counts(self, horizons: npt.ArrayLike) -> Floats:
        """Return x*(T) for each horizon, (..., arms).

        Every answer is certified; one that is not raises :class:`NotCertified`.
        """
        flat = real_array("horizons", horizons).ravel()
        x = np.zeros((flat.size, self.instance.n_arms))
        if flat.size:
            self._number(float(flat.min()))
            self._number(float(flat.max()))  # the path is followed that far, once for all
            numbers = self._times.searchsorted(flat, side="right") - 1
            for number in set(numbers.tolist()):
                rows = np.flatnonzero(numbers == number)
                segment, points, certificate = self._certify_points(number, flat[rows])
                if not certificate.is_optimal():
                    for horizon in flat[rows].tolist():
                        self.certify(horizon)  # raises, with the horizon
                x[rows[:, None], segment.support] = np.maximum(points[:, :-1, 0], 0.0)
        return x.reshape(*np.shape(horizons), self.instance.n_arms)

    def optimum(self, horizon: float) -> Optimum:
        """Return the optimum for one horizon with its certificate."""
        segment, point, certificate = self.certify(horizon)
        b, x = self.instance.linear_term, np.zeros(self.instance.n_arms)
        x[segment.support] = np.maximum(point[:-1, 0], 0.0)
        multiplier = float(point[-1, 0])
        loss = 0.5 * (float(b @ x) + multiplier * float(horizon))
        return Optimum(float(horizon), x, multiplier, loss, certificate)

    def certify(self, horizon: float) -> tuple[Segment, Floats, Certificate]:
        """Return the segment and the point of a horizon, (m + 1, 2), once they are proved."""
        number, horizon = self._number(horizon), float(horizon)
        segment, points, certificate = self._certify_points(number, np.array([horizon]))
        _require_proof(certificate, horizon)
        return segment, points[0], certificate

    def _certify_points(self, number: int, horizons: Floats) -> tuple[Segment, Floats, Certificate]:
        """Return a segment, its points at horizons on it, and their largest residuals."""
        world, b = self.instance.world, self.instance.linear_term
        segment = self._segment(number)
        lines = segment.support, segment.p, segment.q
        points, residuals = certify_points(world, b, *lines, horizons)
        return segment, points, Certificate(*residuals.tolist())

    def gaps(self, horizon: float) -> Floats:
        """Return (b + A·x*)_i − λ for each arm, (arms,): what a pull of it costs to first order."""
        return self.segment(horizon).gaps(float(horizon))

    def _number(self, horizon: float) -> int:
        if not is_real(horizon) or not 0.0 < horizon < np.inf:
            raise InvalidInput(f"a horizon must be positive and finite, got {abbreviate(horizon)}")
        self._follow(float(horizon))
        return int(self._times.searchsorted(float(horizon), side="right")) - 1

    def _segment(self, number: int) -> Segment:
        if number not in self._segments:
            support = replay(self._events, number)
            *lines, sound = solve_support(self.instance.world, self.instance.linear_term, support)
            if not sound:
                raise NotCertified(
                    f"the equations of the support {support[:8]} are too ill-conditioned to solve"
                )
            self._segments[number] = Segment(float(self._times[number]), support, *lines)
        return self._segments[number]


def optimal_path(instance: Instance) -> OptimalPath:
    """Return x*(T) for all T; worked out once for each instance.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> optimal_path(ib.counterexample()).counts(100)
    array([99.5,  0.5])
    """
    return remember(require_instance(instance), "optimal_path", lambda: OptimalPath(instance))


def optimum(instance: Instance, horizon: int) -> Optimum:
    """Return the certified minimiser of the total loss over x ≥ 0, Σx = horizon.

    Parameters
    ----------
    instance : Instance
        Indefinite ones are solved by searching all faces, up to 15 arms.
    horizon : int

    Examples
    --------
    >>> import influential_bandits as ib
    >>> best = optimum(ib.counterexample(), 100)
    >>> best.counts, best.loss, best.certificate.is_optimal()
    (array([99.5,  0.5]), 5049.875, True)
    """
    require_lasting_memory(require_instance(instance), "the optimum")
    horizon = require_horizon(horizon)
    if instance.definite:
        return optimal_path(instance).optimum(horizon)
    support, point, certificate = certify_face(instance, horizon)
    x = np.zeros(instance.n_arms)
    x[support] = np.maximum(point[:-1, 0], 0.0)
    loss = float(instance.total_loss(x))
    return Optimum(float(horizon), x, float(point[-1, 0]), loss, certificate)


def certify_face(instance: Instance, horizon: float) -> tuple[Ints, Floats, Certificate]:
    """Return support, point (double-double, with λ) and certificate of an indefinite optimum."""
    support, point = best_face(instance, horizon)
    residuals = certify(instance.world, instance.linear_term, support, point, float(horizon))
    certificate = dataclasses.replace(Certificate(*residuals.tolist()), method="all faces")
    _require_proof(certificate, horizon)
    return support, point, certificate


def _require_proof(certificate: Certificate, horizon: float) -> None:
    if not certificate.is_optimal():
        raise NotCertified(f"no optimum could be proved for T = {horizon}: {certificate}")


@lazy_kernel
def certify_points(
    world: World, b: Floats, support: Ints, p: Floats, q: Floats, horizons: Floats
) -> tuple[Floats, Floats]:
    """Return the points q + T·p, (horizons, support + 1, 2), and their largest residuals."""
    points = np.empty((horizons.size, support.size + 1, 2))
    residuals = np.zeros(3)
    for n in range(horizons.size):
        points[n] = line_at(p, q, horizons[n])
        residuals = np.maximum(residuals, certify(world, b, support, points[n], horizons[n]))
    return points, residuals


@lazy_kernel
def certify(world: World, b: Floats, support: Ints, point: Floats, horizon: float) -> Floats:
    """Return the residuals of :class:`Certificate` at a double-double point with λ in its last row.

    They are found from A and b alone, whatever led to the point.
    """
    size = support.size
    used = np.empty(size)
    rest = np.empty(size)
    left = (horizon, 0.0)
    primal = 0.0
    for m in range(size):
        primal = max(primal, -point[m, 0])
        used[m], rest[m] = point[m, 0], point[m, 1]
        left = add(left, (-used[m], -rest[m]))
    high, low = b.copy(), np.zeros(b.size)
    add_products(world, support, used, high, low)
    add_products(world, support, rest, high, low)
    terms = np.empty(b.size)
    magnitudes(world, support, used, terms)
    terms += np.abs(b)
    scale = 0.0
    for m in range(size):
        scale += terms[support[m]] * max(used[m], 0.0)
    lowest = (np.inf, 0.0)
    dual = 0.0
    for i in range(b.size):
        if high[i] < lowest[0] or (high[i] == lowest[0] and low[i] < lowest[1]):
            lowest = (high[i], low[i])
        below = add((point[size, 0], point[size, 1]), (-high[i], -low[i]))[0]
        if below > 0.0:
            dual = max(dual, below / (terms[i] + scale / horizon))
    along = 0.0
    for m in range(size):
        i = support[m]
        along += add((high[i], low[i]), (-lowest[0], -lowest[1]))[0] * max(used[m], 0.0)
    if not np.isfinite(along) or not np.isfinite(scale):
        along, scale = np.inf, 1.0
    primal = max(primal, abs(left[0])) / horizon
    return np.array([primal, dual, along / scale if along > 0.0 else 0.0])
