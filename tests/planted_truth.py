"""Synthetic logs whose interaction and initial losses are known."""

import numpy as np
import scipy.stats

from influential_bandits.data import synthetic_log

TRUTH = np.array([[0.3, -0.1, 0.05], [-0.1, 0.2, 0.0], [0.05, 0.0, 0.15]])
LOSSES = np.array([1.0, 2.0, 1.5])
LOW = np.tril_indices(3)
INDEFINITE = np.array([[0.1, 0.3, -0.2], [0.3, -0.2, 0.1], [-0.2, 0.1, 0.05]])


def planted(instances, events, **settings):
    """Return a log of the truth, unless the settings say otherwise."""
    settings = {"interaction": TRUTH, "initial_loss": LOSSES, "memory": 0.8} | settings
    return synthetic_log(instances, events, len(settings["interaction"]), **settings)


def inside(interval, truth):
    return (interval[0] <= truth) & (truth <= interval[1])


def at_least(trials, share=0.95):
    """The share of hits that a right method falls short of with probability 1e-3."""
    return scipy.stats.binom.ppf(1e-3, trials, share) / trials
