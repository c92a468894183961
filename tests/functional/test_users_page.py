"""The users' page in a real Chromium, for several users and without a sign-in."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.live.users_page import start_sentence
from slurm_rl_plugin.units import HOUR
from tests.architecture.markdown_documents import TOP
from tests.fakes.chromium import chromium, faults, look, needs_chromium
from tests.functional.users_site import HEADER, TOKEN, WIDTHS, Site, portal, served_site, sign_in


def refusal(site: Site, query: str = "", **headers: str) -> tuple[int, str]:
    """Status and text of a refused request."""
    with pytest.raises(HTTPError) as found:
        site.page(query, **headers)
    return found.value.code, found.value.read().decode()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return served_site(tmp_path_factory.mktemp("site"), ("physics", "<b>biology"))


def shown_jobs(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<tr id="job-(\d+)">', page)]


def test_each_user_sees_the_own_jobs_and_shares(site: Site) -> None:
    alices, bobs = site.page(**portal("alice")), site.page(**portal("bob"))
    assert sorted(shown_jobs(alices)) == sorted(site.jobs_of("alice"))
    assert sorted(shown_jobs(bobs)) == sorted(site.jobs_of("bob"))
    assert "JobHeldAdmin: an administrator holds the job" in alices
    assert "Probably between" in bobs
    assert "&lt;b&gt;biology" in alices
    assert "71.0 %, more than its share" in alices
    assert "29.0 %, less than its share" in alices
    assert "<b>" not in alices
    assert "No job of yours was pending" in site.page(**portal("erin"))


def test_nobody_sees_jobs_of_others_unless_the_site_lets(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = refusal(site, "?user=bob", **portal("alice"))
    assert (status, "not yours to see" in text) == (404, True)
    bobs_job = site.jobs_of("bob")[0]
    assert refusal(site, f"?advice={bobs_job}", **portal("alice"))[0] == 404
    monkeypatch.setattr(site.pages, "others", True)
    page = site.page("?user=bob", **portal("alice"))
    assert "When the jobs of bob start" in page
    assert sorted(shown_jobs(page)) == sorted(site.jobs_of("bob"))


def test_who_is_not_signed_in_reads_what_to_do(site: Site) -> None:
    for headers in ({}, {HEADER: "alice"}, {"Authorization": "Bearer wrong", HEADER: "alice"}):
        status, text = refusal(site, **headers)
        assert status == 401
        assert "open it through the portal" in text
        assert not shown_jobs(text)
    status, text = refusal(site, Authorization=f"Bearer {TOKEN}")
    assert (status, "add ?user=NAME" in text) == (400, True)
    assert shown_jobs(site.page("?user=alice", Authorization=f"Bearer {TOKEN}"))


def test_another_partition_is_advised_where_the_job_may_go(site: Site) -> None:
    page = site.page(f"?advice={site.jobs_of('alice')[0]}", **portal("alice"))
    assert "With partition spare instead of batch, the job would start about" in page
    assert "closed" not in page


def test_a_page_before_and_after_the_first_forecasts(site: Site) -> None:
    try:
        site.pages.renew(replace(site.queue, told=replace(site.queue.told, scored=3)))
        page = site.page(**portal("alice"))
        assert page.count("<strong>Not yet calibrated.</strong>") == 2
        assert '<p class="warning">Not yet calibrated on this cluster' in page
        site.pages._queue = None
        status, text = refusal(site, **portal("alice"))
        assert (status, "There is no forecast yet" in text) == (503, True)
    finally:
        site.pages.renew(site.queue)


def test_a_page_without_the_file_of_kept_forecasts(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forecasts stay on the page, as they do at /start."""

    def unusable(*_: Any) -> Any:
        raise ConfigurationError("kept_file cannot be used")

    monkeypatch.setattr(site.pages, "started", unusable)
    assert sorted(shown_jobs(site.page(**portal("alice")))) == sorted(site.jobs_of("alice"))


def test_past_midnight_the_days_are_those_of_the_reader() -> None:
    midnight = datetime(2026, 11, 30).timestamp()
    low, middle, high = (midnight + hours * HOUR for hours in (3.0, 4.0, 30.0))
    forecast = {"start": middle, "bands": {"90 %": [low, high]}}
    late, early = (midnight + seconds for seconds in (-30.0, 30.0))
    half = "(9 of 10 such jobs); half of them start by"
    assert start_sentence(forecast, late, late) == (
        f"Probably between tomorrow 03:00 and Tue 1 Dec 06:00 {half} tomorrow 04:00."
    )
    assert start_sentence(forecast, late, early) == (
        f"Probably between 03:00 and tomorrow 06:00 {half} 04:00."
    )


_HOW = TOP / "deploy" / "open_ondemand" / "README.md"
#: Of users who are signed in by REMOTE_USER, and what the page takes them for.
SIGNED_IN = {"alice": "alice", "bob@example.org": "bob"}


