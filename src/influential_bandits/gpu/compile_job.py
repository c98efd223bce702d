"""A process that compiles one kernel and keeps it on disk, for another that plays it."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np

from influential_bandits.gpu.execution import GpuExecution
from influential_bandits.gpu.tasks import gpu_tasks
from influential_bandits.simulation.kernels import Output
from influential_bandits.simulation.tasks import Simulation


def compile_job(job: tuple[Any, ...]) -> None:
    """Compile the kernel of a batch: see :meth:`Batch.job`."""
    policy, instance, noise, horizon, (choices, losses), device = job
    output = Output(
        np.array([1]),
        np.zeros((1, 1, 1, instance.n_arms), np.int64),
        np.zeros((1, 1, 1 if instance.memory < 1.0 else 0)),
        np.zeros((1, 1, 1 if choices else 0), np.int32),
        np.zeros((1, 1, 1 if losses else 0)),
    )
    seeds, n_arms = np.zeros(1, np.uint64), instance.n_arms
    simulation = Simulation(
        policy, (instance,), noise, seeds, [0], output, horizon, None, n_arms, False, 1, None
    )
    with GpuExecution(device) as card:
        for batch in gpu_tasks(simulation, device, card.room):
            batch.prepare()


if __name__ == "__main__":
    compile_job(pickle.loads(sys.stdin.buffer.read()))
