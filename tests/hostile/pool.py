"""Workers that survive what they are given, and a replacement for those that do not."""

import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from hostile.judging import CRASH, HANG, Verdict
from hostile.subjects import SUBJECTS

TESTS = Path(__file__).resolve().parent.parent
PREPARING = 600.0  # seconds: kernels may have to be compiled


class Worker:
    """A process that plays cases; started when it is needed, and again after its death."""

    def __init__(self, shared, source):
        self.shared, self.source, self.process = shared, source, None

    def start(self):
        self.errors = tempfile.TemporaryFile("w+", dir=self.shared)  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hostile.worker", str(self.shared)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,  # what is read ahead would hide from select
            cwd=self.shared,
            env=os.environ | {"PYTHONPATH": f"{self.source}{os.pathsep}{TESTS}"},
            start_new_session=True,
        )

    def close(self):
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # with all that the case has started
            self.process.communicate()
            self.errors.close()
            self.process = None

    def judge(self, subject, seed, number):
        """Return the verdict on a case, whatever it does to the process."""
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps([subject, seed, number]).encode() + b"\n")
        about, until = "", time.monotonic() + PREPARING  # up to the first sign of life: imports
        while select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            line = self.process.stdout.readline()
            if not line:
                return self._dead(subject, seed, number, about)
            message = json.loads(line)
            if "verdict" in message:
                return Verdict(*message["verdict"])._replace(about=about)
            about = message.get("about", about)
            slow = message.get("preparing", False)
            until = time.monotonic() + (PREPARING if slow else SUBJECTS[subject].seconds)
        self.close()
        detail = f"no end after {SUBJECTS[subject].seconds:.0f} s"
        return Verdict(subject, seed, number, HANG, about, detail)

    def _dead(self, subject, seed, number, about):
        code = self.process.wait()
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - 400))
        said = self.errors.read().strip()
        self.close()
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Verdict(subject, seed, number, CRASH, about, f"{name} {said}".strip()[:300], said)


def play_all(cases, report, *, workers, source):
    """Play cases, each (subject, seed, number), and report every verdict as it comes."""
    shared = Path(tempfile.mkdtemp(prefix="hostile-"))
    waiting, lock = queue.SimpleQueue(), threading.Lock()
    for case in cases:
        waiting.put(case)

    def work(worker):
        try:
            while not stopped.is_set():
                verdict = worker.judge(*waiting.get_nowait())
                with lock:
                    report(verdict)
        except queue.Empty:
            pass
        finally:
            worker.close()

    stopped = threading.Event()
    crew = [Worker(shared, source) for _ in range(workers)]
    threads = [threading.Thread(target=work, args=(worker,)) for worker in crew]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        stopped.set()
        for worker in crew:
            worker.close()
        raise
    finally:
        shutil.rmtree(shared, ignore_errors=True)
