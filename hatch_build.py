"""The package's description for an index: README.md, whose links work in the repository only."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# [text](target) and ![text](target), where the target is neither an address nor a heading.
RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
WHERE = "\n\nThe files and pictures named here are in the repository.\n"


class Description(MetadataHookInterface):
    """Adds what cannot be written into pyproject.toml as it is."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description, and the address of the repository if there is one."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = describe(readme, self.config.get("files", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        repository = self.config.get("repository", "")
        metadata["urls"] = {"Repository": repository} if repository else {}


def describe(readme: str, files: str) -> str:
    """Make relative links absolute; with no address for files, keep words and drop pictures."""

    def replaced(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if files:
            return f"{picture}[{words}]({files.rstrip('/')}/{target})"
        return "" if picture else words

    text = RELATIVE_LINK.sub(replaced, readme)
    return text if files else re.sub(r"\n{3,}", "\n\n", text).rstrip() + WHERE
