"""Learning from logs: sufficient statistics, positive semi-definite fits."""

import json
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

import influential_bandits as ib
from benchmarks.plain_statistics import plain_gram
from benchmarks.timing import Bar, Row, fastest, within
from benchmarks.whole_log import ARMS, EFFECTS, SETTINGS, USERS, design
from influential_bandits.execution.local import map_in_order
from influential_bandits.learning.solvers.penalised import penalty_weights, solve_penalised
from influential_bandits.learning.solvers.psd import solve_psd
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    event_columns,
    history_gram,
)
from influential_bandits.learning.statistics.pooled_sums import (
    arm_sums,
    pooled_gram,
)
from influential_bandits.learning.statistics.reduction import single_threaded_algebra

PAPER_SCALE = 1e-3  # largest entry: 20 of the paper's 73 users have a norm above this
STRONG = 0.05  # the cone hardly binds, and a first-order method needs few steps
GAP = 1e-6  # relative, of fits that are compared
LOWER = [(i, j) for i in range(ARMS) for j in range(i + 1)]
SVEC = np.array([1.0 if i == j else np.sqrt(0.5) for i, j in LOWER])  # entry = SVEC·svec
SOLVERS = {
    "SCS": {"eps_rel": GAP, "eps_abs": GAP},
    "CLARABEL": {"tol_gap_rel": GAP},
}


