"""Learning from a log written out densely: every past event, faded by its age; slow and plain."""

import clarabel
import numpy as np
import scipy.sparse

DAY = 86400.0


def named_unknowns(arms):
    """l1_0, A_00, l1_1, A_10, A_11, …: arm by arm, so that a new arm's come last."""
    names = []
    for i in range(arms):
        names.append(("l1", i))
        names.extend(("A", i, j) for j in range(i + 1))
    return names


def weights_of(log):
    """How much each event belongs to each arm, (events, arms)."""
    table = log.membership
    out = np.zeros((len(log), log.n_arms))
    for n, item in enumerate(log.item):
        for p in range(table.offsets[item], table.offsets[item + 1]):
            out[n, table.arm[p]] += table.weight[p]
    return out


def counts_of(log, memory=1.0, half_life_days=None):
    """The discounted counts that each event meets, (events, arms), from the closed form."""
    w, out = weights_of(log), np.zeros((len(log), log.n_arms))
    for start, stop in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        for n in range(start, stop):
            for m in range(start, n):
                if half_life_days is None:
                    left = memory ** (n - m - 1)
                else:
                    left = 2 ** (-(log.time[n] - log.time[m]) / (half_life_days * DAY))
                out[n] += left * w[m]
    return out


def entries(kind, arms):
    """The free entries of A and how often each stands in the matrix."""
    if kind == "diagonal":
        return [(i, i) for i in range(arms)]
    return [(i, j) for i in range(arms) for j in range(i + 1)]


def design(log, kind, memory=1.0, half_life_days=None):
    """Regressors of all events: arms, then one for each free entry of A."""
    w, d = weights_of(log), counts_of(log, memory, half_life_days)
    columns = []
    for i, j in entries(kind, log.n_arms):
        column = w[:, i] * d[:, j]
        if kind in {"psd", "symmetric"} and i != j:
            column = column + w[:, j] * d[:, i]
        columns.append(column)
    return np.column_stack([w, *columns])


def times_in_matrix(kind, arms):
    twice = kind in {"psd", "symmetric"}
    return np.array([2.0 if twice and i != j else 1.0 for i, j in entries(kind, arms)])


def penalised(log, kind, ridge, shrinkage, memory=1.0):
    """H, g and the mean of ½·θᵀHθ − g·θ for a single history, losses measured from their mean."""
    X, arms, mean = design(log, kind, memory), log.n_arms, log.loss.mean()
    average = (X[:, arms:] ** 2).sum() / (len(log) * arms)
    pull = np.concatenate([np.full(arms, shrinkage), ridge * average * times_in_matrix(kind, arms)])
    return X.T @ X + np.diag(pull), X.T @ (log.loss - mean), mean


def matrix_of(kind, arms, numbers):
    out = np.zeros((arms, arms))
    for (i, j), number in zip(entries(kind, arms), numbers, strict=True):
        out[i, j] = number
        if kind in {"psd", "symmetric"}:
            out[j, i] = number
    return out


def certified_minimum(H, g, arms):
    """Minimise ½·θᵀHθ − g·θ with A ⪰ 0 by another solver: θ and the objective."""
    size, m = len(g), len(g) - arms
    scale = np.sqrt(times_in_matrix("psd", arms))
    rows = scipy.sparse.csc_matrix(np.hstack([np.zeros((m, arms)), -np.diag(scale)]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix(np.triu(H)),
        -g,
        rows,
        np.zeros(m),
        [clarabel.PSDTriangleConeT(arms)],
        settings,
    ).solve()
    theta = np.array(solution.x)
    assert theta.shape == (size,)
    return theta, float(solution.obj_val)


def objective(H, g, theta):
    return 0.5 * theta @ H @ theta - g @ theta


def generalised_least_squares(log, kind, effects, memory=1.0, ridge=0.0):
    """β, the inverse of XᵀV⁻¹X and the best predictors of each b_u, by V = I + ZΩ⁻¹Zᵀ."""
    X, Z, arms = design(log, kind, memory), weights_of(log), log.n_arms
    prior = effects.arm * np.eye(arms) + effects.common
    information, right = np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
    solved = []
    for start, stop in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        rows = slice(start, stop)
        V = np.eye(stop - start) + Z[rows] @ prior @ Z[rows].T
        solved.append((rows, V))
        information += X[rows].T @ np.linalg.solve(V, X[rows])
        right += X[rows].T @ np.linalg.solve(V, log.loss[rows])
    # What a ridge is relative to is an average over the same statistics.
    average = np.diag(information)[arms:].sum() / (len(log) * arms)
    information[arms:, arms:] += np.diag(ridge * average * times_in_matrix(kind, arms))
    beta = np.linalg.solve(information, right)
    own = [
        prior @ Z[rows].T @ np.linalg.solve(V, log.loss[rows] - X[rows] @ beta)
        for rows, V in solved
    ]
    return beta, np.linalg.inv(information), np.array(own)
