"""The simulated cluster against cases whose answer is plain, and against its closed form."""

import numpy as np
import pytest

from benchmarks.scheduler import (
    Costs,
    closed_form,
    drawn,
    price,
    saturation,
    simulated,
    smallest_piece,
)

FREE = Costs()
SOME = Costs(
    submit=0.4e-3, take=2e-3, write=3e-3, schedule=2e-3, worker=1e-3, latency=5e-3, startup=3.0
)


def test_one_worker_takes_the_sum():
    times = [1.0, 2.5, 0.5, 4.0]
    run = simulated(times, 1, FREE)
    assert run.makespan == sum(times)
    assert run.efficiency == 1.0
    assert run.workers == 1.0
    assert run.written == (1, 1, 1, 1)


def test_many_workers_take_the_longest():
    run = simulated([1.0, 2.5, 0.5, 4.0], 100, FREE)
    assert run.makespan == 4.0
    assert run.efficiency == 8.0 / 400.0


def test_one_piece_passes_every_station_once():
    run = simulated([1.0], 5, SOME)
    assert run.makespan == pytest.approx(
        # The scheduler has the piece long before a worker is there.
        SOME.startup
        + SOME.latency  # to the worker
        + SOME.worker
        + 1.0
        + SOME.latency  # to the scheduler
        + SOME.schedule / 2
        + SOME.latency  # to the client
        + SOME.take
        + SOME.write
    )


def test_equal_pieces_take_whole_waves():
    assert simulated([1.0] * 10, 4, FREE).makespan == 3.0
    assert simulated([1.0] * 12, 4, FREE).makespan == 3.0
    assert simulated([1.0] * 13, 4, FREE).makespan == 4.0


def test_a_worker_without_work_takes_a_waiting_piece_of_another():
    # Without it, the last piece would wait behind one of the long ones.
    run = simulated([10.0, 1.0, 1.0, 1.0], 2, FREE)
    assert run.makespan == 10.0


def test_a_piece_that_moves_is_asked_for_first():
    # All pieces are with the workers after 0.2 s. The second worker is done with its two at 2.2,
    # the scheduler hears of it at 2.3, and the piece that waits elsewhere is three messages away.
    run = simulated([5.0, 1.0, 10.0, 1.0], 2, Costs(latency=0.1))
    assert run.makespan == pytest.approx(2.3 + 3 * 0.1 + 10.0 + 2 * 0.1)


def test_a_window_of_one_piece_waits_for_every_round_trip():
    trip = SOME.client + SOME.schedule + SOME.worker + 4 * SOME.latency + 1.0
    run = simulated([1.0] * 5, 3, SOME, window=1, joins=[0.0] * 3)
    assert run.makespan == pytest.approx(5 * trip)


def test_workers_that_join_together_share_what_was_there_before():
    assert simulated([1.0] * 100, 100, Costs(startup=2.0)).makespan == 3.0


def test_a_late_worker_gets_work():
    run = simulated([1.0] * 10, 2, FREE, joins=[0.0, 5.0])
    assert run.makespan == pytest.approx(8.0, abs=1.0)
    assert run.makespan < 10.0


@pytest.mark.parametrize("busy", ["submit", "take", "write", "schedule"])
def test_many_workers_are_as_fast_as_whoever_serves_them(busy):
    # A server that is never idle takes pieces × its time, however many workers there are.
    pieces, seconds = 5_000, 0.01
    run = simulated([0.1] * pieces, 500, Costs(**{busy: seconds}))
    assert run.makespan == pytest.approx(pieces * seconds, rel=0.01)
    share = run.scheduler if busy == "schedule" else run.client
    assert share == pytest.approx(1.0, abs=0.01)
    assert run.workers == pytest.approx(0.1 / 0.01 / 500, rel=0.02)


def test_results_pile_up_at_a_client_that_writes_slowly_but_never_beyond_its_window():
    run = simulated([0.1] * 2_000, 50, Costs(write=0.1), window=100)
    assert 90 <= run.most_results_waiting <= 100
    relaxed = simulated([0.1] * 2_000, 50, Costs(write=0.0005), window=100)
    assert relaxed.results_waiting < run.results_waiting


