"""Where rows come from: CSV text, Parquet, Arrow; batch by batch, with places to name in errors."""

from __future__ import annotations

import codecs
import difflib
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module, printable
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.addresses import FileListing, Folder, require_file_or_folder
from influential_bandits.logs.columns import arrow
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import kernel

__all__ = ["Source", "as_dataset", "check_columns", "column_names", "open_source", "unreadable"]

BLOCK = 1 << 20  # bytes of text that are read at once
ROWS = 1 << 18  # rows of a table that are read at once
LONGEST_HEADER = 1 << 20  # bytes
SEPARATORS = {",": "','", ";": "';'", "\t": "'\\t'", "|": "'|'"}
MARK = b"\x1a"  # ASCII's own character for what could not be read
MARKING = "influential-bandits.mark"  # the name of the way to replace it
LINE_END = re.compile(r"\r\n?|\n")
GZIP, PARQUET, ARROW_FILE = b"\x1f\x8b", b"PAR1", b"ARROW1"


class Source(ABC):
    """Rows that can be read several times, in batches.

    Attributes
    ----------
    name : str
        The file, or the kind of table, for messages.
    columns : list of str
    separator : str or None
        Of CSV.
    place : str
        What rows are called in messages: lines of a file count from 1, rows of a table from 0.
    listing : FileListing or None
        The files of a folder.
    total, done : int
        How much there is to read, and how much was read: bytes or rows.
    """

    name: str
    columns: list[str]
    separator: str | None = None
    listing: FileListing | None = None
    place: str = "row"
    total: int
    done: int = 0

    @abstractmethod
    def batches(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield Arrow record batches of these columns.

        ``skipped`` is told the place and the text of rows that have the wrong number of fields.
        """

    def places(self, rows: Ints) -> list[int]:
        """Return the places of rows, given by their number among those that batches yielded."""
        return [int(row) for row in rows]

    def lines(self, places: Sequence[int]) -> Sequence[int | str]:
        """Return the numbers that a user can look up for places."""
        return list(places)


class TableSource(Source):
    """A frame, a table, or a mapping of names to columns."""

    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name
        self.columns = list(table.column_names)
        self.total = table.num_rows

    def batches(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield slices of the table."""
        self.done = 0
        for batch in self.table.select(list(columns)).to_batches(max_chunksize=ROWS):
            self.done += batch.num_rows
            yield batch


class DatasetSource(Source):
    """Parquet or Arrow files, read row group by row group."""

    def __init__(self, folder: Folder, kind: str) -> None:
        self.name, self.listing = folder.name, folder.parquet_files()
        names = [file.name for file in self.listing.taken]
        try:
            self.data = as_dataset(folder, names, kind=kind)
            self.total = self.data.count_rows()
        except (arrow().ArrowException, OSError, UnicodeError) as error:
            raise unreadable(self.name, error) from None
        self.columns = list(self.data.schema.names)

    def batches(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield batches in the order of the files."""
        self.done = 0
        batches = self.data.to_batches(
            columns=list(columns), batch_size=ROWS, batch_readahead=1, fragment_readahead=1
        )
        while True:
            try:
                batch = next(batches, None)
            except (arrow().ArrowException, OSError) as error:
                raise unreadable(self.name, error) from None
            if batch is None:
                return
            self.done += batch.num_rows
            yield batch


def as_dataset(
    folder: Folder, files: Sequence[str], schema: Any = None, kind: str = "parquet"
) -> Any:
    """Return files as Arrow's dataset: folders of the form name=value are columns, too.

    Their values are text, as they stand there: as numbers, users 01 and 1 would be the same.
    """
    pa, dataset = arrow(), optional_module("pyarrow.dataset")
    paths = [folder.path(file) for file in files]
    folders = dict.fromkeys(part for path in paths for part in path.split("/")[:-1])
    names = dict.fromkeys(part.partition("=")[0] for part in folders if "=" in part)
    columns = pa.schema([(name, pa.string()) for name in names])
    return dataset.dataset(
        paths,
        schema=schema,
        format=kind,
        partitioning=dataset.partitioning(columns, flavor="hive"),
        filesystem=folder.system,
    )


class TextSource(Source):
    """A CSV file, plain or compressed."""

    place = "line"

    def __init__(self, path: Path, wanted: Sequence[str], separator: str | None) -> None:
        self.path, self.name = path, printable(path.name)
        self.total = path.stat().st_size
        start = _start_of(path)
        self.separator = _separator(self.name, start, wanted, separator)
        self.columns, self._only_header = _header(start, self.separator)
        _check_header(self.name, start, self.columns, self._only_header)
        self.wrong = array("q")  # places of rows of the wrong number of fields, ascending
        self.marked: MarkedText | None = None
        self._unclosed = array("q")  # those of them whose last quote has no end

    def batches(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield columns as text; quoted values may contain separators and line ends."""
        pa = arrow()
        self.done, self.wrong, self._unclosed = 0, array("q"), array("q")
        if self._only_header:  # which Arrow would take for the start of a line that is too long
            return
        try:
            with self.path.open("rb") as file:
                reader = self._reader(file, columns, skipped)
                while True:
                    batch = next(reader, None)
                    self._check_quotes()
                    if batch is None:
                        return
                    self.done = file.tell()
                    yield batch.rename_columns(list(columns))
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                raise unreadable(self.name, error) from None
            raise InvalidLog(
                f"{self.name} has a quoted value without an end, or a line of more than "
                f"{BLOCK >> 20} MB"
            ) from None
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.name, error) from None

    def _check_quotes(self) -> None:
        """Raise an error for a quote that swallowed the rest: that is more than one bad row."""
        if self._unclosed:
            (line,) = self.lines(self._unclosed[:1])
            raise InvalidLog(f"{self.name} has a quoted value without an end in line {line}")

    def _reader(
        self, file: Any, columns: Sequence[str], skipped: Callable[[int, str], None]
    ) -> Any:
        """Return Arrow's reader of columns by their place, since names may be odd or repeated."""
        text = optional_module("pyarrow.csv")
        pa = arrow()
        names = [f"{number}" for number in range(len(self.columns))]
        wanted = [names[self.columns.index(column)] for column in columns]

        def handle(row: Any) -> str:
            self.wrong.append(row.number)
            if row.text.count('"') % 2:
                self._unclosed.append(row.number)
            skipped(row.number, row.text)
            return "skip"

        if _magic(self.path).startswith(GZIP):
            file = pa.CompressedInputStream(pa.PythonFile(file, "r"), "gzip")
        self.marked = MarkedText(file)
        return text.open_csv(
            pa.PythonFile(self.marked, "r"),
            # One thread: Arrow numbers rows only then.
            text.ReadOptions(
                use_threads=False, block_size=BLOCK, column_names=names, skip_rows_after_names=1
            ),
            text.ParseOptions(
                delimiter=self.separator,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=handle,
            ),
            text.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                check_utf8=False,
                strings_can_be_null=False,
            ),
        )

    def places(self, rows: Ints) -> list[int]:
        """Return rows of the file, the header being row 1; rows that were left out count."""
        if not len(rows):  # asked for with every batch, however many rows were left out so far
            return []
        good_before = np.array(self.wrong, np.int64) - np.arange(len(self.wrong)) - 2
        return [int(row) for row in rows + 2 + np.searchsorted(good_before, rows, "right")]

    def lines(self, places: Sequence[int]) -> list[int]:
        """Return the lines in which rows begin; quoted values may take several lines."""
        wanted = np.unique(np.array(places, np.int64))
        lines, state = np.zeros(len(wanted), np.int64), np.zeros(5, np.int64)
        separator = ord(self.separator or ",")
        with _opened(self.path) as file:
            while (block := file.read(BLOCK)) and state[3] < len(wanted):
                _find_rows(np.frombuffer(block, np.uint8), separator, wanted, lines, state)
        return [int(lines[np.searchsorted(wanted, place)]) or place for place in places]


