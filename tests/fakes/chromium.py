"""A real Chromium without a screen, and the check of a page by axe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
from selenium import webdriver

_DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (shutil.which("chromium") and _DRIVER),
    reason="needs chromium and chromedriver: apt install chromium-driver",
)


@contextmanager
def chromium(width: int = 1280, *, dark: bool = False) -> Iterator[webdriver.Chrome]:
    """A window of that width; height 900."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=str(_DRIVER))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        resize(browser, width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield browser
    finally:
        browser.quit()


def resize(browser: webdriver.Chrome, width: int, height: int = 900) -> None:
    """Give the page that width, which a window may not have."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def violations(browser: webdriver.Chrome) -> list[str]:
    """What axe finds wrong with the page that is shown."""
    folder = Path(str(axe_core_python.__file__)).parent
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    browser.refresh()
    (source,) = folder.rglob("axe.min.js")
    browser.execute_script(source.read_text())
    found: dict[str, Any] = browser.execute_async_script("axe.run().then(arguments[0])")
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]
