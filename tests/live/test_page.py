"""The page over HTTP: what it shows."""

import re
from collections import Counter
from dataclasses import asdict
from itertools import pairwise

import pytest
import requests
from live.driver import total_up
from live.page_server import PAGES, Outline, Server, Visitor

from influential_bandits.live import words
from influential_bandits.live.evidence import Stratum, compare_groups, judge
from influential_bandits.live.page.pictures import draw_interval, draw_spark, shade_matrix

NASTY = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' & {{ 7*7 }}",
    "\u202eשלום עולם\u202c ﷽",
    "x" * 200,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("page") / "store.db")
    server.create("shop", control_share=0.5)
    server.create("other")
    server.play(
        "shop", [f"user {n}" for n in range(80)], loss=lambda one: 0.5 * (one["arm"] == "tea")
    )
    server.play("other", ["bob"])
    yield server
    server.close()


@pytest.fixture(scope="module")
def admin(server):
    return server.visit()


def figures(text):
    """The figures of a page by their names."""
    pairs = re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text)
    return dict(pairs)


# What is shown.


def test_the_experiment_shows_what_the_report_says(server, admin):
    report = server.call("GET", "/experiments/shop/report")
    news = admin.wait_for("/experiments/shop", lambda news: ">80<" in news["parts"]["figures"])
    shown = figures(news["parts"]["figures"])
    assert shown["Decisions"] == "80"
    assert shown["Feedback"] == "80"
    assert shown["Waiting for feedback"] == "0"
    assert shown["Mean loss, policy"] == words.write_number(
        report["policy"]["loss"] / report["policy"]["decisions"]
    )
    told = [report[name] for name in ("difference", "low", "high")]
    for value in told:
        text = words.write_decimal(value, words.count_digits(told))
        assert text in news["parts"]["verdict"]
    digits = words.count_digits(arm["mean_loss"] for arm in report["arms"])
    for arm in report["arms"]:
        row = re.search(rf"<bdi>{arm['arm']}</bdi>.*?</tr>", news["parts"]["arms"], re.DOTALL)[0]
        assert words.write_decimal(arm["mean_loss"], digits) in row
    rate = news["charts"]["rate"]["columns"]
    assert len({len(column) for column in rate}) == 1


def test_shadow_mode_says_how_often_the_policy_agrees(server, admin):
    arms = [f"arm {number}" for number in range(12)]  # arm 1 must not be taken for arm 11
    server.create("beside", mode="shadow", arms=arms, control_share=0.3)
    calls = [
        {
            "path": "/experiments/beside/decisions",
            "body": {
                "instance": f"user {n % 5}",
                "baseline": arms[1 if n % 3 else n % 12],
                "activate": "later" if n % 7 == 0 else "now",
            },
        }
        for n in range(60)
    ]
    made = server.batch(calls)
    mine = [one for one in made if one["group"] == "policy"]
    agreed = sum(one["arm"] == one["proposed"] for one in mine)
    assert 0 < agreed < len(mine) < 60
    report = server.call("GET", "/experiments/beside/report")
    assert report["shadow"] == {"decisions": len(mine), "agreed": agreed}
    news = admin.wait_for("/experiments/beside", lambda news: ">60<" in news["parts"]["figures"])
    shown = news["parts"]["shadow"]
    assert f"<strong>{words.write_share(agreed / len(mine))}</strong> of {len(mine)} dec" in shown
    assert (
        "No decision was made in shadow mode" in admin.live("/experiments/shop")["parts"]["shadow"]
    )


def test_numbers_move_as_decisions_come(server, admin):
    server.create("moving")
    path = "/experiments/moving"

    def wait_for(name, value):
        """The page's parts as soon as a figure is what it should be, and its figures."""
        news = admin.wait_for(path, lambda n: figures(n["parts"]["figures"]).get(name) == value)
        return news["parts"], figures(news["parts"]["figures"])

    def decide(**more):
        return server.call("POST", f"{path}/decisions", {"instance": "ann"} | more)["decision_id"]

    wait_for("Decisions", "0")
    made, later, gone = decide(), decide(activate="later"), decide(activate="later")
    parts, shown = wait_for("Decisions", "3")
    assert shown["Waiting for feedback"] == "1"
    assert "<strong>2</strong> have not been shown yet" in parts["missing"]
    server.call("POST", f"{path}/decisions/{made}/feedback", {"loss": 1.0})
    server.call("POST", f"{path}/decisions/{gone}/cancel")
    server.call("POST", f"{path}/decisions/{later}/activate")
    server.call("POST", f"{path}/exposures", {"instance": "ann", "arms": ["tea", "tea"]})
    parts, shown = wait_for("Feedback", "1")
    assert shown["Waiting for feedback"] == "1"
    assert "not been shown yet" not in parts["missing"]
    assert "1 was cancelled" in parts["missing"]
    assert "2 showings elsewhere" in parts["missing"]


