"""MovieLens: who rated which film when, as a log of genres and losses."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module, whole_number
from influential_bandits.datasets.archive import Archive, Watched, join_path
from influential_bandits.datasets.download import TERMS
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.log import EventLog, sort_into_log
from influential_bandits.logs.log_builder import GrowingColumn
from influential_bandits.logs.membership import Membership
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

__all__ = ["movielens", "movielens_genres"]

Numbers32 = npt.NDArray[np.int32]

LARGEST_TABLE = 1 << 26  # ids below are numbered by a table, larger ones by searching
SHOWN = 3  # lines named in a message
NO_GENRE = "(no genres listed)"
LEAST_RATING, BEST_RATING = 0.5, 5.0
COLUMNS = {"userid": "user", "movieid": "movie", "rating": "rating", "timestamp": "time"}
DAT_COLUMNS = ("user", "_1", "movie", "_2", "rating", "_3", "time")  # "::" holds an empty field


def movielens(
    path: str | os.PathLike[str],
    *,
    choose: str = "fractional",
    seed: int = 0,
    min_ratings: int = 1,
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
        lie in a sub-folder. Files that ``checksums.txt`` beside them lists are verified.
    choose : "fractional" or "random"
        What becomes of a film of several genres, see :class:`Membership`.
    seed : int
        Of the random choice.
    min_ratings : int
        Users with fewer ratings are left out.
    progress : bool, optional
        Show a progress bar: True at once, False never, None if it takes long.

    Returns
    -------
    EventLog
        Its ``about`` says the source, the release, the conversion and what was left out.

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
    return read_release(path, choose, seed, min_ratings, progress)


def read_release(
    path: str | os.PathLike[str],
    choose: str = "fractional",
    seed: int = 0,
    min_ratings: int = 1,
    progress: bool | None = None,
    block: int = 1 << 22,
) -> EventLog:
    """Return the log of :func:`movielens`, from so many bytes of ratings at a time."""
    least = whole_number("min_ratings", min_ratings, 1)
    with Archive(path) as archive:
        layout = _layout(archive)
        verified: list[str] = []
        movies = _movies(archive, layout.movies, verified)
        membership = _membership(movies, choose, seed)
        ratings = _ratings(layout, membership, progress, verified, block)
        users, who = _numbered(ratings.pop("user"))
        _require_distinct(layout, who, ratings["movie"], len(membership.items))
    about = {
        "source": str(path),
        "release": layout.release,
        "conversion": "loss = 5 − rating",
        "choose": choose,
        "seed": seed,
        "min_ratings": least,
        "users": len(users),
        "ratings": len(who),
        "checksums_verified": verified,
    } | ({} if layout.release == "unknown" else {"terms": TERMS})
    if least > 1:
        users, who = _filtered(users, who, ratings, least)
    labels = [str(user) for user in users.tolist()]
    columns = (ratings.pop("movie"), ratings.pop("loss"), ratings.pop("time"))
    return sort_into_log(labels, who, *columns, membership, about)


def movielens_genres(
    path: str | os.PathLike[str], *, choose: str = "fractional", seed: int = 0
) -> Membership:
    r"""Read the films of a MovieLens release and their genres; the ratings need not be there.

    Parameters
    ----------
    path : path
        A folder or a zip with ``movies.csv`` or ``movies.dat``.
    choose : "fractional" or "random"
        What becomes of a film of several genres, see :class:`Membership`.
    seed : int
        Of the random choice.

    Returns
    -------
    Membership
        Items are the ids of films as text, sorted by number; arms are genres, sorted by name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "movies.dat").write_text("7::Heat: Uncut (1995)::Crime|Action\n")
    ...     movielens_genres(folder).weights("7")
    {'Action': 0.5, 'Crime': 0.5}
    """
    with Archive(path) as archive:
        name = _only(archive, "movies")
        if name is None:
            raise InvalidLog(f"{str(path)!r} has neither movies.csv nor movies.dat")
        return _membership(_movies(archive, name, []), choose, seed)


class _Layout(NamedTuple):
    """Where the ratings and the films are, and how a line of ratings reads."""

    archive: Archive
    ratings: str
    movies: str
    release: str
    separator: str
    columns: tuple[str, ...]  # user, movie, rating, time, and others to be passed over
    header: bool

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line of ratings."""
        with self.archive.open(self.ratings) as raw:
            text = io.TextIOWrapper(raw, "utf-8-sig", errors="replace")
            for number, line in enumerate(text, 1):
                bare = line.rstrip("\n")
                if bare and not (number == 1 and self.header):
                    yield number, bare
            text.detach()

    def numbers(self, rows: list[int]) -> list[int]:
        """Return the numbers of the lines that hold these rows."""
        wanted = set(rows)
        found = {}
        for row, (number, _) in enumerate(self.lines()):
            if row in wanted:
                found[row] = number
                if len(found) == len(wanted):
                    break
        return [found[row] for row in rows]


