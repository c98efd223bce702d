"""A PostgreSQL server of one's own: in a temporary folder, reached over a socket in it."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

OTHER_USER = "postgres"  # the server refuses to run as root


def find_program(name):
    """Return the path of one of PostgreSQL's programs, or None; Debian keeps them off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


class PostgresServer:
    """A server that is there until it is closed."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ib-pg-"))
        self._user = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam(OTHER_USER)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self._data = self.folder / "data"
        self._databases = 0
        try:
            self._run("initdb", "-D", self._data, "-A", "trust", "-U", "tester", "-E", "UTF8")
            self.start()
        except BaseException:
            self.close()
            raise

    def _run(self, program, *arguments):
        command = [find_program(program), *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self._user,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}")

    def start(self):
        options = f"-c listen_addresses='' -c max_connections=50 -k {self.folder}"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self._data, "-w", "-t", 60, "-l", log, "-o", options, "start")

    def stop(self, mode="immediate"):
        """End the server; immediate is as if it had been killed."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def restart(self):
        """End the server as if it had been killed, and start it again."""
        self.stop()
        self.start()

    @property
    def pid(self):
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def processes(self):
        """Return the identifiers of the server's processes."""
        first = self.pid
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def address(self, database):
        return f"postgresql://tester@/{database}?host={self.folder}"

    def new_database(self):
        """Return the address of an empty database."""
        import psycopg

        self._databases += 1
        name = f"live{self._databases}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def close(self):
        try:
            os.kill(self.pid, signal.SIGQUIT)
            self.stop()
        except (OSError, ValueError, RuntimeError):
            pass  # it does not run
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
