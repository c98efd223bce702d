"""Download large files over HTTP: continued where they broke off, verified, in place when whole."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from email.message import Message
from pathlib import Path
from typing import IO, Any

from influential_bandits.datasets.archive import sums_in
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.progress import Progress
from influential_bandits.files import read_json, write_json

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
PIECE = 1 << 18  # bytes read at a time
SHORT = 1 << 16  # bytes that a list of checksums has at most
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
    """Download a file; an attempt that broke off, even of an earlier day, is continued.

    Bytes go to ``target.part``, and notes on them to ``target.part.json``. What is there already is
    asked for again only if the server cannot send the rest, or if its file has changed since. The
    target appears at the end, whole and verified.

    Parameters
    ----------
    url : str
        Of http or https; redirections are followed.
    target : path
        Its folder is made if need be. A file that is there already stays as it is if it has the md5
        sum, or if none was given; else it is replaced.
    md5 : str, optional
        The sum that the file must have.
    progress : bool, optional
        Show a progress bar: True at once, False never, None if it takes long.
    waits : sequence of float
        Seconds to wait before each new attempt when the connection breaks.
    timeout : float
        Seconds without a byte after which a connection counts as broken.

    Returns
    -------
    Path
        The target.

    Examples
    --------
    >>> download("ftp://example.org/ml-32m.zip", "ml-32m.zip")
    Traceback (most recent call last):
    ...
    influential_bandits.errors.InvalidInput: only http and https can be downloaded, got 'ftp://...'
    """
    _require_http(url)
    goal = Path(target)
    with _writing(goal):
        if goal.is_dir():
            raise InvalidInput(f"{str(goal)!r} is a folder; name the file to download to")
        if goal.is_file() and (md5 is None or _md5(goal) == md5.lower()):
            return goal
        goal.parent.mkdir(parents=True, exist_ok=True)
    job = _Download(url, goal, md5, progress, timeout)
    _with_patience(job.attempt, waits, url)
    return job.finish()


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
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "influential-bandits"


def _published_md5(url: str) -> str | None:
    """Return the md5 sum that stands beside a file on its server, if it can be had."""
    _require_http(url)
    try:
        with _opened(f"{url}.md5", {}, TIMEOUT) as answer:
            text = answer.read(SHORT).decode("ascii", "replace")
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        return None
    return sums_in(text).get(url.rsplit("/", 1)[1])


class _Download:
    """One file on its way: what is there, and what the server said of it."""

    def __init__(
        self, url: str, target: Path, md5: str | None, progress: bool | None, timeout: float
    ) -> None:
        self.url, self.target, self.timeout = url, target, timeout
        self.md5 = None if md5 is None else md5.lower()
        self.part = target.with_name(f"{target.name}.part")
        self.notes = target.with_name(f"{target.name}.part.json")
        self.progress = progress

    def attempt(self) -> None:
        """Get what is missing; a connection that breaks raises, and leaves what came."""
        noted, have = self._noted()
        headers = {}
        if have:
            headers["Range"] = f"bytes={have}-"
            if noted["validator"]:
                headers["If-Range"] = noted["validator"]
        try:
            answer = _opened(self.url, headers, self.timeout)
        except urllib.error.HTTPError as error:
            if not have or error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            error.close()
            if error.headers.get("Content-Range", "") != f"bytes */{have}":
                self._forget()
                self.attempt()
            return  # otherwise all of it had come
        with answer:
            if have and not _continues(answer, noted, have):
                if answer.status == http.client.PARTIAL_CONTENT:
                    self._forget()  # it sends the rest of another file
                    answer.close()
                    self.attempt()
                    return
                have = 0
            self._receive(answer, have)

    def _noted(self) -> tuple[dict[str, Any], int]:
        """Return the notes on the part, and how much of it may be continued."""
        try:
            noted = read_json(self.notes)
            have = self.part.stat().st_size
            same = noted["url"] == self.url and (noted["validator"] or self.md5)
        except (OSError, ValueError, KeyError, TypeError):
            return {}, 0
        return noted, have if same else 0

    def _forget(self) -> None:
        with _writing(self.part):
            self.notes.unlink(missing_ok=True)
            self.part.unlink(missing_ok=True)

    def _receive(self, answer: Any, have: int) -> None:
        """Append the answer to the first bytes of the part, or begin it."""
        length = answer.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        with _writing(self.part):
            if not have:
                validator = _validator(answer.headers)
                noted = {"url": self.url, "validator": validator, "length": total}
                write_json(self.notes, noted)
            out = self.part.open("ab" if have else "wb")
        bar = Progress(f"downloading {self.target.name}", total or 0, self.progress)
        done = have
        try:
            with _flushed(out, self.part):
                for piece in iter(lambda: answer.read(PIECE), b""):
                    with _writing(self.part):
                        out.write(piece)
                    done += len(piece)
                    bar.done, bar.total = done, max(bar.total, done)
                    bar.show()
        finally:
            bar.close()
        if total is not None and done < total:
            raise ConnectionError(f"it ended after {done:,} of {total:,} bytes")

    def finish(self) -> Path:
        """Verify the part and move it into place."""
        noted, size = self._noted()
        with _writing(self.target):
            if size and noted["length"] not in {None, size}:
                self._forget()
                raise InvalidInput(
                    f"{self.url} sent {size:,} bytes instead of {noted['length']:,}; they were "
                    "deleted: try again"
                )
            found = _md5(self.part) if self.md5 else None
            if found != self.md5:
                self._forget()
                raise InvalidInput(
                    f"what {self.url} sent has md5 {found} instead of {self.md5}; it was deleted: "
                    "try again, or from another place"
                )
            with self.part.open("rb+") as file:
                os.fsync(file.fileno())
            self.part.replace(self.target)
            self.notes.unlink(missing_ok=True)
        return self.target


def _continues(answer: Any, noted: dict[str, Any], have: int) -> bool:
    """Tell whether an answer begins after the bytes that are there, in the same file."""
    if answer.status != http.client.PARTIAL_CONTENT:
        return False
    said = re.fullmatch(
        r"bytes (\d+)-(\d+)/(\d+|\*)", answer.headers.get("Content-Range", "").strip()
    )
    if said is None or int(said[1]) != have:
        return False
    if said[3] != "*" and noted["length"] not in {None, int(said[3])}:
        return False
    now = _validator(answer.headers)
    return now is None or noted["validator"] in {None, now}


def _validator(headers: Message) -> str | None:
    """Return what tells one state of a file from another; a weak tag may not stand for bytes."""
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _with_patience(attempt: Callable[[], None], waits: Sequence[float], url: str) -> None:
    """Attempt until it works, as often as there are waits; say what the matter is if it never does.

    Only what may pass is tried again: a broken connection, a server that is overloaded.
    """
    for wait in (*waits, None):
        try:
            return attempt()
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server answers {error.code} {error.reason}"
            passing = error.code in PASSING
        except urllib.error.URLError as error:
            passing = not isinstance(error.reason, ssl.SSLCertVerificationError)
            reason = str(getattr(error.reason, "strerror", None) or error.reason)
            if not passing:
                reason = "its certificate cannot be verified; get the file by other means"
        except (OSError, http.client.HTTPException) as error:
            passing, reason = True, f"the connection broke ({error or type(error).__name__})"
        if wait is None or not passing:
            raise InvalidInput(f"{url} could not be downloaded: {' '.join(reason.split()):.150}")
        time.sleep(wait)
    return None


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follow redirections to the web only, and not from a safe connection to an open one."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request that follows."""
        if not newurl.startswith("https:" if req.full_url.startswith("https:") else "http"):
            fp.close()
            raise InvalidInput(
                f"{req.full_url} redirects to {newurl!r:.100}, which is not followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str, headers: dict[str, str], timeout: float) -> Any:
    """Open a URL with the handlers of the web alone: no files, no ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirections(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    asked = {"User-Agent": "influential-bandits", "Accept-Encoding": "identity"} | headers
    return opener.open(urllib.request.Request(url, headers=asked), timeout=timeout)


def _require_http(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except (ValueError, AttributeError, TypeError):
        good = False
    if not good or re.search(r"[\s\x00-\x1f]", url):
        raise InvalidInput(f"only http and https can be downloaded, got {url!r:.120}")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tell trouble with the disk from trouble with the connection, which is an OSError too."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{str(path)!r} cannot be written: {error.strerror or error}; what came before is kept"
        ) from None


@contextlib.contextmanager
def _flushed(out: IO[bytes], path: Path) -> Iterator[None]:
    """Close a file whatever happens; the last bytes may find the disk full."""
    try:
        yield
    finally:
        with _writing(path):
            out.close()


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
