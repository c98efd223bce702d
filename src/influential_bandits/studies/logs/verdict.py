"""The verdict of a diagnosis: in a word, in sentences, in three numbers, and what to do by arm."""

from __future__ import annotations

from influential_bandits.learning.examination import TIRING, Examination
from influential_bandits.learning.impact import Estimate, as_outcome
from influential_bandits.learning.showing_curves import ShowingCurve
from influential_bandits.learning.statistics.pooled_sums import arm_sums
from influential_bandits.studies.report.content import Badge, Opening, Table
from influential_bandits.summaries.interval_text import tell_apart

FIRST_ARMS = 12  # of the table and the picture; the others are folded
BADGES = {
    "fatigue": Badge("Fatigue", "bad"),
    "boost": Badge("Boost", "good"),
    "mixed": Badge("Fatigue and boost", "unsure"),
    "negligible": Badge("Influence, but negligible", "quiet"),
    "unclear": Badge("Influence, direction unclear", "unsure"),
    "not seen": Badge("No influence seen", "quiet"),
    "not proven": Badge("Not proven", "unsure"),
    "not testable": Badge("Too little data", "quiet"),
}


def classify(examination: Examination) -> str:
    """Return the verdict in a word, a key of ``BADGES``."""
    if examination.test is None:
        return "not testable"
    if not examination.test.detected:
        return "not seen"
    return "not proven" if examination.test.doubts else examination.impact.direction


def describe_verdict(examination: Examination) -> str:
    """Say in a few lines what was found, so that no part of the report says otherwise."""
    test, impact = examination.test, examination.impact
    if test is None:
        return f"no test of influence: {examination.untestable}"
    if not test.detected:
        gain = examination.validation.gain("self-fatigue", "drift")
        by_model = f"Influence on {impact.outcome} by the fitted model: {_percent(impact.share)}"
        lines = [
            f"no influence was seen beyond drift and controls (p = {test.p_value:.2g})",
            f"{by_model}, not beyond chance by the test.",
        ]
        if gain.low > 0.0:
            lines.append(
                f"Counts of past showings predict better ({gain}), but the test does not show that "
                "this is influence: a trend along histories does the same."
            )
        return "\n".join(lines)
    if test.doubts:
        return (
            f"not proof of influence: {test.doubts[0].name} seem to act on losses as well "
            f"({test.doubts[0].meaning})"
        )
    lines = [f"{impact.headline()} (p = {test.p_value:.2g}, {test.clearest})"]
    tired = [curve for curve in examination.curves.arms if tires(curve)]
    if tired and impact.direction in TIRING:
        arms = "; ".join(f"{curve.arm}: {curve.lost}" for curve in tired[:3])
        lines.append(f"Most is lost by repeating these, in {impact.outcome} a showing: {arms}.")
    return "\n".join([*lines, *_advise(examination)])


def _advise(examination: Examination) -> list[str]:
    """Say what to do about fatigue, and how large an A/B test would have to be."""
    impact, caps = examination.impact, examination.caps
    if impact.direction not in TIRING:
        return []
    lines = [str(caps)]
    gain, aim = impact.lost.value / 2.0, "half of the loss saved"
    if caps.caps:
        gain, aim = caps.gain.value, "that gain"
    if gain > 0.0:
        percent = examination.curves.outcome.in_percent(gain, float(examination.log.loss.mean()))
        lines.append(
            f"An A/B test that is to see {aim} ({gain:.2g} per event{percent}) needs about "
            f"{impact.users_needed(gain):,} users (instances) on each side."
        )
    return lines


def open_report(examination: Examination) -> Opening:
    """Return what a report says first."""
    verdict = classify(examination)
    return Opening(
        [line[0].upper() + line[1:] for line in describe_verdict(examination).splitlines()],
        "arms",
        "showings",
        BADGES[verdict],
        _tabulate_arms(examination),
    )


def _percent(share: Estimate) -> str:
    """Return a share with its interval, "3.1 % (2.0 … 4.2)"."""
    percent = share.scale(100.0)
    value, low, high = tell_apart(percent.value, percent.low, percent.high, ".2g")
    return f"{value} % ({low} … {high})"


def tires(curve: ShowingCurve) -> bool:
    """Return whether an arm clearly loses by being shown again."""
    return curve.lost is not None and curve.lost.sign > 0


def _tabulate_arms(examination: Examination) -> Table | None:
    """Return what each arm loses and what to do about it, the most affected first."""
    curves, name, arms = examination.curves, examination.impact.outcome, examination.log.arm_names
    if not curves.arms:
        return None
    shares = dict(zip(arms, arm_sums(examination.log, len(arms)).shares, strict=True))
    title, header = "What repeating costs, arm by arm", ["arm"]
    if examination.influence_seen:
        title, header = "What to do, arm by arm", ["arm", "what to do"]
    rows = [
        (
            *(curve.arm, _say_what_to_do(examination, curve))[: len(header)],
            "" if curve.lost is None else str(curve.lost),
            "" if curve.if_rested is None else str(as_outcome(curve.if_rested, curves.outcome)),
            f"{100.0 * shares[curve.arm]:.1f} %",
        )
        for curve in curves.arms
    ]
    caption = (
        f"{name.capitalize()} for each showing. Rested: no recent showings of the arm to the same "
        "user. Lost: what recent showings of the arm take from that, with intervals that hold for "
        "all arms at once."
    )
    rare = len(arms) - len(rows)
    if rare:
        caption += f" {rare:,} other arms were repeated too rarely to tell."
    return Table(
        title,
        [*header, "lost by repeating it", f"{name} if rested", "of showings"],
        rows,
        caption,
        shown=FIRST_ARMS,
        words=len(header),
    )


def _say_what_to_do(examination: Examination, curve: ShowingCurve) -> str:
    """Return an instruction for one arm."""
    for cap in examination.caps.caps:
        if cap.arm == curve.arm:
            return str(cap).removeprefix(f"{cap.arm}: ")
    if curve.lost is None or not curve.lost.sign:
        return "leave as it is"
    return "show less often, by an A/B test" if tires(curve) else "show in a row, by an A/B test"