def _layout(archive: Archive) -> _Layout:
    where = str(archive.path)
    ratings, movies = _only(archive, "ratings"), _only(archive, "movies")
    if ratings is None and movies is not None:
        raise InvalidLog(
            f"{where!r} has {_base(movies)} but no ratings (copies of ml-32m with the movies alone "
            "are about); get the whole release, or read the genres with movielens_genres"
        )
    if ratings is None:
        raise InvalidLog(f"{where!r} has neither ratings.csv nor ratings.dat")
    folder = str(PurePosixPath(ratings).parent)
    kind = PurePosixPath(ratings).suffix.lower()
    movies = _named(archive, folder, f"movies{kind}")
    if movies is None:
        raise InvalidLog(
            f"{where!r} has {_base(ratings)} but beside it no movies{kind}, which says the genres "
            "(copies of ml-32m with movies.csv alone are the other way round); get it whole"
        )
    release = _release(archive, folder)
    if kind == ".dat":
        return _Layout(archive, ratings, movies, release, "::", DAT_COLUMNS, header=False)
    with archive.open(ratings) as stream:
        first = stream.readline(1 << 16).decode("utf-8-sig", "replace")
    separator, names = _header(ratings, first, list(COLUMNS))
    columns = tuple(COLUMNS.get(name, f"_{place}") for place, name in enumerate(names))
    return _Layout(archive, ratings, movies, release, separator, columns, header=True)


def _only(archive: Archive, stem: str) -> str | None:
    """Return the one file of this stem that lies least deep, or None; two are an error."""
    found = [
        name
        for name in archive.names
        if _base(name).lower() in {f"{stem}.csv", f"{stem}.dat"} and "__MACOSX" not in name
    ]
    depth = min((name.count("/") for name in found), default=0)
    least = [name for name in found if name.count("/") == depth]
    if len(least) > 1:
        raise InvalidLog(
            f"{str(archive.path)!r} has several releases: {', '.join(least[:SHOWN])}"
            f"{', …' if len(least) > SHOWN else ''}; pass the folder of one"
        )
    return least[0] if least else None


def _named(archive: Archive, folder: str, wanted: str) -> str | None:
    full = join_path(folder, wanted).lower()
    return next((name for name in archive.names if name.lower() == full), None)


def _base(name: str) -> str:
    return PurePosixPath(name).name


def _release(archive: Archive, folder: str) -> str:
    """Recognise a release by what its README says, else by the names of folder and file."""
    texts = [str(PurePosixPath(folder).name), archive.path.stem, archive.path.resolve().name]
    readme = _named(archive, folder, "README.txt")
    if readme is not None:
        said = re.search(
            r"dataset \((ml-[\w-]+)\)", archive.read(readme).decode("utf-8", "replace")
        )
        texts = [said.group(1)] if said else texts
    for text in texts:
        # ml-10m unpacks to a folder called ml-10M100K.
        known = re.match(r"ml-(32m|25m|20m|10m|1m|latest-small|latest)(?![a-z])", text.lower())
        if known:
            return known.group()
    return "unknown"