def rows(quick):
    yield from statistics(3_000 if quick else 6_000, 3 if quick else 15)
    yield whole_log(USERS // 10 if quick else USERS)
    size = (20, 2, 2) if quick else (100, 10, 7)
    yield from definite_fits(*size, PAPER_SCALE, "A as large as in the paper", (True, False))
    yield from definite_fits(*size, STRONG, "A fifty times as large", ())


def statistics(users, repetitions):
    """Compare rows per second with NumPy, in memory, on the first users of the log."""
    log = ib.data.synthetic_log(users, **SETTINGS)
    plan = design(arm_sums(log, ARMS).means)

    def ours(threads):
        with single_threaded_algebra():
            return pooled_gram([log], plan, EFFECTS, threads)

    def plain(threads):
        with threadpool_limits(threads, "blas"):
            return plain_gram(log, plan, EFFECTS)

    jobs = {(job, threads): (lambda job=job, threads=threads: job(threads))
            for job in (ours, plain) for threads in (1, 2)}  # fmt: skip
    times, results = fastest(jobs, repetitions)
    for (job, _), result in results.items():
        require_same_matrix(results[ours, 1], result, job.__name__)
    speeds = {name: len(log) / seconds / 1e6 for name, seconds in times.items()}
    theirs = max(speeds[plain, 1], speeds[plain, 2])
    for threads, bars in ((2, (Bar("≥", 5, "×"), Bar("≥", 10, "×", must=False))), (1, (None,))):
        for bar in bars:
            yield Row(
                f"pooled statistics, K = {ARMS}, {cores(threads)}",
                speeds[ours, threads],
                "M rows/s",
                "NumPy, BLAS on 1 or 2 threads",
                theirs,
                speeds[ours, threads] / theirs,
                bar,
                f"{len(log):,} rows; the same matrix; the better of the two",
            )


def cores(threads):
    return "1 core" if threads == 1 else f"{threads} cores"


def require_same_matrix(expected, found, name):
    scale = np.sqrt(np.abs(np.diag(expected)))
    if np.abs((found - expected) / np.outer(scale, scale)).max() > 1e-9:
        raise RuntimeError(f"{name} found other statistics")


def whole_log(users):
    """Row of the memory of one pass over everything, in a process of its own."""
    found = measure_in_own_process(users)
    note = f"{found['rows']:,} rows in {found['seconds']:.3g} s, without drawing them"
    return within("the same, whole log: peak memory", found["peak"] / 1e9, "GB", 4.0, note=note)


def measure_in_own_process(users):
    command = [sys.executable, "-m", "benchmarks.whole_log", str(users)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def definite_fits(users, compared, repetitions, strength, scale, musts):
    """Compare fits in the paper's setting with CVXPY's, all from the same statistics."""
    interaction = ib.data.planted_interaction(ARMS, strength, seed=1)
    settings = {"interaction": interaction, "noise": 0.9, "spread": 0.5, "seed": 1}
    log = ib.data.synthetic_log(users, 4096, ARMS, **settings)
    cases = [statistics_of(log, user) for user in range(users)]
    programmes = [reduced(gram, weights) for gram, weights in cases]

    def batch(work, inputs, threads):
        with single_threaded_algebra():
            return list(map_in_order(lambda each: work(*each), inputs, threads))

    def cone(S, h):
        return solve_psd(S, h, ARMS, GAP)

    plan = Design(ARMS, SYMMETRIC, 1.0, 0.0, 0, 0.9, np.zeros(ARMS))

    def fit(gram, weights):
        return solve_penalised(plan, gram, weights, True, 1.0, np.zeros(1))

    jobs = {
        ("solve_psd", threads): lambda threads=threads: batch(cone, programmes, threads)
        for threads in (1, 2)
    }
    jobs |= {
        ("solved", threads): lambda threads=threads: batch(fit, cases, threads)
        for threads in (1, 2)
    }
    jobs["fit", 2] = lambda: ib.InfluenceModel().fit(log, execution=2)
    peers = {}
    if find_spec("cvxpy"):
        peers = {
            name: [Programme(*each, name) for each in programmes[:compared]] for name in SOLVERS
        }
        jobs |= {name: lambda name=name: [each.solve() for each in peers[name]] for name in peers}
    times, results = fastest(jobs, repetitions)
    for name in peers:
        for n, (peer, answer) in enumerate(zip(peers[name], results[name], strict=True)):
            ours = results["solve_psd", 2][n]
            require_same_minimum(ours, peer.found(answer), programmes[n], name)
    speeds = {name: 1e3 * t / (compared if name in peers else users) for name, t in times.items()}
    best = min(peers, key=speeds.get, default=None)
    note = f"{scale}; per user; compiled before; {compared} users"
    for name in SOLVERS:
        bars = [Bar("≥", 10 if must else 30, "×", must=must) for must in musts]
        bars = bars if bars and name == best else (None,)
        for bar in bars:
            theirs, ours = speeds.get(name), speeds["solve_psd", 2]
            ratio = theirs and theirs / ours
            said = note if name in peers else "not installed"
            yield Row(
                "psd fit, K = 20, gap 1e-6, 2 cores",
                ours,
                "ms",
                f"CVXPY, {name}",
                theirs,
                ratio,
                bar,
                said,
            )
    theirs = speeds.get(best)
    for (what, threads), said in (
        (("solve_psd", 1), "the same"),
        (("solved", 2), "gap 1e-9, and standard errors"),
        (("solved", 1), "gap 1e-9, and standard errors"),
        (("fit", 2), "InfluenceModel().fit, from 4,096 events each"),
    ):
        ours = speeds[what, threads]
        peer = f"CVXPY, {best}" if best else ""
        yield Row(
            f"{what}, {cores(threads)}",
            ours,
            "ms",
            peer,
            theirs,
            theirs and theirs / ours,
            None,
            said,
        )


def statistics_of(log, user):
    """Return the statistics of one user in the paper's model, and the penalties."""
    plan = Design(ARMS, SYMMETRIC, 1.0, 0.0, 0, 0.9, np.zeros(ARMS))
    gram = np.empty((plan.size + 1, plan.size + 1))
    history_gram(plan, event_columns(log), user, gram)
    return gram, penalty_weights(plan, gram, int(log.lengths[user]), 1.0, 1.0)


def reduced(gram, weights):
    """Return S and h of ½aᵀSa − h·a, a = svec(A), initial losses minimised over."""
    H, g = gram[:-1, :-1] + np.diag(weights), gram[:-1, -1]
    share = np.linalg.solve(H[:ARMS, :ARMS], H[:ARMS, ARMS:]).T
    S, h = H[ARMS:, ARMS:] - share @ H[:ARMS, ARMS:], g[ARMS:] - share @ g[:ARMS]
    return SVEC[:, None] * S * SVEC, h * SVEC


class Programme:
    """The same minimum for CVXPY, as a quadratic form: least squares take its solvers far longer.

    What is timed is the solver with its own set-up; CVXPY has compiled the programme before.
    """

    def __init__(self, S, h, solver):
        import cvxpy

        self.options = SOLVERS[solver]
        self.matrix = cvxpy.Variable((ARMS, ARMS), PSD=True)
        take = np.zeros((len(LOWER), ARMS * ARMS))
        for n, (i, j) in enumerate(LOWER):
            take[n, i + ARMS * j] = 1.0 / SVEC[n]
        a = take @ cvxpy.vec(self.matrix, order="F")
        objective = 0.5 * cvxpy.quad_form(a, cvxpy.psd_wrap(S)) - h @ a
        self.problem = cvxpy.Problem(cvxpy.Minimize(objective))
        self.compiled = self.problem.get_problem_data(solver, solver_opts=dict(self.options))

    def solve(self):
        data, chain, _ = self.compiled
        return chain.solve_via_data(self.problem, data, solver_opts=dict(self.options))

    def found(self, answer):
        _, chain, inverse = self.compiled
        self.problem.unpack_results(answer, chain, inverse)
        return self.matrix.value


def require_same_minimum(ours, matrix, programme, name):
    S, h = programme
    a = np.array([matrix[i, j] for i, j in LOWER]) / SVEC
    excess = (0.5 * a @ S @ a - h @ a - ours.objective) / abs(ours.objective)
    if abs(excess) > 2 * GAP:
        raise RuntimeError(f"{name} found another minimum: {excess:.1e} apart")
