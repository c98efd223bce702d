"""The pooled statistics in NumPy and SciPy, as somebody would write them who knows both well.

Same matrix as ``pooled_gram`` for a symmetric interaction, memory by events and the recent level:
whole users in blocks that fit into the cache, counts and level as linear filters over the block
minus what came before each user, events sorted by arm and user, and all products by BLAS.
"""

import numpy as np
from scipy.signal import lfilter

BLOCK = 50_000  # events


def plain_gram(log, design, effects):
    arms, offsets = design.n_arms, log.offsets
    rows, columns = np.tril_indices(arms)
    size = arms + 1 + len(rows)
    precision = 1.0 / effects.arm
    coupling = precision * effects.common / (effects.arm + arms * effects.common)
    blocks, out = np.zeros((arms, arms + 3, arms + 3)), np.zeros((size + 1, size + 1))
    low = 0
    while low < log.n_instances:
        high = max(low + 1, int(np.searchsorted(offsets, offsets[low] + BLOCK, "right")) - 1)
        users = high - low
        vectors, key = regressors_by_arm(log, design, low, high)
        starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        sums = np.add.reduceat(vectors, starts, axis=0)
        arm, user = np.divmod(key[starts], users)
        shares = 1.0 / (sums[:, 0] + precision)
        scaled = shares[:, None] * sums
        events, cells = (
            np.searchsorted(k, users * np.arange(arms + 1)) for k in (key, key[starts])
        )
        for i in range(arms):
            mine, own = vectors[events[i] : events[i + 1]], slice(cells[i], cells[i + 1])
            blocks[i] += mine.T @ mine - sums[own].T @ scaled[own]
        by_user = np.zeros((users, arms, arms + 3))
        by_user[user, arm] = scaled
        counts = by_user[:, :, 2:-1]
        z = np.empty((users, size + 1))
        z[:, :arms] = by_user[:, :, 0]
        z[:, arms] = by_user[:, :, 1].sum(axis=1)
        z[:, arms + 1 : -1] = (
            counts[:, rows, columns] + (rows != columns) * counts[:, columns, rows]
        )
        z[:, -1] = by_user[:, :, -1].sum(axis=1)
        unseen = arms - np.bincount(user, minlength=users)
        total = np.bincount(user, shares, users) + unseen / precision
        out -= z.T @ ((coupling / (1.0 - coupling * total))[:, None] * z)
        low = high
    spots = np.zeros((arms, arms), np.int64)
    spots[rows, columns] = spots[columns, rows] = np.arange(len(rows))
    for i in range(arms):
        place = np.r_[i, arms, arms + 1 + spots[i], size]
        out[place[:, None], place] += blocks[i]
    return out


def regressors_by_arm(log, design, low, high):
    """Return (1, level, counts, loss) of all events of these users, and keys arm·users + user."""
    first, last = log.offsets[low], log.offsets[high]
    arm, loss, users = log.item[first:last], log.loss[first:last], high - low
    number, begins = last - first, log.offsets[low:high] - first
    user = np.repeat(np.arange(users), np.diff(log.offsets[low : high + 1]))
    key = arm * users + user
    few = design.n_arms * users < 2**16  # sixteen bits are sorted by radix
    order = np.argsort(key.astype(np.uint16) if few else key, kind="stable")
    pulls, surprises = np.zeros((design.n_arms, number + 1)), np.zeros(number + 1)
    pulls[arm, np.arange(1, number + 1)] = 1.0
    surprises[1:] = (1.0 - design.level_memory) * (loss - design.baseline[arm])
    counts = np.ascontiguousarray(lfilter([1.0], [1.0, -design.memory], pulls).T)
    level = lfilter([1.0], [1.0, -design.level_memory], surprises)
    before = begins[user[order]]
    age = order - before
    out = np.empty((number, design.n_arms + 3))
    out[:, 0], out[:, -1] = 1.0, loss[order]
    out[:, 1] = level[order] - design.level_memory**age * level[before]
    out[:, 2:-1] = counts[order]
    out[:, 2:-1] -= (design.memory**age)[:, None] * counts[before]
    return out, key[order]
