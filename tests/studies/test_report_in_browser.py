"""The report as a reader meets it: in a real browser, without a network."""

import json
import time

import pytest
from browser import start_browser, until

from influential_bandits.studies.report.content import (
    Analysis,
    Bars,
    Finding,
    HeatMap,
    Opening,
    Section,
)
from influential_bandits.studies.report.html import write_report

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
    script = "return document.querySelectorAll('.js-plotly-plot .main-svg').length > 0"
    until(lambda: browser.execute_script(script), "plotly draws")
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
        "return [...document.querySelectorAll('.js-plotly-plot')].map(p => "
        "[p.id, p.closest('figure').querySelector('h4').textContent,"
        " p.querySelectorAll('.main-svg').length,"
        " p.getBoundingClientRect().width, p.getBoundingClientRect().height])"
    )
    told = [(name, title) for name, title, *_ in drawn]
    assert sorted(told) == sorted((name, figure.title) for name, figure in expected)
    assert told[0][0] == "figure-1b-regret", "the one that says most comes first"
    for name, _, svgs, width, height in drawn:
        assert svgs > 0, name
        assert width > 500, name
        assert height > 300, name


def test_every_series_is_in_its_figure(opened, tiny):
    browser, _, _ = opened
    for name, figure in figures(tiny[1]):
        names = browser.execute_script(
            "return document.getElementById(arguments[0]).data"
            ".filter(t => t.showlegend !== false).map(t => t.name)",
            name,
        )
        assert names == [series.name for series in figure.series], name


@pytest.mark.parametrize("name", ["figure-1a-regret", "figure-1b-regret", "figure-4-slopes"])
def test_a_click_in_the_legend_switches_a_series_off_and_on(name, opened):
    browser, _, _ = opened
    entries = browser.find_elements("css selector", f"[id='{name}'] .legendtoggle")
    assert len(entries) == 2

    def visible():
        return browser.execute_script(
            "return document.getElementById(arguments[0])._fullData"
            ".map(t => [t.legendgroup, t.visible])",
            name,
        )

    groups = list(dict.fromkeys(group for group, _ in visible()))
    assert [state for _, state in visible()] == [True] * len(visible())
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", entries[0])
    entries[0].click()
    until(lambda: "legendonly" in [state for _, state in visible()], "switched off")
    for group, state in visible():  # a band goes with its line
        assert state == ("legendonly" if group == groups[0] else True)
    time.sleep(0.5)  # two clicks at once would be a double click
    entries = browser.find_elements("css selector", f"[id='{name}'] .legendtoggle")
    entries[0].click()
    until(lambda: all(state is True for _, state in visible()), "switched on")


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


def test_the_summary_has_a_row_for_every_finding(opened, tiny):
    browser, _, _ = opened
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#summary tbody tr')]"
        ".map(r => [...r.cells].map(c => c.textContent))"
    )
    expected = [
        (study.name, finding.claim, finding.verdict)
        for study in tiny[1]
        for finding in study.analysis.findings
    ]
    assert [(row[0], row[1], row[-1]) for row in rows] == expected
    assert {len(row) for row in rows} == {6}


def test_links_within_the_page_lead_somewhere(opened):
    browser, _, _ = opened
    targets = browser.execute_script(
        "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
    )
    assert targets
    for target in targets:
        assert target.startswith("#")
        assert browser.execute_script("return !!document.getElementById(arguments[0])", target[1:])


# Last, since it leaves the page that the tests above look at.
def test_bars_and_heat_maps_are_drawn_with_names_on_their_axes(browser, tmp_path):
    """Names that look like numbers stay names: 20, 3, 100 in this order, equally far apart."""
    labels = ["20", "3", "100"]
    pictures = [
        Bars("bars", "Bars", labels, [1.0, 0.0, -2.0], "x", [0.0, 0.0, -3.0], [2.0, 0.0, -1.0]),
        Bars("one", "One", ["a"], [0.0], "x"),
        HeatMap("heat", "Heat", labels, [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 2.0]]),
        HeatMap("zeros", "Zeros", ["a"], [[0.0]]),
    ]
    section = Section("s", "line", {}, Analysis([Finding("claim", 1.0)], pictures))
    opening = Opening(["Found"])
    write_report(tmp_path / "report.html", [section], {}, "Title", opening, "Introduction")
    browser.get((tmp_path / "report.html").as_uri())
    script = "return document.querySelectorAll('.js-plotly-plot .main-svg').length >= 4"
    until(lambda: browser.execute_script(script), "plotly draws")
    axis = "const l = document.getElementById(arguments[0])._fullLayout.yaxis; "
    for name in ("s-bars", "s-heat"):
        assert browser.execute_script(axis + "return l.type", name) == "category"
        assert browser.execute_script(axis + "return l._categories", name) == labels
        low, high = browser.execute_script(axis + "return l.range", name)
        assert low > high, "the first on top, as in print"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
