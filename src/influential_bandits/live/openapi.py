"""The interface in OpenAPI's form, made from the list of calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from influential_bandits import __version__

if TYPE_CHECKING:
    from influential_bandits.live.api import Call


ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
REFUSALS = {
    "401": "no key",
    "403": "the key's role does not allow it",
    "404": "there is no such thing, or the key does not see it",
    "409": "it contradicts what is there",
    "413": "the body is too large",
    "422": "it cannot be understood; the message says why",
    "503": "the store failed or the queue is full; ask again, with the same identifiers",
}


def describe_calls(calls: Iterable[Call]) -> dict[str, Any]:
    """Return the OpenAPI document of some calls."""
    calls = list(calls)
    bodies = [call.body for call in calls if call.body is not None]
    schemas, components = msgspec.json.schema_components(
        bodies, ref_template="#/components/schemas/{name}"
    )
    by_body = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        path = re.sub(r":\w+}", "}", call.path)
        operation: dict[str, Any] = {
            "operationId": call.name,
            "summary": call.summary,
            "parameters": [
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": {"type": "integer" if kind == "int" else "string"},
                }
                for name, kind in re.findall(r"{(\w+)(?::(\w+))?}", call.path)
            ],
            "responses": {
                "200": {"description": "done"},
                **({"201": {"description": "made"}} if call.method == "POST" else {}),
                **{
                    status: {
                        "description": text,
                        "content": {"application/json": {"schema": ERROR}},
                    }
                    for status, text in REFUSALS.items()
                },
            },
        }
        if call.body is not None:
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": by_body[call.body]}},
            }
        if call.role is not None:
            operation["security"] = [{"key": []}]
        paths.setdefault(path, {})[call.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "influential-bandits", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
