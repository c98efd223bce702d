"""Many arms: influential LCB and regret() with a low-rank interaction, r = 16."""

import json
import subprocess
import sys

import influential_bandits as ib
from benchmarks.measuring import Bar, Row, fastest, within

RANK = 16
NOISE = ib.GaussianNoise(1.0)
SMALL, LARGE = 1_000, 100_000


def rows(quick):
    instances = {arms: ib.random_instance(arms, seed=0, rank=RANK) for arms in (SMALL, LARGE)}
    yield from per_round(instances, 200_000 if quick else 1_000_000, 2 if quick else 7)
    yield from regret(instances[LARGE], 1 if quick else 3)


def per_round(instances, rounds, repetitions):
    """Compare times per round after all arms were pulled once, and plain ones."""

    def play(arms, horizon):
        return lambda: ib.simulate(
            instances[arms],
            ib.InfluentialLCB(),
            horizon,
            NOISE,
            checkpoints=[horizon],
            threads=1,
            progress=False,
        )

    horizons = {(arms, start): arms + start for arms in instances for start in (0, rounds)}
    jobs = {(arms, start): play(arms, horizon) for (arms, start), horizon in horizons.items()}
    times, _ = fastest(jobs, repetitions)
    after = {arms: 1e9 * (times[arms, rounds] - times[arms, 0]) / rounds for arms in instances}
    plain = {arms: 1e9 * times[arms, rounds] / (arms + rounds) for arms in instances}
    for name, figures, bar in (
        ("rounds after K", after, Bar("≤", 3, "× that time")),
        ("all rounds", plain, None),
    ):
        yield Row(
            f"InfluentialLCB, K = {LARGE:,}, {name}",
            figures[LARGE],
            "ns/round",
            f"itself at K = {SMALL:,}",
            figures[SMALL],
            figures[LARGE] / figures[SMALL],
            bar,
        )


def regret(instance, repetitions):
    """Time regret() at every default checkpoint, path included."""
    run = ib.simulate(instance, ib.InfluentialLCB(), 1_000_000, NOISE)
    counts = run.counts[0, 0]

    def unsolved():
        # Instances remember their path; a new one has none.
        factors = instance.interaction.values
        return ib.Instance(ib.LowRankInteraction(factors), instance.initial_loss)

    job = (unsolved, lambda fresh: ib.regret(fresh, counts))
    times, _ = fastest({"regret": job}, repetitions)
    yield within(
        f"regret(), K = {LARGE:,}", times["regret"], "s", 10.0, note=f"{len(counts)} checkpoints"
    )
    yield memory()


def memory():
    """Row of the most memory that regret() takes at once."""
    command = [sys.executable, "-m", "benchmarks.memory", str(LARGE), str(RANK)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    peak = json.loads(answer.stdout)
    most = (peak["resident"] or peak["traced"]) / 1e6
    factors = LARGE * RANK * 8 / 1e6
    return Row(
        f"regret(), K = {LARGE:,}: peak memory",
        most,
        "MB",
        "factors, K·r·8 bytes",
        factors,
        most / factors,
        Bar("≤", 4, "×, so O(K·r)"),
        f"a dense A: {LARGE**2 * 8 / 1e6:,.0f} MB; tracemalloc: {peak['traced'] / 1e6:.3g} MB",
    )
