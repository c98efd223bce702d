"""Logging in to the page, who sees what, and requests that other sites forge."""

import re
import time

import pytest
import requests
from live.page_server import Outline, Server, Visitor

from influential_bandits.live.page import sessions, words


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("page") / "store.db")
    server.create("shop")
    server.create("other")
    server.play("shop", ["user 1"])
    server.play("other", ["bob"])
    yield server
    server.close()


@pytest.fixture(scope="module")
def admin(server):
    return server.visit()


# Who may see what.


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/experiments/shop",
        "/experiments/shop/settings",
        "/experiments/shop/instances/user%201",
        "/keys",
    ],
)
def test_without_a_key_there_is_the_login_alone(server, path):
    stranger = Visitor(server.address)
    answer = stranger.get(path)
    assert answer.url.startswith(f"{server.address}/login")
    assert "shop" not in answer.text.replace(f'name="next" value="{path}"', "")
    assert stranger.get(path, headers={"Accept": "application/json"}).status_code == 401


@pytest.mark.parametrize("key", ["", "ib_wrong", "x" * 5000, "ib_\u2603", "' OR 1=1 --"])
def test_a_wrong_key_is_refused(server, key):
    stranger = Visitor(server.address)
    answer = stranger.log_in(key)
    assert answer.status_code == 401
    assert "There is no such key" in answer.text
    assert stranger.get("/").url.endswith("/login")


def test_login_leads_to_where_one_wanted_to_go(server):
    stranger = Visitor(server.address)
    assert stranger.log_in(server.key, "/experiments/shop?span=all").url == (
        f"{server.address}/experiments/shop?span=all"
    )
    answer = Visitor(server.address).get(words.instance_path("shop", "a/b?c"))
    target = re.search(r'name="next" value="([^"]*)"', answer.text)[1]
    assert target == "/experiments/shop/instances/a%2Fb%3Fc"
    for elsewhere in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1"):
        assert Visitor(server.address).log_in(server.key, elsewhere).url == f"{server.address}/"


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server):
    stranger = Visitor(server.address)
    answer = stranger.post(
        "/login", {"token": stranger.token(), "key": server.key, "next": "/"}, follow=False
    )
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303
    assert re.search(r"ib_session=[\w-]{43};", cookie)
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert "Secure" not in cookie  # http
    assert server.key not in str(answer.headers)


def test_login_changes_the_secret_that_the_browser_had_before(server):
    stranger = Visitor(server.address)
    stranger.get("/login")
    before = stranger.session.cookies["ib_session"]
    stranger.log_in(server.key)
    assert stranger.session.cookies["ib_session"] != before
    fixed = requests.get(f"{server.address}/keys", cookies={"ib_session": before})
    assert fixed.url.startswith(f"{server.address}/login")


def test_the_store_cannot_be_used_to_log_in(server):
    visitor = server.visit()
    secret = visitor.session.cookies["ib_session"]
    reader = server.writer.store.open_reader()
    rows = reader.run("SELECT digest, key FROM sessions")
    reader.close()
    assert (sessions.digest_secret(secret),) in [row[:1] for row in rows]
    assert all(secret not in row for row in rows)
    for row in rows:
        for stolen in row:
            answer = requests.get(f"{server.address}/keys", cookies={"ib_session": stolen})
            assert answer.url.startswith(f"{server.address}/login")


def test_logout_ends_the_session_for_all_who_know_its_secret(server):
    visitor = server.visit()
    secret = visitor.session.cookies["ib_session"]
    assert visitor.submit("/", "/logout").url == f"{server.address}/login"
    answer = requests.get(f"{server.address}/keys", cookies={"ib_session": secret})
    assert answer.url.startswith(f"{server.address}/login")


def test_a_session_outlives_the_process(server):
    """So do several processes on one store know the same sessions."""
    visitor = server.visit()
    server.restart()
    assert visitor.get("/keys").url == f"{server.address}/keys"