def _header(name: str, line: str, wanted: list[str]) -> tuple[str, list[str]]:
    """Return the separator of a csv file and its column names, in lower case."""
    for separator in (",", ";", "\t"):
        names = [field.strip().lower() for field in _fields(line.rstrip("\r\n"), separator)]
        if set(wanted) <= set(names) and len(set(names)) == len(names):
            return separator, names
    raise InvalidLog(
        f"{name!r} must begin with the column names {', '.join(wanted)} (in any case), separated "
        f"by comma, semicolon or tab; its first line is {line.strip()!r:.80}"
    )


def _fields(line: str, separator: str) -> list[str]:
    """Return the fields of a line; none where it is no table, or longer than any table's."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _movies(archive: Archive, name: str, verified: list[str]) -> dict[int, list[str]]:
    """Return the genres of each film, films sorted by id; note what was verified."""
    with archive.open(name) as stream:
        watched = Watched(stream)
        raw = watched.read()
    expected = archive.sums(str(PurePosixPath(name).parent)).get(name)
    verified += archive.verify(name, watched.md5.hexdigest(), expected)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # as ml-1m is
    movies: dict[int, list[str]] = {}
    for line, movie, genres in _movie_fields(name, text):
        if not (movie.isascii() and movie.isdigit() and len(movie) < 20 and int(movie) < 2**31):
            raise InvalidLog(f"line {line} of {name!r}: {movie!r:.40} is no number of a movie")
        if int(movie) in movies:
            raise InvalidLog(f"line {line} of {name!r}: movie {movie} is listed a second time")
        several = {genre.strip() for genre in genres.split("|")} - {""}
        movies[int(movie)] = sorted(several) or [NO_GENRE]
    if not movies:
        raise InvalidLog(f"{name!r} lists no movies")
    return dict(sorted(movies.items()))


def _movie_fields(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, id and genres of each film; titles may hold anything."""
    rows: Iterator[tuple[int, list[str]]]
    if name.lower().endswith(".dat"):
        rows = enumerate((line.split("::") for line in text.splitlines()), 1)
        first, last = 0, -1
    else:
        header = text[: 1 << 16].partition("\n")[0]
        separator, names = _header(name, header, ["movieid", "title", "genres"])
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        rows = ((reader.line_num, row) for row in reader)
        first, last = names.index("movieid"), names.index("genres")
        rows = islice(rows, 1, None)
    line = 1
    try:
        for line, row in rows:
            if row and row != [""]:
                if len(row) < 3:
                    raise InvalidLog(f"line {line} of {name!r} has {len(row)} of 3 fields")
                yield line, row[first].strip(), row[last]
    except (csv.Error, IndexError):
        raise InvalidLog(
            f"{name!r} is no table after line {line}: a quote or a field is missing"
        ) from None


def _membership(movies: dict[int, list[str]], choose: str, seed: int) -> Membership:
    return Membership({str(movie): genres for movie, genres in movies.items()}, None, choose, seed)


def _ratings(
    layout: _Layout,
    membership: Membership,
    progress: bool | None,
    verified: list[str],
    block: int,
) -> dict[str, Any]:
    """Read all ratings into columns user, movie (as numbers of items), loss and time."""
    archive, name = layout.archive, layout.ratings
    expected = archive.sums(str(PurePosixPath(name).parent)).get(name)
    numbers = _Numbers(np.array([int(item) for item in membership.items]))
    reading = _Reading(numbers)
    bar = Progress(f"reading {_base(name)}", archive.size(name), progress)
    try:
        with archive.open(name) as stream:
            watched = Watched(stream)
            for batch in _batches(layout, watched, block):
                reading.add(*batch)
                bar.done = watched.bytes
                bar.show()
            md5 = watched.md5.hexdigest()
        reading.require_good(layout)
    except InvalidLog:
        # Where the file is damaged, that is what to say, not which line looks odd.
        archive.verify(name, archive.digest(name) if expected else "", expected)
        raise
    finally:
        bar.close()
    verified += archive.verify(name, md5, expected)
    return {key: column.whole() for key, column in reading.columns.items()}


