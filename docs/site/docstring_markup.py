"""From the markup of docstrings to Markdown, while they are read for the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?([^`]+)`")
PAGE = re.compile(r"docs/([\w/]+)\.md")
CODE = re.compile(r"(`+)(.+?)\1")


def convert(text: str, public: frozenset[str]) -> str:
    """Turn roles and names of pages into links, and keep asterisks, in all lines but examples."""
    lines = []
    for line in text.splitlines():
        if line.lstrip().startswith((">>>", "...", "**")):  # examples, and names of arguments
            lines.append(line)
            continue
        # Asterisks of docstrings are the mathematician's: x* is an optimum.
        parts = CODE.split(ROLE.sub(lambda role: link_name(role[1], public), line))
        parts[::3] = [PAGE.sub(link_page, part.replace("*", "\\*")) for part in parts[::3]]
        # split() yields text, ticks, code, text, …
        joined = [
            part if index % 3 == 0 else f"{part}{parts[index + 1]}{part}"
            for index, part in enumerate(parts)
            if index % 3 != 2
        ]
        lines.append("".join(joined))
    return "\n".join(lines)


def link_name(name: str, public: frozenset[str]) -> str:
    """Return a link to a public name, or the name as code."""
    name = name.removeprefix("influential_bandits.")
    return f"[`{name}`][influential_bandits.{name}]" if name in public else f"`{name}`"


def link_page(page: re.Match[str]) -> str:
    """Return a link from a page of the reference to another page of the site."""
    title = page[1].rsplit("/", 1)[-1].replace("_", " ")
    return f"[{title}](../{page[1]}.md)"


class DocstringMarkup(griffe.Extension):
    """Converts every docstring when it is collected."""

    def __init__(self, public: list[str] | None = None) -> None:
        """Take the names that can be linked to."""
        self.public = frozenset(public or [])

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of an object, if it has one."""
        if obj.docstring:
            obj.docstring.value = convert(obj.docstring.value, self.public)
