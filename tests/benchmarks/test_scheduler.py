"""The formula for pieces on a cluster, in cases whose answer is plain."""

import pytest

from benchmarks.scheduler import Costs, makespan, saturation, smallest_piece

FREE = Costs()
SOME = Costs(
    submit=0.4e-3, take=2e-3, write=3e-3, schedule=2e-3, worker=1e-3, latency=5e-3, startup=3.0
)


def test_equal_pieces_take_whole_waves():
    assert [makespan(n, 1.0, 4, FREE) for n in (4, 10, 12, 13)] == [1.0, 3.0, 3.0, 4.0]
    assert makespan(100, 1.0, 100, Costs(startup=2.0)) == 3.0


def test_one_piece_passes_every_station_once():
    around = SOME.startup + SOME.client + SOME.schedule + SOME.worker + 3 * SOME.latency
    assert makespan(1, 1.0, 5, SOME) == pytest.approx(around + 1.0)


@pytest.mark.parametrize("busy", ["submit", "take", "write", "schedule"])
def test_many_workers_are_as_fast_as_whoever_serves_them(busy):
    assert makespan(5_000, 0.1, 500, Costs(**{busy: 0.01})) == pytest.approx(50.0, rel=0.01)


def test_unequal_pieces_have_a_tail_of_one_piece_at_most():
    even, uneven, wild = (makespan(1_000, 10.0, 100, SOME, each) for each in (0.0, 0.5, 100.0))
    assert even < uneven < wild <= even + 10.0


def test_saturation_and_the_smallest_piece_are_one_statement():
    assert saturation(smallest_piece(1_000, SOME), SOME) == pytest.approx(1_000)