def _batches(layout: _Layout, stream: Watched, block: int) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield user, movie, rating and time of some rows at a time."""
    arrow, arrow_csv = optional_module("pyarrow"), optional_module("pyarrow.csv")
    types = {
        "user": arrow.int32(),
        "movie": arrow.int32(),
        "rating": arrow.float64(),
        "time": arrow.float64(),
    }
    try:
        reader = arrow_csv.open_csv(
            stream,
            arrow_csv.ReadOptions(
                block_size=block, column_names=layout.columns, skip_rows=int(layout.header)
            ),
            arrow_csv.ParseOptions(delimiter=layout.separator[0]),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[]
            ),
        )
        for batch in reader:
            yield [column.to_numpy() for column in batch.columns]
    except arrow.ArrowInvalid as error:
        if stream.failure is not None:
            raise stream.failure from None
        _explain(layout)
        raise InvalidLog(f"{layout.ratings!r} cannot be read: {error!s:.150}") from None


def _explain(layout: _Layout) -> None:
    """Find the lines that are no ratings, slowly, and say what is wrong with the first."""
    count, first, rows = 0, "", 0
    for number, line in layout.lines():
        rows += 1
        problem = _problem(layout, line)
        if problem:
            first = first or f"line {number}: {problem}"
            count += 1
    if rows == 0:
        raise InvalidLog(f"{layout.ratings!r} has no ratings")
    if count:
        more = f" ({count:,} lines are bad)" if count > 1 else ""
        raise InvalidLog(f"{layout.ratings!r}, {first}{more}")


def _problem(layout: _Layout, line: str) -> str:
    wide = layout.separator == "::"
    columns = layout.columns[::2] if wide else layout.columns
    fields = line.split("::") if wide else _fields(line, layout.separator)
    if len(fields) != len(columns):
        return f"{len(fields)} fields instead of {len(columns)}: {line!r:.60}"
    for column, field in zip(columns, fields, strict=True):
        try:
            if column in {"user", "movie"} and not -(2**31) <= int(field) < 2**31:
                return f"{column} {field!r:.40} is too large"
            if column in {"rating", "time"}:
                float(field)
        except ValueError:
            kind = "whole number" if column in {"user", "movie"} else "number"
            return f"{column} {field!r:.40} is no {kind}"
    return ""


class _Reading:
    """Columns that grow batch by batch, and the rows that cannot be right."""

    def __init__(self, movies: _Numbers) -> None:
        self.movies = movies
        self.columns = {
            name: GrowingColumn(np.empty(0, kind))
            for name, kind in (("user", "i4"), ("movie", "i4"), ("loss", "f8"), ("time", "f8"))
        }
        self.bad: dict[str, list[int]] = {}
        self.counts: dict[str, int] = {}

    def add(self, user: Numbers32, movie: Numbers32, rating: Floats, time: Floats) -> None:
        number = self.movies.of(movie)
        self._check("have a negative user", user < 0)
        # A number that is none compares as false.
        self._check("lie outside 0.5 … 5", ~((rating >= LEAST_RATING) & (rating <= BEST_RATING)))
        self._check("have no finite time", ~np.isfinite(time))
        self._check("are of movies that the movies file does not list", number < 0)
        columns = self.columns
        columns["user"].extend(user)
        columns["movie"].extend(number)
        columns["loss"].extend(BEST_RATING - rating)
        columns["time"].extend(time)

    def _check(self, problem: str, bad: npt.NDArray[np.bool_]) -> None:
        count = int(np.count_nonzero(bad))
        if count:
            rows = np.flatnonzero(bad)[:SHOWN] + self.columns["user"].size
            self.bad.setdefault(problem, []).extend(rows.tolist())
            self.counts[problem] = self.counts.get(problem, 0) + count

    def require_good(self, layout: _Layout) -> None:
        total = self.columns["user"].size
        if total == 0:
            raise InvalidLog(f"{layout.ratings!r} has no ratings")
        for problem, rows in self.bad.items():
            count, lines = self.counts[problem], layout.numbers(rows[:SHOWN])
            raise InvalidLog(
                f"{count:,} of {total:,} ratings in {layout.ratings!r} {problem}: "
                f"{_listed(lines, count)}"
            )


def _listed(lines: list[int], count: int) -> str:
    many = "line" if count == 1 else "lines"
    return f"{many} {', '.join(map(str, lines))}{', …' if count > len(lines) else ''}"


class _Numbers:
    """Numbers 0, 1, … of sorted ids."""

    def __init__(self, ids: Ints) -> None:
        self._ids = ids.astype(np.int64)
        self._table: Numbers32 | None = None
        if ids[-1] < LARGEST_TABLE:
            # Entry id + 1 is the number of an id; the ends stand for all that lie outside.
            self._table = np.full(int(ids[-1]) + 3, -1, np.int32)
            self._table[ids + 1] = np.arange(len(ids), dtype=np.int32)

    def of(self, ids: Numbers32) -> Numbers32:
        """Return the numbers of ids, −1 for those that there are not."""
        if self._table is not None:
            return self._table.take(ids.astype(np.int64) + 1, mode="clip")
        places = np.searchsorted(self._ids, ids)
        found = self._ids[np.minimum(places, len(self._ids) - 1)] == ids
        return np.where(found, places, -1).astype(np.int32)


def _numbered(user: Numbers32) -> tuple[Numbers32, Ints]:
    """Return the ids of users, sorted, and the number of each row's user."""
    top = int(user.max())
    if top >= LARGEST_TABLE:
        ids, who = np.unique(user, return_inverse=True)
        return ids, who.astype(np.int64)
    present = np.zeros(top + 1, bool)
    present[user] = True
    number = np.cumsum(present) - 1
    return np.flatnonzero(present).astype(np.int32), number[user]


