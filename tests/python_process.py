"""Python in a process of its own, where a test needs one: what it prints, if all went well."""

import os
import subprocess
import sys


def run_python(code, *arguments, start=subprocess.run, **variables):
    """Run code, by ``forked.run`` where imports are not what is tested; return what it prints."""
    done = start(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr or f"killed by signal {-done.returncode}"
    return done.stdout
