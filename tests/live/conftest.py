"""What tests of the service share: a PostgreSQL server, and one store of each kind."""

import os

import pytest

from benchmarks.live.postgres import PostgresServer, find_program


@pytest.fixture(scope="session")
def postgres():
    """A server for the session; outside CI, tests that need one are skipped where there is none."""
    if find_program("initdb") is None and "CI" not in os.environ:
        pytest.skip("PostgreSQL's server is not installed")
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    """The address of an empty store: both kinds, one after the other."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return request.getfixturevalue("postgres").new_database()
