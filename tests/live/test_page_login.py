"""Logging in to the page, who sees what, and requests that other sites forge."""

import re
import time

import pytest
import requests
from live.page_server import PAGES, Outline, Server, Visitor

from influential_bandits.live.page import login


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


@pytest.mark.parametrize("path", [*PAGES, "/experiments/shop?span=all"])
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
    answer = Visitor(server.address).get("/experiments/a%3Fb")
    target = re.search(r'name="next" value="([^"]*)"', answer.text)[1]
    assert target == "/experiments/a%3Fb"
    for elsewhere in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1"):
        assert Visitor(server.address).log_in(server.key, elsewhere).url == f"{server.address}/"


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server):
    stranger = Visitor(server.address)
    answer = stranger.post("/login", {"key": server.key, "next": "/"}, follow=False)
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303
    assert re.search(r"ib_login=[0-9a-f]{64}\.\d+\.[0-9a-f]{64};", cookie)
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert "Secure" not in cookie  # http
    assert server.key not in str(answer.headers)


def test_login_gives_a_cookie_that_the_browser_did_not_choose(server):
    stranger = Visitor(server.address)
    stranger.session.cookies["ib_login"] = "chosen-by-an-attacker"
    stranger.log_in(server.key)
    fixed = {"ib_login": "chosen-by-an-attacker"}
    answer = requests.get(f"{server.address}/experiments/shop", cookies=fixed)
    assert answer.url.startswith(f"{server.address}/login")
    assert stranger.get("/").url == f"{server.address}/"


def test_the_store_cannot_be_used_to_log_in(server):
    visitor = server.visit()
    cookie = visitor.session.cookies["ib_login"]
    until = cookie.split(".")[1]
    reader = server.writer.store.open_reader()
    stolen = [value for row in reader.run("SELECT * FROM keys") for value in row]
    reader.close()
    (digest,) = {value for value in stolen if str(value) == cookie.split(".")[0]}
    forged = [str(value) for value in stolen]
    secrets = (b"", digest.encode(), bytes.fromhex(digest))
    forged += [login.sign(secret, digest, int(until)) for secret in secrets]
    forged += [f"{digest}.{until}.", cookie[:-1], f"{digest}.{int(until) + 9}.{cookie[-64:]}"]
    for other in forged:
        answer = requests.get(f"{server.address}/experiments/shop", cookies={"ib_login": other})
        assert answer.url.startswith(f"{server.address}/login")


@pytest.mark.parametrize(
    "cookie", ["", ".", "..", "x.1", "x.²²²", "x.99999999999999999999.y", "é.9.é"]
)
def test_no_cookie_breaks_the_page(server, cookie):
    answer = requests.get(server.address, headers={"Cookie": f"ib_login={cookie}".encode()})
    assert (answer.status_code, answer.url) == (200, f"{server.address}/login")


def test_logout_takes_the_cookie_back(server):
    visitor = server.visit()
    assert visitor.post("/logout", {}).url == f"{server.address}/login"
    assert "ib_login" not in visitor.session.cookies
    assert visitor.get("/").url == f"{server.address}/login"


def test_who_is_logged_in_stays_so_where_the_secret_is_the_same(server):
    """After a start, and at another process on the same store; without it, one logs in again."""
    visitor = server.visit()
    secret = server.service.secret
    server.restart(secret)
    assert visitor.get("/experiments/shop").url == f"{server.address}/experiments/shop"
    server.restart()
    assert visitor.get("/").url == f"{server.address}/login"


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
    later = time.time() + login.HOURS * 3600 + 1
    monkeypatch.setattr(server.service.page, "now", lambda: later)
    assert visitor.get("/").url == f"{server.address}/login"


def test_a_key_of_one_experiment_sees_no_other(server):
    visitor = server.visit(server.make_key("admin", "shop"))
    home = visitor.get("/").text
    assert 'href="/experiments/shop"' in home
    assert "other" not in home
    for path in (
        "/experiments/other",
        "/v1/experiments/other",
        "/v1/experiments/other/instances/bob",
    ):
        answer = visitor.get(path)
        assert answer.status_code == 404, path
        assert "bob" not in answer.text.replace(path, "")


# Forged requests.


FORGED = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://["},
    {"Origin": None},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FORGED)
def test_what_another_site_sends_is_refused(server, headers):
    """It could else have somebody look under the key of an attacker unawares, or log out."""
    visitor = server.visit()
    for path in ("/login", "/logout"):
        assert visitor.post(path, {"key": server.key}, headers).status_code == 403
    assert visitor.get("/").url == f"{server.address}/"


def test_the_page_only_shows(server, admin):
    """Whatever route takes more than a look: there are the login and the logout alone."""
    routes = [(method, path) for method, path, _ in server.service.page.routes()]
    assert [route for route in routes if route[0] != "GET"] == [
        ("POST", "/login"),
        ("POST", "/logout"),
    ]
    assert admin.get("/static/no.js").status_code == 404


def test_the_login_is_bounded(server):
    stranger = Visitor(server.address)
    assert stranger.post("/login", {"key": "x" * 70_000}).status_code == 413
    assert stranger.post("/login", {f"f{n}": "1" for n in range(100)}).status_code == 422
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert stranger.post("/login", b"key=\xff\xfe", headers).status_code == 422
    assert stranger.post("/login", b"key", {"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    "path",
    [*PAGES, "/login", "/experiments/nothing", "/no/page", "/static/page.js", "/favicon.ico"],
)
def test_browsers_are_told_to_trust_nothing_else(server, admin, path):
    answer = admin.get(path, headers={"Accept": "text/html"}, allow_redirects=False)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ("no-store" in answer.headers["cache-control"]) == ("static" not in path)


def test_no_page_has_scripts_or_styles_of_its_own(server, admin):
    for path in PAGES:
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
        ("PATCH", "/v1/experiments/shop", {"settings": {"explore": 0.5}}),
        ("DELETE", "/v1/experiments/shop/instances/user%201", None),
    ):
        answer = admin.session.request(method, server.address + path, json=body)
        assert answer.status_code == 401, path


def test_a_session_of_one_experiment_sees_no_other(server):
    reader = server.visit(server.make_key("reader", "other"))
    assert reader.get("/v1/experiments/other/report").status_code == 200
    assert reader.get("/v1/experiments/shop/report").status_code == 404
    assert reader.get("/v1/keys").status_code == 403


def test_below_a_path_that_a_proxy_takes_off_every_link_has_it(tmp_path):
    server = Server(tmp_path / "shop.db", root="/bandits")
    server.create("shop")
    server.play("shop", ["user 1"])
    visitor = Visitor(server.address)
    asked = visitor.get("/experiments/shop", allow_redirects=False)
    assert asked.headers["location"] == "/bandits/login?next=%2Fexperiments%2Fshop"
    fields = {"key": server.key, "next": "/experiments/shop"}
    answer = visitor.post("/login", fields, follow=False)
    assert answer.headers["location"] == "/bandits/experiments/shop"
    assert "path=/bandits" in answer.headers["set-cookie"].lower()
    cookie = answer.headers["set-cookie"].partition(";")[0]
    for path in ("/login", *PAGES):
        headers = {} if path == "/login" else {"Cookie": cookie}
        text = requests.get(server.address + path, headers=headers, timeout=20).text
        links = re.findall(r'(?:href|src|action)="([^"]*)"', text)
        assert len(links) > 5
        assert all(link.startswith(("/bandits/", "#")) for link in links), links
    server.close()
