"""`slurm-rl forecast` forecasts the queue file of a daemon, and `slurm-rl start` shows users."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from slurm_rl_plugin.domain.queue_file import QueueOnFile, write_queue
from slurm_rl_plugin.errors import RequestRefused, SlurmRLError
from slurm_rl_plugin.forecasts.live.kept_forecasts import KeptForecasts
from slurm_rl_plugin.services.forecast_client import ServiceClient
from slurm_rl_plugin.units import HOUR
from tests.case_files import rows
from tests.functional.typed import Typed
from tests.unit.forecasts.live_site import LiveSite, busy_look, last_days, live_site

ME = getpass.getuser()
TOKEN = "t" * 40
HEADER = (
    "JobIDRaw|User|Account|Partition|QOS|JobName|Submit|Eligible|Start|End|ElapsedRaw|State|"
    "AllocCPUS|TimelimitRaw"
)


class Service(NamedTuple):
    """A running service."""

    folder: Path
    site: LiveSite
    now: float
    mine: int
    client: ServiceClient
    first: dict[str, Any]  #: the first answer on that job


def sacct_dump(site: LiveSite, now: float) -> str:
    """The ended runs in accounting."""
    log = site.log
    lines = [HEADER]
    for place in np.flatnonzero(log.start + log.run_time <= now).tolist():
        times = (log.submit[place], log.submit[place], log.start[place])
        end = log.start[place] + log.run_time[place]
        cells = [
            str(log.job_id[place]),
            log.users[log.user[place]],
            log.accounts[log.account[place]],
            *("batch", "normal", "job"),
            *(datetime.fromtimestamp(each, UTC).isoformat()[:19] for each in (*times, end)),
            f"{log.run_time[place]:.0f}",
            "COMPLETED",
            str(log.processors[place]),
            f"{log.time_limit[place] / 60:.0f}",
        ]
        lines.append("|".join(cells))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    site = live_site()
    now = busy_look(site, last_days(site, 2.0, HOUR))
    snapshot = site.queue(now, now - HOUR)
    users = snapshot.pending.jobs.user.copy()
    users[0] = len(snapshot.users)  # the first waiting job is of who runs this test
    pending = replace(snapshot.pending, jobs=replace(snapshot.pending.jobs, user=users))
    snapshot = replace(snapshot, pending=pending, users=(*snapshot.users, ME))
    write_queue(folder / "queue.npz", QueueOnFile(snapshot=snapshot, mode="shadow", policy="x"))
    (folder / "sacct.log").write_text(sacct_dump(site, now))
    (folder / "token").write_text(TOKEN)
    (folder / "slurm-rl.toml").write_text(
        f'[forecast]\nqueue_file = "{folder}/queue.npz"\nlog = "{folder}/sacct.log"\n'
        f'kept_file = "{folder}/kept.sqlite"\nsocket = "{folder}/socket"\nevery = 1\ndraws = 8\n'
        f'notice_file = "{folder}/notice"\ntoken_file = "{folder}/token"\nport = 0\n'
        'user_header = "X-Forwarded-User"\n'
    )
    environment = {**os.environ, "TZ": "UTC", "PATH": "/nowhere"}
    command = [sys.executable, "-m", "slurm_rl_plugin.cli.entry", "forecast"]
    (folder / "notice").touch(0o644)
    process = subprocess.Popen(
        [*command, "--config", str(folder / "slurm-rl.toml")],
        env=environment,
        stderr=(folder / "log").open("w"),
        umask=0o027,  # of its unit
    )
    client = ServiceClient(socket=f"{folder}/socket")
    until, mine = time.monotonic() + 240, int(snapshot.pending.jobs.job_id[0])
    first = dict[str, Any]()
    while "start within" not in (folder / "notice").read_text():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, (folder / "log").read_text()
        with suppress(SlurmRLError):
            first = first or client.get(job=mine)["jobs"][0]
        time.sleep(0.2)
    yield Service(folder, site, now, mine, client, first)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_the_first_answer_comes_before_the_bands_are_calibrated(service: Service) -> None:
    assert service.first["forecast"]["start"] > service.now
    assert not service.first["calibrated"]
    assert "not yet calibrated on this cluster" in service.first["note"]
    assert service.client.get(job=service.mine)["jobs"][0]["calibrated"]


def test_a_user_hears_when_his_job_starts(service: Service, typed: Typed) -> None:
    out = typed.out("start", service.mine, "--config", f"{service.folder}/slurm-rl.toml")
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["JOBID", "PARTITION", "START"]
    assert lines[1].split()[0] == str(service.mine)
    assert "the last snapshot of the queue is" in out  # the site of this test lived long ago


def test_the_document_is_a_distribution(service: Service) -> None:
    (job,) = service.client.get(user=ME)["jobs"]
    assert job["job"] == service.mine
    told = job["forecast"]
    (a, b), (c, d) = told["bands"]["90 %"], told["bands"]["50 %"]
    assert service.now < a <= c <= told["start"] <= d <= b
    chances = list(told["chances"].values())
    assert 0.0 <= chances[0] <= chances[1] <= chances[2] <= 1.0
    assert abs(sum(told["weights"].values()) - 1.0) < 1e-9
    scores = service.client._asked("GET", "/scores", None)
    assert scores["enough"]
    assert 0.7 <= scores["all"]["coverage_90"] <= 1.0


def test_before_submitting_a_job_is_foretold_and_a_shorter_limit_advised(service: Service) -> None:
    request = {"user": ME, "account": "physics", "processors": 16, "time_limit": 32 * HOUR}
    job = service.client.post({**request, "advice": True})["jobs"][0]
    assert job["forecast"]["start"] >= service.now
    for each in job["advice"]:
        assert each["interval"][0] > 0.0  # only what is sure is said


def test_the_options_of_sbatch_are_understood(service: Service, typed: Typed) -> None:
    out = typed.out(
        *("start", "--json", "--config", f"{service.folder}/slurm-rl.toml"),
        *("--", "sbatch", "-A", "physics", "-p", "batch", "-n", "4", "-t", "60", "--wrap", "true"),
    )
    assert json.loads(out)["jobs"][0]["forecast"]["start"] >= service.now


@rows("questions", "refused", "asked question says")
def test_what_cannot_be_told_is_said_in_a_sentence(
    service: Service, asked: str, question: dict[str, Any], says: str
) -> None:
    client = service.client
    with pytest.raises(RequestRefused, match=says):
        client.get(**question) if asked == "get" else client.post(question)


def test_the_notice_is_for_all_to_read_and_names_nobody(service: Service) -> None:
    assert stat.S_IMODE((service.folder / "notice").stat().st_mode) == 0o644
    text = (service.folder / "notice").read_text()
    assert "wait on this cluster" in text
    assert "half of them start within" in text
    assert not any(name in text for name in (*service.site.log.users, "physics", "biology"))


@pytest.mark.parametrize("text", ["", None])
def test_a_configuration_is_read_before_the_simulator_is_loaded(
    text: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "slurm-rl.toml"
    if text is not None:
        path.write_text(text)
    program = (
        "import sys\nfrom slurm_rl_plugin.cli.entry import main\n"
        f"code = main(['forecast', '--once', '--config', {str(path)!r}])\n"
        "print(code, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"2 False\n"
    assert (b"[forecast] queue_file is empty" in done.stderr) is (text is not None)


def test_a_history_of_one_day_is_too_little(service: Service, tmp_path: Path, typed: Typed) -> None:
    lines = (service.folder / "sacct.log").read_text().splitlines()
    (tmp_path / "day.log").write_text("\n".join([lines[0], *lines[-40:]]) + "\n")
    text = (service.folder / "slurm-rl.toml").read_text()
    text = text.replace("sacct.log", "day.log").replace(f"{service.folder}/day", f"{tmp_path}/day")
    text = text.replace("kept.sqlite", "fresh.sqlite").replace("/notice", "/other")
    (tmp_path / "slurm-rl.toml").write_text(text)
    (service.folder / "other").touch(0o644)
    typed.out("forecast", "--once", "--config", f"{tmp_path}/slurm-rl.toml")
    kept = KeptForecasts(service.folder / "fresh.sqlite").rows(0.0)
    assert len(kept)
    assert not kept.known.any()
    assert "start within" not in (service.folder / "other").read_text()


def test_a_portal_asks_with_the_token_for_everybody_and_shows_the_page_of_its_user(
    service: Service,
) -> None:
    found = re.search(r"url=(http://127.0.0.1:\d+)/start", (service.folder / "log").read_text())
    user, token = {"X-Forwarded-User": ME}, {"Authorization": f"Bearer {TOKEN}"}

    def answer(page: str, headers: dict[str, str]) -> str:
        with urlopen(Request(f"{found[1]}{page}", headers=headers), timeout=10.0) as given:
            return str(given.read().decode())

    assert len({job["user"] for job in json.loads(answer("/start?all=1", token))["jobs"]}) > 1
    page = answer("/", user | token)
    assert re.findall(r'<tr id="job-(\d+)">', page) == [str(service.mine)]
    assert "The last snapshot of the queue is" in page  # the site of this test lived long ago
    for asked, headers in (("/start?all=1", {}), ("/", user)):
        with pytest.raises(HTTPError, match="401"):
            answer(asked, headers)