@kernel
def _find_rows(
    data: npt.NDArray[np.uint8], separator: int, wanted: Ints, lines: Ints, state: Ints
) -> None:
    """Find the lines in which rows begin: ``wanted`` ascending, header = 1, found in ``lines``.

    Lines end as Arrow ends them: by a line feed, a carriage return, or both. A quote opens a quoted
    value at its beginning only; a doubled one in it is a quote. The state between blocks: mode (0
    at the start of a value, 1 inside, 2 inside quotes, 3 after a quote inside quotes), rows and
    lines that ended, how many of the wanted were found, and whether a carriage return came last.
    """
    mode, rows, ends, found, returned = state
    for n in range(data.size):
        byte = data[n]
        if byte == 10 and returned:  # the second half of one end
            returned = 0
            continue
        while found < wanted.size and wanted[found] == rows + 1:
            lines[found] = ends + 1
            found += 1
        returned = 1 if byte == 13 else 0
        end = byte in (10, 13)
        ends += end
        if mode == 2:
            mode = 3 if byte == 34 else 2
        elif byte == 34 and mode != 1:
            mode = 2
        elif end or byte == separator:
            mode = 0
            rows += end
        else:
            mode = 1
    state[:] = mode, rows, ends, found, returned


class MarkedText:
    """A file for Arrow in which bytes that are not UTF-8 are replaced by ``MARK``.

    Arrow can leave out rows of the wrong number of fields only if they are valid text.
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self.file = file
        self.found = False  # whether there was anything to replace
        self._decoder = codecs.getincrementaldecoder("utf-8")(MARKING)

    def read(self, size: int) -> bytes:
        """Return up to so many bytes, none at the end only."""
        while True:
            block: bytes = self.file.read(max(size - 4, 1))  # a character may be left from before
            if block.isascii() and not self._decoder.getstate()[0]:
                return block
            text = self._decoder.decode(block, final=not block).encode()
            self.found |= text.count(MARK) > block.count(MARK)
            if text or not block:
                return text


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return MARK.decode() * (error.end - error.start), error.end


codecs.register_error(MARKING, _mark)


def open_source(source: object, wanted: Sequence[str], separator: str | None) -> Source:
    """Return the rows of a path or of anything tabular; all wanted columns are there."""
    if separator is not None and (not isinstance(separator, str) or len(separator) != 1):
        raise InvalidInput(f"separator must be one character, such as ',', got {separator!r}")
    if isinstance(source, str) and "://" in source:
        raise InvalidInput(
            f"{source:.100} is an address: open_partitions reads it (--by-partition), while "
            "read_log and stream_log read files of this computer"
        )
    opened = (
        _open_path(Path(source), wanted, separator)
        if isinstance(source, (str, Path))
        else _open_table(source)
    )
    check_columns(opened, wanted)
    return opened


def column_names(path: Path, separator: str | None = None) -> list[str]:
    """Return the columns of a file."""
    return open_source(path, (), separator).columns


def _open_table(source: object) -> Source:
    pa = arrow()
    name = f"the {type(source).__name__}"
    if isinstance(source, Mapping):
        try:
            made = {str(key): _column(value) for key, value in source.items()}
            return TableSource(pa.table(made), "the mapping")
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise unreadable("the mapping", error) from None
    if not (
        hasattr(source, "__arrow_c_stream__") or isinstance(source, (pa.Table, pa.RecordBatch))
    ):
        raise InvalidInput(
            "a log is read from a path, a data frame, an Arrow table or a mapping of names to "
            f"columns, got {source!r:.60}"
        )
    try:
        return TableSource(pa.table(source), name)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise unreadable(name, error) from None


def _column(values: Any) -> Any:
    pa = arrow()
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    return pa.array(values)


def _open_path(path: Path, wanted: Sequence[str], separator: str | None) -> Source:
    require_file_or_folder(path)
    if path.is_dir():
        return DatasetSource(Folder.at(path), "parquet")
    try:
        magic = _magic(path)
    except OSError as error:
        raise unreadable(printable(path.name), error) from None
    if magic.startswith(PARQUET):
        return DatasetSource(Folder.at(path), "parquet")
    if magic.startswith(ARROW_FILE):
        return DatasetSource(Folder.at(path), "ipc")
    arrow()  # without it, say so before anything else
    return TextSource(path, wanted, separator)


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)


def _opened(path: Path) -> Any:
    return gzip.open(path) if _magic(path).startswith(GZIP) else path.open("rb")


def _start_of(path: Path) -> str:
    """Return the beginning of a file; bytes that are not UTF-8 are there as surrogates."""
    name = printable(path.name)
    try:
        with _opened(path) as file:
            start = file.read(LONGEST_HEADER)
    except (EOFError, OSError, zlib.error) as error:
        raise unreadable(name, error) from None
    if not start:
        raise InvalidLog(f"{name} is empty; its first line must name the columns")
    text: str = start.decode("utf-8-sig", "surrogateescape")
    line = _first_line(text)
    if printable(line) != line:
        kind = "UTF-16" if start[:2] in {b"\xff\xfe", b"\xfe\xff"} else "no UTF-8"
        raise InvalidLog(
            f"{name} does not begin with a line of text in UTF-8: it seems to be {kind}; "
            "save it as CSV in UTF-8"
        )
    if not line.strip():
        raise InvalidLog(f"the first line of {name} is blank; it must name the columns")
    return text


def _first_line(text: str) -> str:
    return LINE_END.split(text, maxsplit=1)[0]


def _header(start: str, separator: str) -> tuple[list[str], bool]:
    """Return the fields of the first row, and whether the text ends before the row does.

    Names may be quoted, with separators and line ends in them. Python's own reader of CSV is not
    used: it has a limit of 131,072 characters for a field, which a wrong separator soon reaches.
    """
    here = re.escape(separator)
    field = re.compile(rf'("(?:[^"]|"")*+")?([^{here}\r\n]*)({here}|\r\n?|\n|\Z)')
    fields, place, end = [], 0, separator
    while end == separator:
        found = field.match(start, place)
        if found is None:  # cannot be: the pattern matches anything
            raise AssertionError(start[place : place + 40])
        quoted, plain, end = found[1] or "", found[2], found[3]
        fields.append(quoted[1:-1].replace('""', '"') + plain)
        place = found.end()
    return fields, end == ""


def _check_header(name: str, start: str, fields: list[str], unended: bool) -> None:
    """Raise an error for a first row without an end, or one that is no text."""
    if unended and len(start.encode("utf-8", "surrogateescape")) >= LONGEST_HEADER - 3:
        raise InvalidLog(
            f"the first line of {name} has no end within {LONGEST_HEADER >> 20} MB; it must name "
            "the columns, separated by , ; | or tabs"
        )
    if any("\0" in field for field in fields):  # after which Arrow would lose a row
        raise InvalidLog(f"the first line of {name} holds bytes of zero; save it as CSV in UTF-8")
    if any(printable(field) != field for field in fields):
        raise InvalidLog(f"the columns of {name} have names that are no UTF-8; save it in UTF-8")


def _separator(name: str, start: str, wanted: Sequence[str], given: str | None) -> str:
    """Return the separator of a header: the one given if it fits, else the one that does."""
    fields = {s: _header(start, s)[0] for s in (*SEPARATORS, given or ",")}
    present = {s: len(set(wanted) & set(found)) for s, found in fields.items()}
    best = max(SEPARATORS, key=lambda s: (present[s], len(fields[s])))
    if given is None:
        return best
    if present[best] > present[given]:
        raise InvalidLog(
            f"separator {SEPARATORS.get(given, repr(given))} does not fit {name}, whose first line "
            f"is {_first_line(start)[:80]!r}; try separator={SEPARATORS[best]}"
        )
    return given


def check_columns(source: Source, wanted: Sequence[str]) -> None:
    """Raise an error unless each of these columns is there once."""
    for column in wanted:
        times = source.columns.count(column)
        if times > 1:
            raise InvalidLog(f"{source.name} has {times} columns of the name {column!r}")
        if times == 0:
            raise InvalidLog(_missing(source, column))


def _missing(source: Source, column: str) -> str:
    there = ", ".join(source.columns) or "none"
    there = there if len(there) < 120 else there[:120] + " …"
    message = f"{source.name} has no column {column!r}; it has: {there}"
    lower = {name.lower(): name for name in source.columns}
    close = difflib.get_close_matches(column.lower(), lower, 1)
    if close:
        message += f"; did you mean {lower[close[0]]!r}?"
    if column == "time":
        message += "; pass time=None if the order of rows is the order of time"
    return message


def unreadable(name: str, error: BaseException) -> InvalidLog:
    """Return the error for a file or table that Arrow or the system cannot read."""
    if isinstance(error, UnicodeError):
        why = f"it holds text that is no UTF-8: {error}"
    elif isinstance(error, OverflowError):
        why = "it holds whole numbers beyond 64 bits; turn them into floats, as by astype(float)"
    else:
        texts = [str(part) for part in error.args if isinstance(part, str)]
        why = "; ".join(texts).strip().partition("\n")[0] or type(error).__name__
    return InvalidLog(printable(f"{name} cannot be read: {why:.150}"))
