"""One transaction: requests become events, events move states, and all is written at once."""

from __future__ import annotations

from influential_bandits.live.transactions.of_decisions import DecisionRequests
from influential_bandits.live.transactions.of_experiment import ExperimentRequests
from influential_bandits.live.transactions.of_instances import InstanceRequests


class Transaction(DecisionRequests, ExperimentRequests, InstanceRequests):
    """All that can be asked of an experiment; the parameters are those of the base."""
