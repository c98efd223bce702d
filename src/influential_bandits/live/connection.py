"""A connection that serves decisions and feedback itself, and hands everything else on.

These two are most requests. What is asked, checked and answered is the same as on the long way,
through the framework; but no task, no scope and no future is made for them, which would cost more
than the decision does. Requests of these two kinds that are out of the ordinary (sent before the
answer to the one before, or that expect a word before they send their body) take the long way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.answers import refuse
from influential_bandits.live.bodies import MOST_BYTES
from influential_bandits.live.events import encode
from influential_bandits.live.requests import Decide, Feedback, Refused
from influential_bandits.live.writer import Job

__all__ = ["Connection"]

log = logging.getLogger("influential_bandits.live")

EXPERIMENTS, DECISIONS, FEEDBACK = b"/v1/experiments/", b"/decisions", b"/feedback"
OF_DECISION = b"/v1/decisions/"
JSON = b"content-type: application/json\r\ncontent-length: %d\r\n"
CLOSE = b"connection: close\r\n"

decode_decide = msgspec.json.Decoder(Decide).decode
decode_feedback = msgspec.json.Decoder(Feedback).decode


class _Nobody:
    """Who waits for the body of a request that is served here: nobody."""

    def set(self) -> None:
        """Do nothing."""


class Exchange:
    """A request that is served here, as far as the server asks about one under way."""

    message_event = _Nobody()

    def __init__(self) -> None:
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True


class Connection(HttpToolsProtocol):
    """A connection of a client."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        app: Any = self.app
        while not hasattr(app, "state"):
            app = app.app
        self._service = app.state.service
        self._service.loop = self.loop
        self._exchange = Exchange()
        self._served: Any = None  # the counter of what is served now
        self._serve: Callable[[bytes], None] | None = None  # for the request that is read now
        self._name = ""  # of its experiment or decision, as in the path
        self._query = b""
        self._authorization = b""
        self._body = b""

    # The server's parser calls these.

    def on_message_begin(self) -> None:
        """Begin a request; what the framework needs to know of it is gathered if it gets it."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._serve = None
        self._authorization = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        name = name.lower()
        if name == b"authorization":
            self._authorization = value
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Serve a request here or hand it on, now that it is known which one it is."""
        parser, before = self.parser, self.cycle
        if (
            parser.get_method() == b"POST"
            and not self.expect_100_continue
            and (before is None or before.response_complete)
            and not parser.should_upgrade()
            and self._is_for_me()
        ):
            exchange = self._exchange
            exchange.response_complete = exchange.disconnected = False
            exchange.keep_alive = parser.should_keep_alive() and parser.get_http_version() != "1.0"
            self.cycle = exchange  # type: ignore[assignment]
            self._body = b""
            return
        self._serve = None
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._serve is None:
            super().on_body(body)
        elif len(self._body) + len(body) <= MOST_BYTES:
            self._body += body
        else:  # and what is still to come is not listened to
            self._serve, self._exchange.keep_alive = None, False
            self.take(Refused(413, "too_large", f"a body may have {MOST_BYTES:,} bytes"))

    def on_message_complete(self) -> None:
        """Serve a request that has come as a whole."""
        serve = self._serve
        if serve is None:
            super().on_message_complete()
            return
        self._serve = None
        try:
            serve(self._body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            self.take(error)

    # What is served here.

    def _is_for_me(self) -> bool:
        url = self.url
        path, _, self._query = url.partition(b"?")
        if path.startswith(EXPERIMENTS) and path.endswith(DECISIONS):
            name, self._serve = path[len(EXPERIMENTS) : -len(DECISIONS)], self._decide
        elif path.startswith(OF_DECISION) and path.endswith(FEEDBACK):
            name, self._serve = path[len(OF_DECISION) : -len(FEEDBACK)], self._feed_back
        else:
            return False
        if not name or self.root_path or b"#" in url or not url.isascii():
            return False
        self._name = name.decode("ascii")
        if "%" in self._name:
            self._name = unquote(self._name)
        return "/" not in self._name or self._serve != self._decide

    def _decide(self, data: bytes) -> None:
        service = self._service
        visitor = service.admit(self._authorization.decode("latin-1"), "writer")
        body = decode_decide(data)
        row = service.find(self._name, visitor)
        service.writer.submit(
            Job(
                row.name,
                lambda work, at: work.decide(body, at),
                self._hand_over,
                body.decision_id,
                body.instance,
            )
        )
        self._served = service.metrics.decisions

    def _feed_back(self, data: bytes) -> None:
        service, name = self._service, self._name
        visitor = service.admit(self._authorization.decode("latin-1"), "writer")
        body = decode_feedback(data)
        named = None
        if self._query:
            given = parse_qsl(self._query.decode("ascii"), keep_blank_values=True)
            named = dict(given).get("experiment")
        row = service.find_by_decision(name, visitor, named)
        service.writer.submit(
            Job(row.name, lambda work, at: work.feed_back(name, body, at), self._hand_over, name)
        )
        self._served = service.metrics.feedback

    # Answers.

    def _hand_over(self, answer: Any) -> None:
        """Take an answer in the writer's thread; the loop is told of all of a batch at once."""
        self._service.delivered.append((self.take, answer))

    def take(self, answer: Any) -> None:
        """Send an answer, or why there is none."""
        exchange = self._exchange
        if exchange.disconnected or self.transport.is_closing():
            exchange.response_complete = True
            return
        extra = b""
        if isinstance(answer, Exception):
            content, status, extra = self._refuse(answer)
        else:
            content, status = encode(answer), 200
            self._served.inc()
        parts = [STATUS_LINE[status]]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (JSON % len(content), extra)
        if not exchange.keep_alive:
            parts.append(CLOSE)
        parts += (b"\r\n", content)
        self.transport.write(b"".join(parts))
        exchange.response_complete = True
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _refuse(self, error: Exception) -> tuple[bytes, int, bytes]:
        service = self._service
        if not isinstance(error, (InfluentialBanditsError, msgspec.DecodeError)):
            log.error("a request failed", exc_info=error)
            service.metrics.errors.inc()
            error = Refused(500, "internal", "the service failed; see its log")
        refusal = refuse(error)
        known = (b"content-type", b"content-length")
        lines = [
            name + b": " + value + b"\r\n"
            for name, value in refusal.raw_headers
            if name not in known
        ]
        return bytes(refusal.body), refusal.status_code, b"".join(lines)
