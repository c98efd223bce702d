"""What is known before an event, with coefficients that differ by arm and along a history.

The filter's predictions are right for tastes that are normal and choices that do not follow them.
Where people choose what they like, an arm that few choose is met by those who like it most, and
what is left to learn of a taste falls along a history in another way than the filter has it. So
each prediction gets a coefficient for every arm, and one that changes along histories. The place
in a history has an effect of its own, too: whatever else makes losses rise or fall from the first
event to the last must not look like an influence that builds up.
"""

from __future__ import annotations

import numpy as np

from influential_bandits.learning.controls import spread_hats
from influential_bandits.learning.exposures import Regressors
from influential_bandits.learning.kalman import KNOWN

PLACES = 8  # hat functions over the logarithm of the place in a history
COARSE_PLACES = 5  # the same, for each prediction


def add_known_columns(x: Regressors) -> Regressors:
    """Return the regressors with predictions by arm and by place, and places alone."""
    known = x.predictions.known
    size = np.sqrt((known**2).mean(axis=0))
    known = known / np.where(size > 0.0, size, 1.0)
    offsets = x.events.offsets
    place = np.arange(len(known)) - np.repeat(offsets[:-1], np.diff(offsets))
    log_place = np.log2(1.0 + place)
    coarse = spread_hats(log_place, COARSE_PLACES)
    along = [coarse * known[:, [k]] for k in range(KNOWN)]
    shared = np.ascontiguousarray(np.hstack([x.shared, spread_hats(log_place, PLACES), *along]))
    by_arm = np.broadcast_to(x.n_bases + np.arange(KNOWN), known.shape)
    more = x.design.n_arms * KNOWN + shared.shape[1] - x.shared.shape[1]
    return x._replace(
        design=x.design._replace(controls=x.design.controls + more),
        basis=np.ascontiguousarray(np.hstack([x.basis, by_arm]), np.int32),
        value=np.ascontiguousarray(np.hstack([x.value, known])),
        n_bases=x.n_bases + KNOWN,
        shared=shared,
    )
