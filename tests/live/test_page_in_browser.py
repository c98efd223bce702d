"""The page as a person meets it: in a real browser, on a desk and on a phone, by keyboard alone."""

import re
from itertools import pairwise

import pytest
from browser import start_browser, until
from live.page_server import Server

pytestmark = pytest.mark.long

PAGES = (
    "/",
    "/experiments/shop",
    "/experiments/shop?span=all",
)
LONG = "w" * 200
RED = "<img src=x onerror=document.title='red'>"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A service whose instances share a state, with names that are hard on a page."""
    server = Server(tmp_path_factory.mktemp("page") / "store.db")
    server.create(
        "shop", arms=["tea", LONG, RED], policy="Foresight", state="shared", control_share=0.5
    )
    users = [f"user {n}" for n in range(90)]
    for _ in range(4):
        server.play("shop", users, loss=lambda one: 0.3 * (one["arm"] == "tea") + one["number"] % 7)
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser(server, tmp_path_factory):
    """A browser that has logged in, through the form."""
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    driver.get(server.address + "/experiments/shop")
    assert "/login" in driver.current_url
    assert driver.switch_to.active_element.get_attribute("id") == "key", "ready to paste"
    driver.switch_to.active_element.send_keys(server.key + "\n")
    until(lambda: driver.current_url == server.address + "/experiments/shop", "logged in")
    until(lambda: figure(driver, "Decisions") == "360", "all events counted")
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def at_a_desk(browser):
    """Every test starts with a wide window in light colours, and must end without an error."""
    resize(browser, 1200)
    colours(browser, "light")
    browser.get_log("browser")
    yield
    found = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert found == []
    assert browser.title != "red", "a name became markup"


def figure(browser, name):
    script = (
        "const t = [...document.querySelectorAll('.figures dt')]"
        ".find(t => t.textContent === arguments[0]);"
        "return t ? t.nextElementSibling.textContent : null"
    )
    return browser.execute_script(script, name)


def resize(browser, width, height=900):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def colours(browser, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def open_page(browser, server, path):
    browser.get(server.address + path)
    drawn = "return [...document.querySelectorAll('.chart')].every(c => c.querySelector('canvas'))"
    until(lambda: browser.execute_script(drawn), f"charts of {path} are drawn")


def test_numbers_and_curves_move_as_decisions_come(browser, server):
    open_page(browser, server, "/experiments/shop")
    before = int(figure(browser, "Decisions").replace(",", ""))
    curve = "return document.querySelector('[data-chart=rate] canvas').toDataURL()"
    picture = browser.execute_script(curve)
    browser.execute_script("document.body.dataset.same = 'yes'")
    server.play("shop", ["user 1", "user 2"], rounds=5)
    until(lambda: figure(browser, "Decisions") == f"{before + 10:,}", "the number moves")
    until(lambda: browser.execute_script(curve) != picture, "the curve moves")
    assert browser.execute_script("return document.body.dataset.same") == "yes", "without a reload"
    spoken = "return document.getElementById('summary').textContent"
    until(lambda: f"{before + 10:,} decisions" in browser.execute_script(spoken), "it is spoken")


def test_what_is_being_read_stays_open(browser, server):
    open_page(browser, server, "/experiments/shop")
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    link = browser.find_element("css selector", ".labels a")
    link.send_keys("")  # focus
    now = int(figure(browser, "Decisions").replace(",", ""))
    server.play("shop", ["user 3"])
    until(lambda: figure(browser, "Decisions") != f"{now:,}", "something moves")
    assert browser.execute_script(
        "return [...document.querySelectorAll('details')].every(d => d.open)"
    )
    assert browser.switch_to.active_element == link
    rows = "return document.querySelectorAll('[data-live=rates] tr').length"
    assert browser.execute_script(rows) > 0


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_it_without_scrolling_sideways(browser, server, path):
    resize(browser, 390, 844)
    open_page(browser, server, path)
    width = browser.execute_script(
        "document.querySelectorAll('details').forEach(d => d.open = true);"
        "return document.documentElement.scrollWidth"
    )
    assert width <= 390
    wider = browser.execute_script(
        "return [...document.querySelectorAll('main *')]"
        ".filter(e => !e.closest('.wide, .unseen') && e.getBoundingClientRect().right > 391)"
        ".map(e => e.tagName + '.' + e.className)"
    )
    assert wider == []


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(browser, server, path, scheme):
    """All text has a contrast of 4.5 to what is behind it (WCAG 2.2, level AA)."""
    colours(browser, scheme)
    open_page(browser, server, path)
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 150) == (scheme == "dark")
    poor = browser.execute_script(CONTRAST)
    assert poor == []


CONTRAST = """
const parse = (c) => {
  const n = c.match(/[\\d.]+/g).map(Number);
  return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
};
const over = (a, b) => [...[0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])), 1];
const linear = (v) => (v <= 0.04045 * 255 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
const behind = (e) => (
  e ? over(parse(getComputedStyle(e).backgroundColor), behind(e.parentElement)) : [255, 255, 255, 1]
);
const poor = new Set();
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
  if (!text || e.closest('script, .unseen, .skip, option') || !e.getClientRects().length) continue;
  const style = getComputedStyle(e), back = behind(e), own = parse(style.color);
  const front = over([own[0], own[1], own[2], own[3] * Number(style.opacity)], back);
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < 4.5) poor.add(`${e.tagName}.${e.className} ${text} ${contrast.toFixed(2)}`);
}
return [...poor];
"""


def test_charts_follow_the_colours_while_open(browser, server):
    open_page(browser, server, "/experiments/shop")
    curve = "return document.querySelector('[data-chart=groups] canvas').toDataURL()"
    picture = browser.execute_script(curve)
    colours(browser, "dark")
    until(lambda: browser.execute_script(curve) != picture, "the chart is drawn anew")


def test_the_keyboard_reaches_everything_in_order(browser, server):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    open_page(browser, server, "/experiments/shop")
    browser.execute_script("document.activeElement.blur()")
    reached = []
    describe = (
        "const e = document.activeElement, s = getComputedStyle(e);"
        "return [e.tagName, e.textContent.trim().slice(0, 30) || e.id,"
        " e.getBoundingClientRect().top + scrollY,"
        " s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0]"
    )
    for _ in range(60):
        browser.switch_to.active_element.send_keys(keys.TAB)
        found = browser.execute_script(describe)
        if found[0] == "BODY":
            break
        reached.append(found)
    names = [name for _, name, _, _ in reached]
    assert names[0] == "Skip to the content"
    wanted = [
        "Experiments",
        "Log out",
        "Settings as JSON",
        "The same as a table",
        "Last hour",
        "Since the beginning",
    ]
    places = [names.index(name) for name in wanted]
    assert places == sorted(places)
    assert all(outlined for _, _, _, outlined in reached), "one sees where one is"
    tops = [top for _, _, top, _ in reached[1:]]
    assert all(after > before - 200 for before, after in pairwise(tops))
    focusable = browser.execute_script(
        "return document.querySelectorAll("
        "'a[href], button, input:not([type=hidden]), select, summary').length"
    )
    assert len(reached) >= focusable


def test_the_interaction_is_a_table_with_its_doubt(browser, server):
    open_page(browser, server, "/experiments/shop")
    cells = browser.execute_script(
        "return [...document.querySelectorAll('.heat tbody tr')]"
        ".map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[0] for row in cells] == ["tea", LONG, RED]
    for row in cells:
        assert len(row) == 4
        assert all(re.fullmatch(r"\(?−?\d+\.?\d*\)?± (below )?\d+\.?\d*", cell) for cell in row[1:])


def test_a_session_that_has_ended_leads_back_to_the_login(browser, server):
    """Last, since it logs the browser out."""
    open_page(browser, server, "/experiments/shop")
    browser.delete_cookie("ib_login")
    until(lambda: "/login?next=" in browser.current_url, "asked to log in again")
    browser.get_log("browser")  # the answer 401 is noted there, as it must be
