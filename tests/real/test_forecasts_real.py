"""Live forecasts on a real Slurm: the daemon's looks, a service of another user, who asks it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from slurm_rl_plugin.domain.queue_file import read_queue, write_queue
from slurm_rl_plugin.simulator.kernel.kept_code import keep_compiled_code, kept_code
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.drawn_order import wall_clock
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.users import AS_HIM, NAME, STAFF, add_system_user

pytestmark = pytest.mark.real

PLAN = ClusterPlan(nodes=1, accounts={**ACCOUNTS, **STAFF})
#: Short jobs that wait and start, so that enough forecasts have come true, and seconds for that:
#: the service compiles the simulator first.
SHORT, SOON = 60, 400.0
ENTRY = (sys.executable, "-m", "slurm_rl_plugin.cli.entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForetoldSlurm:
    """A cluster with a forecast service.

    Attributes:
        hook: the daemon, which writes the queue file.
        service: `slurm-rl forecast` as another user.
        configuration: readable by users.
        hers, his: pending jobs of alice and of bob.
    """

    slurm: PrivateSlurm
    hook: RunningHook
    service: subprocess.Popen[bytes]
    configuration: Path
    queue: Path
    hers: int
    his: int

    def start(self, *words: str, user: str) -> subprocess.CompletedProcess[str]:
        """`slurm-rl start` as a user, whatever its exit code."""
        options = ("start", "--config", str(self.configuration), *words)
        return self.slurm.slurm_rl(*options, user=user)

    def document(self, job: int, user: str) -> dict[str, Any]:
        """The forecast of a job as a user sees it."""
        done = self.start("--json", str(job), user=user)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def foretold(release: SlurmRelease | None) -> Iterator[ForetoldSlurm]:
    skip_without_daemons(release)
    if release is not None:
        pytest.skip("only root can enter another release's folder")
    add_system_user(NAME)
    with TemporaryDirectory() as folder:
        yield from _foretold(Path(folder))


def _foretold(folder: Path) -> Iterator[ForetoldSlurm]:
    folder.chmod(0o755)  # pytest's own folders are shut for others whenever it starts anew
    looks, own = folder / "looks", folder / "service"
    looks.mkdir()
    shutil.chown(looks, "root", NAME)
    looks.chmod(0o2750)  # the daemon's; what it writes there the service's group may read
    own.mkdir()
    keep_compiled_code()
    if kept_code().is_dir():  # what is compiled already need not be again, which takes minutes
        shutil.copytree(kept_code(), own / "cache")
    (own / "notice").touch(0o644)
    for path in (own, *own.rglob("*")):
        shutil.chown(path, NAME)
    configuration = own / "slurm-rl.toml"
    configuration.write_text(
        f'[forecast]\nqueue_file = "{looks}/queue.npz"\nkept_file = "{own}/kept.sqlite"\n'
        f'socket = "{own}/socket"\nnotice_file = "{own}/notice"\nevery = 1\ndraws = 4\n'
    )
    more = f'busy_share = 1\n[forecast]\nqueue_file = "{looks}/queue.npz"\n'
    with (
        running_slurm(PLAN) as slurm,
        running_hook(slurm, folder / "hook", "default", mode="shadow", cycle=1, more=more) as hook,
    ):
        _end_some(slurm)
        service = _service(slurm, configuration, own / "log")
        try:
            _short_jobs_come_true(slurm, own / "notice", own / "log")
            hers, his = _waiting_jobs(slurm)
            site = ForetoldSlurm(
                slurm=slurm,
                hook=hook,
                service=service,
                configuration=configuration,
                queue=looks / "queue.npz",
                hers=hers,
                his=his,
            )
            _until_told(site, (own / "log").read_text)
            yield site
            service.send_signal(signal.SIGTERM)
            assert service.wait(30) == 0
        finally:
            service.kill()


def _end_some(slurm: PrivateSlurm) -> None:
    """Jobs for accounting: without runs there is no forecast."""
    for _ in range(3):
        slurm.submit(user="alice", seconds=2)
    since = ("-S", "now-1hour", "-E", "now")
    ended = ("sacct", "-a", "-X", "-n", *since, "-s", "COMPLETED", "-o", "JobIDRaw")
    slurm.wait_until(lambda: len(slurm.run(*ended).stdout.split()) == 3, 30, "three ends")


def _service(slurm: PrivateSlurm, configuration: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            [*AS_HIM, *ENTRY, "forecast", "--config", str(configuration)],
            env={**slurm.env, "NUMBA_CACHE_DIR": str(log.parent / "cache")},  # as its unit says
            cwd="/",
            stdout=file,
            stderr=file,
        )


def _short_jobs_come_true(slurm: PrivateSlurm, notice: Path, log: Path) -> None:
    """Short jobs get forecasts while a job holds the node, and start when it is gone."""
    holds = _holds_the_node(slurm)
    for _ in range(SHORT):
        slurm.submit(user="alice", minutes=1, seconds=3)
    slurm.wait_until(
        # the forecasts before that rest on a part of what can be known, and are not kept
        lambda: f"pending={SHORT} " in log.read_text().partition("forecast=looked_back")[2],
        SOON,
        "a forecast",
    )
    assert f"{SHORT} wait on this cluster" in notice.read_text()
    slurm.run("scancel", str(holds))
    pending = ("squeue", "-h", "-t", "PD", "-o", "%A")
    slurm.wait_until(lambda: not slurm.run(*pending).stdout, SOON, "all short jobs started")


def _holds_the_node(slurm: PrivateSlurm) -> int:
    """A long job of bob's that runs: until then alice's, whose share is larger, might go first."""
    holds = slurm.submit(user="bob", processors=4, minutes=60, seconds=3600)
    running = ("squeue", "-h", "-t", "R", "-o", "%A")
    slurm.wait_until(lambda: slurm.run(*running).stdout.split() == [str(holds)], 60, "it runs")
    return holds


def _waiting_jobs(slurm: PrivateSlurm) -> tuple[int, int]:
    """One of alice's and one of bob's behind a long job."""
    _holds_the_node(slurm)
    hers = slurm.submit(user="alice", processors=4, minutes=30)
    return hers, slurm.submit(user="bob", processors=4, minutes=30)


def _until_told(site: ForetoldSlurm, log: Any) -> None:
    end = time.monotonic() + SOON
    while True:
        done = site.start("--json", str(site.hers), user="alice")
        if done.returncode == 0 and json.loads(done.stdout)["jobs"][0]["calibrated"]:
            return
        assert time.monotonic() < end, done.stdout + done.stderr + log()
        assert site.service.poll() is None, log()
        time.sleep(1.0)


def test_a_user_hears_of_his_own_job(foretold: ForetoldSlurm) -> None:
    done = foretold.start(str(foretold.hers), user="alice")
    assert done.returncode == 0, done.stderr
    header, line = done.stdout.splitlines()[:2]
    assert header.split()[:3] == ["JOBID", "PARTITION", "START"]
    assert line.split()[:2] == [str(foretold.hers), "batch"]
    job = foretold.document(foretold.hers, "alice")["jobs"][0]
    low, high = job["forecast"]["bands"]["90 %"]
    assert foretold.queue.stat().st_mtime - 60 < low <= job["forecast"]["start"] <= high
    assert (job["user"], job["account"]) == ("alice", "physics")
    mine = foretold.start("--json", user="alice").stdout
    assert [each["job"] for each in json.loads(mine)["jobs"]] == [foretold.hers]


def test_a_job_of_another_is_refused_in_one_sentence(foretold: ForetoldSlurm) -> None:
    done = foretold.start(str(foretold.his), user="alice")
    assert done.returncode != 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"job {foretold.his} does not wait in the last look at the queue, or is not" in line
    unknown = foretold.start("999999", user="alice")
    assert unknown.stderr.replace("999999", str(foretold.his)) == done.stderr
    assert foretold.document(foretold.his, "bob")["jobs"][0]["forecast"]
    assert foretold.document(foretold.his, "root")["jobs"][0]["forecast"]


def test_it_goes_on_after_slurmctld_has_restarted(foretold: ForetoldSlurm) -> None:
    before = foretold.document(foretold.hers, "alice")["foretold"]
    foretold.slurm.restart("slurmctld")
    restarted = wall_clock()
    end = time.monotonic() + 90
    while foretold.document(foretold.hers, "alice")["foretold"] < restarted:
        assert time.monotonic() < end, foretold.hook.log[-2000:]
        time.sleep(0.5)
    document = foretold.document(foretold.hers, "alice")
    assert document["foretold"] > before
    assert document["old"] is None
    assert document["jobs"][0]["forecast"]


def test_without_the_daemon_the_look_is_said_to_be_old(foretold: ForetoldSlurm) -> None:
    """The last test of this module: the daemon is killed, and its last look aged by 20 minutes."""
    foretold.hook.process.kill()
    foretold.hook.process.wait(timeout=10)
    last = read_queue(foretold.queue)
    assert foretold.document(foretold.hers, "alice")["old"] is None
    aged = replace(last.snapshot, now=last.snapshot.now - 1200.0)
    write_queue(foretold.queue, replace(last, snapshot=aged))
    end = time.monotonic() + 30
    while foretold.document(foretold.hers, "alice")["foretold"] > aged.now + 1.0:
        assert time.monotonic() < end
        time.sleep(0.5)
    done = foretold.start(str(foretold.hers), user="alice")
    assert done.returncode == 0, done.stderr
    assert "the last snapshot of the queue is 20 minutes old by this clock" in done.stdout
    assert "the daemon may not be running" in done.stdout
