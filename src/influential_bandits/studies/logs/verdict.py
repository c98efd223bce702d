"""The verdict of a diagnosis in words."""

from __future__ import annotations

from influential_bandits.learning.examination import TIRING, Examination
from influential_bandits.numerics.interval_text import tell_apart

__all__ = ["TIRED", "describe_verdict"]

TIRED = "Most tired of themselves"


def describe_verdict(found: Examination) -> str:
    """Say what was found, so that no part of the report says otherwise."""
    test, impact = found.test, found.impact
    if test is None:
        return f"no test of influence: {found.untestable}"
    if not test.detected:
        gain = found.validation.gain("self-fatigue", "drift")
        lines = [f"no influence was seen beyond drift and controls (p = {test.p_value:.2g})"]
        share = impact.share.scale(100.0)
        value, low, high = tell_apart(share.value, share.low, share.high, ".2g")
        lines.append(
            f"Influence on {impact.outcome} by the fitted model: {value} % "
            f"({low} … {high}), not beyond chance by the test."
        )
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
    lines = [f"{impact.headline()} (p = {test.p_value:.2g})"]
    if impact.direction in TIRING:
        lines += _advise(found)
    return "\n".join(lines)


def _advise(found: Examination) -> list[str]:
    """Say what to do about it, and how large an A/B test would have to be."""
    impact, caps = found.impact, found.caps
    tired = sorted(
        ((name, cost) for name, cost in impact.arms.items() if cost.sign > 0),
        key=lambda pair: -pair[1].value,
    )
    lines = []
    if tired:
        names = ", ".join(f"{name} ({cost})" for name, cost in tired[:3])
        lines.append(f"{TIRED}: {names}; {impact.half_gone}.")
    lines.append(str(caps))
    gain, aim = impact.lost.value / 2.0, "half of the loss saved"
    if caps.caps:
        gain, aim = caps.gain.value, "that gain"
    if gain > 0.0:
        lines.append(
            f"An A/B test that is to see {aim} ({gain:.2g} per event) needs about "
            f"{impact.users_needed(gain):,} instances on each side."
        )
    return lines
