"""Bounds beside what happens: Prop. 2.2 and its constants, Prop. 2.3, Theorem 2.6, per state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.optima.bound import regret_bound
from influential_bandits.optima.per_state import per_state_excess
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.policies.uniform import Uniform
from influential_bandits.simulation.engine import simulate
from influential_bandits.simulation.trajectory import Trajectory
from influential_bandits.studies.paper.random_runs import decades
from influential_bandits.studies.report.content import Analysis, Figure, Finding, Series
from influential_bandits.studies.runner.rows import Rows, concatenate, tidy
from influential_bandits.studies.runner.study import Piece, Settings, Study
from influential_bandits.world.generators import (
    counterexample,
    linear_lower_bound,
    random_instance,
)
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import UniformNoise

POLICIES: tuple[Policy, ...] = (LCB(), InfluentialLCB(), Uniform())
ABOVE, BELOW = "≥ 1 × bound", "≤ 1 × bound"  # what the paper says of a ratio to its bound


def pieces(settings: Settings) -> Iterator[Piece]:
    """One piece for each bound: rows of a measured value and its bound."""
    parts: dict[str, Callable[[int, int, int | None], Rows]] = {
        "pull-times": _pull_times,
        "proposition-2.2": _proposition_2_2,
        "proposition-2.3": _proposition_2_3,
        "theorem-2.6": _theorem_2_6,
        "per-state": _per_state,
    }
    for name, part in parts.items():
        yield Piece(name, partial(_compute, name, part, settings))


def _compute(
    name: str,
    part: Callable[[int, int, int | None], Rows],
    settings: Settings,
    threads: int | None,
) -> Rows:
    rows = part(settings.max_horizon, settings.seeds, threads)
    return {"part": np.array([name] * len(rows["horizon"]), object), **rows}


def _play(
    instance: Instance, policy: Policy, marks: list[int], threads: int | None, **more: Any
) -> Trajectory:
    return simulate(
        instance, policy, marks[-1], checkpoints=marks, execution=threads, progress=False, **more
    )


def _pull_times(max_horizon: int, seeds: int, threads: int | None) -> Rows:
    """Row n: the round t_n of the n-th pull of arm 2 as value, its count n as horizon."""
    run = _play(counterexample(), LCB(), [min(max_horizon, 10**6)], threads, record="choices")
    assert run.choices is not None
    times = np.flatnonzero(run.choices[0, 0] == 1) + 1
    n = np.arange(1, len(times) + 1)
    return {
        "instance": np.zeros(len(n), np.int64),
        "seed": np.zeros(len(n), np.int64),
        "policy": np.array(["LCB"] * len(n), object),
        "horizon": n,
        "value": times.astype(float),
        "bound": 20 * n * np.log(np.maximum(n, 2)),
    }


def _proposition_2_2(max_horizon: int, seeds: int, threads: int | None) -> Rows:
    run = _play(counterexample(), LCB(), decades(max_horizon), threads)
    t = run.checkpoints.astype(float)
    bound = t**2 / (800 * np.log(t) ** 2) - t / 2
    return tidy(run, [0], value=run.regret(), bound=bound)


def _proposition_2_3(max_horizon: int, seeds: int, threads: int | None) -> Rows:
    tables = []
    for policy in POLICIES:
        first = simulate(linear_lower_bound(0), policy, 1, record="choices").choices
        assert first is not None
        instance = linear_lower_bound(int(first[0, 0, 0]))
        run = _play(instance, policy, decades(max_horizon), threads)
        tables.append(tidy(run, [0], value=run.regret(), bound=run.checkpoints / 4 + 1 / 8))
    return concatenate(tables)


def _theorem_2_6(max_horizon: int, seeds: int, threads: int | None) -> Rows:
    marks = decades(min(max_horizon, 10**6), 10)
    tables = []
    for number in range(seeds):
        instance = random_instance(2 + number % 9, number)
        more = {"noise": UniformNoise(1.0), "instance_numbers": [number]}
        run = _play(instance, InfluentialLCB(), marks, threads, **more)
        bound = regret_bound(instance, run.checkpoints)
        tables.append(tidy(run, [number], value=run.regret(), bound=bound))
    return concatenate(tables)


def _per_state(max_horizon: int, seeds: int, threads: int | None) -> Rows:
    """The invalid quantity as value, the true regret as bound; on Prop. 2.3's instance."""
    instance, tables = linear_lower_bound(0), []
    for policy in (LCB(), InfluentialLCB()):
        marks = decades(min(max_horizon, 10**6), 10)
        run = _play(instance, policy, marks, threads, record="choices")
        assert run.choices is not None
        excess = per_state_excess(instance, run.choices[0, 0], run.checkpoints)
        tables.append(tidy(run, [0], value=excess, bound=run.regret()))
    return concatenate(tables)


