"""Python processes forked from one that has imported everything, where a test needs a process.

A new process of this package imports for a second and more, and the suite starts a hundred of them.
``run`` and ``Popen`` take what those of :mod:`subprocess` take, for commands of the form
``[sys.executable, "-m" or "-c" or a script, …]``. Where imports are what is tested, or variables
that are read while importing, or memory, tests take :mod:`subprocess`.
"""

import atexit
import functools
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import types
from pathlib import Path

TESTS = Path(__file__).resolve().parent
IMPORTED = (
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "pyarrow.parquet",
    "scipy.optimize",
    "scipy.stats",
)


class Connection:
    """Messages between a test and the server, with the files that belong to them."""

    def __init__(self, end):
        self.end = end

    def send(self, message, files=()):
        data = json.dumps(message).encode()
        socket.send_fds(self.end, [len(data).to_bytes(8, "big")], files)
        self.end.sendall(data)

    def receive(self):
        """Return the next message and its files, or None at the end."""
        size, files, *_ = socket.recv_fds(self.end, 8, 3)
        if not size:
            return None, []
        data = b""
        while len(data) < int.from_bytes(size, "big"):
            data += self.end.recv(1 << 20)
        return json.loads(data), files


@functools.cache
def connect():
    """Start the process that the others are forked from; it ends with this one."""
    ours, theirs = socket.socketpair()
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(TESTS.parent / "src"), str(TESTS), *filter(None, found)]
    server = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,  # a Ctrl-C at the terminal is for the tests
    )
    theirs.close()

    def end():
        ours.close()
        server.wait()

    atexit.register(end)
    return Connection(ours)


class ForkedPopen(subprocess.Popen):
    """A process that is a child of the server, and is waited for through it."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more):
        pipes, start_new_session = more[3:9], more[-2]
        request = {
            "arguments": [os.fspath(argument) for argument in args[1:]],
            "folder": os.fspath(cwd or Path.cwd()),
            "variables": dict(os.environ if env is None else env),
            "session": bool(start_new_session),
        }
        given = (pipes[0], pipes[3], pipes[5])
        server = connect()
        server.send(request, [own if file == -1 else file for own, file in enumerate(given)])
        self.pid = server.receive()[0]
        self._end = os.pidfd_open(self.pid)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _try_wait(self, wait_flags):
        patience = 0.0 if wait_flags & os.WNOHANG else None
        if not select.select([self._end], [], [], patience)[0]:
            return 0, 0
        os.close(self._end)
        server = connect()
        server.send({"ended": self.pid})
        return self.pid, server.receive()[0]

    def _internal_poll(self, *_, **__):
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


Popen = ForkedPopen if sys.platform == "linux" else subprocess.Popen


def run(command, *, input=None, capture_output=False, check=False, **options):  # noqa: A002
    """Like ``subprocess.run``."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        out, err = process.communicate(input)
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def serve(connection):
    """Fork for every request; return what a forked process has to run, and None in the end."""
    while True:
        request, files = connection.receive()
        if request is None:
            return None
        if "ended" in request:
            connection.send(os.waitpid(request["ended"], 0)[1])
            continue
        pid = os.fork()
        if pid == 0:
            connection.end.close()
            _become(request, files)
            return request["arguments"]
        for file in files:
            os.close(file)
        connection.send(pid)


def _become(request, files):
    """Take over files, variables and folder, as if just started."""
    if request["session"]:
        os.setsid()
    for own, file in enumerate(files):
        os.dup2(file, own)
    for file in set(files) - {0, 1, 2}:
        os.close(file)
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [path for path in paths if path not in sys.path]
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def interpret(arguments):
    """Do what the interpreter does with its arguments."""
    while arguments[0] in ("-W", "-X"):
        if arguments[0] == "-W":
            sys.warnoptions.append(arguments[1])
            importlib.import_module("warnings").simplefilter(arguments[1])
        arguments = arguments[2:]
    first, *rest = arguments
    if first == "-m":
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path.insert(0, str(Path(first).resolve().parent))
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def import_all():
    """Import the package, all of it, and what it imports late."""
    package = importlib.import_module("influential_bandits")
    for module in pkgutil.walk_packages(package.__path__, "influential_bandits."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in IMPORTED:
        importlib.import_module(name)


if __name__ == "__main__":
    import_all()
    task = serve(Connection(socket.socket(fileno=int(sys.argv[1]))))
    if task is not None:
        interpret(task)
