"""Models of losses in a log, as scikit-learn regressors: stationary, drifting, influential."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.display import draw_matrix
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning.loss_model import (
    LossModel,
    check_at_least,
    require_fitted,
)
from influential_bandits.learning.statistics.design import (
    KINDS,
    interaction_entries,
    interaction_matrices,
)
from influential_bandits.numerics.arrays import Floats
from influential_bandits.packages import optional_module
from influential_bandits.policies.fleet.fleet import Fleet
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.foresight.prior import LossPrior, in_order, place, unknowns
from influential_bandits.summaries.interval_text import tell_apart
from influential_bandits.world.fading import Fades, require_fading, require_one_fading
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SHOWN_INFLUENCES = 8  # in words


class StationaryModel(LossModel):
    """Losses that never change: a mean for each arm, and each instance.

    Parameters
    ----------
    shrinkage : float
        Pseudo-events that pull each arm's mean towards the instance's own. 0 gives plain means, as
        in the paper (an arm never met gets the instance's mean).
    pooling : "none" or "full"
        "full": arms' means of all instances are shared as far as the log calls for (random
        effects).

    Examples
    --------
    >>> from influential_bandits import EventLog, StationaryModel
    >>> log = EventLog(["ann"] * 4, ["news", "sport", "news", "sport"], [1.0, 3.0, 2.0, 4.0])
    >>> StationaryModel(shrinkage=0).fit(log).initial_losses_
    array([[1.5, 3.5]])
    """

    def __init__(self, shrinkage: float = 1.0, pooling: str = "none") -> None:
        self.shrinkage = shrinkage
        self.pooling = pooling


class DriftModel(LossModel):
    """Losses that follow the recent level of their own history: arm effects plus drift.

    Parameters
    ----------
    shrinkage, pooling
        As in :class:`StationaryModel`.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(1, 1000, 2, drift=1.0, seed=0)
    >>> model = ib.DriftModel().fit(log)
    >>> bool(model.level_coefficients_[0] > 0.5)
    True
    """

    drift = True

    def __init__(self, shrinkage: float = 1.0, pooling: str = "none") -> None:
        self.shrinkage = shrinkage
        self.pooling = pooling

    @property
    def level_coefficients_(self) -> Floats:
        """How much of the recent level carries over, (instances,)."""
        return self.coefficients_[:, self.design_.n_arms]


class InfluenceModel(LossModel):
    """Losses that past pulls change: l1 + A·(discounted counts), fitted to a log.

    Parameters
    ----------
    interaction : "psd", "symmetric" or "diagonal"
        What A may be. "psd" is the paper's model, solved to a certified optimum (``gap_``);
        "symmetric" also admits reinforcement (Sec. 5.1); "diagonal" is self-fatigue alone.
    fading : float in (0, 1] or Fading
        How a pull's influence fades. A number is γ, the share that is left after each further
        event; 1 is the paper. ``Fading(half_life=48)`` goes by the clock. What a test has found is
        handed on as it is: ``fading=test.fading``.
    drift : bool
        Whether losses also follow the recent level of their history.
    ridge : float
        Pseudo-events of average counts that pull every entry of A towards zero. With 0 the log has
        to determine A; if it does not, ``status_`` says so.
    pooling : "none" or "full"
        "none": each instance has its own A. "full": one A for all, initial losses of each.
    shrinkage
        As in :class:`StationaryModel`.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.2, -0.1], [-0.1, 0.1]]
    >>> log = ib.data.synthetic_log(200, 100, 2, interaction=truth, memory=0.8, seed=1)
    >>> model = ib.InfluenceModel(fading=0.8, pooling="full").fit(log)
    >>> model.interaction_.round(1)
    array([[ 0.2, -0.1],
           [-0.1,  0.1]])
    >>> model.instance().memory
    0.8
    """

    def __init__(
        self,
        interaction: str = "psd",
        fading: Fades = 1.0,
        drift: bool = False,
        ridge: float = 1.0,
        pooling: str = "none",
        shrinkage: float = 1.0,
    ) -> None:
        self.interaction = interaction
        self.fading = fading
        self.drift = drift
        self.ridge = ridge
        self.pooling = pooling
        self.shrinkage = shrinkage

    def check_settings(self) -> None:
        """Raise unless all settings are what they may be."""
        super().check_settings()
        named = isinstance(self.interaction, str) and self.interaction in KINDS
        if not named or self.interaction == "none":
            raise InvalidInput(
                f"interaction must be 'psd', 'symmetric' or 'diagonal', got {self.interaction!r}"
            )
        require_one_fading(self.fading)
        check_at_least("ridge", self.ridge, 0.0)
        if not isinstance(self.drift, (bool, np.bool_)):
            raise InvalidInput(f"drift must be True or False, got {self.drift!r}")

    @property
    def interaction_(self) -> Floats:
        """The population's interaction, (arms, arms): shared, or the mean over instances."""
        return interaction_matrices(self.design_, self.population_)

    @property
    def interactions_(self) -> Floats:
        """The interaction of each instance, (instances, arms, arms)."""
        return interaction_matrices(self.design_, self.coefficients_)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the population's interaction: red entries raise later losses, blue lower them."""
        require_fitted(self)
        ax = draw_matrix(ax, self.arm_names_, self.interaction_, title="Fitted interaction A")
        ax.set(xlabel="arm that was pulled", ylabel="arm whose loss changes")
        return ax

    def __str__(self) -> str:
        """Say what was found, in the unit of the log."""
        if not self.__sklearn_is_fitted__():
            return repr(self)
        drift = "on" if self.drift else "off"
        kind = f"{self.interaction} interaction of {len(self.arm_names_)} arms"
        fit = f"ridge {self.ridge:g}, drift {drift}, noise {self.noise().sigma:.3g}; {self.status_}"
        unit = self.outcome_.unit
        lines = [
            f"{kind}, {require_fading(self.fading)}, {fit}",
            f"{self._describe_levels()} before any influence.",
            f"Strongest influences, in {unit}: what one more showing costs the next (− gives it)",
        ]
        for names, value, interval in self._list_influences(SHOWN_INFLUENCES):
            lines.append(f"  {names:40} {value}  {interval}".rstrip())
        return "\n".join(lines)

    def _say_in_a_line(self) -> str:
        ((arms, value, interval),) = self._list_influences(1)
        return (
            f"{self._describe_levels()}; {arms}: one more showing costs the next {value} "
            f"{interval} {self.outcome_.unit}; {require_fading(self.fading)}"
        )

    def _list_influences(self, most: int) -> list[tuple[str, str, str]]:
        """Return the strongest entries of the interaction: arms, value and interval."""
        matrix, names = self.interaction_, self.arm_names_
        low, high = self.interval()["interaction"]
        rows, columns = np.tril_indices(len(matrix))
        if self.interaction == "diagonal":  # nothing is known of pairs
            rows, columns = np.diag_indices(len(matrix))
        order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:most]
        influences = []
        for i, j in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
            arms = f"{names[i]} on itself" if i == j else f"{names[i]} and {names[j]}"
            entry = (float(matrix[i, j]), float(low[i, j]), float(high[i, j]))
            if not np.isfinite(entry).all():  # a fit for predictions alone
                influences.append((arms, f"{entry[0]:+.2g}", ""))
                continue
            value, below, above = tell_apart(*entry, "+.2g")
            note = explain_end(*entry)
            influences.append((arms, value, f"({below} … {above}{note and '; ' + note})"))
        return influences

    def interval(
        self, confidence: float = 0.95, instance: object = None
    ) -> dict[str, tuple[Floats, Floats]]:
        """Return intervals for every entry of A and l1.

        Those of a positive semi-definite fit are the symmetric model's, cut at zero on the diagonal
        and widened to hold the estimate: near the edge of the cone it is not normal.

        Parameters
        ----------
        confidence : float in (0, 1)
        instance : label, optional
            Whose; by default the population's.

        Returns
        -------
        dict
            "interaction": two arrays (arms, arms); "initial_loss": two arrays (arms,).
        """
        require_fitted(self)
        if not is_real(confidence) or not 0.0 < confidence < 1.0:
            raise InvalidInput(f"confidence must lie between 0 and 1, got {abbreviate(confidence)}")
        wide = optional_module("scipy.stats").norm.ppf(0.5 + 0.5 * confidence)
        if instance is None:
            centre, error = self.population_, np.sqrt(np.diag(self.population_covariance_))
            free = self.unconstrained_population_
        else:
            row = self.row(instance)
            centre, error = self.coefficients_[row], self.standard_errors_[row]
            free = self.unconstrained_[row]
        low = np.minimum(free - wide * error, centre)
        high = np.maximum(free + wide * error, centre)
        arms = self.design_.n_arms
        lows, highs = (
            interaction_matrices(self.design_, low),
            interaction_matrices(self.design_, high),
        )
        if self.interaction == "psd":
            spots = np.arange(arms)
            lows[spots, spots] = np.maximum(lows[spots, spots], 0.0)
        return {"interaction": (lows, highs), "initial_loss": (low[:arms], high[:arms])}

    def instance(
        self,
        instance: object = None,
        days_between_rounds: float | None = None,
        without_drift: bool = False,
        *,
        by_clock: bool = False,
    ) -> Instance:
        """Return the learned world as an :class:`Instance`, to simulate policies in.

        Parameters
        ----------
        instance : label, optional
            Whose world; by default the population's.
        days_between_rounds : float, optional
            For memory by the clock: how long a round lasts, by default the median time between two
            events of the log. Over one round a pull fades by γ = 2^(−days / half-life), and the
            next loss sees γ·A.
        without_drift : bool
            Admit a model with drift: the drift then counts as noise.
        by_clock : bool
            For memory by the clock: let the world itself have a half-life, in place of rounds of
            one length. It is simulated with times: ``Scenario(times=…)``, ``Scenario(session=…)``.

        Returns
        -------
        Instance
        """
        require_fitted(self)
        if self.drift and not without_drift:
            raise NotApplicable(
                "with drift, losses follow their own past, which an influential bandit has not; "
                "fit with drift=False, or pass without_drift=True to let drift count as noise"
            )
        row = self.population_ if instance is None else self.coefficients_[self.row(instance)]
        matrix, loss = interaction_matrices(self.design_, row), row[: self.design_.n_arms]
        fading = require_fading(self.fading)
        memory, half_life = fading.memory, None
        if by_clock:
            if not fading.by_clock or days_between_rounds is not None:
                raise InvalidInput(
                    "by_clock is for a model that fades by the clock, as in "
                    "fading=Fading(half_life=48), and goes without days_between_rounds"
                )
            half_life = fading.half_life
        elif fading.by_clock:
            days = self.days_between_events_ if days_between_rounds is None else days_between_rounds
            check_at_least("days_between_rounds", days, 0.0)
            memory = fading.left_after(float(days))  # type: ignore[arg-type]
            matrix = memory * matrix
        definite = self.interaction == "psd"
        if definite:  # rounding may leave a hair below zero
            values, vectors = np.linalg.eigh(matrix)
            matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
            matrix = 0.5 * (matrix + matrix.T)
        return Instance(
            matrix, loss, self.arm_names_, memory, definite=definite, half_life=half_life
        )

    def prior(
        self,
        instance: object = None,
        arm_names: Sequence[str] | None = None,
    ) -> LossPrior:
        """Return what the log says about (l1, A), for a policy to start from.

        For memory by the clock it hands over the half-life, in hours, and the policy is told times,
        as in ``Agent.pull(at=…)``. Without a label it is about an instance that the log has not
        met: as unsure as the population, and as far from it as instances differ. A log of one
        instance is about that one.

        Parameters
        ----------
        instance : label, optional
            Of the log. Its entries then count as independent, each with its own standard error.
        arm_names : sequence of str, optional
            The arms in the order in which the policy is to number them; by default that of the log,
            ``arm_names_``.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> log = ib.data.synthetic_log(1, 500, 2, interaction=[[0.2, -0.1], [-0.1, 0.1]], seed=1)
        >>> ib.Foresight(prior=ib.InfluenceModel(ridge=0.01).fit(log).prior()).prior
        LossPrior(2 arms, sigma 1.0..., memory 1.0)
        """
        if instance is None:
            covariance = self.population_covariance_
            if self.instance_summary_ is not None:
                covariance = covariance + self.instance_summary_.covariance
            elif len(self.coefficients_) > 1:
                # Estimates are pulled together, by as much as is not known of each instance:
                # the variance of a mean given the data, and the mean of the variance.
                unknown = np.mean(self.standard_errors_**2, axis=0)
                unknown[np.ptp(self.coefficients_, axis=0) == 0.0] = 0.0
                covariance = covariance + np.cov(self.coefficients_, rowvar=False)
                covariance = covariance + np.diag(unknown)
        else:
            covariance = np.diag(self.standard_errors_[self.row(instance)] ** 2)
        return self._in_order_of_arms(instance, covariance, arm_names)

    def fleet(self, arm_names: Sequence[str] | None = None, *, history: bool = False) -> Fleet:
        """Return a fleet that starts from what the log says about the population.

        For memory by the clock it has the half-life, and is told times, as in
        ``Fleet.pull(user, at=…)``.

        Parameters
        ----------
        arm_names : sequence of str, optional
            The arms in the order in which the fleet is to number them; by default that of the log.
        history : bool
            Keep every loss, for :meth:`Fleet.to_log`.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> log = ib.data.synthetic_log(60, 30, 2, interaction=[[0.2, -0.1], [-0.1, 0.1]], seed=1)
        >>> ib.InfluenceModel(pooling="full").fit(log).fleet()
        Fleet(2 arms (0, 1), 0 users, 0 pulls, 0 losses)
        """
        if self.pooling == "none":
            raise NotApplicable(
                "a fleet starts from what instances have in common, and this model was fitted to "
                "each alone; fit with pooling='full'"
            )
        taste = self.noise().sigma * math.sqrt(self.effects_.arm + self.effects_.common)
        prior = self._in_order_of_arms(None, self.population_covariance_, arm_names, taste)
        names = self.arm_names_ if arm_names is None else tuple(arm_names)
        return Fleet(Foresight(prior=prior), arms=names, history=history)

    def _in_order_of_arms(
        self,
        instance: object,
        covariance: Floats,
        arm_names: Sequence[str] | None,
        taste: float = 0.0,
    ) -> LossPrior:
        """Return (l1, A) with a covariance of coefficients, arms in the order wanted."""
        by_clock = require_fading(self.fading).by_clock
        world = self.instance(instance, without_drift=True, by_clock=by_clock)
        names = list(self.arm_names_ if arm_names is None else arm_names)
        if sorted(names) != sorted(self.arm_names_):
            raise InvalidInput(f"arm_names must be those of the log in some order, got {names}")
        number = [names.index(name) for name in self.arm_names_]  # of each arm of the log
        size, start = unknowns(world.n_arms), self.design_.start
        spots = np.full(size, -1)  # where each unknown is among the coefficients, if it is
        for spot, (i, j) in enumerate(interaction_entries(self.design_.kind, world.n_arms)):
            spots[place(number[i], number[j])] = start + spot
        for i in range(world.n_arms):
            spots[unknowns(number[i])] = i
        met = np.flatnonzero(spots >= 0)
        spread = np.zeros((size, size))
        spread[np.ix_(met, met)] = covariance[np.ix_(spots[met], spots[met])]
        wanted = np.argsort(number)
        matrix = np.asarray(world.interaction.to_dense())[np.ix_(wanted, wanted)]
        return LossPrior(
            in_order(matrix, np.asarray(world.initial_loss)[wanted]),
            spread,
            self.noise(instance).sigma,
            memory=world.memory,
            half_life=world.half_life,
            taste=taste,
        )

    def noise(self, instance: object = None) -> GaussianNoise:
        """Return the noise of an instance, or the population's."""
        require_fitted(self)
        if instance is None and self.instance_summary_ is not None:
            return GaussianNoise(self.instance_summary_.noise)
        if instance is None:
            return GaussianNoise(float(np.sqrt(np.mean(self.noise_**2))))
        return GaussianNoise(float(self.noise_[self.row(instance)]))


def explain_end(value: float, low: float, high: float) -> str:
    """Say why an entry of a fitted interaction is an end of its own interval; nothing if it is not.

    Intervals of a positive semi-definite fit are those of the symmetric one, as far as the
    condition allows: the estimate may be the most that it allows.
    """
    if low == high:
        return "no interval"
    if value in (low, high):
        return "held at an end by the condition that the matrix is positive semi-definite"
    return ""