def analyse(settings: Settings, rows: Rows) -> Analysis:
    """Say of each bound whether it held, and by how much."""
    parts = {
        name: {k: v[rows["part"] == name] for k, v in rows.items()} for name in set(rows["part"])
    }
    t = parts["pull-times"]["value"]
    notes = [
        (
            "Appendix A states that LCB pulls arm 2 for the 18th and 19th time at t = 98 and "
            f"105, with n₁ = 86. The rule as printed gives {t[17]:.0f} and {t[18]:.0f}, with "
            f"n₁ = {t[18] - 19:.0f}. Case 1 of the proof uses that 86; with 66 its chain "
            "ends in 11 − 11 = 0 instead of a positive number, and holds only if 9 + √2 is not "
            "rounded up to 11 (a margin of 0.586). The proposition stands: the measured pulls "
            "stay far below 20·n·log n."
        ),
        "Theorem 2.6 is tested under its assumptions: max|A| ≤ 1 and noise uniform in (−1, 1).",
    ]
    findings = [*_judge_bounds(parts), *_judge_appendix(t), _compare_per_state(parts["per-state"])]
    return Analysis(findings, _figures(parts), notes)


def _judge_bounds(parts: dict[str, Rows]) -> list[Finding]:
    """Compare each bound with what was measured."""
    times, p22, p23 = parts["pull-times"], parts["proposition-2.2"], parts["proposition-2.3"]
    t26 = parts["theorem-2.6"]
    late = times["horizon"] >= 19
    slow = times["value"][late] / times["bound"][late]
    worst = float((t26["value"] / t26["bound"]).max())
    ratios = (p22["value"] / p22["bound"])[p22["bound"] > 0]
    return [
        _judge_bound(
            "LCB's n-th pull of arm 2 comes by 20·n·log n for n ≥ 19",
            BELOW,
            bool((times["value"][late] <= times["bound"][late]).all()),
            float(slow.max()),
            "largest t_n over the bound",
        ),
        _judge_bound(
            "regret of LCB ≥ t²/(800·log² t) − t/2 on the counterexample",
            ABOVE,
            bool((p22["value"] >= p22["bound"]).all()),
            float(ratios.min()) if len(ratios) else "no horizon has a positive bound",
            "smallest regret over the bound where that is positive",
        ),
        _judge_bound(
            "any policy has regret ≥ T/4 + 1/8 (Prop. 2.3)",
            ABOVE,
            bool((p23["value"] >= p23["bound"] * (1 - 1e-12)).all()),
            float((p23["value"] / p23["bound"]).min()),
            "smallest regret over the bound, over policies and horizons",
        ),
        _judge_bound(
            "regret of influential LCB stays below Theorem 2.6's bound",
            BELOW,
            worst <= 1.0,
            worst,
            "largest regret over the bound, under both assumptions",
        ),
    ]


def _compare_per_state(state: Rows) -> Finding:
    at_end = state["horizon"] == state["horizon"].max()
    return Finding(
        "the per-state quantity is not the regret: their ratio at the end, LCB",
        ours=float((state["value"] / state["bound"])[at_end & (state["policy"] == "LCB")][0]),
        verdict="ours",
        reason="what is compared state by state misses what early pulls did to later states",
    )


