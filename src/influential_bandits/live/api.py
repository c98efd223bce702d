"""How a call of the interface is declared, and how a path is led to what answers it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InvalidInput
from influential_bandits.live.keys import Key, Role
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import ExperimentRow

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

EXPERIMENT = "/v1/experiments/{experiment}"
DECISION = EXPERIMENT + "/decisions/{decision:label}"
A_PAGE = 1000  # entries of a list
PARTS = {"": "[^/]+", "label": ".*", "int": "[0-9]{1,9}"}  # of paths; a label is any text

Handler = Callable[..., Awaitable[Any]]
Buffer = bytes | msgspec.Raw
T = TypeVar("T")
Target = TypeVar("Target")
CallHandler = TypeVar("CallHandler", bound=Handler)


@dataclass(frozen=True)
class Asked:
    """A request for a call: who asks, for what, and the service that answers."""

    service: Service
    request: HttpRequest
    visitor: Key
    names: dict[str, str]  # in the path

    async def row(self) -> ExperimentRow:
        """Return the experiment of the path; one that the visitor may not see is not there."""
        return await self.service.find(self.names["experiment"], self.visitor)

    def number(self, name: str, default: int, most: int = 2**62) -> int:
        """Return a number of the query."""
        text = self.request.query_params.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise InvalidInput(f"{name} must be a whole number, got {text!r:.40}")
        return min(int(text), most)

    async def work(self, act: Callable[[Any, float], T], **names: Any) -> T:
        """Have the writer do something in the experiment of the path; wait until it is on disk."""
        answer: T = await self.service.ask((await self.row()).name, act, **names)
        return answer


@dataclass(frozen=True)
class Call:
    """One call of the interface: what it takes, what it answers, and who may make it."""

    method: str
    path: str
    role: Role | None  # None: everybody
    handle: Handler  # of what was asked, and the body if it has one
    body: type | None
    answer: Any  # type
    status: int  # of its answer
    in_batch: bool

    @property
    def name(self) -> str:
        """The name of the call."""
        return self.handle.__name__

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.handle.__doc__ or "").partition("\n")[0].rstrip(".")

    @cached_property
    def _decode(self) -> Callable[[Buffer], Any]:
        return msgspec.json.Decoder(self.body).decode

    async def serve(self, asked: Asked, data: Buffer) -> Any:
        """Answer it, given the bytes of its body."""
        return await (
            self.handle(asked) if self.body is None else self.handle(asked, self._decode(data))
        )


DECLARED: list[Call] = []


def call(
    method: str, path: str, role: Role | None, *, status: int = 200, in_batch: bool = False
) -> Callable[[CallHandler], CallHandler]:
    """Declare that a function answers a call.

    The first line of its docstring describes it; its annotations say what the body and the answer
    are.
    """

    def declare(handle: CallHandler) -> CallHandler:
        types = get_type_hints(handle)
        body, answer = types.get("body"), types["return"]
        DECLARED.append(Call(method, path, role, handle, body, answer, status, in_batch))
        return handle

    return declare


class Router:
    """From a method and a path to what answers it: the first entry that fits.

    Examples
    --------
    >>> Router([("GET", "/cups/{cup}", "a cup")]).find("GET", "/cups/blue")
    ('a cup', {'cup': 'blue'})
    """

    def __init__(self, entries: Iterable[tuple[str, str, Target]]) -> None:
        self._entries: dict[str, list[tuple[re.Pattern[str], Any]]] = {}
        for method, path, target in entries:
            self._entries.setdefault(method, []).append((_compile(path), target))

    def find(self, method: str, path: str) -> tuple[Any, dict[str, str]]:
        """Return what answers, and the names in the path."""
        for pattern, target in self._entries.get(method, ()):
            match = pattern.fullmatch(path)
            if match is not None:
                return target, match.groupdict()
        for other, entries in self._entries.items():
            if any(pattern.fullmatch(path) for pattern, _ in entries):
                raise Refused(405, "unknown_path", f"this path takes {other}, and not {method:.20}")
        raise Refused(404, "unknown_path", "there is no such page")


def _compile(path: str) -> re.Pattern[str]:
    pattern = ""
    for text, name, kind in re.findall(r"([^{]*)(?:{(\w+):?(\w*)})?", path):
        pattern += re.escape(text) + (f"(?P<{name}>{PARTS[kind]})" if name else "")
    return re.compile(pattern, re.DOTALL)
