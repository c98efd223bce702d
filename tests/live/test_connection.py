"""Requests over a raw connection: what HTTP allows is served, and what could hurt is refused."""

import json
import socket
import time
from contextlib import suppress

import pytest

import influential_bandits as ib


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    path = tmp_path_factory.mktemp("connection") / "shop.db"
    with ib.live.serve_in_background(path, most_waiting=16) as running:
        client = ib.live.Client(running.address, running.key, "a shop")
        client.create(["tea", "coffee"], policy="LCB")
        yield running


class Raw:
    """A connection that sends what it is told, and reads answers one by one."""

    def __init__(self, service):
        self.key, self.service = service.key, service
        port = int(service.address.rpartition(":")[2])
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.read = self.socket.makefile("rb")

    def request(self, path, body, *more, method="POST", key=None, version="1.1"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/{version}",
            "Host: here",
            f"Authorization: Bearer {key or self.key}",
            *more,
        ]
        if not any("chunked" in line for line in more):
            lines.append(f"Content-Length: {len(data)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + data

    def send(self, *requests):
        self.socket.sendall(b"".join(requests))

    def answer(self):
        status = int(self.read.readline().split()[1])
        headers = {}
        while line := self.read.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        content = self.read.read(int(headers.get("content-length", 0)))
        return status, headers, json.loads(content) if content else None

    def ask(self, *arguments, **named):
        self.send(self.request(*arguments, **named))
        return self.answer()

    def close(self):
        self.read.close()
        self.socket.close()

    def is_closed(self):
        return self.read.read(1) == b""


@pytest.fixture
def raw(service):
    connection = Raw(service)
    yield connection
    connection.close()


DECIDE = "/v1/experiments/a%20shop/decisions"


def test_names_are_kept_exactly(raw):
    name = "17/ä ?&#%"
    quoted = "17%2F%C3%A4%20%3F%26%23%25"
    status, headers, made = raw.ask(DECIDE, {"instance": "ann", "decision_id": name})
    assert (status, made["decision_id"], headers["content-type"]) == (200, name, "application/json")
    told = {"decision_id": name, "status": "observed", "loss": 0.5}
    assert raw.ask(f"{DECIDE}/{quoted}/feedback", {"loss": 0.5})[2] == told
    assert raw.ask(f"/v1/experiments/other/decisions/{quoted}/feedback", {"loss": 0.5})[0] == 404


@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        (b"{", {}, 422),
        ({"instance": 5}, {}, 422),
        ({"instance": ""}, {}, 422),
        ({"instance": "ann"}, {"key": "ib_wrong"}, 401),
        ({"instance": "ann"}, {"method": "PUT"}, 405),
        (b"", {}, 422),
        (b'{"instance": "\xff"}', {}, 422),
        (b'{"instance": "a", "instance": "b", "decision_id": 1e999}', {}, 422),
        (b"\xff\xfe", {}, 422),
        (b"[" * 100_000, {}, 422),
        (b'{"instance": ' + b"[" * 100_000, {}, 422),
        ({"instance": "x" * 2**20}, {}, 413),
    ],
)
def test_what_cannot_be_served_is_refused(raw, body, options, expected):
    status, headers, told = raw.ask(DECIDE, body, **options)
    assert status == expected
    assert told["error"]["message"]
    assert ("www-authenticate" in headers) == (expected == 401)
    if expected == 413:
        assert headers["connection"] == "close"
        assert raw.is_closed()
    else:  # the connection goes on
        assert raw.ask(DECIDE, {"instance": "ann"})[0] == 200


def test_an_experiment_that_is_not_there(raw):
    for path in ("/v1/experiments/other/decisions", "/v1/experiments/a%2Fb/decisions"):
        assert raw.ask(path, {"instance": "ann"})[0] == 404
    assert raw.ask(f"{DECIDE}/never/feedback", {"loss": 1.0})[0] == 404


def test_requests_sent_together_are_answered_in_order(raw):
    names = [f"together {n}" for n in range(6)]
    raw.send(*(raw.request(DECIDE, {"instance": "bob", "decision_id": name}) for name in names))
    assert [raw.answer()[2]["decision_id"] for _ in names] == names


def test_parts_pauses_and_old_clients(raw):
    whole = json.dumps({"instance": "ann", "decision_id": "in parts"}).encode()
    parts = b"".join(
        b"%x\r\n%b\r\n" % (len(whole[n : n + 9]), whole[n : n + 9]) for n in range(0, len(whole), 9)
    )
    chunked = raw.request(DECIDE, parts + b"0\r\n\r\n", "Transfer-Encoding: chunked")
    for start in range(0, len(chunked), 50):
        raw.send(chunked[start : start + 50])
    assert raw.answer()[2]["decision_id"] == "in parts"
    raw.send(raw.request(DECIDE, {"instance": "ann"}, "Expect: 100-continue"))
    assert raw.read.readline().split()[1] == b"100"
    raw.read.readline()
    assert raw.answer()[0] == 200
    status, headers, _ = raw.ask(DECIDE, {"instance": "ann"}, version="1.0")
    assert (status, headers["connection"]) == (200, "close")
    assert raw.is_closed()


def test_more_than_may_wait_is_told_to_come_later(service):
    """Back-pressure: the queue is bounded, and who does not fit is told when to come again."""
    connections = [Raw(service) for _ in range(150)]
    for _ in range(20):
        for n, connection in enumerate(connections):
            connection.send(connection.request(DECIDE, {"instance": f"user {n}"}))
        answers = [connection.answer() for connection in connections]
        assert {status for status, _, _ in answers} <= {200, 503}
        refused = [headers for status, headers, _ in answers if status == 503]
        assert all(headers["retry-after"] == "1" for headers in refused)
        if refused:
            break
    for connection in connections:
        connection.close()
    assert refused


