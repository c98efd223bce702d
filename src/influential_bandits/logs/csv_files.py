"""CSV files, plain or compressed: chunk by chunk, with the lines of bad rows to name in errors."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import make_printable
from influential_bandits.errors import InvalidLog
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.tables import Source, make_read_error, trim_names
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import optional_module

LONGEST_HEADER = 1 << 20  # bytes
SEPARATORS = {",": "','", ";": "';'", "\t": "'\\t'", "|": "'|'"}
MARK = b"\x1a"  # ASCII's substitute, put in the place of bytes that are not UTF-8
MARKING = "influential-bandits.mark"  # the name of the error handler that does so
LINE_END = re.compile(r"\r\n?|\n")
GZIP = b"\x1f\x8b"


class CsvFile(Source):
    """A CSV file, plain or compressed."""

    place = "line"
    separator: str

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.path, self.name, self.sizes = path, make_printable(path.name), options.sizes
        self.total = path.stat().st_size
        start = _start_of(path)
        self.separator = _separator(self.name, start, options)
        first, unended = _header(start, self.separator)
        self._headed = options.columns is None
        names = first if options.columns is None else options.columns
        self.columns = trim_names(names, options.named)
        self._only_header = unended and self._headed
        _check_header(self.name, start, first, unended)
        self.wrong = array("q")  # places of rows of the wrong number of fields, ascending
        self.marked: MarkedText | None = None
        self._unclosed = array("q")  # those of them whose last quote has no end

    def chunks(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield columns as text; quoted values may contain separators and line ends."""
        pa = arrow()
        self.done, self.wrong, self._unclosed = 0, array("q"), array("q")
        if self._only_header:  # Arrow would take it for the start of a line that is too long
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
                raise make_read_error(self.name, error) from None
            raise InvalidLog(
                f"{self.name} has a quoted value without an end, or a line of more than "
                f"{self.sizes.text >> 20} MB"
            ) from None
        except (pa.ArrowException, OSError) as error:
            raise make_read_error(self.name, error) from None

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

        if _is_compressed(self.path):
            file = pa.CompressedInputStream(pa.PythonFile(file, "r"), "gzip")
        self.marked = MarkedText(file)
        return text.open_csv(
            pa.PythonFile(self.marked, "r"),
            # One thread: Arrow numbers rows only then.
            text.ReadOptions(
                use_threads=False,
                block_size=self.sizes.text,
                column_names=names,
                skip_rows_after_names=int(self._headed),
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
        """Return rows of the file from 1 on, the header being one; rows left out count."""
        if not len(rows):  # a shortcut: called for every batch, and many rows may be left out
            return []
        first = 1 + self._headed
        good_before = np.array(self.wrong, np.int64) - np.arange(len(self.wrong)) - first
        return [int(row) for row in rows + first + np.searchsorted(good_before, rows, "right")]

    def lines(self, places: Sequence[int]) -> list[int]:
        """Return the lines in which rows begin; quoted values may take several lines."""
        wanted = np.unique(np.array(places, np.int64))
        lines, state = np.zeros(len(wanted), np.int64), np.zeros(5, np.int64)
        separator = ord(self.separator)
        with _open(self.path) as file:
            while (block := file.read(self.sizes.text)) and state[3] < len(wanted):
                _find_rows(np.frombuffer(block, np.uint8), separator, wanted, lines, state)
        return [int(lines[np.searchsorted(wanted, place)]) or place for place in places]


@kernel
def _find_rows(
    data: npt.NDArray[np.uint8], separator: int, wanted: Ints, lines: Ints, state: Ints
) -> None:
    """Find the lines in which rows begin: ``wanted`` ascending, from 1, found in ``lines``.

    Lines end as Arrow ends them: by a line feed, a carriage return, or both. A quote opens a quoted
    value at its beginning only; a doubled one in it is a quote. The state between blocks: mode (0
    at the start of a value, 1 inside, 2 inside quotes, 3 after a quote inside quotes), rows and
    lines that ended, how many of the wanted were found, and whether a carriage return came last.
    """
    mode, rows, ends, located, returned = state
    for n in range(data.size):
        byte = data[n]
        if byte == 10 and returned:  # the second half of one end
            returned = 0
            continue
        while located < wanted.size and wanted[located] == rows + 1:
            lines[located] = ends + 1
            located += 1
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
    state[:] = mode, rows, ends, located, returned


class MarkedText:
    """A file for Arrow in which bytes that are not UTF-8 are replaced by ``MARK``.

    Arrow can leave out rows of the wrong number of fields only if they are valid text.
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self.file = file
        self.replaced = False  # whether there was anything to replace
        self._decoder = codecs.getincrementaldecoder("utf-8")(MARKING)

    def read(self, size: int) -> bytes:
        """Return up to so many bytes, none at the end only."""
        while True:
            block: bytes = self.file.read(max(size - 4, 1))  # a character may be left from before
            if block.isascii() and not self._decoder.getstate()[0]:
                return block
            text = self._decoder.decode(block, final=not block).encode()
            self.replaced |= text.count(MARK) > block.count(MARK)
            if text or not block:
                return text


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return MARK.decode() * (error.end - error.start), error.end


codecs.register_error(MARKING, _mark)


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP


def _open(path: Path) -> Any:
    return gzip.open(path) if _is_compressed(path) else path.open("rb")


def _start_of(path: Path) -> str:
    """Return the beginning of a file; bytes that are not UTF-8 are there as surrogates."""
    name = make_printable(path.name)
    try:
        with _open(path) as file:
            start = file.read(LONGEST_HEADER)
    except (EOFError, OSError, zlib.error) as error:
        raise make_read_error(name, error) from None
    if not start:
        raise InvalidLog(f"{name} is empty; its first line must name the columns")
    text: str = start.decode("utf-8-sig", "surrogateescape")
    line = _first_line(text)
    if make_printable(line) != line:
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
        match = field.match(start, place)
        if match is None:  # cannot be: the pattern matches anything
            raise AssertionError(start[place : place + 40])
        quoted, plain, end = match[1] or "", match[2], match[3]
        fields.append(quoted[1:-1].replace('""', '"') + plain)
        place = match.end()
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
    if any(make_printable(field) != field for field in fields):
        raise InvalidLog(f"the columns of {name} have names that are no UTF-8; save it in UTF-8")


def _separator(name: str, start: str, options: ReadingOptions) -> str:
    """Return the separator of the first line: the one given if it fits, else the one that does."""
    given, wanted = options.separator, options.named
    fields = {s: _header(start, s)[0] for s in (*SEPARATORS, given or ",")}
    if options.columns is not None:
        return _separator_of_columns(name, start, fields, options.columns, given)
    present = {
        s: len(set(wanted) & {name for field in names for name in (field, field.strip())})
        for s, names in fields.items()
    }
    best = max(SEPARATORS, key=lambda s: (present[s], len(fields[s])))
    if given is None:
        return best
    alone = not wanted and len(fields[given]) == 1 < len(fields[best])
    if present[best] > present[given] or alone:
        raise InvalidLog(
            f"separator {SEPARATORS.get(given, repr(given))} does not fit {name}, whose first line "
            f"is {_first_line(start)[:80]!r}; try separator={SEPARATORS[best]}"
        )
    return given


def _separator_of_columns(
    name: str, start: str, fields: dict[str, list[str]], columns: Sequence[str], given: str | None
) -> str:
    """Return the separator under which the first line has a value for each column."""
    fitting = [s for s in fields if len(fields[s]) == len(columns) and given in {None, s}]
    if fitting:
        return fitting[0]
    tried = "" if given is None else f" separated by {SEPARATORS.get(given, repr(given))}"
    raise InvalidLog(
        f"the first line of {name} does not have {len(columns)} values{tried}, one for each of the "
        f"columns named: it is {_first_line(start)[:80]!r}; name all columns, and the separator"
    )
