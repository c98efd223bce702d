"""Large problems on one core: many arms (low rank, r = 16), many rounds, many runs."""

import influential_bandits as ib
from benchmarks.memory import measured
from benchmarks.timing import Bar, Row, fastest, within

RANK = 16
NOISE = ib.GaussianNoise(1.0)
SMALL, LARGE = 1_000, 100_000


def rows(quick):
    instances = {arms: ib.random_instance(arms, seed=0, rank=RANK) for arms in (SMALL, LARGE)}
    yield from per_round(instances, 200_000 if quick else 1_000_000, 2 if quick else 7)
    yield from regret(instances[LARGE], 1 if quick else 3)
    yield from many_rounds(10**7 if quick else 10**9)
    yield from many_runs(10**5 if quick else 10**6)


def per_round(instances, rounds, repetitions):
    """Compare times per round after all arms were pulled once, and plain ones."""

    def play(arms, horizon):
        return lambda: ib.simulate(
            instances[arms],
            ib.InfluentialLCB(),
            horizon,
            NOISE,
            checkpoints=[horizon],
            execution=1,
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
    peak = measured("regret", LARGE, RANK)
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


def many_rounds(horizon):
    """Rows of the time of a long run, alone and in lanes, and of memory that does not grow."""
    for job, runs, name in (("simulate one", 1, "one run"), ("simulate", 16, "16 runs in lanes")):
        short, long = (measured(job, rounds, runs) for rounds in (10**6, horizon))
        what = f"InfluentialLCB, K = 3, T = {horizon:,}, {name}"
        yield Row(what, long["seconds"], "s", note="uniform noise, one core")
        if long["resident"] is not None:
            before, after = (answer["resident"] / 1e6 for answer in (short, long))
            note = f"beyond what is loaded; at T = 10^6: {before:.3g} MB"
            yield Row(f"{what}: peak memory", after, "MB", note=note)


def many_runs(runs):
    """Rows of the time of a short run among many, and of memory beside that of the results."""
    answer = measured("simulate", 100, runs)
    what = f"InfluentialLCB, K = 3, T = 100, {runs:,} runs"
    yield Row(what, 1e6 * answer["seconds"] / runs, "µs/run", note="uniform noise, one core")
    if answer["resident"] is not None:
        results = runs * 3 * 8 / 1e6
        most = answer["resident"] / 1e6
        yield Row(f"{what}: peak memory", most, "MB", "the counts alone", results, most / results)
