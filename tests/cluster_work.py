"""Work for clusters in tests; workers import it by this name."""

import os
import signal
import time

import numpy as np


def squared(task, threads):
    return task * task


def squared_alone(task):
    return task * task


def who(task, threads):
    time.sleep(0.05)
    return os.getpid()


def poisoned(task, threads):
    if task == 3:
        raise ValueError("three is bad")
    return task


def deadly(task, threads):
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def slow(task, threads):
    time.sleep(0.3)
    return task


def megabyte(task, threads):
    return np.full(1 << 17, float(task))


def disconnected(task):
    raise ConnectionResetError("of the task")


class Speechless(Exception):
    """An error that cannot be pickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def speechless(task, threads):
    raise Speechless(1, 2)
