"""Downloads of data sets by pooch: verified, in place when whole, continued where they broke."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from influential_bandits.checks import optional_module
from influential_bandits.datasets.archive import sums_in
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.progress import Progress

__all__ = ["OFFICIAL_BASE", "TERMS", "download", "fetch_movielens"]

OFFICIAL_BASE = "https://files.grouplens.org/datasets/movielens/"
TERMS = (
    "MovieLens data: cite Harper and Konstan, The MovieLens Datasets: History and Context, ACM "
    "TiiS 5(4), 2015; no commercial use and no redistribution without permission, see its README."
)
# Of the zips on the official server; those of ml-latest change, and stand beside them only.
OFFICIAL_MD5 = {
    "ml-32m": "d472be332d4daa821edc399621853b57",
    "ml-25m": "6b51fb2759a8657d3bfcbfc42b592ada",
    "ml-20m": "cd245b17a1ae2cc31bb14903e1204af3",
    "ml-10m": "ce571fd55effeba0271552578f2648bd",
    "ml-1m": "c4d9eecfca2ab87c1945afe126590906",
    "ml-latest": None,
    "ml-latest-small": None,
}

WAITS = (1.0, 3.0, 9.0)  # seconds before the second attempt, the third, …
TIMEOUT = 30.0  # seconds without a byte
PIECE = 1 << 14  # bytes read at a time, and lost when a connection breaks
PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers that another attempt may better


def download(
    url: str,
    target: str | os.PathLike[str],
    *,
    md5: str | None = None,
    progress: bool | None = None,
    waits: Sequence[float] = WAITS,
    timeout: float = TIMEOUT,
) -> Path:
    """Download a file; with an md5 sum, an attempt that broke off, even of an earlier day, goes on.

    Bytes go to ``target.part``. The target appears at the end, whole and verified, in a folder that
    is made if need be. One that is there already stays if it has the md5 sum, or if none is given;
    else it is replaced. Redirections are followed, but not from https to http. Each new attempt
    waits as long as ``waits`` says; ``timeout`` is in seconds without a byte.

    Examples
    --------
    >>> download("ftp://example.org/ml-32m.zip", "ml-32m.zip")
    Traceback (most recent call last):
    ...
    influential_bandits.errors.InvalidInput: only http and https can be downloaded, got 'ftp://...'
    """
    if not re.match(r"https?://[^\s\[/]+(/\S*)?$", str(url)):
        raise InvalidInput(f"only http and https can be downloaded, got {url!r:.120}")
    goal = Path(target)
    if goal.is_dir():
        raise InvalidInput(f"{str(goal)!r} is a folder; name the file to download to")
    job = _Download(goal, md5 is not None, progress, waits, timeout)
    digest = None if md5 is None else f"md5:{md5.lower()}"
    while True:
        continued = job.size > 0
        try:
            with _quiet(), _writing(goal):
                optional_module("pooch").retrieve(url, digest, goal.name, goal.parent, None, job)
        except InvalidInput:
            raise
        except ValueError as error:  # what came has another sum, and was deleted
            if not continued:
                found = str(error).partition("but got ")[2][:32]
                raise InvalidInput(
                    f"what {url} sent has md5 {found} instead of {md5}; it was deleted: try again, "
                    "or from another place"
                ) from None
        else:
            return goal


def fetch_movielens(
    release: str,
    cache: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    base: str = OFFICIAL_BASE,
) -> Path:
    """Download the zip of a MovieLens release, unless it is in the cache already.

    Parameters
    ----------
    release : str
        "ml-32m", "ml-25m", "ml-20m", "ml-10m", "ml-1m", "ml-latest" or "ml-latest-small", also
        without the "ml-".
    cache : path, optional
        The folder to keep it in; by default the environment's ``INFLUENTIAL_BANDITS_CACHE``, or the
        user's cache folder.
    progress : bool, optional
        Show a progress bar: True at once, False never, None if it takes long. Unless False, the
        terms of use are written to stderr when a download begins.
    base : str
        Where the zips are; the official server by default.

    Returns
    -------
    Path
        The zip, for :func:`movielens`. It has the official md5 sum, where there is a fixed one or
        one beside it on the server.

    Examples
    --------
    >>> fetch_movielens("3m")
    Traceback (most recent call last):
    ...
    influential_bandits.errors.InvalidInput: there is no MovieLens release '3m'; there are ...
    """
    name = f"ml-{str(release).lower().removeprefix('ml-')}"
    if name not in OFFICIAL_MD5:
        raise InvalidInput(
            f"there is no MovieLens release {release!r}; there are {', '.join(OFFICIAL_MD5)}"
        )
    folder = _cache_folder() if cache is None else Path(cache)
    target, url = folder / f"{name}.zip", f"{base.rstrip('/')}/{name}.zip"
    md5 = OFFICIAL_MD5[name] or _published_md5(url)
    if progress is not False and not target.is_file():
        print(TERMS, file=sys.stderr)
    return download(url, target, md5=md5, progress=progress)


def _cache_folder() -> Path:
    """Return the folder for downloads: the environment's, or what the system has for such."""
    chosen = os.environ.get("INFLUENTIAL_BANDITS_CACHE")
    return Path(chosen or optional_module("pooch").os_cache("influential-bandits"))