@pytest.fixture
def portal_address(site: Site, tmp_path: Path) -> Iterator[str]:
    """A real Apache with the directives of the document, but for its way to sign in."""
    apache, modules = shutil.which("apache2"), Path("/usr/lib/apache2/modules")
    if apache is None:
        pytest.skip("needs Apache: apt install apache2")
    lines = re.findall(r"^  - '(.*)'$", _HOW.read_text(), re.MULTILINE)
    directives = "\n".join(line for line in lines if line != "SSLProxyEngine On")
    for document, test in (
        ("openid-connect", "Basic"),
        ("TOKEN", TOKEN),
        ("https://head.example.org:9345/", site.address),
    ):
        assert directives.count(document) == 1
        directives = directives.replace(document, test)
    secret = base64.b64encode(hashlib.sha1(b"secret", usedforsecurity=False).digest()).decode()
    (tmp_path / "users").write_text("".join(f"{name}:{{SHA}}{secret}\n" for name in SIGNED_IN))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (TOP / "tests" / "assets" / "apache.conf").read_text()
    (tmp_path / "apache.conf").write_text(
        text.format(folder=tmp_path, port=port, modules=modules, directives=directives)
    )
    command = [apache, "-X", "-f", f"{tmp_path}/apache.conf"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 30.0
        while process.poll() is None and time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        assert process.poll() is None, process.stderr and process.stderr.read()
        yield f"http://127.0.0.1:{port}/starts/"
        process.terminate()


@pytest.mark.parametrize("name", SIGNED_IN)
def test_a_real_proxy_names_its_user_whatever_the_browser_sends(
    site: Site, portal_address: str, name: str
) -> None:
    given = base64.b64encode(f"{name}:secret".encode()).decode()
    signed_in = {"Authorization": f"Basic {given}"}
    behind = Site(site.pages, site.queue, portal_address)
    own = sorted(site.jobs_of(SIGNED_IN[name]))
    for spelling in (HEADER, "X_Forwarded_User", "x-forwarded_user"):
        page = behind.page(**signed_in, **{spelling: "carol"})
        assert sorted(shown_jobs(page)) == own
    assert refusal(behind)[0] == 401
    assert refusal(behind, **{HEADER: "alice"})[0] == 401
    assert refusal(behind, "?user=carol", **signed_in)[0] == 404


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as found:
        yield found


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_at_every_width(
    site: Site, browser: webdriver.Chrome, width: int, dark: bool
) -> None:
    look(browser, width, dark=dark)
    sign_in(browser, "alice")
    browser.get(site.address)
    assert browser.title == "When your jobs start"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(browser.find_elements(By.CSS_SELECTOR, ".band .narrow")) == 2
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")
    assert faults(browser) == []


@needs_chromium
def test_who_is_refused_gets_a_page_that_can_be_read(site: Site, browser: webdriver.Chrome) -> None:
    look(browser, 320)
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})
    browser.get(site.address)
    assert "open it through the portal" in browser.find_element(By.TAG_NAME, "main").text
    assert [each for each in faults(browser) if "status of 401" not in str(each)] == []


def replayed(*_: Any) -> list[dict[str, Any]]:
    """An advice, as a replay gives it."""
    asks = {"words": "a limit of 4 h instead of 72 h", "asks": {"time_limit": 4 * HOUR}}
    return [{**asks, "sooner": 3300.0, "interval": [720.0, 11160.0], "killed": 0.009}]


SAYS = (
    "With a limit of 4 h instead of 72 h, the job would start about 55 min earlier "
    "(90 % interval: 12 min to 3.1 h). Of such jobs, 0.9 % run longer than that."
)


@needs_chromium
def test_advice_in_place_by_the_keyboard_and_a_page_that_renews_itself(
    site: Site, browser: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.pages, "advice", replayed)
    sign_in(browser, "alice")
    kept = browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {"source": "window.setInterval = (renew) => { window.renew = renew; };"},
    )
    try:
        browser.get(site.address)
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
        link = browser.switch_to.active_element
        assert "sooner?" in link.text
        (number,) = re.findall(r"\d+", link.text)
        link.send_keys(Keys.ENTER)
        place = f"#advice-{number}.loaded"
        WebDriverWait(browser, 30).until(lambda on: on.find_elements(By.CSS_SELECTOR, place))
        advice = browser.find_element(By.CSS_SELECTOR, place)
        assert advice.text == SAYS
        assert browser.switch_to.active_element == advice
        assert browser.current_url == site.address
        monkeypatch.setattr(site.pages, "clock", lambda: site.queue.snapshot.now + 102.0)
        browser.execute_async_script("renew().then(arguments[arguments.length - 1])")
        main = browser.find_element(By.TAG_NAME, "main").text
        assert ("102 s ago" in main, SAYS in main) == (True, True)
        assert faults(browser) == []
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", kept)


@needs_chromium
def test_a_page_whose_session_has_ended_stays(site: Site, browser: webdriver.Chrome) -> None:
    """Then portals answer with a page to sign in, or with an error of their own."""
    sign_in(browser, "alice")
    browser.get(site.address)
    for status, says in ((200, "to sign in"), (502, "sent an error")):
        browser.execute_script(
            "window.fetch = async () => new Response('<p>Portal</p>', {status: arguments[0]});"
            "document.querySelector('.advice a').click();".replace("arguments[0]", str(status))
        )
        said = browser.find_element(By.ID, "said")
        WebDriverWait(browser, 10).until(lambda _, of=said, text=says: text in of.text)
    assert browser.find_elements(By.ID, "pending")


@needs_chromium
def test_the_page_is_whole_without_script(
    site: Site, browser: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.pages, "advice", replayed)
    sign_in(browser, "alice")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(site.address)
        link = browser.find_element(By.PARTIAL_LINK_TEXT, "sooner?")
        (number,) = re.findall(r"\d+", link.text)
        link.click()
        assert browser.current_url == f"{site.address}?advice={number}#job-{number}"
        assert browser.find_element(By.ID, f"advice-{number}").text == SAYS
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
