"""Decisions and feedback over a raw connection: the short way answers as the long one does."""

import json
import socket

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
        self.key = service.key
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

    def is_closed(self):
        return self.read.read(1) == b""


@pytest.fixture
def raw(service):
    connection = Raw(service)
    yield connection
    connection.socket.close()


DECIDE = "/v1/experiments/a%20shop/decisions"


def test_names_are_kept_exactly(raw):
    name = "17/ä ?&#%"
    quoted = "17%2F%C3%A4%20%3F%26%23%25"
    status, headers, made = raw.ask(DECIDE, {"instance": "ann", "decision_id": name})
    assert (status, made["decision_id"], headers["content-type"]) == (200, name, "application/json")
    for query in ("", "?experiment=a%20shop", "?experiment=a+shop"):
        path = f"/v1/decisions/{quoted}/feedback{query}"
        assert raw.ask(path, {"loss": 0.5})[2] == {
            "decision_id": name,
            "status": "observed",
            "loss": 0.5,
        }
    assert raw.ask(f"/v1/decisions/{quoted}/feedback?experiment=other", {"loss": 0.5})[0] == 404


@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        (b"{", {}, 422),
        ({"instance": 5}, {}, 422),
        ({"instance": ""}, {}, 422),
        ({"instance": "ann"}, {"key": "ib_wrong"}, 401),
        ({"instance": "ann"}, {"method": "PUT"}, 405),
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
    assert raw.ask("/v1/decisions/never/feedback", {"loss": 1.0})[0] == 404


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
        connection.socket.close()
    assert refused
