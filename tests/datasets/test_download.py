"""Downloads from a real server on this computer: broken off, continued, redirected, changed."""

import contextlib
import errno
import hashlib
import io
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import platformdirs
import pytest
import requests

from influential_bandits.datasets import download as module
from influential_bandits.datasets.download import TERMS, download, fetch_movielens
from influential_bandits.errors import InvalidInput

CONTENT = np.random.default_rng(0).bytes(700_000)
OTHER = np.random.default_rng(1).bytes(700_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
HALF = 300_000
KEPT = HALF - HALF % module.PIECE  # of the last piece nothing is known


class Site:
    """What the server has, how it behaves, and what it was asked for."""

    def __init__(self):
        self.files = {"/file": CONTENT}
        self.asked = []  # (path, Range header)
        self.sent = []  # bytes of body per answer
        self.ranges = True
        self.tag = '"one"'
        self.date = None
        self.break_after = []  # for each answer, bytes after which the connection is cut
        self.statuses = []  # errors to answer before all else
        self.redirects = {}
        self.extra_length = 0
        self.say_length = True
        self.content_range = None  # to lie with
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server.site
        wanted = self.headers.get("Range")
        site.asked.append((self.path, wanted))
        if site.statuses:
            return self.send_error(site.statuses.pop(0))
        if self.path in site.redirects:
            self.send_response(302)
            self.send_header("Location", site.redirects[self.path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.path not in site.files:
            return self.send_error(404)
        return self.answer(site, site.files[self.path], wanted)

    def answer(self, site, content, wanted):
        valid = self.headers.get("If-Range") in {None, site.tag, site.date}
        start = 0
        if wanted and site.ranges and valid:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.send_response(206)
            said = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", site.content_range or said)
        else:
            self.send_response(200)
        body = content[start:]
        if site.say_length:
            self.send_header("Content-Length", str(len(body) + site.extra_length))
        if site.tag:
            self.send_header("ETag", site.tag)
        if site.date:
            self.send_header("Last-Modified", site.date)
        self.end_headers()
        cut = site.break_after.pop(0) if site.break_after else None
        site.sent.append(len(body[:cut]))  # before the client can look at it
        self.wfile.write(body[:cut])
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.site = Site()
    server.site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def get(site, tmp_path):
    def run(path="/file", waits=(0.0, 0.0), **options):
        return download(site.url + path, tmp_path / "file", waits=waits, **options)

    return run


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole(get, site, tmp_path):
    path = get(md5=MD5.upper())
    assert path == tmp_path / "file"
    assert path.read_bytes() == CONTENT
    assert left(tmp_path) == ["file"]
    assert site.asked == [("/file", None)]


def test_folders_are_made(site, tmp_path):
    path = download(f"{site.url}/file", tmp_path / "a" / "b" / "file")
    assert path.read_bytes() == CONTENT


def test_an_empty_file(get, site):
    site.files["/file"] = b""
    assert get(md5=hashlib.md5(b"").hexdigest()).read_bytes() == b""


def test_without_a_length(get, site):
    site.say_length = False
    assert get(md5=MD5).read_bytes() == CONTENT


class TestWhatIsThere:
    def test_is_kept_if_it_has_the_sum(self, get, site, tmp_path):
        (tmp_path / "file").write_bytes(CONTENT)
        get(md5=MD5)
        assert site.asked == []

    def test_is_kept_if_no_sum_is_known(self, get, site, tmp_path):
        (tmp_path / "file").write_bytes(b"mine")
        assert get().read_bytes() == b"mine"
        assert site.asked == []

    def test_is_replaced_if_it_has_another_sum(self, get, tmp_path):
        (tmp_path / "file").write_bytes(b"cut off")
        assert get(md5=MD5).read_bytes() == CONTENT

    def test_stays_if_its_replacement_fails(self, get, site, tmp_path, refused):
        (tmp_path / "file").write_bytes(b"old")
        site.files["/file"] = OTHER
        with refused(InvalidInput, MD5):
            get(md5=MD5)
        assert (tmp_path / "file").read_bytes() == b"old"


class TestBrokenConnections:
    def test_are_continued_with_the_missing_bytes_only(self, get, site, tmp_path):
        site.break_after = [HALF]
        assert get(md5=MD5).read_bytes() == CONTENT
        assert site.asked == [("/file", None), ("/file", f"bytes={KEPT}-")]
        assert site.sent == [HALF, len(CONTENT) - KEPT]
        assert left(tmp_path) == ["file"]

    def test_may_break_again_and_again(self, get, site):
        site.break_after = [100_000, 200_000, 1]
        assert get(md5=MD5, waits=(0.0, 0.0, 0.0)).read_bytes() == CONTENT
        assert sum(site.sent) < len(CONTENT) + 3 * module.PIECE

    def test_are_given_up_and_continued_another_day(self, get, site, tmp_path, refused):
        site.break_after = [100_000, 100_000]
        with refused(InvalidInput, "could not be downloaded", "196,608 of 700,000 bytes"):
            get(md5=MD5, waits=(0.0,))
        assert left(tmp_path) == ["file.part"]
        site.asked.clear()
        assert get(md5=MD5).read_bytes() == CONTENT
        assert site.asked == [("/file", "bytes=196608-")]
        assert left(tmp_path) == ["file"]

    def test_by_reset(self, get, monkeypatch):
        def answer(handler, site, content, wanted):
            if len(site.asked) == 1:
                linger = struct.pack("ii", 1, 0)
                handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return handler.connection.close()
            return whole(handler, site, content, wanted)

        whole = Handler.answer
        monkeypatch.setattr(Handler, "answer", answer)
        assert get(md5=MD5).read_bytes() == CONTENT

    def test_a_server_that_says_nothing_times_out(self, tmp_path, refused):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
            with refused(InvalidInput, "could not be downloaded", "timed out"):
                download(url, tmp_path / "file", waits=(), timeout=0.05)
        assert left(tmp_path) == []

    def test_no_server(self, tmp_path, refused):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with refused(InvalidInput, "could not be downloaded", "refused"):
            download(f"http://127.0.0.1:{port}/file", tmp_path / "file", waits=(0.0,))
        assert left(tmp_path) == []

    def test_waits_grow_as_asked(self, get, site, monkeypatch, refused):
        slept = []
        monkeypatch.setattr(module.time, "sleep", slept.append)
        site.statuses = [503] * 9
        with refused(InvalidInput, "503"):
            get(waits=(1.0, 3.0, 9.0))
        assert slept == [1.0, 3.0, 9.0]
        assert len(site.asked) == 4

    def test_a_length_that_is_too_large(self, get, site, tmp_path, refused):
        site.extra_length = 5
        site.ranges = False
        with refused(InvalidInput, "of 700,005 bytes"):
            get(md5=MD5)
        assert "file" not in left(tmp_path)

    def test_a_length_that_is_too_small(self, get, site, tmp_path, refused):
        site.extra_length = -5
        with refused(InvalidInput, MD5):
            get(md5=MD5)
        assert left(tmp_path) == []


class TestContinuing:
    @pytest.fixture
    def broken(self, get, site):
        def cut(**options):
            site.break_after = [HALF]
            with pytest.raises(InvalidInput, match="could not"):
                get(waits=(), **options)
            site.asked.clear()
            site.sent.clear()

        return cut

    def test_a_server_without_ranges_sends_all_again(self, get, site, broken):
        broken()
        site.ranges = False
        assert get().read_bytes() == CONTENT
        assert site.sent == [len(CONTENT)]

    def test_a_file_that_changed_is_begun_anew(self, get, site, broken):
        broken(md5=MD5)
        site.files["/file"] = OTHER
        assert get(md5=hashlib.md5(OTHER).hexdigest()).read_bytes() == OTHER
        assert site.asked == [("/file", f"bytes={KEPT}-"), ("/file", None)]

    @pytest.mark.parametrize("lie", ["bytes 0-699999/700000", "nonsense"])
    def test_a_range_that_was_not_asked_for(self, get, site, broken, lie):
        broken(md5=MD5)
        site.content_range = lie
        assert get(md5=MD5).read_bytes() == CONTENT
        assert site.asked == [("/file", f"bytes={KEPT}-"), ("/file", None)]

    def test_only_a_sum_allows_it(self, get, site, broken, tmp_path):
        broken()
        assert left(tmp_path) == []
        assert get().read_bytes() == CONTENT
        assert site.sent == [len(CONTENT)]

    def test_of_another_address_is_verified(self, get, site, broken):
        broken(md5=MD5)
        site.files["/other"] = OTHER
        assert get("/other", md5=hashlib.md5(OTHER).hexdigest()).read_bytes() == OTHER

    def test_when_all_had_come_already(self, get, site, broken, tmp_path):
        broken(md5=MD5)
        (tmp_path / "file.part").write_bytes(CONTENT)
        assert get(md5=MD5).read_bytes() == CONTENT
        assert site.sent == []

    def test_when_more_than_all_had_come(self, get, site, broken, tmp_path):
        broken(md5=MD5)
        (tmp_path / "file.part").write_bytes(CONTENT + b"?")
        assert get(md5=MD5).read_bytes() == CONTENT
        assert site.sent == [len(CONTENT)]

    def test_ctrl_c_keeps_what_came(self, get, site, tmp_path, monkeypatch):
        def interrupt(bar):
            if bar.done >= HALF:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(module.Progress, "show", interrupt)
            with pytest.raises(KeyboardInterrupt):
                get(md5=MD5)
        kept = (tmp_path / "file.part").stat().st_size
        assert HALF <= kept < len(CONTENT)
        assert left(tmp_path) == ["file.part"]
        site.asked.clear()
        assert get(md5=MD5).read_bytes() == CONTENT
        assert site.asked == [("/file", f"bytes={kept}-")]


def test_wrong_bytes_leave_nothing(get, site, tmp_path, refused):
    site.files["/file"] = OTHER
    with refused(InvalidInput, MD5, hashlib.md5(OTHER).hexdigest(), "deleted"):
        get(md5=MD5)
    assert left(tmp_path) == []
    assert len(site.asked) == 1  # the same bytes would come again


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_what_will_not_pass_is_not_tried_again(get, site, tmp_path, refused, status):
    site.statuses = [status]
    with refused(InvalidInput, "/file could not be downloaded", f"answers {status}"):
        get()
    assert len(site.asked) == 1
    assert left(tmp_path) == []


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_what_may_pass_is_tried_again(get, site, status):
    site.statuses = [status]
    assert get(md5=MD5).read_bytes() == CONTENT
    assert len(site.asked) == 2


class TestRedirections:
    def test_are_followed_with_the_range(self, get, site):
        site.redirects = {"/old": "/newer", "/newer": f"{site.url}/file"}
        site.break_after = [HALF]
        assert get("/old", md5=MD5).read_bytes() == CONTENT
        assert site.asked[-1] == ("/file", f"bytes={KEPT}-")

    @pytest.mark.parametrize("to", ["ftp://127.0.0.1/file", "file:///etc/passwd"])
    def test_not_out_of_the_web(self, get, site, tmp_path, refused, to):
        site.redirects = {"/old": to}
        with refused(InvalidInput, "could not be downloaded", "redirects elsewhere"):
            get("/old")
        assert left(tmp_path) == []

    def test_not_from_a_safe_connection_to_an_open_one(self, tmp_path, monkeypatch, refused):
        class Answer(contextlib.nullcontext):
            url = "http://example.org/a"

        monkeypatch.setattr("requests.get", lambda *_, **__: Answer(Answer()))
        with refused(InvalidInput, "not followed"):
            download("https://example.org/a", tmp_path / "file")

    def test_in_circles(self, get, site, refused):
        site.redirects = {"/old": "/old"}
        with refused(InvalidInput, "could not be downloaded", "30 redirects"):
            get("/old")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/b",
        "file:///etc/passwd",
        "/tmp/file",
        "",
        "http://",
        "http://a b/",
        "http://[",
        None,
    ],
)
def test_other_addresses(tmp_path, refused, url):
    with refused(InvalidInput, "only http and https"):
        download(url, tmp_path / "file")


def test_a_certificate_that_fails_is_not_tried_again(get, monkeypatch, refused):
    tried = []

    def fail(url, **_):
        tried.append(url)
        raise requests.exceptions.SSLError("expired")

    monkeypatch.setattr("requests.get", fail)
    with refused(InvalidInput, "certificate"):
        get()
    assert len(tried) == 1


class TestDisks:
    @pytest.mark.parametrize("step", ["write", "close"])
    def test_full(self, get, tmp_path, monkeypatch, refused, step):
        class Full(io.BytesIO):
            def close(self):
                super().close()
                raise OSError(errno.ENOSPC, "No space left on device")

            def write(self, data):
                if step == "write":
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        genuine = Path.open

        def opened(path, mode="r", *rest, **options):
            return Full() if path.suffix == ".part" else genuine(path, mode, *rest, **options)

        monkeypatch.setattr(Path, "open", opened)
        with refused(InvalidInput, "No space left on device", "file"):
            get()
        assert not (tmp_path / "file").exists()

    def test_a_folder_that_is_a_file(self, site, tmp_path, refused):
        (tmp_path / "x").write_bytes(b"")
        with refused(InvalidInput, "cannot be written"):
            download(f"{site.url}/file", tmp_path / "x" / "file")
        assert site.asked == []

    def test_a_target_that_is_a_folder(self, site, tmp_path, refused):
        with refused(InvalidInput, "is a folder"):
            download(f"{site.url}/file", tmp_path)

    def test_that_may_not_be_written(self, get, tmp_path, monkeypatch, refused):
        def denied(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("tempfile.NamedTemporaryFile", denied)
        with refused(InvalidInput, "Permission denied"):
            get()
        assert left(tmp_path) == []


def test_progress_is_shown_if_wanted(get, capsys):
    get(progress=True)
    assert "downloading file" in capsys.readouterr().err


class TestMovieLens:
    @pytest.fixture
    def official(self, site, monkeypatch):
        site.files = {"/sets/ml-32m.zip": CONTENT}
        monkeypatch.setitem(module.OFFICIAL_MD5, "ml-32m", MD5)
        return f"{site.url}/sets/"

    @pytest.mark.parametrize("name", ["ml-32m", "32m", "ML-32M"])
    def test_a_release_is_fetched_once(self, site, official, tmp_path, name, capsys):
        path = fetch_movielens(name, tmp_path, base=official)
        assert (path.name, path.read_bytes()) == ("ml-32m.zip", CONTENT)
        assert capsys.readouterr().err == f"{TERMS}\n"
        assert fetch_movielens(name, tmp_path, base=official.rstrip("/")) == path
        assert len(site.asked) == 1
        assert capsys.readouterr().err == ""

    def test_the_official_sum_counts(self, site, official, tmp_path, refused):
        site.files["/sets/ml-32m.zip"] = OTHER
        with refused(InvalidInput, MD5):
            fetch_movielens("32m", tmp_path, progress=False, base=official)

    @pytest.mark.parametrize("text", ["MD5 (ml-latest.zip) = {}\n", "{}  ml-latest.zip\n"])
    def test_a_release_that_changes_has_its_sum_beside_it(
        self, site, official, tmp_path, refused, text
    ):
        zipped, listed = "/sets/ml-latest.zip", "/sets/ml-latest.zip.md5"
        site.files = {zipped: CONTENT, listed: text.format(MD5).encode()}
        path = fetch_movielens("latest", tmp_path, progress=False, base=official)
        assert path.read_bytes() == CONTENT
        new = hashlib.md5(OTHER).hexdigest()
        site.files = {zipped: OTHER, listed: text.format(new).encode()}
        fetch_movielens("latest", tmp_path, progress=False, base=official)
        assert path.read_bytes() == OTHER
        site.files = {zipped: CONTENT, listed: text.format(new).encode()}
        path.unlink()
        with refused(InvalidInput, new):
            fetch_movielens("latest", tmp_path, progress=False, base=official)

    @pytest.mark.parametrize("listed", [None, b"<html>not here</html>"])
    def test_a_sum_that_cannot_be_had_is_done_without(self, site, official, tmp_path, listed):
        site.files = {"/sets/ml-latest-small.zip": CONTENT}
        if listed:
            site.files["/sets/ml-latest-small.zip.md5"] = listed
        path = fetch_movielens("latest-small", tmp_path, progress=False, base=official)
        assert path.read_bytes() == CONTENT

    @pytest.mark.parametrize("name", ["3m", "", None, "ml-100k", "../ml-1m"])
    def test_an_unknown_release(self, tmp_path, refused, name):
        with refused(InvalidInput, "no MovieLens release", "ml-latest-small"):
            fetch_movielens(name, tmp_path)

    def test_the_cache_is_where_the_environment_says(self, official, tmp_path, monkeypatch):
        monkeypatch.setenv("INFLUENTIAL_BANDITS_CACHE", str(tmp_path / "here"))
        path = fetch_movielens("32m", progress=False, base=official)
        assert path == tmp_path / "here" / "ml-32m.zip"

    def test_or_where_the_system_keeps_such(self, monkeypatch):
        monkeypatch.delenv("INFLUENTIAL_BANDITS_CACHE", raising=False)
        assert module._cache_folder() == Path(platformdirs.user_cache_dir("influential-bandits"))

    def test_every_fixed_release_has_its_sum(self):
        known = {name for name, md5 in module.OFFICIAL_MD5.items() if md5}
        assert known == {"ml-32m", "ml-25m", "ml-20m", "ml-10m", "ml-1m"}
        assert all(re.fullmatch("[0-9a-f]{32}", module.OFFICIAL_MD5[name]) for name in known)
