"""Logs as CSV, plain and compressed, and as tables of odd types: every row is accounted for."""

import gzip
import os
import zlib

import pyarrow as pa

import influential_bandits as ib
from hostile.judging import OTHER, demand, tell
from hostile.mutating import mutate_bytes

HEADER = "instance,arm,time,loss"
COLUMNS = {"instance": "instance", "arm": "arm", "time": "time", "loss": "loss"}
BAD_NUMBERS = (
    "",
    "x",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "--1",
    "1_0",
    "0x1p3",
    "½",
    "1e",
    "9" * 400,
)
TOKENS = (b'"', b",", b";", b"\t", b"|", b"\r", b"\n", b"\r\n", b"\n\n", b"\0", b"\x1a", b'""')
TOKENS += (b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3", b'"\n"', b"\\", b"1e308", b"-", b" ")
TOKENS += ("\u2028".encode(),)
QUOTED = ('"a,b"', '"a ""b"" c"', '"a\nb"', "å", "a" * 3000, '"a\r\nb"')
NO_FILES = ("fifo", "/dev/zero", "/dev/null", "folder", "missing", "name", "empty", "link")
TIMES = (0, 1, 2**31, 2**40, 2**53, 2**55, 2**62, -(2**55), -1)


def play(draw, home):
    """Read a log that is spoilt in one of several ways."""
    ways = (rows, rows, rows, spoilt, spoilt, spoilt, large, special, table)
    draw.choice(ways)(draw, home / "log.csv")


def read(draw, source, partition=7):
    """Read in one go, or in parts; return the numbers of events and of rows left out."""
    options = COLUMNS | {"time_unit": "s", "bad_rows": "drop", "progress": False}
    if draw.random() < 0.7:
        log = ib.read_log(source, **options)
        return len(log), sum(log.about["dropped"].values()), log
    sizes = ib.logs.ChunkSizes(partition=partition)
    with ib.logs.stream_log(source, sizes=sizes, **options) as stream:
        events = sum(len(part) for part in stream)
        return events, sum(stream.about["dropped"].values()), None


def good_row(draw, n):
    return [draw.choice("abc"), draw.choice("xyz"), str(n), f"{draw.gauss(0, 1):.3f}"]


def rows(draw, path):
    """Write rows that are good or bad for a known reason, in any style."""
    lines, good, bad = [], [], 0
    quote = draw.random() < 0.3
    for n in range(draw.choice((1, 5, 40))):
        row, kind = good_row(draw, n), draw.random()
        if kind < 0.75:
            good.append(float(row[3]))
            if kind < 0.1:
                row[0] = draw.choice(QUOTED)
            lines.append(",".join(f'"{x}"' if quote and '"' not in x else x for x in row))
            continue
        bad += 1
        if kind < 0.8:
            row = draw.choice((row[:-1], [*row, "9"], row * 2, ["lonely"]))
        elif kind < 0.9:
            row[3] = draw.choice(BAD_NUMBERS)
        elif kind < 0.95:
            row[2] = draw.choice(("", "2024-13-01", "yesterday", "nan", "1e999"))
        else:
            row[draw.randrange(2)] = ""
        lines.append(",".join(row))
    end = draw.choice(("\n", "\n", "\r\n"))
    text = end.join([HEADER, *lines]) + draw.choice(("", end, end * 3))
    data = draw.choice((b"", b"", b"\xef\xbb\xbf")) + text.encode()
    path.write_bytes(gzip.compress(data) if draw.random() < 0.3 else data)
    tell(f"{len(good)} good rows, {bad} bad ones: {text[-200:]!r}")
    events, dropped, log = read(draw, path)
    blank = 3  # lines at the end, which may or may not count as rows
    demand(events == len(good), OTHER, f"{events} events of {len(good)} good rows")
    same = log is None or sorted(log.loss.tolist()) == sorted(good)
    demand(same, OTHER, "other losses than those written")
    demand(bad <= dropped <= bad + blank, OTHER, f"{dropped} rows left out instead of {bad}")


def spoilt(draw, path):
    """Spoil bytes of a good file, before or after compression."""
    lines = [HEADER, *(",".join(good_row(draw, n)) for n in range(draw.choice((3, 30))))]
    data, said = ("\n".join(lines) + "\n").encode(), ""
    for _ in range(draw.choice((0, 1, 1, 2))):
        at, token = draw.randrange(len(data) + 1), draw.choice(TOKENS)
        data = data[:at] + token + data[at:]
        said += f"{token!r} at {at:,}; "
    if draw.random() < 0.4:
        data, more = mutate_bytes(draw, data)
        said += more
    if draw.random() < 0.1:
        data = data.decode("latin-1").encode(draw.choice(("utf-16", "utf-16-le", "utf-32")))
    plain = data
    if draw.random() < 0.3:
        data, more = mutate_bytes(draw, gzip.compress(data))
        said, plain = said + f"; compressed, {more}", None
    path.write_bytes(data)
    tell(f"{len(lines) - 1} rows: {said}")
    events, dropped, _ = read(draw, path)
    if plain is not None:
        ends = plain.count(b"\n") + plain.count(b"\r") + 1
        demand(events + dropped <= ends, OTHER, f"{events} + {dropped} rows in {ends} lines")
        simple = not any(byte in plain for byte in b'"\r\0')
        if simple and plain.startswith(HEADER.encode() + b"\n"):
            filled = sum(bool(line) for line in plain.split(b"\n")) - 1
            all_lines = plain.count(b"\n")
            found = f"{events} + {dropped} rows of {filled} lines"
            demand(filled <= events + dropped <= all_lines, OTHER, found)


def large(draw, path):
    """Write what is small on disk or on paper, and large when it is read."""
    row = ",".join(good_row(draw, 1)) + "\n"
    kind = draw.choice(("field", "header", "columns", "blank", "bomb", "quote", "rows", "members"))
    n = draw.choice((1 << 17, (1 << 17) + 1, 1 << 21))
    data = f"{HEADER}\n{row}".encode()
    if kind == "field":
        data = f"{HEADER}\n{row}{'a' * n},x,1,1\n{row}".encode()
    elif kind == "header":
        data = f"{HEADER},{'h' * n}\n{row[:-1]},1\n".encode()
    elif kind == "columns":
        data = (HEADER + "".join(f",c{k}" for k in range(n // 8))).encode() + b"\n"
        data += row[:-1].encode() + b",1" * (n // 8) + b"\n"
    elif kind == "blank":
        data = gzip.compress(data + b"\n" * draw.choice((10**6, 80 * 10**6)), 1)
    elif kind == "bomb":
        data = gzip.compress(data + bytes(draw.choice((1, 200)) * 10**6), 1)
    elif kind == "quote":
        data += b'a,"' + b"x" * n
    elif kind == "rows":
        data = gzip.compress(data + row.encode() * 10**5)
    else:
        data = gzip.compress(data) + gzip.compress(row.encode() * 3) * draw.choice((1, 1000))
    path.write_bytes(data)
    tell(f"large: {kind}, {n:,}; {len(data):,} bytes")
    events, dropped, _ = read(draw, path, 50_000)
    if kind == "rows":
        demand((events, dropped) == (10**5 + 1, 0), OTHER, f"{events:,} events of 100,001")
    if kind in {"field", "header", "columns"}:
        rows_there = 3 if kind == "field" else 1
        demand(events + dropped == rows_there, OTHER, f"{events} + {dropped} of {rows_there} rows")


def special(draw, path):
    """Give what is no plain file."""
    kind = draw.choice(NO_FILES)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind.startswith("/dev"):
        path = type(path)(kind)
    elif kind == "folder":
        path.mkdir()
    elif kind == "name":
        path = path.with_name(draw.choice(("n" * 300, "a\0b", "\udcff")))
    elif kind == "empty":
        path.write_bytes(draw.choice((b"", gzip.compress(b""), b"\n", zlib.compress(b"x"))))
    elif kind == "link":
        path.symlink_to(path)
    tell(f"no plain file: {kind}")
    read(draw, path)
    demand(False, OTHER, "was read without a word")


def table(draw, path):
    """Give a table with times and losses of odd types."""
    n, unit = 4, draw.choice(("s", "ms", "us", "ns"))
    values = [draw.choice(TIMES) for _ in range(n)]
    kind = draw.choice(("timestamp", "zone", "int64", "uint64", "decimal", "date32", "float"))
    scale = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    if kind == "timestamp":
        times = pa.array(values, pa.timestamp(unit))
    elif kind == "zone":
        times = pa.array(values, pa.timestamp(unit, "Europe/Berlin"))
    elif kind == "date32":
        scale = 1 / 86400
        times = pa.array([max(-(2**31), min(v, 2**31 - 1)) for v in values], pa.int32())
        values, times = times.to_pylist(), times.cast(pa.date32())
    else:
        scale = 1
        types = {"int64": pa.int64(), "decimal": pa.decimal128(30), "float": pa.float64()}
        values = list(map({"uint64": abs, "float": float}.get(kind, int), values))
        times = pa.array(values, types.get(kind, pa.uint64()))
    data = {"instance": list("aaaa"), "arm": list("xyxy"), "time": times, "loss": [0.5] * n}
    tell(f"table: {kind} {unit} {values}")
    events, dropped, log = read(draw, pa.table(data))
    demand(events + dropped == n, OTHER, f"{events} + {dropped} rows of {n}")
    if log is not None:
        wanted = [value / scale for value in values]
        far = [t for t in log.time if min(abs(t - w) / max(1, abs(w)) for w in wanted) > 1e-6]
        demand(not far, OTHER, f"times {far} of {wanted}")
