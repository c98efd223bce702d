"""A plan: what to play, what it should gain, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from influential_bandits.display import draw_bars
from influential_bandits.logs.outcome import Outcome
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.bounded import Shares
from influential_bandits.summaries.interval_text import tell_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST_SHARE = 0.001  # of the rounds, that is told
MOST_DRAWN = 40  # arms


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What to play for a number of rounds, and what it should gain over what was logged.

    Attributes
    ----------
    arm_names : tuple of str
    outcome : Outcome
        What losses were made of; words and files are in its ``unit``: clicks, stars or loss.
    mix : array (arms,)
        Share of the rounds for each arm.
    schedule : array (rounds,) of int, or None
        Where memory fades, an order to repeat; without fading the order does not matter.
    logged_mix : array (arms,)
        Shares of the arms in the log.
    shares : Shares or None
        The least and the most share that each arm was to have, if that was asked for.
    loss, logged_loss : float
        Expected loss per round of the plan, and of the log as it was, for as many rounds at the
        same pace.
    mean_loss, modelled_loss : float
        Mean loss of the log, and what the model says that its rounds lose if all are as the
        population.
    calibrated : bool
        Whether they are the same, but for chance. If not, choices follow taste or past losses.
    gain, low, high : float
        Loss saved per round, and an interval of 95 % or more: all that some judge holds for
        possible. Cross-fitted: each half of the log judges the plan that the other half made, so
        that a plan which only suits the noise of its own half shows no gain.
    gain_from_arms, gain_from_spacing : float
        Parts of the gain: from other arms, and from the order in which they are played, each
        compared with a random order.
    cross_fitted : bool
        Whether there were halves to judge: of a pooled model, and of instances enough.
    promise : float
        What it gains per round at least: all judges agree on it, and by chance one plan of 1,000
        delivers less, so that of 200 plans none is expected to. Nothing is promised if it is not
        positive. Where halves judged the plan, this is ``low``.
    supported : bool
        Whether the halves of the log judged the plan, nothing in the log contradicts the model, and
        the promise is positive.
    room : float or None
        By how much another plan with these shares could be better per round in the learned world,
        at most: 0 is a proved optimum. None where no proof is known (indefinite interactions,
        equations that are too ill-conditioned).
    warnings : tuple of str

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.5, 0], [0, 0.2]]
    >>> log = ib.data.synthetic_log(300, 60, 2, interaction=truth, memory=0.8, seed=0)
    >>> model = ib.InfluenceModel(fading=0.8, pooling="full").fit(log)
    >>> advice = ib.plan(model, log, 100)
    >>> advice.loss < advice.logged_loss
    True
    """

    arm_names: tuple[str, ...]
    outcome: Outcome
    horizon: int
    mix: Floats
    schedule: Ints | None
    logged_mix: Floats
    shares: Shares | None
    loss: float
    logged_loss: float
    mean_loss: float
    modelled_loss: float
    calibrated: bool
    gain: float
    low: float
    high: float
    gain_from_arms: float
    gain_from_spacing: float
    cross_fitted: bool
    promise: float
    room: float | None
    supported: bool
    warnings: tuple[str, ...]

    @property
    def relative_gain(self) -> float | None:
        """The gain as a share of what it is over, in the user's unit: 0.05 is 5 % more clicks."""
        return self.outcome.relative(self.gain, self.logged_loss)

    def __repr__(self) -> str:
        """Say the size and the gain."""
        judges = ", cross-fitted" if self.cross_fitted else ""
        gain, low, high = tell_apart(self.gain, self.low, self.high)
        return (
            f"Plan({self.horizon:,} rounds of {len(self.arm_names)} arms, gain {gain} "
            f"({low} … {high}) {self.outcome.unit}{judges})"
        )

    def __str__(self) -> str:
        """Say the plan in words."""
        order = np.argsort(-self.mix, kind="stable")
        lines = [f"Recommended mix for {self.horizon:,} rounds (logged mix in brackets):"]
        lines += [
            f"  {name:24} {100 * self.mix[i]:5.1f} %  ({100 * self.logged_mix[i]:.1f} %)"
            + self._share_in_words(i)
            for i, name in ((i, self.arm_names[i]) for i in order)
            if self.mix[i] >= SMALLEST_SHARE
        ]
        lines += self._order_in_words()
        lines += self._gain_in_words()
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _gain_in_words(self) -> list[str]:
        """Say what it gains, in the user's unit, and what that rests on."""
        unit, per_round = self.outcome.unit, self.outcome.of_loss
        judges = (
            "judged across two halves of the log" if self.cross_fitted else "by the model itself"
        )
        gain, low, high = tell_apart(self.gain, self.low, self.high, ".4g")
        planned, logged = per_round(self.loss), per_round(self.logged_loss)
        expected = (
            f"Expected gain over the log as it was, {judges}: {gain} {unit} per round"
            f"{self.outcome.in_percent(self.gain, self.logged_loss)} (95 % interval {low} … "
            f"{high}; the log as it was {logged:.4g}, plan {planned:.4g})"
        )
        lines = [expected]
        if self.supported:
            more = "more" if self.outcome.more_is_better else "less"
            lines.append(
                f"Promised: at least {self.promise:.4g} {unit} per round {more}"
                f"{self.outcome.in_percent(self.promise, self.logged_loss)}."
            )
        if self.schedule is not None:
            lines.append(
                f"Of the gain, {self.gain_from_arms:.4g} comes from better arms, and "
                f"{self.gain_from_spacing:.4g} from better spacing."
            )
        if self.room is not None:
            others = "other plan" if self.shares is None else "other plan with these shares"
            beyond = f"by more than {self.room:.2g} {unit} per round" if self.room > 0.0 else ""
            lines.append(f"By the model, no {others} is better {beyond}".rstrip() + " (proved).")
        verdict = "the same but for chance"
        if not self.calibrated:
            verdict = "not the same: choices know more"
        lines.append(
            f"Check: the log had {per_round(self.mean_loss):.4g} {unit} per round; by the model, "
            f"its rounds have {per_round(self.modelled_loss):.4g} if all are alike ({verdict})."
        )
        return lines

    def _share_in_words(self, arm: int) -> str:
        """Say what share an arm was to have, if not any."""
        if self.shares is None:
            return ""
        least, most = float(self.shares.least[arm]), float(self.shares.most[arm])
        parts = [f"at least {100 * least:g} %"] if least > 0.0 else []
        parts += [f"at most {100 * most:g} %"] if most < 1.0 else []
        return f"  {', '.join(parts)}" if parts else ""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of each arm: bars are the plan, lines mark the log."""
        order = self._order_arms()
        names = [self.arm_names[i] for i in order]
        title = f"Plan for {self.horizon:,} rounds"
        ax = draw_bars(ax, names, 100 * self.mix[order], x="share of rounds, in %", title=title)
        logged, places = 100 * self.logged_mix[order], np.arange(len(order))
        ax.plot(logged, places, "|", color="#D55E00", markersize=14, markeredgewidth=2, label="log")
        ax.legend()
        return ax

    def _order_arms(self) -> Ints:
        """Return the arms that are planned or were logged, the largest shares first."""
        order = np.argsort(-self.mix, kind="stable")
        return order[np.maximum(self.mix, self.logged_mix)[order] >= SMALLEST_SHARE][:MOST_DRAWN]

    def _order_in_words(self) -> list[str]:
        if self.schedule is None:
            return []
        names = ", ".join(self.arm_names[i] for i in self.schedule[:12])
        return [f"In this order, repeating after {len(self.schedule)}: {names}, …"]

    def _shares_by_name(self) -> dict[str, list[float]] | None:
        """Return the shares that were asked for; arms that may have any are left out."""
        if self.shares is None:
            return None
        ends = zip(self.arm_names, *(side.tolist() for side in self.shares), strict=True)
        return {name: [least, most] for name, least, most in ends if (least, most) != (0.0, 1.0)}

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "horizon": self.horizon,
            "unit": self.outcome.unit,
            "mix": dict(zip(self.arm_names, self.mix.tolist(), strict=True)),
            "schedule": None
            if self.schedule is None
            else [self.arm_names[i] for i in self.schedule.tolist()],
            "shares": self._shares_by_name(),
            "logged_mix": dict(zip(self.arm_names, self.logged_mix.tolist(), strict=True)),
            "loss": self.loss,
            "logged_loss": self.logged_loss,
            "mean_loss": self.mean_loss,
            "modelled_loss": self.modelled_loss,
            "calibrated": self.calibrated,
            "outcome": self.outcome.of_loss(self.loss),
            "logged_outcome": self.outcome.of_loss(self.logged_loss),
            "gain": self.gain,
            "relative_gain": self.relative_gain,
            "low": self.low,
            "high": self.high,
            "gain_from_arms": self.gain_from_arms,
            "gain_from_spacing": self.gain_from_spacing,
            "cross_fitted": self.cross_fitted,
            "promise": self.promise,
            "room": self.room,
            "supported": self.supported,
            "warnings": list(self.warnings),
        }
