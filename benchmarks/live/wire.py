"""HTTP/1.1 over one connection, as little of it as a client needs."""

import asyncio
import json
from urllib.parse import quote


class Wire(asyncio.Protocol):
    """A connection with one request under way at a time."""

    def __init__(self, answered, lost):
        self._answered, self._lost = answered, lost
        self._received = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        received = self._received = self._received + data if self._received else data
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return
        place = received.lower().find(b"content-length:", 0, head)
        length = int(received[place + 15 : received.find(b"\r\n", place)]) if place > 0 else 0
        if len(received) < head + 4 + length:
            return
        self._received = b""
        self._answered(self, int(received[9:12]), received[:head], received[head + 4 :])

    def connection_lost(self, error):
        self._lost(self, error)


def request_bytes(path, body, key, method="POST", query=""):
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {quote(path)}{query} HTTP/1.1\r\nHost: l\r\nAuthorization: Bearer {key}\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Lost(Exception):
    """The connection ended before the answer came: nobody knows what has happened."""


class Client:
    """Asks and waits for the answer; connects again where the connection was lost."""

    def __init__(self, port, key):
        self.port, self._key = port, key
        self._wire = self._answer = None

    async def ask(self, path, body=None, method="POST", query="", seconds=30.0):
        """Return (status, headers, content); raise Lost if the connection ends before."""
        loop = asyncio.get_running_loop()
        if self._wire is None:
            try:
                _, self._wire = await loop.create_connection(
                    lambda: Wire(self._take, self._lose), "127.0.0.1", self.port
                )
            except OSError as error:
                raise Lost from error
        self._answer = loop.create_future()
        self._wire.transport.write(request_bytes(path, body, self._key, method, query))
        try:
            status, head, content = await asyncio.wait_for(self._answer, seconds)
        except TimeoutError:
            self.close()
            raise
        return status, head, json.loads(content) if b"application/json" in head else content

    def close(self):
        if self._wire is not None:
            self._wire.transport.abort()
            self._wire = None

    def _take(self, _, status, head, content):
        if not self._answer.done():
            self._answer.set_result((status, head, content))

    def _lose(self, wire, _):
        if wire is self._wire:
            self._wire = None
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(Lost())
