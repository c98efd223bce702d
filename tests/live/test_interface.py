"""The interface under requests nobody foresaw, and keys that open what they should and no more."""

import http.client
import json
import re
import sqlite3
from contextlib import closing, suppress
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from benchmarks.live.processes import ServiceProcess, prepare
from influential_bandits.live.handlers import CALLS

pytestmark = pytest.mark.long

EXAMPLES = 4  # of each call, right and wrong ones
SHOP = {"arms": ["tea", "coffee"], "policy": "LCB", "best_rating": 5.0, "control_share": 0.5}
OPEN = {"/health"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with two experiments, and what it takes to ask it."""
    folder = tmp_path_factory.mktemp("interface")
    key = prepare(folder / "s.db")
    with ServiceProcess(folder / "s.db", folder / "log") as service:
        served = Served(service, key, folder)
        for name in ("shop", "other"):
            assert served.ask("POST", "/v1/experiments", {"name": name, "settings": SHOP})[0] == 201
        yield served


class Served:
    """A service, and a client that sends whatever it is given."""

    def __init__(self, service, key, folder):
        self.service, self.key, self.folder = service, key, folder

    def ask(self, method, path, body=None, key=None, raw=None):
        """Return the status and the content of an answer."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=20)
        with closing(connection):
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            content = answer.read()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(content) if "json" in kind else content

    def log(self):
        return (self.service.log).read_text()


def operations(served):
    schema = schemathesis.openapi.from_url(
        f"http://127.0.0.1:{served.service.port}/openapi.json",
        headers={"Authorization": f"Bearer {served.key}"},
        timeout=20,
    )
    return [found.ok() for found in schema.get_all_operations()]


def test_no_request_of_any_kind_breaks_the_service(served):
    """Of each call, requests as the schema has them, and some that break it."""
    played = 0
    for operation in operations(served):
        for wrong in (False, True):
            mode = schemathesis.GenerationMode
            kinds = mode.NEGATIVE if wrong else mode.POSITIVE
            strategy = operation.as_strategy(generation_mode=kinds)

            @settings(
                max_examples=EXAMPLES,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy, known=st.booleans())
            def press(case, known):
                if known and "experiment" in (case.path_parameters or {}):
                    case.path_parameters["experiment"] = "shop"
                if case.operation.path == "/v1/keys/{digest}":
                    return  # the key in use would be dropped sooner or later
                answer = case.call(headers={"Authorization": f"Bearer {served.key}"}, timeout=20)
                assert answer.status_code < 500, answer.text
                if answer.status_code >= 400 and "json" in answer.headers["content-type"][0]:
                    assert set(answer.json()["error"]) == {"code", "message"}

            with suppress(Unsatisfiable):  # a call without a body cannot have a wrong one
                press()
                played += 1
    back = {"settings": {"mode": "live"}}  # it may have been closed
    assert served.ask("PATCH", "/v1/experiments/shop", back)[0] == 200
    assert played > len(CALLS)
    assert "Traceback" not in served.log()
    assert served.ask("GET", "/ready")[0] == 200


TEXT = st.text(st.characters(codec=None), max_size=300)


@settings(max_examples=60)
@given(instance=TEXT, decision=TEXT)
def test_labels_are_kept_exactly_or_refused(served, instance, decision):
    body = {"instance": instance, "decision_id": decision}
    status, answer = served.ask("POST", "/v1/experiments/shop/decisions", body)
    fits = all(
        1 <= len(text) <= 200
        and text not in (".", "..")
        and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)
        for text in (instance, decision)
    )
    if not fits:
        assert status == 422, answer
        return
    assert status in (200, 409), answer  # the same id for another instance
    if status == 200:
        assert answer["decision_id"] == decision
        name = quote(decision, safe="")
        status, told = served.ask(
            "POST", f"/v1/experiments/shop/decisions/{name}/feedback", {"loss": 0.5}
        )
        assert (status, told.get("decision_id")) == (200, decision), told
        status, told = served.ask(
            "GET", f"/v1/experiments/shop/instances/{quote(instance, safe='')}"
        )
        assert (status, told.get("instance")) == (200, instance), told


@settings(max_examples=60)
@given(raw=st.binary(max_size=200) | st.text(max_size=60).map(str.encode))
def test_bodies_that_are_not_requests_are_refused(served, raw):
    for path in ("/v1/experiments", "/v1/experiments/shop/decisions", "/v1/batch"):
        status, answer = served.ask("POST", path, raw=raw)
        assert status == 422, answer


