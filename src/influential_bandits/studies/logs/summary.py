"""A diagnosis as numbers for programs; docs/how_to/diagnosis.schema.json says what they are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from influential_bandits.learning.examination import Examination
from influential_bandits.learning.frequency_caps import Cap
from influential_bandits.learning.impact import Estimate
from influential_bandits.learning.showing_curves import ShowingCurve
from influential_bandits.studies.logs.verdict import classify, describe_verdict


def summarise_diagnosis(examination: Examination) -> dict[str, Any]:
    """Return the numbers of a diagnosis."""
    impact, outcome, log = examination.impact, examination.curves.outcome, examination.log
    mean = float(log.loss.mean())
    caps = {cap.arm: cap for cap in examination.caps.caps}
    curves = {curve.arm: curve for curve in examination.curves.arms}
    return {
        "verdict": classify(examination),
        "words": describe_verdict(examination),
        "log": {
            "events": len(log),
            "instances": log.n_instances,
            "arms": log.n_arms,
            "mean_loss": mean,
        },
        "outcome": outcome._asdict(),
        "fading": asdict(examination.curves.fading),
        "share_lost": asdict(impact.share),
        "lost_per_event": asdict(impact.lost),
        "lost_per_showing": asdict(impact.per_showing),
        "gain_of_caps_per_event": asdict(examination.caps.gain) if caps else None,
        "events_moved_by_caps": examination.caps.moved,
        "doubt_about_caps": examination.caps.doubt,
        "arms": [
            {
                "arm": arm,
                "lost_per_showing": asdict(impact.arms[arm]),
                **_describe_arm(curves.get(arm), caps.get(arm)),
            }
            for arm in log.arm_names
        ],
        "test": None if examination.test is None else examination.test.to_json(),
        "untestable": examination.untestable,
        "models": [
            {"model": name, "mse": examination.validation.mse(name), "low": low, "high": high}
            for name in examination.validation.names
            for low, high in [examination.validation.mse_interval(name)]
        ],
    }


def _describe_arm(curve: ShowingCurve | None, cap: Cap | None) -> dict[str, Any]:
    """Return what is known of one arm."""
    cap_data = None if cap is None else {key: asdict(cap)[key] for key in CAP}
    if curve is None:
        return {"events": None, "lost_per_event": None, "curve": [], "cap": cap_data}
    return {
        "events": curve.n_events,
        "lost_per_event": _or_none(curve.lost),
        "curve": [
            {
                "recent_showings": recent,
                "raw": asdict(curve.raw[n]) if curve.raw else None,
                "adjusted": asdict(curve.adjusted[n]) if curve.adjusted else None,
            }
            for n, recent in enumerate(curve.recent)
        ],
        "cap": cap_data,
    }


CAP = ("times", "showings", "days")


def _or_none(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)
