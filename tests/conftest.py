"""What all tests share: the hypothesis profile, an exact world, and how a refusal must read."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import hypothesis
import numpy as np
import pytest

# Derandomised, so that CI repeats; without deadline, since a first example may compile.
hypothesis.settings.register_profile(
    "influential-bandits",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    print_blob=True,
)
hypothesis.settings.load_profile("influential-bandits")

# Files that compile most come first, each while the other worker compiles something else: loops of
# policies beside fits, then fleets beside tests. Whatever comes later finds it compiled. Then
# those that take long, so that no worker waits for one in the end.
COMPILING = [
    "test_contract.py",
    "test_model_files.py",
    "test_decisions.py",
    "test_diagnosis.py",
    "test_drift.py",
    "test_planning.py",
    "test_models.py",
    "test_lanes.py",
]
LONG = [
    "test_faults.py",
    "test_dask.py",
    "test_cli.py",
    "test_hostile.py",
    "test_influence_test.py",
    "test_wheel.py",
    "test_public_surface.py",
    "test_movielens.py",
    "test_compare.py",
    "test_documents.py",
    "test_report_in_browser.py",
]

ROUNDING = Fraction(1, 2**53)  # largest relative error u of one rounded operation


def pytest_addoption(parser):
    parser.addoption(
        "--part", metavar="K/N", default="1/1", help="of files with long tests, every N-th from K"
    )


def pytest_collection_modifyitems(config, items):
    """Keep the part that is asked for; order the files as above, the others as they were."""
    part, parts = map(int, config.getoption("--part").split("/"))
    files = sorted({item.path for item in items if item.get_closest_marker("long")})
    others = set(files) - set(files[part - 1 :: parts])
    left_out = [item for item in items if item.path in others]
    if left_out:
        items[:] = [item for item in items if item.path not in others]
        config.hook.pytest_deselected(items=left_out)
    order = {name: rank for rank, name in enumerate([*COMPILING, *LONG])}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_sessionfinish(session):
    """Keep what ``make coverage`` noted: xdist kills a worker that takes ten seconds to end."""
    coverage = sys.modules.get("coverage")
    noting = (
        coverage.Coverage.current() if coverage and hasattr(session.config, "workerinput") else None
    )
    if noting is not None:
        noting.stop()
        noting.save()


class ExactWorld:
    """The paper's world round by round in rational arithmetic: slow and obviously right.

    ``magnitudes`` is the same computation on absolute values: what rounding errors are relative to.
    """

    def __init__(self, instance) -> None:
        self.A = exact_matrix(instance)
        self.size = exact_matrix(instance, absolute=True)
        self.initial_loss = [Fraction(x) for x in instance.initial_loss.tolist()]
        self.memory = Fraction(instance.memory)
        self.arms = range(instance.n_arms)
        self.deviation = [Fraction(0)] * len(self.arms)
        self.deviation_size = [Fraction(0)] * len(self.arms)

    def pull(self, arm: int) -> Fraction:
        """Return the loss of an arm; then deviation ← γ·deviation + A[arm]."""
        loss = self.losses()[arm]
        self.deviation = [self.memory * self.deviation[j] + self.A[arm][j] for j in self.arms]
        self.deviation_size = [
            self.memory * self.deviation_size[j] + self.size[arm][j] for j in self.arms
        ]
        return loss

    def losses(self) -> list[Fraction]:
        return [self.initial_loss[j] + self.deviation[j] for j in self.arms]

    def magnitudes(self) -> list[Fraction]:
        return [abs(self.initial_loss[j]) + self.deviation_size[j] for j in self.arms]

    def losses_after(self, counts) -> list[Fraction]:
        """l1 + A·counts."""
        return [
            self.initial_loss[i] + sum(self.A[i][j] * exactly(counts[j]) for j in self.arms)
            for i in self.arms
        ]

    def magnitudes_after(self, counts) -> list[Fraction]:
        return [
            abs(self.initial_loss[i]) + sum(self.size[i][j] * exactly(counts[j]) for j in self.arms)
            for i in self.arms
        ]

    def total_loss(self, counts) -> Fraction:
        """l1·x + ½·xᵀAx − ½·diag(A)·x (Prop. 2.1)."""
        x = [exactly(count) for count in counts]
        return sum(
            x[i] * (self.initial_loss[i] - self.A[i][i] / 2)
            + sum(x[i] * self.A[i][j] * x[j] for j in self.arms) / 2
            for i in self.arms
        )

    def total_magnitude(self, counts) -> Fraction:
        x = [exactly(count) for count in counts]
        return sum(
            x[i] * (abs(self.initial_loss[i]) + self.size[i][i] / 2)
            + sum(x[i] * self.size[i][j] * x[j] for j in self.arms) / 2
            for i in self.arms
        )


def exactly(number) -> Fraction:
    """A number as a rational one; NumPy's whole numbers would overflow inside of it."""
    return Fraction(number.item() if isinstance(number, np.generic) else number)


def exact_matrix(instance, *, absolute=False) -> list[list[Fraction]]:
    """A as rational numbers, from what was given: for low rank from the factors (or |F||F|ᵀ)."""
    matrix = instance.interaction
    rows = matrix.values if matrix.name == "low-rank" else matrix.to_dense()
    if absolute:
        rows = np.abs(rows)
    exact = [[Fraction(x) for x in row] for row in rows.tolist()]
    if matrix.name != "low-rank":
        return exact
    return [[sum(a * b for a, b in zip(f, g, strict=True)) for g in exact] for f in exact]


@pytest.fixture(scope="session")
def exact_world() -> type[ExactWorld]:
    """The class of the exact world: exact_world(instance)."""
    return ExactWorld


@pytest.fixture(scope="session")
def rounding() -> Fraction:
    """The unit roundoff u = 2⁻⁵³ as a rational number."""
    return ROUNDING


@contextmanager
def _refused(error, *mentions) -> Iterator[None]:
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error, f"{type(caught.value).__name__} instead: {caught.value}"
    message = str(caught.value)
    assert "\n" not in message
    without_folders = re.sub(r"/\S*/", "", message)  # a test's own folder may be a long one
    assert 10 < len(without_folders) < 300, message
    for mention in mentions:
        assert mention in message, f"{mention!r} is not mentioned in: {message}"


@pytest.fixture(scope="session")
def refused():
    """``with refused(InvalidInput, "-1"):`` demands that error, in one line that mentions -1."""
    return _refused
