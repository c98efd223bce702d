"""Describe an instance file: kind, spectrum, difficulty and optimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.optima.certificate import TOLERANCE, Certificate
from influential_bandits.optima.difficulty import difficulty
from influential_bandits.optima.path import optimum
from influential_bandits.studies.report.text import number
from influential_bandits.world.instance import Instance

__all__ = ["describe_file"]


def describe_file(path: Path, horizon: int) -> str:
    """Return what is known of an instance: kind, spectrum, difficulty, optimum."""
    instance = Instance.load(path)
    lines = [repr(instance)]
    if instance.n_arms <= 2000:
        eigenvalues = np.linalg.eigvalsh(instance.interaction.to_dense())
        shown = ", ".join(number(float(v)) for v in eigenvalues[::-1][:8])
        lines.append(f"Spectrum: {shown}{', …' if len(eigenvalues) > 8 else ''}")
    try:
        judged = difficulty(instance)
        lines.append(f"Difficulty: {judged.verdict} (leaning {judged.leaning}): {judged.reason}")
        shares = sorted(zip(judged.mix, instance.arm_names, strict=True), reverse=True)[:8]
        lines.append(
            "Best mix p*: " + ", ".join(f"{arm} {share:.1%}" for share, arm in shares if share > 0)
        )
    except NotApplicable as reason:
        lines.append(f"Difficulty: {reason}")
    try:
        best = optimum(instance, horizon)
        order = np.argsort(-best.counts, kind="stable")[:8]
        counts = ", ".join(
            f"{instance.arm_names[i]} {best.counts[i]:,.6g}" for i in order if best.counts[i] > 0
        )
        lines.append(f"Optimum for T = {horizon:,}: loss {best.loss:,.6g}; counts {counts}")
        lines.append(f"Certificate: {_describe_certificate(best.certificate)}")
    except NotApplicable as reason:
        lines.append(f"Optimum: {reason}")
    return "\n".join(lines)


def _describe_certificate(certificate: Certificate) -> str:
    proved = "proved optimal" if certificate.is_optimal() else "NOT proved optimal"
    return (
        f"{proved} by {certificate.method}; relative residuals: constraints "
        f"{certificate.primal:.1e}, gradient {certificate.dual:.1e}, duality gap "
        f"{certificate.gap:.1e} (at most {TOLERANCE:.0e} each)"
    )
