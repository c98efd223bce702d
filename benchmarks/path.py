"""The optimal path against separate quadratic programmes: x*(T) at T = 1, 10, …, 10⁹."""

import numpy as np
from scipy import sparse

import influential_bandits as ib
from benchmarks.timing import Bar, Row, fastest, within

try:
    import clarabel
except ImportError:
    clarabel = None

HORIZONS = 10.0 ** np.arange(10)
PEERS = {  # with what is in their time, and whether the bar is about them
    "clarabel, separate": ("ten times from A and b to x*", True),
    "clarabel, set-up + solve": ("ten times, matrices at hand", False),
    "clarabel, solve alone": ("ten times, solvers at hand", False),
}


def rows(quick):
    few, many = (range(3), range(1)) if quick else (range(20), range(3))
    yield from compare(3, few, 3 if quick else 60, Bar("≥", 20, "× faster"), limit=1.0)
    yield from compare(200, many, 1 if quick else 5, Bar("≥", 1, "× faster"))


def compare(arms, seeds, repetitions, bar, limit=None):
    """Compare the whole path with ten programmes."""
    times = milliseconds([ib.random_instance(arms, seed) for seed in seeds], repetitions)
    ours = times.pop("ours")
    what = f"optimal_path().counts(), K = {arms}"
    if limit is not None:
        yield within(what, ours, "ms", limit, note=f"ten horizons; mean of {len(seeds)} instances")
    for peer, (note, barred) in PEERS.items():
        theirs = times.get(peer)
        yield Row(
            what,
            ours,
            "ms",
            peer,
            theirs,
            None if theirs is None else theirs / ours,
            bar if barred else None,
            "not installed" if theirs is None else note,
        )


def milliseconds(instances, repetitions):
    """Return the mean time for an instance, ours and the peers', who must agree on the losses.

    Instances are solved in a row, as so short a job would else be measured with cold caches; but
    few of them, as a long job would on a busy machine never run undisturbed.
    """
    jobs = {"ours": (lambda: [unsolved(each) for each in instances], follow)}
    if clarabel:
        programmes = [Programmes(each) for each in instances]
        jobs |= {
            "clarabel, separate": lambda: [each.separate() for each in programmes],
            "clarabel, set-up + solve": lambda: [each.solve() for each in programmes],
            "clarabel, solve alone": (
                lambda: [(each, each.solvers()) for each in programmes],
                lambda pairs: [each.solve(solvers) for each, solvers in pairs],
            ),
        }
    times, counts = fastest(jobs, repetitions)
    for name, theirs in counts.items():
        for instance, expected, found in zip(instances, counts["ours"], theirs, strict=True):
            require_same_loss(instance, expected, found, name)
    return {name: 1e3 * seconds / len(instances) for name, seconds in times.items()}


def unsolved(instance):
    """Return a copy: instances remember their path."""
    return ib.Instance(instance.interaction.values, instance.initial_loss)


def follow(instances):
    return [ib.optimal_path(each).counts(HORIZONS) for each in instances]


def require_same_loss(instance, expected, found, name):
    scale = HORIZONS * (np.abs(instance.linear_term).max() + HORIZONS)  # max|A| = 1
    excess = (instance.total_loss(found) - instance.total_loss(expected)) / scale
    if np.abs(excess).max() > 1e-6:
        raise RuntimeError(f"{name} found another optimum for {instance}: {excess}")


class Programmes:
    """Programmes for clarabel, scaled to y = x/T, P = T·A, q = b, Σy = 1, y ≥ 0.

    Unscaled, it reports infeasibility at large T. One solver with update() for all horizons would
    be quicker than ten, but keeps the scaling of the first and misses the optimum at large T.
    """

    def __init__(self, instance, horizons=HORIZONS):
        arms = instance.n_arms
        self.instance, self.horizons = instance, horizons
        upper = np.triu(instance.interaction.values)
        self.matrices = [sparse.csc_array(horizon * upper) for horizon in horizons]
        self.linear = instance.linear_term
        self.constraints = sparse.csc_array(np.vstack([np.ones(arms), -np.eye(arms)]))
        self.right = np.r_[1.0, np.zeros(arms)]
        self.cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(arms)]
        self.settings = clarabel.DefaultSettings()
        self.settings.verbose = False

    def separate(self):
        """Solve each programme as if it were the only one."""
        return np.vstack([Programmes(self.instance, [each]).solve() for each in self.horizons])

    def solvers(self):
        fixed = self.linear, self.constraints, self.right, self.cones, self.settings
        return [clarabel.DefaultSolver(matrix, *fixed) for matrix in self.matrices]

    def solve(self, solvers=None):
        """Solve all programmes, set up here unless given; return counts (horizons, arms)."""
        shares = [solver.solve().x for solver in solvers or self.solvers()]
        return np.maximum(shares, 0.0) * np.reshape(self.horizons, (-1, 1))
