"""Beyond Fig. 4: which instances are easy, how borderline ones behave, and how many as K grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.optima.difficulty import difficulty
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.simulation.engine import simulate
from influential_bandits.studies.paper.random_runs import decades
from influential_bandits.studies.report.content import Analysis, Figure, Finding, Series
from influential_bandits.studies.runner.rows import Rows, pivot, tidy
from influential_bandits.studies.runner.study import Piece, Settings, Study, make_file_name
from influential_bandits.summaries.resampling import bootstrap_interval
from influential_bandits.summaries.slopes import log_log_slopes
from influential_bandits.world.generators import counterexample, random_instance
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise

CHUNK = 100  # instances in a piece
ARMS = range(2, 11)


@dataclass(frozen=True)
class EasySettings(Settings):
    """``seeds`` instances with K = 3 to ``max_horizon``; a tenth for each K, to a tenth of it."""

    fitted_from: int = 1000


def pieces(settings: EasySettings) -> Iterator[Piece]:
    """Play influential LCB on every family."""
    short = max(settings.max_horizon // 10, 10 * settings.fitted_from)
    tenth = max(settings.seeds // 10, 1)
    families: list[tuple[str, int, int, Callable[[int], Instance]]] = [
        ("K = 3", settings.seeds, settings.max_horizon, partial(random_instance, 3)),
        *((f"random K = {k}", tenth, short, partial(random_instance, k)) for k in ARMS),
        ("singular: K = 6, rank 2", tenth, short, partial(random_instance, 6, rank=2)),
        ("A = 0, K = 3", tenth, short, _stationary),
        ("Prop. 2.2", 1, short, _counterexample),
    ]
    for family, number, horizon, make in families:
        label = make_file_name(family)
        for start in range(0, number, CHUNK):
            numbers = range(start, min(start + CHUNK, number))
            compute = partial(_play, family, make, horizon)
            yield Piece.of_instances(f"{label}-{start:05d}", numbers, compute)


def _counterexample(number: int) -> Instance:
    return counterexample()


def _stationary(number: int) -> Instance:
    return Instance(np.zeros((3, 3)), random_instance(3, number).initial_loss)


def _play(
    family: str,
    make: Callable[[int], Instance],
    horizon: int,
    numbers: range,
    threads: int | None,
) -> Rows:
    instances = [make(n) for n in numbers]
    run = simulate(
        instances,
        InfluentialLCB(),
        horizon,
        GaussianNoise(1.0),
        checkpoints=decades(horizon),
        execution=threads,
        progress=False,
        instance_numbers=numbers,
    )
    judged = [difficulty(instance) for instance in instances]

    def by_instance(values: list[Any]) -> npt.NDArray[Any]:
        return np.array(values)[:, None, None]

    rows = tidy(
        run,
        numbers,
        verdict=by_instance([d.verdict for d in judged]),
        leaning=by_instance([d.leaning for d in judged]),
        smallest_share=by_instance([d.mix.min() for d in judged]),
        largest_gap=by_instance([d.gaps.max() for d in judged]),
    )
    return {"family": np.array([family] * len(rows["instance"]), object), **rows}


def analyse(settings: EasySettings, rows: Rows) -> Analysis:
    """Compare slopes with verdicts, family by family."""
    tables = {family: _slopes(settings, rows, family) for family in dict.fromkeys(rows["family"])}
    main = tables["K = 3"]
    findings = [
        _share(
            "easy instances with a slope under ½ (K = 3), in %",
            main["slope"][main["verdict"] == "easy"] < 0.5,
        ),
        _share(
            "hard instances with a slope above ½ (K = 3), in %",
            main["slope"][main["verdict"] == "hard"] > 0.5,
        ),
        _share("easy among random instances with K = 3, in %", main["verdict"] == "easy"),
    ]
    for family in ("singular: K = 6, rank 2", "A = 0, K = 3", "Prop. 2.2"):
        table = tables[family]
        findings.append(
            Finding(
                claim=f"median slope, {family}",
                ours=float(np.median(table["slope"])),
                reason=f"verdict {_most(table['verdict'])}, leaning {_most(table['leaning'])}",
                fitted=f"{settings.fitted_from:,} … {int(table['horizon'].max()):,}",
            )
        )
    return Analysis(
        findings,
        _draw(tables),
        [
            (
                "An instance is easy exactly when p*, the minimiser of ½·pᵀAp on the simplex, uses "
                "every arm and A is positive definite along the simplex. Singular matrices, A = 0 "
                "among them, are borderline: there the last ray of the optimal path decides."
            )
        ],
    )


def _draw(tables: dict[str, Rows]) -> list[Figure]:
    """Draw slopes against the smallest share, and how many instances are easy."""
    main = tables["K = 3"]
    fractions = [(tables[f"random K = {k}"]["verdict"] == "easy") for k in ARMS]
    fraction = np.array([100.0 * f.mean() for f in fractions])
    bands = np.array([bootstrap_interval(f[:, None], _percent, 400) for f in fractions])
    return [
        Figure(
            "smallest-share",
            "Slope against the smallest entry of p*, K = 3",
            "smallest entry of p*",
            "slope of the regret",
            [
                Series(
                    v,
                    main["share"][main["verdict"] == v],
                    main["slope"][main["verdict"] == v],
                    kind="points",
                )
                for v in ("easy", "hard")
            ],
            log_x=False,
            log_y=False,
            caption="Easy instances near the boundary need long horizons to show it.",
        ),
        Figure(
            "easy-fraction",
            "How many random instances are easy",
            "arms K",
            "easy, in %",
            [Series("random instances", list(ARMS), fraction, bands[:, 0], bands[:, 1])],
            log_x=False,
            log_y=False,
        ),
    ]


def _slopes(settings: EasySettings, rows: Rows, family: str) -> Rows:
    mine = rows["family"] == family
    horizons, regret = pivot(rows, mine, "regret")
    verdict, leaning, share = (
        pivot(rows, mine, name)[1][:, 0] for name in ("verdict", "leaning", "smallest_share")
    )
    above = np.maximum(regret, 1e-12)
    return {
        "slope": log_log_slopes(horizons, above, settings.fitted_from, horizons.max()),
        "verdict": verdict,
        "leaning": leaning,
        "share": share,
        "horizon": horizons,
    }


def _percent(sample: npt.NDArray[Any]) -> float:
    return 100.0 * float(sample.mean())


def _share(claim: str, holds: npt.NDArray[Any]) -> Finding:
    if not len(holds):
        return Finding(claim, ours="no such instance")
    low, high = bootstrap_interval(holds[:, None].astype(float), _percent, 400)
    return Finding(claim, ours=_percent(holds), low=low, high=high)


def _most(values: npt.NDArray[Any]) -> str:
    names, counts = np.unique(values, return_counts=True)
    return str(names[np.argmax(counts)])


STUDY = Study(
    name="easy-instances",
    order=5,
    description=(
        "Which rule makes an instance easy, borderline cases, and how many are easy as K grows"
    ),
    settings={
        "full": EasySettings(seeds=10_000, max_horizon=10**6),
        "quick": EasySettings(seeds=1000, max_horizon=10**6),
        "tiny": EasySettings(seeds=60, max_horizon=10**4, fitted_from=100),
    },
    pieces=pieces,
    analyse=analyse,
)
