"""The interface in OpenAPI's form, made from the list of calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

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
REFUSAL = (
    "Refused. 401: no key; 403: its role does not allow it; 404: not there, or not for this key; "
    "409: it contradicts what is there; 413: too large; 422: not understood; 503: ask again, with "
    "the same identifiers"
)


def describe_calls(calls: Iterable[Call]) -> dict[str, Any]:
    """Return the OpenAPI document of some calls."""
    calls = list(calls)
    types = [call.body for call in calls] + [call.answer for call in calls]
    structs = [kind for kind in types if isinstance(kind, msgspec.StructMeta)]
    schemas, components = msgspec.json.schema_components(
        structs, ref_template="#/components/schemas/{name}"
    )
    by_type: dict[Any, dict[str, Any]] = dict(zip(structs, schemas, strict=True))
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
                str(call.status): {
                    "description": "made" if call.status == 201 else "done",
                    "content": _describe_answer(call.answer, by_type),
                },
                "default": {"description": REFUSAL, "content": _as_json(ERROR)},
            },
        }
        if call.body is not None:
            operation["requestBody"] = {"required": True, "content": _as_json(by_type[call.body])}
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


def _as_json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _describe_answer(answer: Any, by_type: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """Return what an answer holds: a Struct, some other object, or what is not JSON."""
    if answer in by_type:
        return _as_json(by_type[answer])
    return {"*/*": {}} if answer is Response else _as_json({"type": "object"})
