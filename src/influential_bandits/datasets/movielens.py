"""MovieLens: who rated which film when, as a log of genres and losses."""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.datasets.download import TERMS
from influential_bandits.errors import InvalidInput, InvalidLog, MissingFile
from influential_bandits.logs.columns import Codes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.temporary import TemporaryFolder
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import kernel

SHOWN = 3  # files named in a message
NO_GENRE = "(no genres listed)"
WORST_LOSS = 4.5  # of ½ star, where the best are 5
COLUMNS = ("userId", "movieId", "rating", "timestamp")
USED = {"ratings.csv", "ratings.dat", "movies.csv", "movies.dat", "readme.txt"}  # of a zip


def movielens(
    path: str | os.PathLike[str],
    *,
    choose: str = "fractional",
    seed: int = 0,
    progress: bool | None = None,
) -> EventLog:
    r"""Read a MovieLens release: users are instances, films are items, genres are arms.

    The loss of a rating is 5 − rating. Arms are sorted by name and are those of all films that the
    release lists, rated or not; "(no genres listed)" is one of them. Users and films are sorted by
    their ids, and ratings of the same second stay in file order.

    Parameters
    ----------
    path : path
        A folder or a zip with ``ratings.csv`` and ``movies.csv`` (ml-32m, ml-25m, ml-20m,
        ml-latest, ml-latest-small), or ``ratings.dat`` and ``movies.dat`` (ml-10m, ml-1m). They may
        lie in a sub-folder. What is needed of a zip is unpacked into temporary files.
    choose : "fractional" or "random"
        What becomes of a film of several genres, see :class:`Membership`.
    seed : int
        Of the random choice.
    progress : bool, optional
        Show a progress bar: True at once, False never, None if it takes long.

    Returns
    -------
    EventLog
        Its ``about`` says the source, the release and the conversion. ``log.at_least(20)`` leaves
        users of fewer ratings out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "movies.csv").write_text(
    ...         "movieId,title,genres\n1,Alien (1979),Horror|Sci-Fi\n2,Heat (1995),Crime\n"
    ...     )
    ...     _ = (Path(folder) / "ratings.csv").write_text(
    ...         "userId,movieId,rating,timestamp\n1,1,4.5,1000\n1,2,3.0,900\n2,2,5.0,950\n"
    ...     )
    ...     log = movielens(folder)
    >>> log
    EventLog(3 events, 2 instances, 3 arms, items of several arms)
    >>> log.arm_names
    ('Crime', 'Horror', 'Sci-Fi')
    >>> log.history(1).loss
    array([2. , 0.5])
    """
    with _unpacked(path) as folder:
        release = _find_release(Path(path), folder)
        movies = _read_movies(release.movies)
        log = _read_ratings(release.ratings, movies, choose, seed, progress)
    about = {
        "source": str(path),
        "release": release.name,
        "conversion": "loss = 5 − rating",
        "choose": choose,
        "seed": seed,
        "users": log.n_instances,
        "ratings": log.n_events,
    } | ({} if release.name == "unknown" else {"terms": TERMS})
    log.about.clear()
    log.about.update(about)
    return log


# --- Files ---


class _Release(NamedTuple):
    name: str
    ratings: Path
    movies: Path


