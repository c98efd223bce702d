"""A process that compiles one kernel and keeps it on disk, for another that plays it."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np

from influential_bandits.execution.gpu import GpuExecution
from influential_bandits.policies.compiled import Layout
from influential_bandits.simulation.gpu.tasks import gpu_tasks
from influential_bandits.simulation.kernels import Output

__all__ = ["compile_job"]


def compile_job(job: tuple[Any, ...]) -> None:
    """Compile the kernel of a batch: see :meth:`Batch.job`."""
    policy, instance, noise, horizon, (choices, losses), device = job
    told = (instance, horizon) if policy.privileged else ()
    layout = Layout(policy, instance.n_arms, *told)
    whole = Output(
        np.array([1]),
        np.zeros((1, 1, 1, instance.n_arms), np.int64),
        np.zeros((1, 1, 1 if instance.memory < 1.0 else 0)),
        np.zeros((1, 1, 1 if choices else 0), np.int32),
        np.zeros((1, 1, 1 if losses else 0)),
    )
    where = GpuExecution(device)
    seeds = np.zeros(1, np.uint64)
    args = policy, [layout], [instance], noise, seeds, [0], whole, horizon, where
    for batch in gpu_tasks(*args):
        batch.prepare()  # type: ignore[attr-defined]


if __name__ == "__main__":
    compile_job(pickle.loads(sys.stdin.buffer.read()))