def test_queue_of_a_half_busy_server_is_that_of_theory():
    # Arrivals at random, service of one length (M/D/1): at load ρ, ρ²/(2(1 − ρ)) wait on average.
    # Workers as many as there are pieces make arrivals random: each piece ends when it pleases.
    load, pieces = 0.5, 20_000
    ends = np.random.default_rng(3).uniform(0.0, pieces, pieces)
    run = simulated(ends, pieces, Costs(write=load), window=pieces)
    # Standard error of the mean queue over 20,000 arrivals: about 0.01.
    assert run.results_waiting == pytest.approx(load**2 / (2 * (1 - load)), abs=0.04)
    assert run.client == pytest.approx(load, abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_failures_lose_no_piece_and_repeat_none(seed):
    costs = Costs(submit=0.001, take=0.05, write=0.05, schedule=0.002, latency=0.01, startup=0.5)
    run = simulated([1.0] * 300, 10, costs, failures=0.1, seed=seed)
    assert run.written == (1,) * 300
    assert run.runs > 300
    assert run.makespan > simulated([1.0] * 300, 10, costs).makespan


def test_results_that_are_lost_with_their_worker_are_made_again():
    # The client takes a second for each result, and a worker lives for one on average: most results
    # are gone when they are asked for, though hardly any worker fails while it runs.
    run = simulated([0.001] * 50, 1, Costs(take=1.0), failures=1.0, seed=2)
    assert run.written == (1,) * 50
    assert run.runs > 100


def test_failures_cost_what_they_should():
    # A piece of d seconds on a worker that fails at rate λ takes (exp(λd) − 1) / λ on average, if a
    # new worker is there at once and takes the piece again.
    rate, seconds = 0.5, 1.0
    run = simulated([seconds] * 4_000, 1, FREE, failures=rate, seed=1)
    expected = 4_000 * np.expm1(rate * seconds) / rate
    # The time of a piece has a standard deviation of about 0.8 s: one of the sum is 1 %.
    assert run.makespan == pytest.approx(expected, rel=0.04)


def test_same_seed_same_run():
    times = drawn({0.0: 0.9, 0.5: 1.0, 1.0: 1.4}, 1.0, 500, seed=7)
    first, second, other = (
        simulated(times, 20, SOME, failures=0.01, seed=seed) for seed in (1, 1, 2)
    )
    assert first == second
    assert first.makespan != other.makespan


def test_nobody_joins():
    with pytest.raises(RuntimeError, match="2 pieces are stuck"):
        simulated([1.0, 1.0], 0, FREE, window=2)


@pytest.mark.parametrize("workers", [1, 10, 100, 1_000])
@pytest.mark.parametrize("seconds", [0.1, 1.0, 10.0])
def test_the_closed_form_is_near_the_simulation(workers, seconds):
    pieces = 5 * workers
    run = simulated([seconds] * pieces, workers, SOME)
    assert closed_form(pieces, seconds, workers, SOME) == pytest.approx(run.makespan, rel=0.1)


@pytest.mark.parametrize("workers", [10, 100, 1_000])
def test_the_closed_form_knows_the_tail_of_unequal_pieces(workers):
    times = np.random.default_rng(5).normal(10.0, 0.5, 10 * workers)
    run = simulated(times, workers, SOME)
    without, formula = (closed_form(len(times), 10.0, workers, SOME, each) for each in (0.0, 0.5))
    assert without < run.makespan
    assert formula == pytest.approx(run.makespan, rel=0.03)


def test_saturation_and_the_smallest_piece_are_one_statement():
    piece = smallest_piece(1_000, SOME)
    assert saturation(piece, SOME) == pytest.approx(1_000)
    assert simulated([2 * piece] * 5_000, 1_000, SOME).client < 0.6
    assert simulated([piece / 2] * 5_000, 1_000, SOME).client > 0.6


def test_price():
    assert price(1_000, 1_800.0, 0.04) == pytest.approx(20.0)
