"""Events: the truth of the service. Every state is computed from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

# Of an experiment.
CREATED = "created"  # data: settings
CHANGED = "changed"  # data: settings
ARM_ADDED = "arm added"  # data: name
ARM_RETIRED = "arm retired"  # arm
MODEL_STAGED = "model staged"  # data: version, policy
MODEL_ACTIVATED = "model activated"  # data: version
# Of an instance.
DECIDED = "decided"  # arm, decision; data: what the choice was made from
SHOWN = "shown"  # a decision that was to be activated later
CANCELLED = "cancelled"  # it will not be
OBSERVED = "observed"  # loss
CORRECTED = "corrected"  # loss: what is to be added to the one that was told
EXPIRED = "expired"  # loss, if a missing one counts
EXPOSED = "exposed"  # arm, met elsewhere
ERASED = "erased"  # all there was of an instance

DELETED = "deleted"  # all there was of an experiment; data: name

OF_EXPERIMENT = (CREATED, CHANGED, ARM_ADDED, ARM_RETIRED, MODEL_STAGED, MODEL_ACTIVATED)

# Where a decision stands.
OPEN = "open"  # decided, and not shown yet
PENDING = "pending"  # shown; its loss is to come

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Event(NamedTuple):
    """One thing that happened, in the order of its experiment.

    The fields are the columns of the table of events.
    """

    experiment: int
    number: int  # 1, 2, … of the experiment
    instance: int  # 0: the experiment itself
    kind: str
    at: float  # when it was taken, seconds since 1970, UTC
    decision: str | None = None
    ticket: int | None = None  # by which the state knows a pull
    arm: int | None = None
    loss: float | None = None
    data: str | None = None  # JSON
    proposed: int | None = None  # in shadow mode, the arm that we would have served

    def when(self) -> float:
        """Return when it happened, in seconds: as the client said, or when it was taken."""
        if self.data is None or '"at":' not in self.data:
            return self.at
        return float(self.read().get("at", self.at))

    def read(self) -> dict[str, Any]:
        """Return what is in ``data``."""
        return {} if self.data is None else decode(self.data)


class Decision(NamedTuple):
    """Where a decision stands; the fields are the columns of the table of decisions."""

    experiment: int
    id: str
    instance: int
    request: str  # digest of what was asked, to tell a repeat from another question
    at: float
    group: str  # "policy" or "control"
    arm: int
    probability: float | None = None
    expected_loss: float | None = None
    model: int = 0
    proposed: int | None = None  # in shadow mode, the arm that we would have served
    number: int = 0  # of the event
    ticket: int | None = None  # None while it is open
    status: str = OPEN
    loss: float | None = None
    deadline: float | None = None  # when its loss is given up
