"""Opening a log: a path or anything tabular as a source of rows, with the columns it must have."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from influential_bandits.checks import make_printable
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.csv_files import CsvFile
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.remote_folder import RemoteFolder, require_file_or_folder
from influential_bandits.logs.tables import ParquetFiles, Source, TableSource, make_read_error

PARQUET, ARROW_FILE = b"PAR1", b"ARROW1"


def open_source(source: object, options: ReadingOptions) -> Source:
    """Return the rows of a path or of anything tabular."""
    if isinstance(source, str) and "://" in source:
        raise InvalidInput(
            f"{source:.100} is an address: open_partitions reads it, while "
            "read_log and stream_log read files of this computer"
        )
    opened = (
        _open_path(Path(source), options)
        if isinstance(source, (str, Path))
        else _open_table(source, options)
    )
    if options.columns is not None and not isinstance(opened, CsvFile):
        raise InvalidInput(f"columns are of CSV without a header, but {opened.name} names its own")
    return opened


def _open_table(source: object, options: ReadingOptions) -> Source:
    pa = arrow()
    name = f"the {type(source).__name__}"
    if isinstance(source, Mapping):
        try:
            columns = {str(key): _column(value) for key, value in source.items()}
            return TableSource(pa.table(columns), "the mapping", options.named, options.sizes)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise make_read_error("the mapping", error) from None
    if not (
        hasattr(source, "__arrow_c_stream__") or isinstance(source, (pa.Table, pa.RecordBatch))
    ):
        raise InvalidInput(
            "a log is read from a path, a data frame, an Arrow table or a mapping of names to "
            f"columns, got {source!r:.60}"
        )
    try:
        return TableSource(pa.table(source), name, options.named, options.sizes)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise make_read_error(name, error) from None


def _column(values: Any) -> Any:
    pa = arrow()
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    return pa.array(values)


def _open_path(path: Path, options: ReadingOptions) -> Source:
    require_file_or_folder(path)
    arrow()  # without it, say so before anything else
    if path.is_dir():
        return ParquetFiles.at(RemoteFolder.at(path), options.sizes, counted=True)
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise make_read_error(make_printable(path.name), error) from None
    if magic.startswith((PARQUET, ARROW_FILE)):
        kind = "parquet" if magic.startswith(PARQUET) else "ipc"
        return ParquetFiles.at(RemoteFolder.at(path), options.sizes, kind, counted=True)
    return CsvFile(path, options)


def check_columns(source: Source, wanted: Sequence[str]) -> None:
    """Raise an error unless each of these columns is there once."""
    for column in wanted:
        times = source.columns.count(column)
        if times > 1:
            raise InvalidLog(f"{source.name} has {times} columns of the name {column!r}")
        if times == 0:
            raise InvalidLog(_missing(source, column))


def _missing(source: Source, column: str) -> str:
    names = ", ".join(source.columns) or "none"
    names = names if len(names) < 120 else names[:120] + " …"
    message = f"{source.name} has no column {column!r}; it has: {names}"
    lower = {name.lower(): name for name in source.columns}
    close = difflib.get_close_matches(column.lower(), lower, 1)
    if close:
        message += f"; did you mean {lower[close[0]]!r}?"
    if any(_is_number(name) for name in source.columns):
        message += "; if the file has no header, name its columns with columns=[…]"
    elif column == "time":
        message += "; pass time=None if the order of rows is the order of time"
    return message


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
