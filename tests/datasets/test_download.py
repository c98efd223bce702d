"""Downloads of MovieLens from a real server on this computer: broken off, changed, refused."""

import errno
import gc
import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import platformdirs
import pytest
import requests

from influential_bandits.datasets import download as module
from influential_bandits.datasets.download import RETRIES, TERMS, fetch_movielens
from influential_bandits.errors import InvalidInput

# pooch leaves the answers of servers that refuse to the collector, with their sockets.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CONTENT = np.random.default_rng(0).bytes(700_000)
OTHER = np.random.default_rng(1).bytes(700_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
ZIP = "/sets/ml-32m.zip"


class Site:
    """What the server has, how it behaves, and what it was asked for."""

    def __init__(self):
        self.files = {ZIP: CONTENT}
        self.asked = []
        self.break_after = []  # for each answer, bytes after which the connection is cut
        self.statuses = []  # errors to answer before all else
        self.redirects = {}
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server.site
        site.asked.append(self.path)
        if site.statuses:
            return self.send_error(site.statuses.pop(0))
        if self.path in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[self.path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.path not in site.files:
            return self.send_error(404)
        content = site.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: site.break_after.pop(0) if site.break_after else None])
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def site(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.site = Site()
    server.site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)
    monkeypatch.setitem(module.OFFICIAL_MD5, "ml-32m", MD5)
    yield server.site
    server.shutdown()
    thread.join()
    server.server_close()
    gc.collect()  # here, where sockets that pooch left open are expected


@pytest.fixture
def fetch(site, tmp_path):
    def run(release="32m", **options):
        options = {"progress": False, "base": f"{site.url}/sets/"} | options
        return fetch_movielens(release, tmp_path / "cache", **options)

    return run


@pytest.fixture
def left(tmp_path):
    """Return what is in the cache."""
    return lambda: sorted(path.name for path in tmp_path.glob("cache/*"))


@pytest.mark.parametrize("name", ["ml-32m", "32m", "ML-32M"])
def test_a_release_is_fetched_once(fetch, site, left, name, capsys):
    path = fetch(name, progress=None)
    assert (path.name, path.read_bytes()) == ("ml-32m.zip", CONTENT)
    assert capsys.readouterr().err == f"{TERMS}\n"
    assert fetch(name, progress=None, base=f"{site.url}/sets") == path
    assert (site.asked, left()) == ([ZIP], ["ml-32m.zip"])
    assert capsys.readouterr().err == ""


def test_what_is_there_with_another_sum_is_replaced(fetch, site):
    path = fetch()
    path.write_bytes(OTHER)
    assert fetch().read_bytes() == CONTENT
    assert len(site.asked) == 2


def test_wrong_bytes_leave_nothing(fetch, site, left, refused):
    site.files[ZIP] = OTHER
    with refused(InvalidInput, "ml-32m.zip could not be downloaded", MD5):
        fetch()
    assert left() == []


@pytest.mark.parametrize("after", [0, 300_000])
def test_a_connection_that_breaks_is_tried_again(fetch, site, left, refused, after):
    site.break_after = [after] * RETRIES
    assert fetch().read_bytes() == CONTENT
    Path(fetch()).unlink()
    site.break_after = [after] * (RETRIES + 1)
    with refused(InvalidInput, "ml-32m.zip could not be downloaded"):
        fetch()
    assert left() == []


def test_a_release_without_a_sum_arrives_whole(fetch, site, left):
    site.files = {"/sets/ml-latest.zip": CONTENT}
    site.break_after = [300_000]
    assert fetch("latest").read_bytes() == CONTENT
    assert left() == ["ml-latest.zip"]


@pytest.mark.parametrize(("status", "said"), [(404, "404"), (503, "503")])
def test_a_server_that_refuses_is_named(fetch, site, left, refused, status, said):
    site.statuses = [status]
    assert fetch().read_bytes() == CONTENT
    Path(fetch()).unlink()
    site.statuses = [status] * (RETRIES + 1)
    with refused(InvalidInput, "ml-32m.zip could not be downloaded", said):
        fetch()
    assert left() == []


def test_redirections_are_followed(fetch, site):
    site.files["/elsewhere"] = site.files.pop(ZIP)
    site.redirects[ZIP] = "/elsewhere"
    assert fetch().read_bytes() == CONTENT


def test_nobody_is_there(fetch, refused):
    with refused(InvalidInput, "http://127.0.0.1:1/ml-32m.zip could not be downloaded"):
        fetch(base="http://127.0.0.1:1")


@pytest.mark.parametrize("base", ["ftp://example.org", "nothing", ""])
def test_other_addresses(fetch, refused, base):
    with refused(InvalidInput, "could not be downloaded"):
        fetch(base=base)


def test_a_certificate_that_fails_is_said(fetch, monkeypatch, refused):
    def fail(*_, **__):
        raise requests.exceptions.SSLError("certificate verify failed")

    monkeypatch.setattr("requests.get", fail)
    with refused(InvalidInput, "could not be downloaded", "certificate verify failed"):
        fetch()


def test_a_disk_that_fails_is_said(fetch, monkeypatch, left, refused):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.move", full)
    with refused(InvalidInput, "could not be saved", "No space left"):
        fetch()
    assert left() == []


def test_a_folder_that_cannot_be_made_is_said(site, tmp_path, refused):
    (tmp_path / "file").touch()
    with refused(InvalidInput, "could not be saved"):
        fetch_movielens("32m", tmp_path / "file" / "cache", progress=False, base=site.url)


def test_progress_is_shown_if_wanted(fetch, capsys):
    fetch(progress=True)
    told = capsys.readouterr().err
    assert "downloading ml-32m.zip" in told
    assert "Downloading" not in told, "pooch keeps quiet"


@pytest.mark.parametrize("name", ["3m", "", None, "ml-100k", "../ml-1m"])
def test_an_unknown_release(tmp_path, refused, name):
    with refused(InvalidInput, "no MovieLens release", "ml-latest-small"):
        fetch_movielens(name, tmp_path)


def test_the_cache_is_where_the_environment_says(site, tmp_path, monkeypatch):
    monkeypatch.setenv("INFLUENTIAL_BANDITS_CACHE", str(tmp_path / "here"))
    path = fetch_movielens("32m", progress=False, base=f"{site.url}/sets")
    assert path == tmp_path / "here" / "ml-32m.zip"


def test_or_where_the_system_keeps_such(site, tmp_path, monkeypatch):
    monkeypatch.delenv("INFLUENTIAL_BANDITS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "system"))
    path = fetch_movielens("32m", progress=False, base=f"{site.url}/sets")
    assert path.parent == Path(platformdirs.user_cache_dir("influential-bandits"))


def test_every_fixed_release_has_its_sum():
    known = {name for name, md5 in module.OFFICIAL_MD5.items() if md5}
    assert known == {"ml-32m", "ml-25m", "ml-20m", "ml-10m", "ml-1m"}
    assert all(re.fullmatch("[0-9a-f]{32}", module.OFFICIAL_MD5[name]) for name in known)
