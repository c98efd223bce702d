"""The site: built from tutorials that run and docstrings, without dead links or other hosts."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import browser
import pytest

import influential_bandits as ib
from docs.site import docstring_markup, links, python_reference, tutorials

ROOT = Path(__file__).parent.parent
DOCS = "docs"  # apart from the names of made-up pages, which links are checked for


def test_every_link_of_pages_and_comments_leads_somewhere():
    assert links.check_sources() == []


def test_dead_links_and_headings_and_files_are_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    lines = [
        "# A title of `code`",
        f"[a]({DOCS}/page.md#one-two)",
        f"[b]({DOCS}/gone.md)",
        "[c](#a-title-of-code)",
        f"[d]({DOCS}/page.md#three)",
        "```",
        "[e](not/a/link.md)",
        "```",
        "[f](https://host/x.md)",
    ]
    (tmp_path / "README.md").write_text("\n".join(lines))
    (tmp_path / "docs" / "page.md").write_text("# Page\n## One, two\n")
    (tmp_path / "src" / "code.py").write_text(f'"""As {DOCS}/none.md says."""\n')
    for name in ("Makefile", "pyproject.toml"):
        (tmp_path / name).write_text("")
    found = links.check_sources(tmp_path)
    places = {line.split(": ", 1)[0] for line in found}
    assert places == {"README.md:3", "README.md:5", "src/code.py:1"}


def test_addresses_of_other_hosts_are_found_in_a_site(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a href="https://host/">fine</a><h2 id="here">x</h2><a href="#here">fine</a>'
        '<a href="#gone">dead</a><script src="https://host/a.js"></script><img src="none.png">'
    )
    found = links.check_site(tmp_path)
    assert len(found) == 3
    assert "another host" in found[0]
    assert found[1:] == [
        "index.html: #gone has no such heading",
        "index.html: none.png leads nowhere",
    ]


def test_raw_markup_is_found_outside_blocks_of_code(tmp_path):
    (tmp_path / "index.html").write_text(
        "<p>a ``b``</p><code>c `d`</code><pre><code>`e`</code></pre><script>`f`</script><p>fine</p>"
    )
    assert links.check_site(tmp_path) == [
        "index.html: a raw backtick in 'a ``b``'",
        "index.html: a raw backtick in 'c `d`'",
    ]


def test_markup_of_docstrings_becomes_markdown():
    text = (
        "As :func:`simulate` and :func:`hidden` have it: x* in ``a*b``, docs/how_to/upgrade.md.\n"
    )
    found = docstring_markup.convert(text + ">>> 2 * 3", frozenset({"simulate"}))
    assert found == (
        "As [`simulate`][influential_bandits.simulate] and `hidden` have it: x\\* in ``a*b``, "
        "[upgrade](../how_to/upgrade.md).\n>>> 2 * 3"
    )


def test_the_reference_has_a_page_for_every_public_name():
    names = [name for group in python_reference.group_names().values() for name in group]
    assert len(names) == len(set(names))
    modules = {name for name in ib.__all__ if type(getattr(ib, name)).__name__ == "module"}
    below = {f"{module}.{name}" for module in modules for name in getattr(ib, module).__all__}
    shown_above = {name for name in below if name.split(".")[1] in ib.__all__}
    assert set(names) == (set(ib.__all__) | below) - modules - {"__version__"} - shown_above


def test_a_tutorial_becomes_a_page_with_what_it_prints_and_draws(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(
        '"""Small."""\n\n# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\n'
        "import matplotlib.pyplot as plt\n"
        'print(1 + 1)\nax = plt.subplots()[1]\nax.set_title("A line")\nplt.show()\n'
    )
    page = tmp_path / "out" / "small.md"
    assert tutorials.write_page(script, page, tmp_path / "images") == 1
    text = page.read_text()
    assert text.startswith("# Title\n\nWords.\n\n```python\nimport matplotlib")
    assert "```text\n2\n```" in text
    assert "![A line](../images/small-1.png)" in text
    assert (tmp_path / "images" / "small-1.png").stat().st_size > 1000


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the site, built as `make docs` builds it."""
    out = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "docs.site", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.long
def test_the_site_has_all_names_commands_calls_and_pictures(site):
    reference = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for names in python_reference.group_names().values():
        assert [name for name in names if f'id="influential_bandits.{name}"' not in reference] == []
    assert 'id="diagnose"' in reference
    calls = json.loads((site / "reference" / "openapi.json").read_text())["paths"]
    assert "/v1/experiments" in calls
    assert all(path in reference for path in calls)
    scripts = sorted(ROOT.glob("docs/tutorials/*.py"))
    assert len(scripts) == 4
    for script in scripts:
        assert (site / "images" / "tutorials" / f"{script.stem}-1.png").exists()
        assert "<pre" in (site / "tutorials" / f"{script.stem}.html").read_text()


@pytest.mark.long
def test_the_site_works_without_a_network(site, tmp_path):
    driver = browser.start_browser(tmp_path)
    from selenium.webdriver.common.keys import Keys

    try:
        driver.get((site / "explanation" / "paper.html").as_uri())
        count = "return document.querySelectorAll('.katex').length"
        browser.until(lambda: driver.execute_script(count) > 5, "formulas")
        assert driver.execute_script(count.replace("katex", "katex-error")) == 0
        wide = "return document.documentElement.scrollWidth - window.innerWidth"
        driver.set_window_size(400, 800)
        assert driver.execute_script(wide) <= 0, "nothing sticks out on a phone"
        driver.get((site / "index.html").as_uri())
        picture = (
            "const i = document.querySelector('picture img');"
            "const s = i.getBoundingClientRect();"
            "return [i.complete && i.naturalWidth > 0, s.left >= 0 && s.right <= innerWidth,"
            " s.height > s.width]"
        )
        assert driver.execute_script(picture) == [True, True, True], "one part below the other"
        driver.find_element("tag name", "body").send_keys(Keys.CONTROL, "k")
        found = "return document.activeElement.shadowRoot?.textContent ?? ''"
        browser.until(lambda: driver.execute_script(found), "a place to search")
        driver.switch_to.active_element.send_keys("placebo")
        browser.until(lambda: "influence_test" in driver.execute_script(found), "what was found")
        sent = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        asked = [
            message["params"]["request"]["url"]
            for message in sent
            if message["method"] == "Network.requestWillBeSent"
        ]
        assert any(url.endswith("katex.min.js") for url in asked)
        for width, page in itertools.product((1280, 1920), ("index", "explanation/fading")):
            driver.set_window_size(width, 900)
            driver.get((site / f"{page}.html").as_uri())
            left = (
                "const left = selector => document.querySelector(selector).getBoundingClientRect();"
                "const grid = left('.md-main__inner').left;"
                "return [left('.md-sidebar--primary').width, left('.md-content').left - grid]"
            )
            beside, text = driver.execute_script(left)
            assert (beside > 0) == (page != "index")
            assert text <= beside + 1, "text starts where the pages beside it end"
        assert [url for url in asked if url.startswith(("http", "ws", "//"))] == []
    finally:
        driver.quit()
