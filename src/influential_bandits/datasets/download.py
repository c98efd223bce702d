"""Downloads of MovieLens by pooch: verified, and in place only when whole."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from influential_bandits.errors import InvalidInput
from influential_bandits.execution.progress import Progress
from influential_bandits.packages import optional_module

OFFICIAL_BASE = "https://files.grouplens.org/datasets/movielens/"
TERMS = (
    "MovieLens data: cite Harper and Konstan, The MovieLens Datasets: History and Context, ACM "
    "TiiS 5(4), 2015; no commercial use and no redistribution without permission, see its README."
)
# Of the zips on the official server; those of ml-latest change, and have none.
OFFICIAL_MD5 = {
    "ml-32m": "d472be332d4daa821edc399621853b57",
    "ml-25m": "6b51fb2759a8657d3bfcbfc42b592ada",
    "ml-20m": "cd245b17a1ae2cc31bb14903e1204af3",
    "ml-10m": "ce571fd55effeba0271552578f2648bd",
    "ml-1m": "c4d9eecfca2ab87c1945afe126590906",
    "ml-latest": None,
    "ml-latest-small": None,
}
TIMEOUT = 30.0  # seconds without a byte
RETRIES = 3
PIECE = 1 << 16  # bytes


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
        The zip, for :func:`movielens`. It has the official md5 sum, where there is a fixed one.

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
    pooch, target = optional_module("pooch"), f"{name}.zip"
    md5 = OFFICIAL_MD5[name]
    store = pooch.create(
        os.environ.get("INFLUENTIAL_BANDITS_CACHE") or pooch.os_cache("influential-bandits")
        if cache is None
        else cache,
        f"{base.rstrip('/')}/",
        registry={target: None if md5 is None else f"md5:{md5}"},
        retry_if_failed=RETRIES,
    )
    if progress is not False and not (store.abspath / target).is_file():
        print(TERMS, file=sys.stderr)
    bar = _Bar(f"downloading {target}", 1, progress)
    get = pooch.HTTPDownloader(progressbar=bar, chunk_size=PIECE, timeout=TIMEOUT)
    with _explaining(store.get_url(target)):
        return Path(store.fetch(target, downloader=get))


class _Bar(Progress):
    """A progress bar as pooch expects one."""

    def update(self, size: int) -> None:
        """Count bytes; pooch says a whole piece where the last one may be smaller."""
        self.done = min(self.done + size, self.total)
        self.show()

    def reset(self) -> None:
        """Count from nothing, as for another file."""
        self.done = 0


@contextmanager
def _explaining(url: str) -> Iterator[None]:
    """Keep pooch from telling what it does, and say in one sentence what went wrong."""
    logger: logging.Logger = optional_module("pooch").get_logger()
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    except optional_module("requests").RequestException as error:
        reason = str(error).partition(" for url")[0]  # of a chain of errors the last words say most
        raise InvalidInput(f"{url} could not be downloaded: {reason[-150:]}") from None
    except OSError as error:
        raise InvalidInput(f"{url} could not be saved: {error!s:.200}") from None
    except ValueError as error:  # a wrong sum; pooch has removed what came
        raise InvalidInput(f"{url} could not be downloaded: {error!s:.180}") from None
    finally:
        logger.setLevel(before)