def test_a_session_ends_with_its_key(server):
    key = server.make_key("reader")
    visitor = server.visit(key)
    assert visitor.get("/").url == f"{server.address}/"
    digest = next(
        k["digest"] for k in server.call("GET", "/keys")["keys"] if k["label"] == "a reader"
    )
    server.call("DELETE", f"/keys/{digest}")
    assert visitor.get("/").url == f"{server.address}/login"


def test_a_session_ends_after_hours(server, monkeypatch):
    visitor = server.visit()
    later = time.time() + sessions.HOURS * 3600 + 1
    monkeypatch.setattr(server.service.page, "now", lambda: later)
    assert visitor.get("/").url == f"{server.address}/login"


def test_a_key_of_one_experiment_sees_no_other(server):
    visitor = server.visit(server.make_key("admin", "shop"))
    home = visitor.get("/").text
    assert 'href="/experiments/shop"' in home
    assert "other" not in home
    for path in (
        "/experiments/other",
        "/experiments/other/settings",
        "/experiments/other/instances/bob",
    ):
        answer = visitor.get(path)
        assert answer.status_code == 404, path
        assert "bob" not in answer.text.replace(path, "")
    token = visitor.token("/")
    for path in (
        "/experiments/other/settings",
        "/experiments/other/arms",
        "/experiments/other/models",
    ):
        assert (
            visitor.post(
                path, {"token": token, "mode": "paused", "arm": "x", "version": "0"}
            ).status_code
            == 404
        )
    keys = visitor.get("/keys").text
    assert "first key" not in keys
    first = next(k for k in server.call("GET", "/keys")["keys"] if k["label"] == "first key")
    dropped = visitor.post("/keys/drop", {"token": token, "digest": first["digest"]})
    assert dropped.status_code == 404
    made = visitor.post(
        "/keys", {"token": token, "label": "more", "role": "admin", "experiment": ""}
    )
    key = re.search(r'value="(ib_[\w-]+)"', made.text)[1]
    assert [e["name"] for e in server.call("GET", "/experiments", key=key)["experiments"]] == [
        "shop"
    ]


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_who_is_no_admin_changes_nothing(server, role):
    visitor = server.visit(server.make_key(role))
    before = server.call("GET", "/experiments/shop"), len(server.call("GET", "/keys")["keys"])
    page = visitor.get("/experiments/shop/settings").text
    assert "You see the settings" in page
    assert "<button>Save" not in page
    token = visitor.token("/")
    for path in (
        "/experiments/shop/settings", "/experiments/shop/arms", "/experiments/shop/arms/retire",
        "/experiments/shop/models", "/keys", "/keys/drop",
    ):  # fmt: skip
        fields = {
            "token": token,
            "mode": "paused",
            "arm": "x",
            "arm_number": "0",
            "label": "x",
            "role": "admin",
        }
        assert visitor.post(path, fields).status_code == 403, path
    assert visitor.get("/keys").status_code == 403
    assert (
        server.call("GET", "/experiments/shop"),
        len(server.call("GET", "/keys")["keys"]),
    ) == before


# Forged requests.


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("none", {}),
        ("", {}),
        ("0" * 64, {}),
        ("another", {}),
        ("\u2603", {}),
        ("own", {"Origin": "https://evil.example"}),
        ("own", {"Origin": "null"}),
        ("own", {"Origin": "http://["}),
        ("own", {"Origin": "", "Sec-Fetch-Site": "cross-site"}),
        ("own", {"Sec-Fetch-Site": "same-site"}),
        ("own", {"Content-Type": "text/plain"}),
        ("own", {"Content-Type": "multipart/form-data; boundary=x"}),
    ],
)
def test_forged_forms_are_refused(server, token, headers):
    visitor = server.visit()
    fields = {"label": "forged", "role": "admin", "experiment": ""}
    if token != "none":
        known = {"own": lambda: visitor.token("/"), "another": lambda: server.visit().token("/")}
        fields["token"] = known.get(token, lambda: token)()
    answer = visitor.post("/keys", fields, headers)
    assert answer.status_code in (403, 415), answer.text
    assert "forged" not in [key["label"] for key in server.call("GET", "/keys")["keys"]]