@contextmanager
def _unpacked(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the folder of a release; what is read of a zip lies in a temporary one."""
    try:
        source = Path(path)
    except TypeError:
        raise InvalidInput(f"expected the path of a folder or a zip, got {path!r:.80}") from None
    if source.is_dir():
        yield source
        return
    if not source.is_file():
        raise MissingFile(f"there is no folder and no file {str(source)!r}")
    with _temporary_folder() as folder:
        _unpack(source, folder)
        yield folder


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    temporary = TemporaryFolder()
    try:
        yield Path(temporary.folder.address)
    finally:
        temporary.remove()


def _unpack(source: Path, folder: Path) -> None:
    """Unpack the files that are read, or say in one line why that is not possible."""
    if source.suffix.lower() in {".csv", ".dat"}:
        raise InvalidLog(f"{str(source)!r} is a single file; pass the folder that it lies in")
    try:
        with zipfile.ZipFile(source) as archive:
            names = archive.namelist()
            used = [name for name in names if PurePosixPath(name).name.lower() in USED]
            archive.extractall(folder, used)
    # Cut off, damaged, encrypted, packed in a way that Python does not know, or no room for it.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise InvalidLog(
            f"{str(source)!r} cannot be unpacked: {str(error) or 'it ends early'}; get it again, "
            "or unpack it and pass the folder"
        ) from None


def _find_release(path: Path, folder: Path) -> _Release:
    ratings, movies = _find(path, folder, "ratings"), _find(path, folder, "movies")
    if ratings is None and movies is not None:
        raise InvalidLog(f"{str(path)!r} has {movies.name} but no ratings; get the whole release")
    if ratings is None:
        raise InvalidLog(f"{str(path)!r} has neither ratings.csv nor ratings.dat")
    movies = _find(path, ratings.parent, "movies", ratings.suffix.lower())
    if movies is None:
        raise InvalidLog(
            f"{str(path)!r} has {ratings.name} but beside it no movies{ratings.suffix.lower()}, "
            "which says the genres; get the whole release"
        )
    return _Release(_name_release(path, ratings.parent), ratings, movies)


def _find(path: Path, folder: Path, stem: str, *endings: str) -> Path | None:
    """Return the file of this stem in a folder, else in its sub-folders, if there is one."""
    names = {f"{stem}{ending}" for ending in endings or (".csv", ".dat")}
    try:
        for depth in ("*", "*/*"):
            files = [file for file in sorted(folder.glob(depth)) if file.name.lower() in names]
            if len(files) > 1:
                shown = ", ".join(file.relative_to(folder).as_posix() for file in files[:SHOWN])
                more = ", …" if len(files) > SHOWN else ""
                raise InvalidLog(
                    f"{str(path)!r} has several releases: {shown}{more}; pass the folder of one"
                )
            if files:
                return files[0]
    except OSError as error:
        raise InvalidLog(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    return None


def _name_release(path: Path, folder: Path) -> str:
    """Recognise a release by what its README says, else by the names of folder and file."""
    texts = [folder.name, path.stem, path.resolve().name]
    for file in folder.iterdir():
        if file.name.lower() == "readme.txt":
            title = re.search(
                r"dataset \((ml-[\w-]+)\)", file.read_bytes().decode(errors="replace")
            )
            texts = [title.group(1)] if title else texts
    for text in texts:
        # ml-10m unpacks to a folder called ml-10M100K.
        known = re.match(r"ml-(32m|25m|20m|10m|1m|latest-small|latest)(?![a-z])", text.lower())
        if known:
            return known.group()
    return "unknown"


# --- Films ---


def _read_movies(path: Path) -> dict[str, list[str]]:
    """Return the genres of each film, films sorted by id."""
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # as ml-1m is
    movies: dict[int, list[str]] = {}
    try:
        for line, movie, genres in _split_movies(path, text):
            where = f"line {line} of {path.name}"
            if genres is None:
                raise InvalidLog(f"{where} has less than 3 fields")
            if not (movie.isascii() and movie.isdigit() and len(movie) < 20):
                raise InvalidLog(f"{where}: {movie!r:.40} is no number of a movie")
            if int(movie) in movies:
                raise InvalidLog(f"{where}: movie {movie} is listed a second time")
            several = {genre.strip() for genre in genres.split("|")} - {""}
            movies[int(movie)] = sorted(several) or [NO_GENRE]
    except csv.Error as error:
        raise InvalidLog(f"{path.name} is no table: {error}") from None
    if not movies:
        raise InvalidLog(f"{path.name} lists no movies")
    return {str(movie): movies[movie] for movie in sorted(movies)}


def _split_movies(path: Path, text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield line number, id and genres of each film; titles may hold anything."""
    if path.suffix.lower() == ".dat":
        for line, row in enumerate(text.splitlines(), 1):
            fields = row.split("::")
            yield line, fields[0], fields[-1] if len(fields) > 2 else None
        return
    header = text.partition("\n")[0].strip()
    separator = next((each for each in ";\t" if each in header), ",")  # ; in the release of 2015
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    if not {"movieId", "title", "genres"} <= set(reader.fieldnames or ()):
        raise InvalidLog(
            f"{path.name} must begin with the column names movieId,title,genres, but its first "
            f"line is {header!r:.80}"
        )
    for film in reader:
        yield reader.line_num, film["movieId"], film["genres"]


# --- Ratings ---


def _read_ratings(
    path: Path, movies: dict[str, list[str]], choose: str, seed: int, progress: bool | None
) -> EventLog:
    """Return the log of all ratings, users sorted by id."""
    user, movie, rating, time = COLUMNS
    options: dict[str, Any] = {
        "instance": user,
        "arm": movie,
        "time": time,
        "rating": rating,
        "best": 5.0,
        "time_unit": "s",
        "items": movies,
        "item": None,
        "choose": choose,
        "seed": seed,
        "progress": progress,
    }
    if path.suffix.lower() == ".dat":
        with _temporary_folder() as folder:
            copy = _copy_with_tabs(path, folder)
            log = read_log(copy, columns=COLUMNS, separator="\t", **options)
    else:
        log = read_log(path, **options)
    _check_ratings(path, log)
    order = np.argsort([int(user) for user in log.instances])
    return log if bool((order[1:] > order[:-1]).all()) else log.take(order)


def _copy_with_tabs(path: Path, folder: Path) -> Path:
    """Write numbers that two colons separate anew, separated by a tab, line by line."""
    copy = folder / path.name
    with path.open("rb") as old, copy.open("wb") as new:
        new.writelines(line.replace(b"::", b"\t") for line in old)
    return copy


def _check_ratings(path: Path, log: EventLog) -> None:
    """Raise for what no release has: other users, ratings beyond all stars, films rated twice."""
    for user in log.instances:
        if not (user.isascii() and user.isdigit() and (user == "0" or user[0] != "0")):
            raise InvalidLog(f"{path.name} has a user {user!r:.40}, which is no whole number")
    outside = np.count_nonzero((log.loss < 0.0) | (log.loss > WORST_LOSS))
    if outside:
        raise InvalidLog(f"{outside:,} of {len(log):,} ratings in {path.name} lie outside 0.5 … 5")
    event = _find_repeated(log.offsets, log.item, np.full(len(log.membership.items), -1))
    if event >= 0:
        user = log.instances[int(np.searchsorted(log.offsets, event, "right")) - 1]
        movie = log.membership.items[log.item[event]]
        raise InvalidLog(f"user {user} rates movie {movie} more than once in {path.name}")


@kernel
def _find_repeated(offsets: Ints, item: Codes, latest: Ints) -> int:
    """Return the first event of an item that its user had met before, or −1."""
    for u in range(offsets.size - 1):
        for n in range(offsets[u], offsets[u + 1]):
            if latest[item[n]] == u:
                return n
            latest[item[n]] = u
    return -1
