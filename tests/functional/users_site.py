"""A small site's users' page with fixed forecasts, for the tests and for docs/pictures.

    python -m tests.functional.users_site docs/pictures

(`make pictures`) draws users-page-WIDTH.png and users-page-WIDTH-dark.png.
"""

from __future__ import annotations

import argparse
import base64
import os
import time
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

import numpy as np
from PIL import Image
from selenium import webdriver

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind, PartitionAccess
from slurm_rl_plugin.forecasts.live.asked_queue import AskedQueue
from slurm_rl_plugin.forecasts.live.forecast_pages import ForecastPages
from slurm_rl_plugin.forecasts.live.forecast_queue import ForecastQueue, scores_document
from slurm_rl_plugin.serving.page_server import serve_pages
from slurm_rl_plugin.simulator.kernel.kept_code import keep_compiled_code
from slurm_rl_plugin.units import HOUR
from tests.fakes.chromium import chromium, look
from tests.unit.forecasts.live_site import LiveSite, busy_look, last_days, live_site, looked_back

TOKEN = "t" * 40
HEADER = "X-Forwarded-User"
WIDTHS = (320, 768, 1280)
#: The nodes on which the queue waits, and idle ones: of a partition for all, and of one whose
#: rights are unknown.
MACHINE = Machine(
    kinds=(
        NodeKind(name="n[01-32]", count=32, resources=(1.0, 1e6, 0.0)),
        NodeKind(name="s[1-2]", count=2, resources=(16.0, 1e6, 0.0)),
        NodeKind(name="c[1-2]", count=2, resources=(16.0, 1e6, 0.0)),
    ),
    partitions=(
        MachinePartition(name="batch", kinds=(0,), is_default=True, access=PartitionAccess()),
        MachinePartition(name="spare", kinds=(1,), access=PartitionAccess()),
        MachinePartition(name="closed", kinds=(2,)),
    ),
)


@dataclass
class Site:
    """Served pages, and the queue that they show."""

    pages: ForecastPages
    queue: ForecastQueue
    address: str

    def jobs_of(self, user: str) -> list[int]:
        places = self.queue.users_jobs(user)
        return self.queue.snapshot.pending.jobs.job_id[places].tolist()

    def page(self, query: str = "", **headers: str) -> str:
        with urlopen(Request(self.address + query, headers=headers), timeout=60.0) as answer:
            return str(answer.read().decode())


def portal(user: str) -> dict[str, str]:
    """What the portal's proxy sets for the user who is signed in."""
    return {"Authorization": f"Bearer {TOKEN}", HEADER: user}


def served_site(folder: Path, accounts: tuple[str, str]) -> Site:
    """Forecasts of a look at which alice has two jobs that wait, and one that is held."""
    users = ("alice", "bob", "carol", "dave")
    site = LiveSite(log=replace(live_site().log, users=users, accounts=accounts))
    now = busy_look(site, last_days(site, 2.0, HOUR))
    made = looked_back(folder, site, now)
    look = site.queue(now, now - HOUR)
    count = len(look.pending)
    held = np.arange(count) == count - 1
    users_of = np.where((np.arange(count) < 2) | held, 0, np.maximum(look.pending.jobs.user, 1))
    look = replace(
        look,
        pending=replace(
            look.pending,
            jobs=replace(look.pending.jobs, user=users_of),
            held=held,
            reason=held.astype(np.int64),
        ),
        reasons=(
            "Priority: jobs before it start first; wait for its turn",
            "JobHeldAdmin: an administrator holds the job; ask the administrators to release it",
        ),
        usage=np.array([0.71, 0.29]),
    )
    queue = made.forecast(site.history(now), look)
    on_nodes = replace(site, machine=MACHINE).history(now)
    made.monotonic = lambda: 0.0  # as many replays on a slow machine
    asked = AskedQueue(forecaster=made, history=lambda: on_nodes)
    # compiles what replays on nodes need, which no client should wait for
    asked.advice(queue, queue.users_jobs("alice")[0])
    pages = ForecastPages(
        others=False,
        clock=lambda: now + 42.0,
        monotonic=time.monotonic,
        new_job=asked.new_job,
        advice=asked.advice,
        scores=lambda: scores_document(made.kept.rows(0.0), now),
        metrics=lambda: (b"", "text/plain"),
        trusted=frozenset(),
        is_token=lambda given: given == f"Bearer {TOKEN}",
        started=made.kept.started_of,
        user_key="HTTP_X_FORWARDED_USER",
    )
    pages.renew(queue)
    port = serve_pages(pages, "127.0.0.1", 0, section="forecast")
    return Site(pages, queue, f"http://127.0.0.1:{port}/")


def sign_in(browser: webdriver.Chrome, user: str) -> None:
    """Send what the portal's proxy sends."""
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": portal(user)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    keep_compiled_code()
    with TemporaryDirectory() as temporary, chromium() as browser:
        site = served_site(Path(temporary), ("physics", "biology"))
        sign_in(browser, "alice")
        job = site.jobs_of("alice")[0]
        advice = site.pages.advice(site.queue, site.queue.users_jobs("alice")[0])
        site.pages.advice = lambda *_: advice  # once, and not for each picture
        address = f"{site.address}?advice={job}"
        for width in WIDTHS:
            for dark in (False, True):
                look(browser, width, dark=dark)
                browser.get(address)
                whole = {"format": "png", "captureBeyondViewport": True}
                found = browser.execute_cdp_cmd("Page.captureScreenshot", whole)
                name = f"users-page-{width}{'-dark' if dark else ''}.png"
                picture = Image.open(BytesIO(base64.b64decode(found["data"]))).convert("RGB")
                picture.quantize(64).save(folder / name, optimize=True)


if __name__ == "__main__":
    main()
