"""How much memory there is, and what is refused before it is taken."""

import pytest
from python_process import run_python

import influential_bandits as ib
from influential_bandits.free_memory import available_memory, require_memory


def test_memory_is_stated_before_it_is_taken():
    require_memory(1, "a byte", "take none")
    with pytest.raises(
        ib.errors.InvalidInput, match=r"a planet would .* 1,048,576 TB .*: take a moon"
    ):
        require_memory(2**60, "a planet", "take a moon")


def test_the_memory_of_containers_counts(tmp_path):
    system = available_memory()
    assert 2**20 < system < 2**50
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.stat").write_text("anon 100\nfile 5\n")
    assert available_memory(tmp_path) > 2**20
    (tmp_path / "memory.max").write_text("1100\n")
    assert available_memory(tmp_path) == 1000.0
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("500\n")
    assert available_memory(tmp_path) == 500.0


def test_a_limit_of_the_process_counts():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
        "from influential_bandits.free_memory import available_memory\n"
        "print(available_memory() / 2**30)"
    )
    assert 0.5 < float(run_python(code)) < 8.0
