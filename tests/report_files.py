"""What a study leaves behind, looked at as readers and programs do."""

import html
import json
import re
import struct
import xml.etree.ElementTree as ET
import zlib

import pyarrow.parquet as pq

from influential_bandits.studies.report.results import summarise
from influential_bandits.studies.report.text import interval, measured

KEYS = ["study", "claim", "paper", "ours", "low", "high", "verdict"]
ELSEWHERE = r"<(script|link|img|iframe)\b[^>]*\b(src|href)\s*=\s*[\"']?(https?:)?//"


def png_size(data):
    """Width and height of a PNG whose chunks all have the right checksums."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    position, kinds = 8, []
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        body = data[position + 4 : position + 8 + length]
        assert struct.unpack_from(">I", data, position + 8 + length) == (zlib.crc32(body),)
        kinds.append(body[:4])
        position += 12 + length
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return struct.unpack_from(">II", data, 16)


def svg_texts(path):
    """Demand a drawing, and return how many elements it has."""
    root = ET.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return len(list(root.iter()))


def check_pictures(out, sections):
    """Demand every figure as PNG and SVG, and nothing else in the folders."""
    for section in sections:
        names = [figure.name for figure in section.analysis.figures]
        assert len(set(names)) == len(names)
        expected = sorted(f"{name}.{suffix}" for name in names for suffix in ("png", "svg"))
        assert sorted(path.name for path in (out / section.name).iterdir()) == expected
        check_figures(out, section)


def check_figures(out, section):
    """Demand every figure of a section as PNG and SVG."""
    for figure in section.analysis.figures:
        width, height = png_size((out / section.name / f"{figure.name}.png").read_bytes())
        assert width > 600
        assert height > 200
        assert svg_texts(out / section.name / f"{figure.name}.svg") > 30


def check_summary(out, sections):
    """Demand every finding in the summary, as strict JSON with the right keys; return the rows."""
    text = (out / "summary.json").read_text(encoding="utf-8")
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    summary = json.loads(text)
    assert all(list(row) == KEYS for row in summary)
    assert summary == json.loads(json.dumps(summarise(sections)))
    for row in summary:
        assert isinstance(row["ours"], int | float | str)
        assert (row["low"] is None) == (row["high"] is None)
        if row["low"] is not None:
            assert row["low"] <= row["ours"] <= row["high"], row
        assert row["verdict"] in {"reproduced", "differs", "other data", "ours"}
        assert (row["paper"] is None) == (row["verdict"] == "ours"), row
    return summary


def check_report(out, sections):
    """Demand every finding, note and figure on a page that asks nothing of the network.

    A section whose only figure opens the page has no place of its own.
    """
    page = (out / "report.html").read_text(encoding="utf-8")
    text = html.unescape(page)
    for section in sections:
        analysis = section.analysis
        if analysis.findings or analysis.notes or analysis.tables or len(analysis.figures) > 1:
            assert f'<section id="{section.name}">' in page
            assert section.description in text
            assert (section.title or section.name) in text
        for finding in section.analysis.findings:
            assert text.count(finding.claim) >= 2, "once in the summary, once in its section"
            for part in (finding.reason, measured(finding), interval(finding)):
                assert part in text, finding
        for note in section.analysis.notes:
            assert note in text
        for figure in section.analysis.figures:
            assert f'id="{section.name}-{figure.name}"' in page
            assert figure.caption in text
    assert not re.search(ELSEWHERE, page)
    assert "<script" not in page
    return page


def bits(path):
    """The columns of a Parquet file, bit by bit: no NaN equals another."""
    table = pq.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return {n: c.tolist() if c.dtype == object else c.tobytes() for n, c in columns.items()}


def stamps(folder):
    """When each Parquet file was written, and with what."""
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*.parquet")}
