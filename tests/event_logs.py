"""Small logs to learn from, and their regression written out: slow and obviously right.

All logs are parts of larger ones, whose arrays are fresh and writable: the kernels of learning
compile once for all tests.
"""

from typing import NamedTuple

import numpy as np
from dense_learning import weights_of
from hypothesis import strategies as st

from influential_bandits.learning.statistics.design import DIAGONAL, NONE, SYMMETRIC, Design
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership

UNIT = 2.0**-53
HOUR = 3600.0
KINDS = (NONE, DIAGONAL, SYMMETRIC)

seeds = st.integers(0, 2**32 - 1)


# Logs


def random_log(seed, arms=3, lengths=(4, 7), *, single=True):
    """Return a log with times in whole hours; some arms may never be met.

    Histories begin at any time, a later one often centuries before the one that precedes it. They
    were one event longer, so that a length of 0 stands for an empty history. Unless items are of
    one arm each, the first belongs to several (if there are several).
    """
    random = np.random.default_rng(seed)
    members = [random.permutation(arms)[: random.integers(1, arms + 1)] for _ in range(arms + 2)]
    members[0] = np.arange(min(arms, 3))
    if single:
        members = [many[:1] for many in members]
    names = [f"arm {i}" for i in range(arms)]
    items = {f"item {n}": [names[i] for i in many] for n, many in enumerate(members)}
    total = sum(lengths) + len(lengths)
    begin = np.repeat(random.integers(-(10**6), 10**6, len(lengths)), np.add(lengths, 1))
    log = EventLog(
        np.repeat(np.arange(len(lengths)), np.add(lengths, 1)),
        random.integers(0, len(items), total),
        random.normal(size=total) + random.normal(),
        (begin + np.cumsum(random.integers(0, 30, total))) * HOUR,
        Membership(items, names),
    )
    return log.without_last(events=1)


@st.composite
def logs(draw, single=None, max_arms=4, min_instances=1):
    """Logs of up to four instances with up to twelve events each, items of one arm or several."""
    one = draw(st.booleans()) if single is None else single
    lengths = draw(st.lists(st.integers(0, 12), min_size=min_instances, max_size=4))
    return random_log(draw(seeds), draw(st.integers(1, max_arms)), lengths, single=one)


@st.composite
def designs(draw, arms):
    """Designs of every kind, with every memory."""
    memory, half_life = draw(
        st.sampled_from([(1.0, 0.0), (0.9, 0.0), (0.25, 0.0), (1.0, 30 * HOUR), (0.5, 300 * HOUR)])
    )
    return Design(
        arms,
        draw(st.sampled_from(KINDS)),
        memory,
        half_life,
        draw(st.integers(0, 1)),
        draw(st.sampled_from([0.0, 0.5, 0.9])),
        np.random.default_rng(draw(seeds)).normal(size=arms),
    )


@st.composite
def logs_and_designs(draw, **settings):
    """A log and a design for its arms."""
    log = draw(logs(**settings))
    return log, draw(designs(log.n_arms))


# Their regression


def entries_of(kind, arms):
    """Return which entries of the matrix each coefficient stands for."""
    if kind == NONE:
        return []
    if kind == DIAGONAL:
        return [[(i, i)] for i in range(arms)]
    return [
        [(i, j), (j, i)] if i != j else [(i, i)] for i in range(arms) for j in range(arms) if j <= i
    ]


class Regression(NamedTuple):
    """One history: regressors and the loss, and what their rounding errors are relative to."""

    x: np.ndarray  # (events, size + 1), the loss last
    magnitude: np.ndarray  # the same, from absolute values
    rounding: float  # relative error of an entry of either computation


def slow_regression(design, log, u):
    """Return the regression of one history, from the closed forms: every past event by its age."""
    part = slice(log.offsets[u], log.offsets[u + 1])
    w, loss, time = weights_of(log)[part], log.loss[part], log.time[part]
    signed, absolute = [], []
    for n in range(len(loss)):
        ages = n - 1 - np.arange(n)
        if design.half_life > 0.0:
            kept = 2.0 ** (-(time[n] - time[:n]) / design.half_life)
        else:
            kept = design.memory**ages
        d = kept @ w[:n]
        fading = (1.0 - design.level_memory) * design.level_memory**ages
        level = fading @ (loss[:n] - w[:n] @ design.baseline)
        level_size = fading @ (np.abs(loss[:n]) + w[:n] @ np.abs(design.baseline))
        pairs = [
            sum(w[n, i] * d[j] for i, j in entries) for entries in entries_of(design.kind, len(d))
        ]
        controls = design.controls
        signed.append([*w[n], *[level] * controls, *pairs, loss[n]])
        absolute.append([*w[n], *[level_size] * controls, *pairs, abs(loss[n])])
    shape = (len(loss), design.size + 1)
    # A term of d or level is scaled and added to at most twice per event, here and there; numbers
    # of half-lives are rounded before they are exponents; a regressor has few more operations.
    halves = (time[-1] - time[0]) / design.half_life if len(loss) and design.half_life > 0 else 0.0
    rounding = (4 * len(loss) + 2 * halves + 2 * design.n_arms + 10) * UNIT
    return Regression(np.reshape(signed, shape), np.reshape(absolute, shape), rounding)
