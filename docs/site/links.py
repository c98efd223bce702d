"""Check links: those of the sources (``python -m docs.site.links``), and those of a built site."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "reference"
COPIED = {ROOT / "docs" / "changelog.md", ROOT / "docs" / "contributing.md"}
LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)")
FENCE = re.compile(r"^\s*(```|~~~)")
# What code, comments and pages say of files of docs/ and benchmarks/.
FILE = re.compile(r"\b((?:docs|benchmarks)/[\w/]+\.(?:md|py|png|svg|toml))\b")
MADE_UP = {"docs/a.md"}  # in tests
# Elements whose address the browser fetches without being asked.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
BLOCKS = ("pre", "script", "style")  # where a backtick is one


def check_sources(root: Path = ROOT) -> list[str]:
    """Return what is wrong with links and names of files in pages, code and comments."""
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    wrong = []
    for page, text in texts.items():
        for number, line in prose_lines(text):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                reason = check_link(page, target, root)
                if reason:
                    wrong.append(f"{page.relative_to(root)}:{number}: {target}: {reason}")
    code = [
        file
        for folder in ("src", "tests", "benchmarks", "docs")
        for file in (root / folder).rglob("*.py")
    ]
    for file in [*pages, *code, root / "Makefile", root / "pyproject.toml"]:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            wrong += [
                f"{file.relative_to(root)}:{number}: there is no {name}"
                for name in FILE.findall(line)
                if not exists(root / name) and name not in MADE_UP
            ]
    return wrong


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page that are not code, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def exists(file: Path) -> bool:
    """Say whether a file is there, or will be when the site is built."""
    if file.exists() or file.is_relative_to(GENERATED) or file in COPIED:
        return True
    return file.parent.name == "tutorials" and file.with_suffix(".py").exists()


def check_link(page: Path, target: str, root: Path) -> str:
    """Say what is wrong with a link of a page; nothing if it leads somewhere."""
    if re.match(r"[a-z]+:", target):
        return ""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(root) or not exists(file):
        return "there is no such file"
    if anchor and file.suffix == ".md" and file.exists():
        headings = find_anchors(file.read_text(encoding="utf-8"))
        if anchor not in headings:
            return "there is no such heading"
    return ""


def find_anchors(text: str) -> set[str]:
    """Return the anchors of all headings of a page."""
    titles = [line.lstrip("#") for _, line in prose_lines(text) if re.match(r"#+ ", line)]
    return {make_anchor(title) for title in titles}


def make_anchor(title: str) -> str:
    """Return the anchor of a heading, as the site makes it."""
    explicit = re.search(r"\{\s*#([\w-]+)\s*\}\s*$", title)
    if explicit:
        return explicit[1]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
    ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


class Page(HTMLParser):
    """Collects the anchors, the addresses and the raw markup of a page of the site."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.raw: list[str] = []  # text in which markup was not understood
        self._inside = 0  # blocks of code
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names or leads to."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in FETCHED and FETCHED[tag] in found:
            self.fetched.append(found[FETCHED[tag]])
        self._inside += tag in BLOCKS

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a block of code."""
        self._inside -= tag in BLOCKS

    def handle_data(self, data: str) -> None:
        """Note what reads as markup."""
        if "`" in data and not self._inside:
            self.raw.append(data.strip())


def check_site(folder: Path) -> list[str]:
    """Return what is wrong in a built site: dead links, addresses of other hosts, raw markup."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")
    }
    wrong = []
    for path, page in pages.items():
        # Served for any address that is not there, so that its own links are absolute.
        if path.name == "404.html":
            continue
        here = path.relative_to(folder.resolve())
        wrong += [f"{here}: a raw backtick in {text!r:.80}" for text in page.raw]
        elsewhere = [address for address in page.fetched if urlsplit(address).netloc]
        wrong += [f"{here}: fetches {address} from another host" for address in elsewhere]
        for address in [*page.links, *page.fetched]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{here}: {address} leads nowhere")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    wrong.append(f"{here}: {address} has no such heading")
    return wrong


if __name__ == "__main__":
    problems = check_sources()
    print(*problems, sep="\n")
    sys.exit(bool(problems))
