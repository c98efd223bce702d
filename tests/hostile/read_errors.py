"""Errors on reading that say nothing about the file: no good piece may vanish."""

import builtins
import contextlib
import errno
import io
import os
import resource
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from hostile.judging import prepared, tell
from hostile.pieces import RUNS, finished, piece_files, require_pieces, run_again
from influential_bandits.errors import InfluentialBanditsError

NOBODY = 65534


def play(draw, home):
    """Run again on a finished folder while files cannot be read, and once more when they can."""
    kind = draw.choice(sorted(RUNS))
    trouble = draw.choice((no_descriptors, no_permission, input_error))
    source, expected = finished(kind)
    _warm(kind)
    out = home / "out"
    shutil.copytree(source, out)
    _open_to_all(home)
    files = draw.sample(piece_files(out), draw.choice((1, 2)))
    spare = draw.randrange(12)
    tell(f"{kind}: {trouble.__name__}, {[f.name for f in files]}, {spare}")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: require_pieces(out, piece_files(source)))
        with trouble(files, spare) as number:
            try:
                RUNS[kind](out)
            except InfluentialBanditsError:
                pass
            except OSError as error:  # an honest word, too
                if error.errno != number:
                    raise
    run_again(kind, out, expected, piece_files(source))


@prepared
def _warm(kind):
    """Load all that is loaded late, for which descriptors are needed, too."""
    out = finished(kind)[0]
    copy = out.with_name(f"{out.name} {os.getpid()}")
    shutil.copytree(out, copy)
    RUNS[kind](copy)
    shutil.rmtree(copy)


def _open_to_all(home):
    home.chmod(0o755)
    home.parent.chmod(0o755)
    for path in home.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)


@contextlib.contextmanager
def no_descriptors(files, spare):
    """Leave a few descriptors to open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(entry.name) for entry in Path("/dev/fd").iterdir()) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare % 5, before[1]))
    try:
        yield errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def no_permission(files, spare):
    """Take away the right to read some pieces, from the superuser too."""
    for file in files:
        file.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield errno.EACCES
    finally:
        if root:
            os.seteuid(0)
        for file in files:
            if file.exists():
                file.chmod(0o666)


@contextlib.contextmanager
def input_error(files, spare):
    """Let the disk fail where some pieces are, however they are opened in Python."""
    names = {str(file) for file in files}

    def failing(function):
        def opened(path, *arguments, **named):
            if str(path) in names:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return function(path, *arguments, **named)

        return opened

    places = [(builtins, "open"), (io, "open"), (os, "open")]
    places += [(pq, name) for name in ("read_table", "read_schema", "read_metadata", "ParquetFile")]
    before = [(module, name, getattr(module, name)) for module, name in places]
    try:
        for module, name, function in before:
            setattr(module, name, failing(function))
        yield errno.EIO
    finally:
        for module, name, function in before:
            setattr(module, name, function)
