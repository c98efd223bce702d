"""Is there influence beyond drift, taste and controls? A test for logs whose choices follow losses.

Every loss is predicted from the past of its own history (see :mod:`.kalman`), and what remains
is compared with regressors of influence that are known before the event (see :mod:`.exposures`).
Without influence the products of both have mean zero, whatever came before: they are martingale
differences. Their sums over units (instances, or blocks of long histories) are independent, and
nearly symmetric where a unit has many events; flipping the signs of whole units gives the
distribution to compare with. Neither bursts of one arm nor choices that depend on past losses
disturb it, as they disturb shuffled histories. What moves choices and losses at once does: controls
take out what the log shows of it, and placebo checks (see :mod:`.placebo`) look for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.free_memory import require_memory
from influential_bandits.learning.controls import (
    ControlColumns,
    adjust_losses,
    build_controls,
    require_controls,
    weigh_arms,
)
from influential_bandits.learning.exposures import Regressors, add_known_columns
from influential_bandits.learning.influence_test_result import InfluenceTest, ScoreTest
from influential_bandits.learning.kalman import KNOWN, Model, fit_components, with_components
from influential_bandits.learning.placebo import PASSES, Placebo, check_placebos
from influential_bandits.learning.score_families import (
    Family,
    estimate_pairs,
    fade,
    measure_effect,
    search_common,
    search_cross,
    search_own,
)
from influential_bandits.learning.score_regression import (
    NEGLIGIBLE,
    NO_PAIR,
    EventPasses,
    adjust_by_holm,
    draw_fitting_instances,
    draw_signs,
    make_units,
    solve_semidefinite,
)
from influential_bandits.learning.statistics.design import (
    DAY,
    DIAGONAL,
    NONE,
    SYMMETRIC,
    Design,
    Events,
    event_columns,
    interaction_size,
)
from influential_bandits.learning.statistics.log_scan import rank_labels
from influential_bandits.learning.statistics.reduction import single_threaded_algebra
from influential_bandits.logs.log import EventLog, change_log, require_log
from influential_bandits.logs.merging import find_share
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.fading import NO_CLOCK, Fades, Fading, require_one_fading

MOST_ARMS = 100  # the Gram matrix of all pairs has about K⁴/4 entries
MOST_ARMS_ALONE = 300  # of arms on themselves: each arm has its own effects of controls
MANY_ARMS = 40  # beyond, pairs of different arms are tested if that is asked for
MATRICES = 16  # held at a time: of regressors, whitened and not, by units
FEW_ARMS = 24  # beyond, fewer memories are tried with all pairs
MEMORIES = (0.8, 0.5, 0.95)  # by events; the first alone where there are many arms
ROUNDING = 1e-12
HALF_LIVES = (2.0, 1.0 / 24.0, 1.0 / 3.0, 14.0)  # days; likewise


def influence_test(
    log: EventLog,
    *,
    fading: Fades | None = None,
    controls: Iterable[str] | None = None,
    placebo: bool = True,
    all_pairs: bool | None = None,
    permutations: int = 999,
    seed: int = 0,
    confidence: float = 0.95,
    execution: Execution | int | None = None,
    progress: bool | None = None,
) -> InfluenceTest:
    """Test whether arms influence later losses, beyond drift, taste and what else moves losses.

    It runs on the threads of this computer: every permutation looks at all instances together, so
    that there is nothing to send away. Draw instances at random from logs that are too large.

    Parameters
    ----------
    log : EventLog
        At least 12 instances that met an arm twice, or a few long histories. Instances are taken to
        be independent of each other.
    fading : float in (0, 1] or Fading, optional
        How influence fades: a number is the share that is left after each event, and
        ``Fading(half_life=48)`` goes by the clock and needs times. Without it, several memories by
        events and, if there are times, by the clock are tried, and the p-values account for it.
    controls : iterable of str, optional
        What else may move losses, see :func:`adjust_losses`; by default all that the log allows.
        An empty list leaves controls out.
    placebo : bool
        Whether to check that arms which cannot have acted on a loss say nothing about it.
    all_pairs : bool, optional
        Whether to test arms on each other too, or on themselves alone; by default all pairs of up
        to 40 arms. 100 arms have 5,050 pairs, which take minutes and gigabytes.
    permutations : int
        How many times signs are flipped; the smallest p-value is 1/(permutations + 1).
    seed : int
        Of the flips. They belong to the labels of instances, not to their order.
    confidence : float
        Of the intervals, and 1 − confidence is the level of the verdict in words.
    execution : int or LocalExecution, optional
        On how many threads; by default on all cores. Does not change a bit of the result.
    progress : bool, optional
        Whether to show a progress bar; by default if it takes long, on a terminal.

    Returns
    -------
    InfluenceTest

    Raises
    ------
    NotApplicable
        If the log has too little data, one arm only, or losses without any noise.

    Notes
    -----
    The level is approximate for two reasons. Scores of units are symmetric under the null
    hypothesis only approximately, the better the more units there are. And where people mostly
    choose what they like, choices tell about their losses; the filter accounts for it to first
    order. Tastes that change, arm by arm, while choices follow them, cannot be told from influence:
    the placebo check of later arms is there to notice. Estimates of pairs are shrunk somewhat,
    because the filter takes a part of lasting influence for taste and drift.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(100, 60, 3, drift=0.5, bursts=0.3, steering=1.0, seed=1)
    >>> print(ib.influence_test(log))
    no influence beyond drift was seen (p = ...
    """
    log = require_log(log)
    flips = whole_number("permutations", permutations, 19, 1_000_000)
    seed = whole_number("seed", seed)
    if not (is_real(confidence) and 0.0 < confidence < 1.0):
        raise InvalidInput(f"confidence must be a number in (0, 1), got {abbreviate(confidence)}")
    kind = SYMMETRIC if covers_all_pairs(log, all_pairs) else DIAGONAL
    fadings, names = _list_fadings(log, fading), require_controls(log, controls)
    _require_testable(log, kind)
    asked = Question(log.n_arms, kind, fadings, names, placebo, flips, seed, float(confidence))
    with single_threaded_algebra():  # several threads take longer for matrices of this size
        return _test(log, asked, execution, progress)


def covers_all_pairs(log: EventLog, all_pairs: bool | None) -> bool:
    """Return whether arms are tested on each other too, as told or by their number."""
    return log.n_arms <= MANY_ARMS if all_pairs is None else bool(all_pairs)


class Question(NamedTuple):
    """What is asked of a log."""

    arms: int
    kind: int  # of pairs: arms on themselves, or on each other too
    fadings: list[Fading]  # to try
    controls: tuple[str, ...]
    placebo: bool
    flips: int
    seed: int
    confidence: float

    @property
    def clocks(self) -> list[Fading]:
        """Return the memories that go by the clock."""
        return [fading for fading in self.fadings if fading.by_clock]

    @property
    def of_pairs(self) -> list[Fading]:
        """Return the memories with which arms are tested on each other: of many arms, two."""
        if self.kind == DIAGONAL:
            return []
        if self.arms <= FEW_ARMS:
            return self.fadings
        first = self.fadings[:1]
        return first + [fading for fading in self.clocks[:1] if fading not in first]

    @property
    def passes(self) -> int:
        """Return how many passes over all events it takes."""
        regressions = len(self.fadings) + len(self.of_pairs) + bool(self.clocks)
        return 1 + 2 * regressions + (PASSES if self.placebo else 0)


def _test(
    log: EventLog, asked: Question, execution: Execution | int | None, progress: bool | None
) -> InfluenceTest:
    """Make all passes over a log that was found fit to be tested."""
    log, scale = _standardise(adjust_losses(log, asked.controls))
    columns = build_controls(log, asked.controls, absorb=True)
    events, model = event_columns(log), _make_model(log)
    labels, seed = rank_labels(log.instances), np.uint64(asked.seed)
    units, keys, unit_kind = make_units(log, events, labels)
    chosen = draw_fitting_instances(log, labels, units.order, seed)
    components = fit_components(log, model, events, chosen)
    model = with_components(model, components)
    passes = EventPasses(events, units, asked.passes, execution, progress)
    x = _make_regressors(log, events, model, columns, passes)
    signs = draw_signs(seed, keys, asked.flips)
    own, cross, common = _search_families(x, model, asked, passes, signs)
    families = [family for family in (own, cross, common) if family is not None]
    tests = _make_score_tests(families)
    clearest = min(families, key=lambda family: family.p_value)
    between = cross if clearest is cross else own  # whose effect on the error can be told
    effect = measure_effect(between.regression, signs, asked.confidence)
    pairs = estimate_pairs(own, signs, asked.confidence, log.arm_names, scale)
    if cross is not None:
        pairs += estimate_pairs(cross, signs, asked.confidence, log.arm_names, scale)
    checks: tuple[Placebo, ...] = ()
    if asked.placebo:
        faded = fade(x, asked.kind, clearest.fading)
        checks = check_placebos(faded, passes, signs, 1.0 - asked.confidence)
    return InfluenceTest(
        arm_names=log.arm_names,
        n_events=log.n_events,
        n_instances=log.n_instances,
        units=units.number,
        unit_kind=unit_kind,
        self_influence=tests[own],
        cross_influence=None if cross is None else tests[cross],
        common=None if common is None else tests[common],
        effect=effect[0],
        effect_low=effect[1],
        effect_high=effect[2],
        pairs=pairs,
        components=components._replace(noise=components.noise * scale**2),
        fading=clearest.fading,
        memories_tried=len(own.by_memory),
        controls=asked.controls,
        placebos=checks,
        permutations=asked.flips,
        confidence=asked.confidence,
        seed=asked.seed,
    )


def _search_families(
    x: Regressors, model: Model, asked: Question, passes: EventPasses, signs: Floats
) -> tuple[Family, Family | None, Family | None]:
    """Look for influence of arms on themselves, on each other, and on all arms alike."""
    own, cross, common = search_own(x, asked.fadings, passes, signs), None, None
    if asked.of_pairs:
        cross = search_cross(x, asked.of_pairs, own.fading, passes, signs)
    if asked.clocks:
        seen = own if own.p_value <= 1.0 - asked.confidence + ROUNDING else None
        common = search_common(x, asked.clocks, model, seen, passes, signs)
    return own, cross, common


def _list_fadings(log: EventLog, asked: Fades | None) -> list[Fading]:
    """Return the memories to try, or say what is wrong with the question."""
    if asked is not None:
        fading = require_one_fading(asked)
        if fading.by_clock and log.time is None:
            raise InvalidInput(NO_CLOCK)
        return [fading]
    by_events = [Fading(gamma) for gamma in MEMORIES]
    clocks = []
    if log.time is not None and len(log) > log.n_instances:
        gaps = np.diff(log.time)[np.diff(np.repeat(np.arange(log.n_instances), log.lengths)) == 0]
        spans = log.time[log.offsets[1:][log.lengths > 1] - 1]
        spans = (spans - log.time[log.offsets[:-1][log.lengths > 1]]) / DAY
        shortest, longest = float(np.median(gaps)) / DAY, float(np.median(spans))
        clocks = [
            Fading(half_life=24.0 * days)
            for days in HALF_LIVES
            if shortest / 4.0 <= days <= longest
        ]
    return by_events + clocks


def require_few_arms(log: EventLog, all_pairs: bool) -> None:
    """Raise if a log has more arms than the test takes, and say which log would do."""
    arms, most = log.n_arms, MOST_ARMS if all_pairs else MOST_ARMS_ALONE
    if arms <= most:
        return
    pairs = f", so {arms * (arms + 1) // 2:,} pairs" if all_pairs else ""
    several = " with all pairs" if all_pairs else ""
    ways = []
    if all_pairs and arms <= MOST_ARMS_ALONE:
        ways.append("test arms on themselves alone (all_pairs=False; --own-only)")
    share, left = find_share(log, most)
    if left > 1:
        ways.append(
            f"merge rare ones: merge_rare_arms(log, {share:g}), or --merge-arms-below {share:g}, "
            f"leaves {left}"
        )
    ways.append("name a coarser column as the arm, this as the item (--arm, --item)")
    raise NotApplicable(
        f"the log has {arms:,} arms{pairs}; the test takes at most {most}{several}: "
        + "; or ".join(ways)
    )


def _require_testable(log: EventLog, kind: int) -> None:
    arms = log.n_arms
    if arms == 1:
        raise NotApplicable(
            "with a single arm, influence cannot be told from drift: every event is met with the "
            "same arm; a test needs two arms or more"
        )
    require_few_arms(log, kind == SYMMETRIC)
    size = interaction_size(kind, arms)
    require_memory(
        8.0 * MATRICES * size**2,
        f"the test of {size:,} pairs of arms",
        "merge rare arms into one (merge_rare_arms; --merge-arms-below)",
        NotApplicable,
    )


def _standardise(log: EventLog) -> tuple[EventLog, float]:
    """Return the log with losses of mean 0 and variance 1, and their unit."""
    largest = float(np.abs(log.loss).max(initial=0.0))
    scale = float(log.loss.std()) if len(log) else 0.0
    if scale <= 1e-12 * largest:
        raise NotApplicable(
            f"losses have no noise: all are {log.loss[0]:.6g}, and there is nothing to explain"
            if len(log)
            else NO_PAIR
        )
    loss = (log.loss - log.loss.mean()) / scale
    return change_log(log, loss=loss, about={}), scale


def _make_model(log: EventLog) -> Model:
    """Return the model without variances."""
    weights = weigh_arms(log)
    gram, total = (weights.T @ weights).toarray(), weights.T @ log.loss
    popularity = gram.sum(axis=1) / len(log)
    baseline = solve_semidefinite(gram, total)
    if 1.0 - float(baseline @ total) / len(log) <= NEGLIGIBLE:
        raise NotApplicable(
            "losses have no noise: every arm always costs the same, and there is nothing to explain"
        )
    return Model(baseline, popularity, 1.0, 1.0, 0.0, 0.0)


def _make_regressors(
    log: EventLog, events: Events, model: Model, columns: ControlColumns, passes: EventPasses
) -> Regressors:
    """Return what all regressions share: everything but pairs of arms."""
    before = KNOWN + columns.size(log.n_arms)
    x = Regressors(
        Design(log.n_arms, NONE, 1.0, 0.0, before, 0.0, model.baseline),
        model.popularity,
        events,
        passes.predict(model, events),
        columns.basis,
        columns.value,
        columns.n_bases,
        columns.shared,
        columns.absorbed,
        np.zeros((0, 0)),
    )
    return add_known_columns(x)


def _make_score_tests(families: list[Family]) -> dict[Family, ScoreTest]:
    """Return what each family says, with p-values adjusted for their number."""
    adjusted = adjust_by_holm([family.p_value for family in families])
    return {
        family: ScoreTest(family.tested, family.statistic, family.p_value, holm)
        for family, holm in zip(families, adjusted, strict=True)
    }