def test_own_state_says_that_there_is_no_common_interaction(server, admin):
    page = admin.get("/experiments/shop").text
    assert "Each instance has a state of its own" in page
    assert 'class="heat"' not in page


def test_what_callers_chose_in_shadow_mode_is_no_evidence(server, admin):
    server.create("mixed", control_share=0.5)
    users = [f"user {n}" for n in range(80)]
    server.play("mixed", users, loss=lambda one: float(one["group"] == "control"))
    server.call("PATCH", "/experiments/mixed", {"settings": {"mode": "shadow"}})
    for n in range(10):
        body = {"instance": users[n], "baseline": "tea", "decision_id": f"shadow {n}"}
        server.call("POST", "/experiments/mixed/decisions", body)
        server.call("POST", f"/experiments/mixed/decisions/shadow%20{n}/feedback", {"loss": 9.0})
    report = server.call("GET", "/experiments/mixed/report")
    assert report["difference"] == -1.0
    assert report["policy"]["decisions"] + report["control"]["decisions"] == 80
    news = admin.wait_for("/experiments/mixed", lambda news: ">90<" in news["parts"]["figures"])
    shown = figures(news["parts"]["figures"])
    assert (shown["Mean loss, policy"], shown["Mean loss, control"]) == ("0", "1")
    assert "They are left out here. The policy loses less" in news["parts"]["verdict"]


def test_an_experiment_of_rewards_is_told_in_rewards(server, admin):
    server.create("earning", control_share=0.5, outcome="reward", policy="Uniform")
    users = [f"user {n}" for n in range(100)]
    made = server.play("earning", users, loss=lambda one: -2.0 - (one["group"] == "policy"))
    report = server.call("GET", "/experiments/earning/report")
    assert (report["difference"], report["outcome"]) == (1.0, "reward")
    assert report["low"] <= 1.0 <= report["high"]
    assert report["policy"]["reward"] == 3.0 * report["policy"]["decisions"]
    assert {arm["mean_reward"] for arm in report["arms"]} == {2.0, 3.0}
    assert report["verdict"].startswith("The policy earns more than the control, by 1.00")
    assert "pausing" not in report["verdict"]
    news = admin.wait_for("/experiments/earning", lambda news: ">100<" in news["parts"]["figures"])
    shown = figures(news["parts"]["figures"])
    assert (shown["Mean reward, policy"], shown["Mean reward, control"]) == ("3", "2")
    assert 'class="verdict large better"' in news["parts"]["verdict"]
    (met,) = server.call("GET", "/experiments/earning/instances/user%200")["met"]
    assert met["reward"] == (3.0 if made[0]["group"] == "policy" else 2.0)


# Whatever users call their things.


@pytest.mark.parametrize("nasty", NASTY)
def test_nothing_user_given_becomes_markup(server, admin, nasty):
    name = f"{NASTY.index(nasty)} {nasty}".replace("/", "|")[:200]
    server.create(name, arms=[nasty, "plain"], control_share=0.5)
    server.call("POST", "/keys", {"label": nasty, "role": "reader", "experiment": name})
    path = f"/experiments/{requests.utils.quote(name, safe='')}"
    made = server.call(
        "POST", f"{path}/decisions", {"instance": nasty, "decision_id": nasty, "eligible": [nasty]}
    )
    assert made["arm"] == nasty
    admin.wait_for(path, lambda n: figures(n["parts"]["figures"]).get("Decisions") == "1")
    plain = Counter(tag for tag, _ in Outline(admin.get("/experiments/other").text).elements)
    for where in ("/", path):
        answer = admin.get(where)
        assert answer.status_code == 200, where
        page = Outline(answer.text)
        tags = Counter(tag for tag, _ in page.elements)
        assert tags["script"] <= plain["script"]
        assert all(image["src"].startswith("/static/") for image in page.tags("img"))
        assert not any(
            name.startswith("on") for _, attributes in page.elements for name in attributes
        )
        assert nasty in "".join(page.texts) or name in "".join(page.texts), where
    news = admin.live(path)
    assert nasty in news["charts"]["arms"]["names"]
    for part in news["parts"].values():
        assert "<script" not in part
        assert "onerror=" not in re.sub(r"&lt;img src=x onerror=", "", part)


