"""A real Chromium without a screen, and what axe and the browser find wrong with a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
from selenium import webdriver

_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (_CHROMIUM and _DRIVER),
    reason="needs chromium and chromedriver: apt install chromium-driver",
)


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(_CHROMIUM)
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(_DRIVER))
    try:
        found.execute_cdp_cmd("Network.enable", {})
        yield found
    finally:
        found.quit()


def look(browser: webdriver.Chrome, width: int, *, dark: bool = False) -> None:
    """Set the width of the window and the colours that the user prefers."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wish = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [wish]})


def faults(browser: webdriver.Chrome) -> list[Any]:
    """What axe finds, and what the browser complains about, as of a broken policy."""
    axe = Path(str(axe_core_python.__file__)).with_name("axe.min.js").read_text()
    browser.execute_script(axe)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 10
    complaints = [each for each in browser.get_log("browser") if "favicon" not in each["message"]]
    broken = [
        (each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]
    ]
    return [*broken, *complaints]
