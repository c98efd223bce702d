"""The report as a reader meets it: in a real browser, without a network."""

import json
import time

import pytest
from browser import start_browser, until

import influential_bandits as ib

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def opened(browser, tiny):
    """The browser with the report drawn, what it asked for, and what it complained about."""
    out, _ = tiny
    browser.get("data:,")
    time.sleep(0.5)
    browser.get_log("performance")  # what the browser's own first page asked for
    browser.get((out / "report.html").as_uri())
    time.sleep(1.0)  # what asks for more after loading, does so now
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return browser, requests, browser.get_log("browser")


def figures(results):
    return [
        (f"{study.name}-{figure.name}", figure)
        for study in results
        for figure in study.analysis.figures
    ]


def test_no_request_leaves_the_machine(opened, tiny):
    _, requests, _ = opened
    out, _ = tiny
    assert (out / "report.html").as_uri() in requests
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def test_the_console_has_no_errors(opened):
    _, _, console = opened
    assert [entry for entry in console if entry["level"] == "SEVERE"] == []


def test_every_figure_is_drawn(opened, tiny):
    browser, _, _ = opened
    expected = figures(tiny[1])
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.drawing')].map(p => "
        "[p.id, p.closest('figure').querySelector('h4').textContent,"
        " p.querySelector('svg').getBoundingClientRect().width,"
        " p.querySelector('svg').getBoundingClientRect().height])"
    )
    told = [(name, title) for name, title, *_ in drawn]
    assert sorted(told) == sorted((name, figure.title) for name, figure in expected)
    assert told[0][0] == "figure-1b-regret", "the one that says most comes first"
    for name, _, width, height in drawn:
        assert width > 500, name
        assert height > 300, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axes_can_be_read_in_the_light_and_in_the_dark(scheme, opened):
    browser, _, _ = opened
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    ink, paper = browser.execute_script(
        "const text = document.querySelector('.drawing text');"
        "const number = colour => colour.match(/\\d+/g).slice(0, 3).reduce((a, b) => +a + +b, 0);"
        "return [number(getComputedStyle(text).fill),"
        " number(getComputedStyle(document.body).backgroundColor)]"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert abs(ink - paper) > 400, "of 765"
    assert (ink < paper) == (scheme == "light")


def test_the_page_opens_with_what_was_found_and_folds_the_long_table(opened):
    browser, _, _ = opened
    order = browser.execute_script(
        "return [...document.body.querySelectorAll('h1, .found, figure, table')]"
        ".slice(0, 4).map(e => e.className || e.tagName.toLowerCase())"
    )
    assert order == ["h1", "found", "figure", "claims"]
    words = browser.execute_script("return document.querySelector('.found').textContent")
    assert "claims of the paper were reproduced" in words
    closed = "return document.getElementById('summary').closest('details').open"
    assert browser.execute_script(closed) is False


def test_nothing_is_wider_than_a_phone(opened):
    browser, _, _ = opened
    before = browser.get_window_size()
    browser.set_window_size(500, 900)
    width = "return [document.documentElement.scrollWidth, window.innerWidth]"
    until(lambda: browser.execute_script(width)[1] <= 500, "narrow")
    page, screen = browser.execute_script(width)
    browser.set_window_size(before["width"], before["height"])
    assert page <= screen


def test_links_within_the_page_lead_somewhere(opened):
    browser, _, _ = opened
    targets = browser.execute_script(
        "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
    )
    assert targets
    for target in targets:
        assert target.startswith("#")
        assert browser.execute_script("return !!document.getElementById(arguments[0])", target[1:])


def test_no_table_of_a_comparison_is_cut_on_a_laptop(browser, tmp_path):
    policies = ["LCB", "InfluentialLCB", "Uniform", "EachArmOnceOracle"]
    horizons = [30, 100, 1000, 10_000, 100_000]
    ib.compare(policies, ["random-3", "fading-0.9"], horizons, n_instances=3, out=tmp_path)
    widths = measure_tables(browser, tmp_path / "report.html", 1280)
    assert len(widths) >= 4
    assert all(table <= page for table, page in widths)


def test_no_table_of_a_diagnosis_is_cut_on_a_phone(browser, tmp_path):
    log = ib.data.synthetic_log(
        80, 40, 3, interaction=[[0.6, 0, 0], [0, 0.3, 0], [0, 0, 0]], memory=0.8, seed=0
    )
    ib.diagnose(log, permutations=99, progress=False).save(tmp_path)
    widths = measure_tables(browser, tmp_path / "report.html", 390)
    words = browser.execute_script("return document.querySelector('.stacked').textContent")
    assert "show" in words
    assert len(widths) >= 4
    assert all(table <= page for table, page in widths)


def measure_tables(browser, page, width):
    """Return the widths of all tables of a page, and of the room that each has."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    widths = browser.execute_script(
        "document.querySelectorAll('details').forEach(each => each.open = true);"
        "return [...document.querySelectorAll('.wide')].map(each => [each.scrollWidth, "
        "each.clientWidth])"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    return widths