def test_infinite_and_huge_losses_are_refused(served):
    served.ask("POST", "/v1/experiments/shop/decisions", {"instance": "i", "decision_id": "huge"})
    for loss in ("1e400", "-1e400", "1e300", '"1"', "true", "NaN", "1" * 400):
        raw = f'{{"loss": {loss}}}'.encode()
        assert served.ask("POST", "/v1/experiments/shop/decisions/huge/feedback", raw=raw)[0] == 422


def fill(path):
    """A path of a call with something in each of its places."""
    return re.sub(r"\{\w+(:label)?\}", "shop", path.replace("{version:int}", "0"))


def test_without_a_key_nothing_is_read_or_written(served):
    for call in CALLS:
        path = fill(call.path)
        for key in ("", "ib_wrong", "é", served.key + "x", served.key[:-1]):
            status, answer = served.ask(
                call.method, path, {"instance": "a"}, key=key.encode().decode("latin-1")
            )
            if call.path in OPEN:
                assert status == 200
                assert "shop" not in str(answer)
            else:
                assert status == 401, (path, answer)


def test_a_key_of_one_experiment_sees_no_other(served):
    make = {"label": "l", "role": "admin", "experiment": "other"}
    key = served.ask("POST", "/v1/keys", make)[1]["key"]
    served.ask("POST", "/v1/experiments/shop/decisions", {"instance": "p", "decision_id": "secret"})
    names = [e["name"] for e in served.ask("GET", "/v1/experiments", key=key)[1]["experiments"]]
    assert names == ["other"]
    for method, path, body in (
        ("GET", "/v1/experiments/shop", None),
        ("PATCH", "/v1/experiments/shop", {"settings": {"explore": 0.5}}),
        ("POST", "/v1/experiments/shop/decisions", {"instance": "p"}),
        ("POST", "/v1/experiments/shop/exposures", {"instance": "p", "arms": ["tea"]}),
        ("POST", "/v1/experiments/shop/decisions/secret/feedback", {"loss": 0.5}),
        ("POST", "/v1/experiments/other/decisions/secret/feedback", {"loss": 0.5}),
        ("POST", "/v1/experiments/shop/decisions/secret/cancel", None),
        ("POST", "/v1/experiments/shop/arms", {"name": "x"}),
        ("DELETE", "/v1/experiments/shop/arms/tea", None),
        ("GET", "/v1/experiments/shop/instances/p", None),
        ("DELETE", "/v1/experiments/shop/instances/p", None),
        ("GET", "/v1/experiments/shop/log", None),
        ("GET", "/v1/experiments/shop/report", None),
        ("POST", "/v1/keys", {"label": "l", "experiment": "shop"}),
    ):
        assert served.ask(method, path, body, key=key)[0] == 404, path
    items = [{"path": "/experiments/shop/decisions", "body": {"instance": "p"}}]
    answers = served.ask("POST", "/v1/batch", {"requests": items}, key=key)[1]["answers"]
    assert [answer["status"] for answer in answers] == [404]
    other = {"name": "third", "settings": SHOP}
    assert served.ask("POST", "/v1/experiments", other, key=key)[0] == 403
    listed = served.ask("GET", "/v1/keys", key=key)[1]["keys"]
    assert [entry["experiment"] for entry in listed] == ["other"] * len(listed)
    first = served.ask("GET", "/v1/keys")[1]["keys"][0]["digest"]
    assert served.ask("DELETE", f"/v1/keys/{first}", key=key)[0] == 404


def test_roles_may_do_what_they_may(served):
    for role, refused_to in (("reader", {"writer", "admin"}), ("writer", {"admin"})):
        key = served.ask("POST", "/v1/keys", {"label": "l", "role": role})[1]["key"]
        for call in CALLS:
            if call.role in refused_to:
                path = fill(call.path)
                assert served.ask(call.method, path, {}, key=key)[0] == 403, path


def test_a_dropped_key_opens_nothing_and_keys_are_hashed(served):
    made = served.ask("POST", "/v1/keys", {"label": "l", "role": "reader"})[1]
    assert served.ask("GET", "/v1/experiments", key=made["key"])[0] == 200
    files = [path for path in served.folder.iterdir() if path.name.startswith("s.db")]
    for key in (made["key"], served.key):
        assert not any(key.encode() in path.read_bytes() for path in files)
    with sqlite3.connect(served.folder / "s.db") as file:
        assert made["digest"] in {row[0] for row in file.execute("SELECT digest FROM keys")}
    assert served.ask("DELETE", f"/v1/keys/{made['digest']}")[0] == 200
    assert served.ask("GET", "/v1/experiments", key=made["key"])[0] == 401
