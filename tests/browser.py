"""A real browser without a screen, for tests of what people see."""

import os
import shutil
import time

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1200,1000",
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def start_browser(profile):
    """Return a browser that keeps a log; skip the test where there is none, but fail in CI."""
    if CHROMIUM is None or DRIVER is None:
        missing = "chromium" if CHROMIUM is None else "chromedriver"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing} is missing, and in CI pages must be tested")
        pytest.skip(f"{missing} is missing")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def until(holds, what, seconds=20):
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
