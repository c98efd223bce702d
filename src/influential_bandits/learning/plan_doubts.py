"""What stands against a plan: a list of checks, each of which may raise a doubt."""

from __future__ import annotations

from typing import NamedTuple

from influential_bandits.learning.plan_evidence import Evidence

FAULTS = (
    "influence seems to last longer than the model's memory",
    "influence seems to fade faster than the model's memory",
    "influence seems to be no straight line of exposure",
    "influence seems to be no straight line of exposure",
)
WORTH_TELLING = 0.1  # share of the recent level that carries over


class Doubt(NamedTuple):
    """Why a plan may not gain what is expected."""

    words: str
    decisive: bool = True  # then the plan is not supported


def list_doubts(evidence: Evidence, promise: float) -> list[Doubt]:
    """Return all doubts of a plan; it is supported if none of them is decisive."""
    raised = [check(evidence, promise) for check in CHECKS]
    return [doubt for doubt in raised if doubt is not None]


def _check_promise(_: Evidence, promise: float) -> Doubt | None:
    """A gain must be sure enough to be promised."""
    if promise > 0.0:
        return None
    return Doubt(
        "the log does not support this plan: its gain is not sure enough to be promised, and may "
        "be zero or negative"
    )


def _check_judges(evidence: Evidence, _: float) -> Doubt | None:
    """Others than those who made the plan must judge it."""
    if evidence.halves:
        return None
    return Doubt(
        "the gain is judged by the same data that made the plan, and so is flattered: pass the "
        "log, of a pooled model and twice as many instances as it has coefficients, so that two "
        "halves of it judge each other's plans (plan(model, log); --log)"
    )


def _check_model(evidence: Evidence, _: float) -> Doubt | None:
    """The log must not contradict the model, as far as a richer one can tell."""
    fault = evidence.fault
    if fault is not None:
        return Doubt(
            f"the log contradicts the model, and the plan counts as not supported: "
            f"{FAULTS[fault]}, or choices know more than the model; choose how influence fades "
            "anew, and adjust losses for what moves them beside the arm"
        )
    if all(half.by_model.misfit is not None for half in evidence.halves):
        return None
    return Doubt(
        "the log says too little to check the model by a richer one, and the plan counts as not "
        "supported"
    )


def _check_log(evidence: Evidence, _: float) -> Doubt | None:
    """What the log lost must be known."""
    if evidence.logged is not None:
        return None
    return Doubt("without the log, nobody knows what it lost: the plan counts as not supported")


def _check_pairs(evidence: Evidence, _: float) -> Doubt | None:
    """Judges must know what arms do to each other."""
    if evidence.pairs_judged:
        return None
    return Doubt(
        "the log has too few instances, or too many arms, to judge what arms do to each other; "
        "what they do to themselves was judged, and the plan counts as not supported"
    )


def _check_taste(evidence: Evidence, _: float) -> Doubt | None:
    """Choices must not follow taste, nor seem to.

    There a richer model does not see what is wrong with this one: who meets an arm often likes it,
    which hides that its influence lasts.
    """
    if evidence.tasteful:
        return Doubt(
            "choices in the log follow taste, which a plan that is the same for all gives up"
            + ("; the gain allows for it" if evidence.corrected else "")
            + "; taste hides faults of the model, so that the plan counts as not supported"
        )
    if evidence.perhaps_tasteful:
        return Doubt(
            "taste is not ruled out as what choices in the log know, so that the plan counts as "
            "not supported"
        )
    return None


def _check_correction(evidence: Evidence, _: float) -> Doubt | None:
    """Where choices follow taste, the gain must allow for it."""
    if evidence.corrected or not evidence.tasteful:
        return None
    return Doubt(
        "the gain does not allow for taste: that takes a plan for all, a pooled model, one arm an "
        "event, and two halves of 20 instances or more that have met every arm"
    )


def _check_drift(evidence: Evidence, _: float) -> Doubt | None:
    """The plan leaves drift out, which matters where there is some."""
    carried = evidence.carried_over
    if carried < WORTH_TELLING:
        return None
    return Doubt(
        f"losses follow their own recent level ({100.0 * carried:.0f} % of it carries over), which "
        "the plan treats as noise: single instances will lose more or less than it says, and their "
        "mean as much",
        decisive=False,
    )


def _check_solution(evidence: Evidence, _: float) -> Doubt | None:
    """The log must determine the interaction."""
    if evidence.model.determined_:
        return None
    return Doubt(evidence.model.status_, decisive=False)


def _check_horizon(evidence: Evidence, _: float) -> Doubt | None:
    """Influence that never fades grows beyond what was logged."""
    if not evidence.lasting:
        return None
    return Doubt(
        "memory = 1: influence never fades, so that losses grow for ever; a plan for many more "
        "rounds than histories have is an extrapolation",
        decisive=False,
    )


CHECKS = (
    _check_promise,
    _check_judges,
    _check_model,
    _check_log,
    _check_pairs,
    _check_taste,
    _check_correction,
    _check_drift,
    _check_solution,
    _check_horizon,
)