def _filtered(
    users: Numbers32, who: Ints, ratings: dict[str, Any], least: int
) -> tuple[Numbers32, Ints]:
    """Leave out users with few ratings, in ``ratings`` too."""
    counts = np.bincount(who, minlength=len(users))
    kept = counts >= least
    if not kept.any():
        longest = int(counts.argmax())
        raise InvalidInput(
            f"no user has {least:,} ratings; the longest history, of user {users[longest]}, has "
            f"{counts[longest]:,}: lower min_ratings"
        )
    rows = kept[who]
    for key in ratings:
        ratings[key] = ratings[key][rows]
    return users[kept], (np.cumsum(kept) - 1)[who[rows]]


def _require_distinct(layout: _Layout, who: Ints, movie: Numbers32, movies: int) -> None:
    """Require that no user rates a film twice, since it would be unclear what the loss is."""
    in_order = bool((who[1:] >= who[:-1]).all())
    order = np.zeros(0, np.int64) if in_order else np.argsort(who, kind="stable")
    first = np.zeros((SHOWN, 2), np.int64)
    count = _repeats(who, movie, order, np.full(movies, -1), first)
    if count:
        shown = first[: min(count, SHOWN)]
        lines = layout.numbers(shown.ravel().tolist())
        pairs = [f"{a} and {b}" for a, b in zip(lines[::2], lines[1::2], strict=True)]
        raise InvalidLog(
            f"{count:,} rating{'s' if count > 1 else ''} in {layout.ratings!r} repeat a user and a "
            f"movie: lines {', '.join(pairs)}{', …' if count > SHOWN else ''}"
        )


@kernel
def _repeats(who: Ints, movie: Numbers32, order: Ints, last: Ints, first: Ints) -> int:
    """Count rows that repeat an earlier (user, movie), in the order of users; note the first."""
    count = 0
    for place in range(who.size):
        row = order[place] if order.size > 0 else place
        earlier = last[movie[row]]
        if earlier >= 0 and who[earlier] == who[row]:
            if count < len(first):
                first[count, 0] = earlier
                first[count, 1] = row
            count += 1
        last[movie[row]] = row
    return count