def make_key(raw, role):
    return raw.ask("/v1/keys", {"label": "x", "role": role})[2]["key"]


def chunked(raw, path, data, trailer, key):
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    raw.send(
        head.encode()
        + b"\r\n%x\r\n%b\r\n0\r\n" % (len(data), data)
        + trailer.encode()
        + b"\r\n\r\n"
    )
    return raw.answer()


@pytest.mark.parametrize("asked", ["decision", "new key"])
def test_what_comes_after_a_body_is_no_header(raw, asked):
    path, body, role = {
        "decision": (DECIDE, b'{"instance": "ann"}', "reader"),
        "new key": ("/v1/keys", b'{"label": "mine", "role": "admin"}', "writer"),
    }[asked]
    trailer = f"Authorization: Bearer {raw.key}"
    assert chunked(raw, path, body, trailer, make_key(raw, role))[0] == 403
    assert chunked(raw, path, body, trailer, None)[0] == 401
    assert chunked(raw, path, body, "Authorization: Bearer wrong", raw.key)[0] in (200, 201)


@pytest.mark.parametrize("header", ["Authorization: Bearer other", "Host: there", "host: here"])
def test_two_headers_that_say_who_and_where_are_refused(raw, header):
    status, headers, told = raw.ask(DECIDE, {"instance": "ann"}, header)
    assert (status, headers["connection"]) == (400, "close")
    assert "two headers" in told["error"]["message"]
    assert raw.is_closed()


def send_in_turn(raw, own, data):
    """Send something, in turn with decisions of somebody else, until the service listens no more.

    Return how long the decisions took, and how many bytes were sent.
    """
    raw.socket.settimeout(20)
    waits, left = [], memoryview(data)
    with suppress(OSError):
        while left:
            left = left[raw.socket.send(left[: 1 << 18]) :]
            start = time.monotonic()
            assert own.ask(DECIDE, {"instance": "ann"})[0] == 200
            waits.append(time.monotonic() - start)
    return waits, len(data) - len(left)


ONE_BYTE_CHUNKS = b"1\r\nx\r\n" * 10**6
NO_KEY = b"POST /v1/experiments/a%20shop/decisions HTTP/1.1\r\nHost: here\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (NO_KEY + b"Transfer-Encoding: chunked\r\n\r\n" + ONE_BYTE_CHUNKS, 401),
        (NO_KEY + b"x: " + b"y" * 50_000_000, 431),
        (NO_KEY + b"x:\r\n" * 10**6, 431),
        (b"GET /" + b"y" * 20_000_000, 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"y" * 20_000_000, 405),
        (b"\x16\x03\x01 no HTTP at all \r\n\r\n", 400),
    ],
    ids=["chunks", "header", "headers", "address", "frame of a chunk", "no HTTP"],
)
def test_who_sends_too_much_without_a_key_is_cut_off_and_holds_up_nobody(raw, sent, status):
    own = Raw(raw.service)
    own.ask(DECIDE, {"instance": "ann"})
    waits, taken = send_in_turn(raw, own, sent)
    assert taken < 4_000_000
    assert max(waits) < 1.0
    try:
        told = raw.read.readline()
    except OSError:  # what was sent after the answer made the system drop it
        told = b""
    assert not told or int(told.split()[1]) == status
    own.close()


def test_chunks_with_a_key_are_limited_as_they_are_sent(raw):
    head = NO_KEY + f"Authorization: Bearer {raw.key}\r\n".encode()
    own = Raw(raw.service)
    waits, taken = send_in_turn(
        raw, own, head + b"Transfer-Encoding: chunked\r\n\r\n" + ONE_BYTE_CHUNKS
    )
    assert taken < 4_000_000  # and not the six that were to come
    assert max(waits) < 1.0
    own.close()


def test_a_request_that_does_not_come_in_time_is_given_up(service, monkeypatch):
    monkeypatch.setattr("influential_bandits.live.connection.SECONDS_TO_READ", 0.3)
    silent, head, body = (Raw(service) for _ in range(3))
    head.send(b"POST /v1/experiments HTTP/1.1\r\nHost: ")
    request = body.request(DECIDE, {"instance": "ann"})
    body.send(request[:-3])
    whole = Raw(service)
    assert whole.ask(DECIDE, {"instance": "ann"})[0] == 200  # they hold up nobody
    assert silent.is_closed()
    assert head.answer()[0] == 408
    assert body.answer()[0] == 408
    for raw in (head, body):
        assert raw.is_closed()
    for raw in (silent, whole):
        raw.close()
    whole = Raw(service)
    for _ in range(3):  # who asks in time may stay
        assert whole.ask(DECIDE, {"instance": "ann"})[0] == 200
        time.sleep(0.2)
    for raw in (silent, head, body, whole):
        raw.close()


def test_a_request_that_is_half_sent_does_not_hold_up_the_end(tmp_path):
    with ib.live.serve_in_background(tmp_path / "shop.db") as running:
        raw = Raw(running)
        raw.send(raw.request("/v1/experiments", {"name": "x"})[:-3])
        time.sleep(0.2)
        start = time.monotonic()
    assert time.monotonic() - start < 5.0
    assert raw.is_closed()
    raw.close()
