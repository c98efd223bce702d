"""A service in a thread, and a browser without a screen: what tests of the page share."""

import threading
import time
from html.parser import HTMLParser

import requests
import uvicorn

from influential_bandits.live.keys import make_key
from influential_bandits.live.service import Service
from influential_bandits.live.serving import protocol_options
from influential_bandits.live.store.opening import open_store
from influential_bandits.live.writer import Writer

VOID = {"br", "hr", "img", "input", "link", "meta", "circle", "line", "polyline", "rect", "path"}
# Those of an experiment named shop, in which user 1 decides.
PAGES = ("/", "/experiments/shop")


class Server:
    """A service on a store of its own, reached over HTTP."""

    def __init__(self, path, root=""):
        self.path, self._root = path, root
        store = open_store(path)
        self.key, row = make_key("first key", "admin", None, 1.0)
        store.begin()
        store.add_key(row)
        store.commit()
        self._start(store)

    def _start(self, store, port=0, secret=None):
        self.writer = Writer(store)
        self.service = Service(self.writer, secret, self._root)
        config = uvicorn.Config(
            self.service, port=port, access_log=False, lifespan="off", **protocol_options()
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self.service.close()

    def restart(self, secret=None):
        """Stop, and start again on the same store and port."""
        self.close()
        self._start(open_store(self.path), self.port, secret)

    def call(self, method, path, body=None, key=None):
        headers = {"Authorization": f"Bearer {key or self.key}"}
        answer = requests.request(method, f"{self.address}/v1{path}", json=body, headers=headers)
        assert answer.ok, answer.text
        return answer.json()

    def create(self, name, **settings):
        settings = {"arms": ["tea", "coffee"], "policy": "LCB", **settings}
        self.call("POST", "/experiments", {"name": name, "settings": settings})

    def make_key(self, role="reader", experiment=None):
        body = {"label": f"a {role}", "role": role, "experiment": experiment}
        return self.call("POST", "/keys", body)["key"]

    def batch(self, calls):
        answers = self.call("POST", "/batch", {"requests": calls})["answers"]
        return [item["answer"] for item in answers]

    def play(self, experiment, instances, rounds=1, loss=0.5):
        """Let instances decide and tell their losses; return the decisions."""
        calls = [
            {"path": f"/experiments/{experiment}/decisions", "body": {"instance": instance}}
            for _ in range(rounds)
            for instance in instances
        ]
        made = self.batch(calls)
        tell = loss if callable(loss) else lambda _: loss
        calls = [
            {
                "path": f"/experiments/{experiment}/decisions/{one['decision_id']}/feedback",
                "body": {"loss": tell(one)},
            }
            for one in made
        ]
        self.batch(calls)
        return made

    def visit(self, key=None):
        """Return a visitor who has logged in."""
        visitor = Visitor(self.address)
        answer = visitor.log_in(key or self.key)
        assert answer.status_code == 200, answer.text
        return visitor


class Visitor:
    """Somebody with a browser: cookies and forms."""

    def __init__(self, address):
        self.address, self.session = address, requests.Session()

    def get(self, path, **rest):
        return self.session.get(self.address + path, **rest)

    def live(self, path):
        answer = self.get(path, headers={"Accept": "application/json"})
        assert answer.ok, answer.text
        return answer.json()

    def wait_for(self, path, holds, seconds=20.0):
        """Return the news of a page as soon as they are as they should be."""
        deadline = time.monotonic() + seconds
        while not holds(news := self.live(path)):
            assert time.monotonic() < deadline, news
            time.sleep(0.1)
        return news

    def post(self, path, fields, headers=None, *, follow=True):
        sent = {"Origin": self.address, **(headers or {})}
        sent = {name: value for name, value in sent.items() if value is not None}
        return self.session.post(
            self.address + path, data=fields, headers=sent, allow_redirects=follow
        )

    def log_in(self, key, target="/"):
        return self.post("/login", {"key": key, "next": target})


class Outline(HTMLParser):
    """The elements and texts of a page; raises where elements do not close in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self._open = [], [], []
        self.feed(text)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> is out of order"

    def handle_data(self, data):
        self.texts.append(data)

    def tags(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