def _judge_appendix(t: Floats) -> list[Finding]:
    """Compare the constants of Appendix A with the rounds of LCB's pulls of arm 2."""
    printed = "the rule as printed gives this round"
    return [
        _compare_number("round of the 18th pull of arm 2 (Appendix A)", t[17], 98, printed),
        _compare_number("round of the 19th pull of arm 2 (Appendix A)", t[18], 105, printed),
        _compare_number(
            "pulls of arm 1 before that (n₁ in Appendix A)",
            t[18] - 19,
            86,
            "with it, Case 1 of the proof holds only if 9 + √2 is not rounded up to 11",
        ),
    ]


def _compare_number(claim: str, ours: float, paper: float, reason: str) -> Finding:
    verdict = "reproduced" if ours == paper else "differs"
    return Finding(claim, ours=float(ours), paper=paper, verdict=verdict, reason=reason)


def _judge_bound(claim: str, paper: str, held: bool, ratio: float | str, meaning: str) -> Finding:
    return Finding(
        claim,
        paper=paper,
        ours=ratio,
        verdict="reproduced" if held else "differs",
        reason=f"{meaning}; " + ("never violated" if held else "violated"),
    )


def _figures(parts: dict[str, Rows]) -> list[Figure]:
    times, p22, p23 = parts["pull-times"], parts["proposition-2.2"], parts["proposition-2.3"]
    t26 = parts["theorem-2.6"]
    thin = np.unique(np.geomspace(1, len(times["value"]), 200).astype(int)) - 1
    horizons = np.unique(t26["horizon"])
    ratios = np.array([(t26["value"] / t26["bound"])[t26["horizon"] == h].max() for h in horizons])
    by_policy = [
        _draw_column(name, p23, "value", p23["policy"] == name)
        for name in dict.fromkeys(p23["policy"])
    ]
    first = p23["policy"] == p23["policy"][0]
    return [
        Figure(
            "pull-times",
            "LCB's pulls of arm 2 (Appendix A)",
            "n",
            "round of the n-th pull",
            [
                _draw_column("measured", times, "value", thin),
                _draw_column("20·n·log n", times, "bound", thin, "dashed"),
            ],
        ),
        Figure(
            "proposition-2.2",
            "LCB on the counterexample",
            "horizon T",
            "regret",
            [
                _draw_column("measured", p22, "value"),
                _draw_column("lower bound", p22, "bound", p22["bound"] > 0, "dashed"),
            ],
        ),
        Figure(
            "proposition-2.3",
            "Any policy has linear regret",
            "horizon T",
            "regret",
            [*by_policy, _draw_column("T/4 + 1/8", p23, "bound", first, "dashed")],
        ),
        Figure(
            "theorem-2.6",
            "Influential LCB under the paper's assumptions",
            "horizon T",
            "largest regret / bound",
            [Series("measured over bound", horizons, ratios)],
            caption="Random instances with 2 to 10 arms; 1 would touch the bound of Theorem 2.6.",
        ),
        _draw_per_state(parts["per-state"]),
    ]


def _draw_column(
    name: str, rows: Rows, column: str, chosen: Any = slice(None), kind: str = "line"
) -> Series:
    """Return a column of the chosen rows against their horizons."""
    return Series(name, rows["horizon"][chosen], rows[column][chosen], kind=kind)


def _draw_per_state(rows: Rows) -> Figure:
    visible = rows | {name: np.maximum(rows[name], 1e-3) for name in ("value", "bound")}
    series = [
        _draw_column(f"{policy}: {label}", visible, column, rows["policy"] == policy, kind)
        for policy in ("LCB", "InfluentialLCB")
        for column, label, kind in (
            ("bound", "true regret", "line"),
            ("value", "state by state", "dashed"),
        )
    ]
    return Figure("per-state", "What regret is not", "horizon T", "total", series)


STUDY = Study(
    name="lower-bounds",
    order=4,
    description=(
        "Prop. 2.2 with its constants, Prop. 2.3, Theorem 2.6 and the invalid per-state quantity"
    ),
    settings={
        "full": Settings(seeds=100, max_horizon=10**7),
        "quick": Settings(seeds=50, max_horizon=10**6),
        "tiny": Settings(seeds=9, max_horizon=10**4),
    },
    pieces=pieces,
    analyse=analyse,
)