def _published_md5(url: str) -> str | None:
    """Return the md5 sum that stands beside a file on its server, if it can be had."""
    requests = optional_module("requests")
    try:
        answer = requests.get(f"{url}.md5", timeout=TIMEOUT)
        answer.raise_for_status()
    except (requests.RequestException, ValueError):
        return None
    return sums_in(answer.text).get(url.rsplit("/", 1)[1])


class _Download:
    """How pooch gets a file: what came before is kept, and the rest is asked for."""

    def __init__(
        self,
        target: Path,
        keeping: bool,
        progress: bool | None,
        waits: Sequence[float],
        timeout: float,
    ) -> None:
        self.part = target.with_name(f"{target.name}.part")
        self.label = f"downloading {target.name}"
        self.keeping, self.progress, self.waits, self.timeout = keeping, progress, waits, timeout
        self.total = 0  # bytes of the whole file, as far as the server says

    @property
    def size(self) -> int:
        """How many bytes can be continued: without a sum to check nobody knows of which file."""
        return self.part.stat().st_size if self.keeping and self.part.is_file() else 0

    def __call__(self, url: str, output: str, _: object) -> None:
        """Attempt until it works, as often as there are waits, where the trouble may pass."""
        requests = optional_module("requests")
        for wait in (*self.waits, None):
            try:
                self._attempt(requests, url)
                break
            except requests.HTTPError as error:
                passing = error.response.status_code in PASSING
                reason = f"the server answers {error.response.status_code} {error.response.reason}"
            except requests.exceptions.SSLError:
                passing = False
                reason = "its certificate cannot be verified; get the file by other means"
            except (requests.TooManyRedirects, requests.exceptions.InvalidSchema) as error:
                passing, reason = False, f"it redirects elsewhere ({error})"
            except requests.RequestException as error:
                passing, reason = True, f"the connection broke ({self._progress(error)})"
            if wait is None or not passing:
                if not self.keeping:
                    self.part.unlink(missing_ok=True)
                raise InvalidInput(f"{url} could not be downloaded: {reason:.150}")
            time.sleep(wait)
        self.part.replace(output)

    def _progress(self, error: Exception) -> str:
        """Return how far it came, or else the last words of a chain of errors."""
        if self.total and self.part.is_file():
            return f"it ended after {self.part.stat().st_size:,} of {self.total:,} bytes"
        return str(error).rstrip("'\")>").rpartition(": ")[2]

    def _attempt(self, requests: Any, url: str) -> None:
        """Get what is missing; a connection that breaks raises, and leaves what came."""
        have = self.size
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as answer:
            if url.startswith("https:") and not answer.url.startswith("https:"):
                raise InvalidInput(f"{url} redirects to {answer.url!r:.100}, which is not followed")
            said = answer.headers.get("Content-Range", "")
            if answer.status_code == 416 and said == f"bytes */{have}":
                return None  # all of it had come
            continues = answer.status_code == 206 and said.startswith(f"bytes {have}-")
            if have and answer.status_code in {206, 416} and not continues:
                self.part.unlink()
                return self._attempt(requests, url)
            answer.raise_for_status()
            self._receive(answer, have if continues else 0)
        return None

    def _receive(self, answer: Any, have: int) -> None:
        length = answer.headers.get("Content-Length", "")
        self.total = have + int(length) if length.isdigit() else 0
        bar = Progress(self.label, self.total, self.progress)
        bar.done = have
        try:
            with self.part.open("ab" if have else "wb") as file:
                for piece in answer.iter_content(PIECE):
                    file.write(piece)
                    bar.done += len(piece)
                    bar.total = max(self.total, bar.done)
                    bar.show()
        finally:
            bar.close()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say that the disk is the trouble; of the connection is told before."""
    try:
        yield
    except OSError as error:
        # pooch wraps what the system said into an error with two sentences of its own.
        told = error.__cause__ if isinstance(error.__cause__, OSError) else error
        why = told.strerror or (os.strerror(told.errno) if told.errno else told)
        raise InvalidInput(
            f"{error.filename or str(path)!r} cannot be written: {why}; what came before is kept"
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pooch from telling what it does: we have a progress bar."""
    logger: logging.Logger = optional_module("pooch").get_logger()
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
