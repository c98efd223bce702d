"""A connection that takes in no more than it may: limits on bytes, headers and time.

uvicorn parses, and calls the application; it bounds neither headers nor the number of chunks. Here
a request is parsed in slices, so that nobody waits for a large one: the application, which looks at
keys first, can refuse it after the first slice, and then nothing more of it is read.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from collections import deque
from enum import Enum, auto
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from influential_bandits.live.answers import refuse
from influential_bandits.live.requests import Refused

SLICE = 1 << 14  # bytes that are parsed before others have their turn
MOST_HEAD_BYTES = 1 << 16  # from the method to the empty line after the headers
MOST_HEADERS = 100
MOST_BODY_BYTES = 1 << 20
MOST_SENT_BYTES = MOST_BODY_BYTES + (1 << 16)  # of a body with the frames of its chunks
SECONDS_TO_READ = 30.0  # a request from its first byte to its last
ONLY_ONCE = {b"authorization", b"host"}  # two of them mean two things to two readers


class Stage(Enum):
    """What of a request comes next."""

    START = auto()
    HEAD = auto()
    BODY = auto()


class Connection(HttpToolsProtocol):
    """A connection of a client."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._stage = Stage.START
        self._bytes = 0  # of this stage, in slices that held nothing else
        self._slices: deque[bytes] = deque()  # received, and not parsed yet
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._once: set[bytes] = set()
        self._refusal = Refused(400, "no_request", "this is no HTTP request")
        self._timer: TimerHandle | None = None

    # What arrives.

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to listen, but not for ever."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(SECONDS_TO_READ, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was not parsed."""
        self._slices.clear()
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, a slice at a time."""
        if len(data) <= SLICE and not self._slices:
            self._parse(data)
            return
        is_first = not self._slices
        self._slices.extend(data[at : at + SLICE] for at in range(0, len(data), SLICE))
        self.flow.pause_reading()
        if is_first:
            self._parse_next()

    def _parse_next(self) -> None:
        if not self._slices:
            return
        self._parse(self._slices.popleft())
        if self._slices:
            self.loop.call_soon(self._parse_next)  # the application comes first
        elif not self.pipeline:
            self.flow.resume_reading()

    def _parse(self, part: bytes) -> None:
        if self.transport.is_closing():  # it was answered, and nobody listens any more
            self._slices.clear()
            return
        before = self._stage
        super().data_received(part)
        if self._stage is Stage.START:
            self._stop_timer()
            return
        if self._stage is before:
            self._bytes += len(part)
            if before is Stage.HEAD and self._bytes > MOST_HEAD_BYTES:
                self._refuse(431, "head_too_large", f"headers may have {MOST_HEAD_BYTES:,} bytes")
            elif self._bytes > MOST_SENT_BYTES:
                self._refuse_body()
        if self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(SECONDS_TO_READ, self._give_up)

    # What the parser finds.

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._stage, self._bytes = Stage.HEAD, 0
        self._body, self._body_bytes = [], 0
        self._once.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; what comes after the body is none, and is dropped."""
        if self._stage is not Stage.HEAD:
            return
        super().on_header(name, value)
        name = self.headers[-1][0]
        if len(self.headers) > MOST_HEADERS:
            self._fail(431, "too_many_headers", f"a request may have {MOST_HEADERS} headers")
        if name in ONLY_ONCE:
            if name in self._once:
                self._fail(400, "header_twice", f"there are two headers {name.decode()}; send one")
            self._once.add(name)

    def on_headers_complete(self) -> None:
        """Call the application."""
        self._stage, self._bytes = Stage.BODY, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body: the application is given all of it at once."""
        self._body_bytes += len(body)
        if self._body_bytes > MOST_BODY_BYTES:
            self._fail(413, "too_large", f"a body may have {MOST_BODY_BYTES:,} bytes")
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand the body over."""
        self._stage, self._bytes = Stage.START, 0
        if self._body:
            super().on_body(b"".join(self._body))
            self._body = []
        super().on_message_complete()

    # What ends it.

    def on_response_complete(self) -> None:
        """Listen to the next request; after an answer before the end of this one, to nothing."""
        if self._stage is Stage.BODY and not self.pipeline:
            self.transport.close()
        super().on_response_complete()

    def shutdown(self) -> None:
        """End at once if the request has not come in whole, else after its answer."""
        if self._stage is Stage.START:
            super().shutdown()
        else:
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._stage is Stage.START:
            self.transport.close()
        else:
            self._refuse(408, "too_slow", f"a request must come within {SECONDS_TO_READ:.0f} s")

    def _refuse_body(self) -> None:
        self._refuse(413, "too_large", f"a body may have {MOST_BODY_BYTES:,} bytes")

    def _fail(self, status: int, code: str, message: str) -> None:
        """Stop the parser; uvicorn then sends what it takes for a refusal of what is no HTTP."""
        self._refusal = Refused(status, code, message)
        raise self._refusal

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._refusal = Refused(status, code, message)
        self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be read, and close."""
        answer = refuse(self._refusal)
        lines = [STATUS_LINE[answer.status_code]]
        for name, value in (*answer.raw_headers, (b"connection", b"close")):
            lines.append(b"%b: %b\r\n" % (name, value))
        self.transport.write(b"".join([*lines, b"\r\n", answer.body]))
        self.transport.close()