def test_every_form_is_guarded(server, admin):
    """Whatever route takes a POST, it takes none without a token; so also a route added later."""
    guarded = 0
    for route in server.service.page.routes():
        if "POST" not in route.methods:
            continue
        path = route.path.replace("{experiment}", "shop")
        assert admin.post(path, {"key": server.key, "mode": "paused"}).status_code == 403, path
        guarded += 1
    assert guarded == 8


def test_a_login_cannot_be_forged_either(server):
    """Another site could else have somebody work under the key of an attacker unawares."""
    stranger = Visitor(server.address)
    assert stranger.post("/login", {"key": server.key}).status_code == 403
    token = stranger.token()
    headers = {"Origin": "https://evil.example"}
    answer = stranger.post("/login", {"key": server.key, "token": token}, headers)
    assert answer.status_code == 403
    assert stranger.post("/login", {"key": server.key, "token": token}).status_code == 200


def test_forms_are_bounded(server, admin):
    token = admin.token("/")
    assert admin.post("/keys", {"token": token, "label": "x" * 70_000}).status_code == 413
    many = {f"f{n}": "1" for n in range(100)}
    assert admin.post("/keys", {"token": token, **many}).status_code == 422
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert admin.post("/keys", b"token=\xff\xfe", headers).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/login",
        "/experiments/shop",
        "/experiments/nothing",
        "/no/page",
        "/static/page.js",
        "/static/no.js",
        "/favicon.ico",
    ],
)
def test_browsers_are_told_to_trust_nothing_else(server, admin, path):
    answer = admin.get(path, headers={"Accept": "text/html"}, allow_redirects=False)
    if path == "/static/no.js":
        assert answer.status_code == 404
        return
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ("no-store" in answer.headers["cache-control"]) == ("static" not in path)


def test_no_page_has_scripts_or_styles_of_its_own(server, admin):
    for path in (
        "/",
        "/experiments/shop",
        "/experiments/shop/instances/user%201",
        "/experiments/shop/settings",
        "/keys",
    ):
        page = Outline(admin.get(path).text)
        for script in page.tags("script"):
            assert (
                script.get("src", "").startswith("/static/") or script["type"] == "application/json"
            )
        assert page.tags("style") == []
        for tag, attributes in page.elements:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], (
                tag
            )
            for name in ("src", "href", "action"):
                assert attributes.get(name, "/").startswith(("/", "#")), attributes


# What the page's session opens beside the page.


def test_a_session_may_look_and_not_write(server, admin):
    for path in ("/ready", "/openapi.json", "/metrics", "/v1/experiments/shop/report"):
        assert Visitor(server.address).get(path).status_code == 401
        assert admin.get(path).status_code == 200
        refused = admin.get(path, headers={"Authorization": "Bearer ib_wrong"})
        assert refused.status_code == 401  # a key that is sent counts, and no other
    log = admin.get("/v1/experiments/shop/log?format=csv")
    assert log.text.startswith("instance,arm,time,loss")
    assert log.headers["content-disposition"] == 'attachment; filename="log.csv"'
    for method, path, body in (
        ("POST", "/v1/experiments/shop/decisions", {"instance": "a"}),
        ("PATCH", "/v1/experiments/shop", {"explore": 0.5}),
        ("DELETE", "/v1/experiments/shop/instances/user%201", None),
    ):
        answer = admin.session.request(method, server.address + path, json=body)
        assert answer.status_code == 401, path


def test_a_session_of_one_experiment_sees_no_other(server):
    reader = server.visit(server.make_key("reader", "other"))
    assert reader.get("/v1/experiments/other/report").status_code == 200
    assert reader.get("/v1/experiments/shop/report").status_code == 404
    assert reader.get("/v1/keys").status_code == 403