@pytest.mark.parametrize(
    "label", ["...", "a/../b", "a/b", "a b", "%2e", "a\nb", "?x=1#y", "ünïcode", "/"]
)
def test_every_label_leads_to_what_is_known_of_it(server, admin, label):
    server.play("other", [label])
    links = [a["href"] for a in Outline(admin.get("/experiments/other").text).tags("a")]
    met = [admin.get(link).json() for link in links if "/instances/" in link]
    assert label in [one["instance"] for one in met]


# Keyboard and screen reader.


@pytest.mark.parametrize("path", ["/login", *PAGES])
def test_pages_are_made_for_screen_readers(server, admin, path):
    text = (Visitor(server.address) if path == "/login" else admin).get(path).text
    page = Outline(text)
    assert page.tags("html")[0]["lang"] == "en"
    for landmark in ("header", "main", "footer"):
        assert len(page.tags(landmark)) == 1
    assert len(page.tags("h1")) == 1
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    labelled = {a["for"] for a in page.tags("label")}
    for tag in ("input", "select"):
        for field in page.tags(tag):
            assert field.get("type") == "hidden" or "hidden" in field or field["id"] in labelled
    for _, attributes in page.elements:
        for reference in ("aria-labelledby", "aria-describedby"):
            for target in attributes.get(reference, "").split():
                assert target in ids
    for chart in [a for tag, a in page.elements if a.get("class") == "chart"]:
        assert chart["role"] == "img"
        assert "table below" in chart["aria-label"]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.tags("a")[0]["href"] == "#content"
    if "charts" in ids:
        status = next(a for _, a in page.elements if a.get("id") == "summary")
        assert status["aria-live"] == "polite"


# Words and pictures.


def totals(instances, mean, spread=0.1, each=10):
    """Totals of instances alternately above and below a mean."""
    sums = [each * (mean + (spread if k % 2 else -spread)) for k in range(instances)]
    return total_up([each] * instances, sums)


@pytest.mark.parametrize(
    ("policy", "control", "begins"),
    [
        (totals(1000, 0.1), totals(1000, 0.3), "The policy loses less than the control, by 0.2"),
        (totals(1000, 0.3), totals(1000, 0.1), "The policy loses more than the control, by 0.2"),
        (totals(1000, 0.2), totals(1000, 0.2001), "No difference has been shown yet"),
        (totals(10, 0.1), totals(1000, 0.3), "Too early to tell"),
    ],
)
def test_verdicts_say_what_the_interval_says(policy, control, begins):
    report = asdict(compare_groups([(policy, control)])) | {"outcome": "loss"}
    verdict = words.describe_evidence(report, {"mode": "live", "control_share": 0.5})
    assert verdict.startswith(begins)
    shadow = words.describe_evidence(report, {"mode": "shadow", "control_share": 0.5})
    if begins.startswith("Too early"):
        assert "nothing to compare" in shadow
    else:
        assert f"They are left out here. {begins}" in shadow


def test_a_verdict_that_is_withheld_says_why():
    few, many = totals(100, 0.1), totals(300, 0.1)
    evidence = asdict(judge([Stratum(0.5, few, many, few, many)])) | {"outcome": "loss"}
    told = words.describe_evidence(evidence, {"mode": "live", "control_share": 0.5})
    assert told.startswith("No verdict: 100 instances of the policy and 300 of the control")


def test_shades_follow_size_sign_and_doubt():
    cells = shade_matrix([[0.1, -0.05], [1e-9, 0.0]], [[0.01, 0.04], [1e-7, 0.2]])
    assert [[cell.shade for cell in row] for row in cells] == [
        ["worse-8", "better-4"],
        ["worse-1", "none"],
    ]
    assert [[cell.is_sure for cell in row] for row in cells] == [[True, False], [False, False]]
    assert cells[0][1].value == "−0.05"
    assert cells[1][0][:2] == ("0.00", "± below 0.01")
    assert shade_matrix([[0.0]], [[0.0]])[0][0].shade == "none"
    assert shade_matrix([], []) == []
    assert shade_matrix([[12345.0]], [[1.0]])[0][0].value == "12,345"


def test_small_pictures_stay_within_their_frames():
    """Also for values that are missing, equal, infinite in proportion, or outside of the axis."""
    for values in ([], [1.0], [None, None], [0.0, 0.0], [1e300, 1.0, None]):
        points = re.search(r'points="([^"]*)"', draw_spark(values))[1]
        for pair in points.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 160
            assert 0 <= y <= 28
    picture = draw_interval(-5.0, 0.0, 99.0, (-1.0, 1.0), '"><b>')
    assert "<b>" not in picture
    for x in re.findall(r'(?:x1|x2|cx)="([^"]*)"', picture):
        assert 4.0 <= float(x) <= 196.0
