"""Write the page of the service's interface, from the document that it serves as /openapi.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from influential_bandits.live.handlers import CALLS
from influential_bandits.live.openapi import describe_calls

INTRODUCTION = """\
# Interface of the service

Every call of `influential-bandits serve`. A running service has the same as `/openapi.json`
([this version's](openapi.json)). Calls carry a key: `Authorization: Bearer KEY`. How to use them:
[Serve decisions](../how_to/serve_decisions.md).

A call that is refused answers `{"error": {"code": …, "message": …}}` with one of these statuses:

"""


def write_page(folder: Path) -> list[str]:
    """Write the page, and the document itself beside it; return the paths of the calls."""
    document = describe_calls(CALLS)
    text = json.dumps(document, indent=1)
    (folder / "openapi.json").write_text(text, encoding="utf-8")
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    refusals = {
        status: answer["description"]
        for _, _, operation in operations
        for status, answer in operation["responses"].items()
        if status >= "400"
    }
    lines = [INTRODUCTION + "| status | meaning |", "|---|---|"]
    lines += [f"| {status} | {meaning} |" for status, meaning in sorted(refusals.items())]
    lines += ["", "## Calls", "", "| call | what it does | body | answer |", "|---|---|---|---|"]
    for path, method, operation in operations:
        summary, body = escape(operation["summary"]), link_type(operation.get("requestBody", {}))
        done = next(answer for status, answer in operation["responses"].items() if status < "300")
        lines.append(f"| `{method.upper()} {path}` | {summary} | {body} | {link_type(done)} |")
    lines += ["", "## Bodies and answers", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += describe_schema(name, schema)
    (folder / "service.md").write_text("\n".join(lines), encoding="utf-8")
    return list(document["paths"])


def link_type(part: dict[str, Any]) -> str:
    """Return a link to what a call takes or answers."""
    schema = part.get("content", {}).get("application/json", {}).get("schema", {})
    return name_type(schema) if schema else ""


def describe_schema(name: str, schema: dict[str, Any]) -> list[str]:
    """Return the section of a body or an answer: its fields, with their types and defaults."""
    description = re.split(r"\n\s*\n", schema.get("description", ""))[0]
    lines = [
        f"### {name}",
        "",
        escape(description),
        "",
        "| field | type | default |",
        "|---|---|---|",
    ]
    required = schema.get("required", [])
    for field, kind in schema.get("properties", {}).items():
        default = "*required*" if field in required else f"`{json.dumps(kind.get('default'))}`"
        lines.append(f"| `{field}` | {name_type(kind)} | {default} |")
    return [*lines, ""]


def name_type(kind: dict[str, Any]) -> str:
    """Say in words which values a schema admits."""
    if "$ref" in kind:
        name = kind["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(dict.fromkeys(name_type(one) for one in kind["anyOf"]))
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if kind.get("type") == "array":
        return f"list of {name_type(kind.get('items', {}))}"
    return kind.get("type", "anything")


def escape(text: str) -> str:
    """Keep a text within its cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
