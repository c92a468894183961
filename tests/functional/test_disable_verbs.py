"""`disable`, `pause`, `enable` over the fake Slurm, with and without a daemon."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from slurm_rl_plugin.hook.memory.disable_file import read_disable_file
from tests.architecture.markdown_documents import TOP
from tests.fakes.running_daemon import free_port, running_daemon, stop, until
from tests.functional.fake_site import FakeSite

JOBS = (1, 2, 3)


@pytest.fixture
def site(empty_site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> FakeSite:
    for job in JOBS:
        empty_site.wait(job, time_limit=f"{70 - 20 * job}:00")
    empty_site.configure("hook", cycle=1)
    monkeypatch.setenv("SUDO_USER", "carol")
    return empty_site


def test_disable_pause_and_enable_with_a_daemon(site: FakeSite) -> None:
    site.configure("metrics", port=free_port())
    log = site.folder / "daemon.log"
    with running_daemon(site.folder, log) as process:
        until(lambda: any(site.factors(*JOBS)), "factors")

        status, out, _ = site("disable", "--reason", "the switch is replaced")
        assert status == 0, out
        assert "the daemon has restored its factors" in out
        assert site.factors(*JOBS) == [0, 0, 0]
        told = site.json("status", code=None)
        assert told["disabled"] is True
        assert told["disablement"]["by"].startswith("carol as ")
        assert told["disablement"]["reason"] == "the switch is replaced"
        assert told["disablement"]["until"] is None
        assert told["metrics"]["mode"] == "disabled"
        assert told["problems"] == []
        explained = site.json("explain", "3")
        assert "the switch is replaced" in explained["writes"]["disabled"]
        assert "Nothing is written now: disabled by carol" in site("explain", "3")[1]

        status, out, _ = site("enable")
        assert (status, "the daemon has resumed: mode active" in out) == (0, True)
        until(lambda: any(site.factors(*JOBS)), "factors again")

        status, out, _ = site("pause", "--for", "12s")
        assert status == 0, out
        assert site.factors(*JOBS) == [0, 0, 0]
        assert ", paused by carol as" in site("status")[1]
        until(lambda: any(site.factors(*JOBS)), "the end of the pause")
        assert (site.folder / "DISABLE").exists()
        assert "a pause is over" in site("status")[1]
        assert site.json("status", code=None)["disabled"] is False
        stop(process)
    assert "disabled=yes by carol as" in log.read_text()
    assert "until 20" in log.read_text()
    assert "disabled=no" in log.read_text()
    assert site.factors(*JOBS) == [0, 0, 0]


def test_without_a_daemon_what_stands_is_said(site: FakeSite) -> None:
    status, out, _ = site("disable")
    assert (status, "no daemon runs: no pending job carries a factor" in out) == (0, True)
    assert site("enable") == (0, words_of_enable(out), "")
    site.cluster.change(2, site=555)
    status, out, _ = site("disable", "--wait", "0")
    assert status == 1
    assert "no daemon runs, and 1 pending jobs carry a factor" in out
    assert "slurm-rl release" in out


def words_of_enable(said: str) -> str:
    """What `enable` says after what `disable` said."""
    by = said.splitlines()[0].partition(": ")[0].removeprefix("disabled ")
    return f"enabled: it was disabled {by}\nno daemon runs: start it to order the queue\n"


def test_an_unreachable_slurm_is_said(site: FakeSite) -> None:
    site.cluster.break_command("squeue", "down")
    assert "it is not known whether factors are left" in site.failing("disable")
    assert read_disable_file(Path("DISABLE")) is not None


def test_a_pause_never_shortens_what_somebody_else_switched_off(site: FakeSite) -> None:
    Path("DISABLE").touch()
    status, out, err = site("pause", "--for", "1-00:00:00")
    assert (status, out) == (1, "")
    assert "`slurm-rl enable` first" in err
    assert Path("DISABLE").read_bytes() == b""
    assert site("disable")[1].startswith("disabled already without end")
    site("enable")
    assert site("pause", "--for", "2h")[0] == 0
    before = Path("DISABLE").read_bytes()
    assert site("pause", "--for", "1h")[0] == 1
    assert Path("DISABLE").read_bytes() == before
    assert site("pause", "--for", "3h")[0] == 0
    assert site("disable")[0] == 0  # without end goes before a pause
    found = read_disable_file(Path("DISABLE"))
    assert found is not None
    assert found.until == float("inf")


def test_enable_without_a_file_says_so(site: FakeSite) -> None:
    status, out, _ = site("enable")
    assert (status, out.splitlines()[0]) == (0, "it was not disabled")


def test_a_file_that_cannot_be_made_is_one_sentence_and_nothing_waits(site: FakeSite) -> None:
    site.configure("hook", disable_file=f"{site.folder}/none/DISABLE")
    for verb in (("disable",), ("pause", "--for", "2h")):
        status, out, err = site(*verb)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert "cannot be made" in err
    site.configure("hook", disable_file="")
    assert "no disable file is configured" in site.failing("disable", code=2)


def test_until_is_told_in_local_time(site: FakeSite) -> None:
    _, out, _ = site("pause", "--for", "2h", "--reason", "upgrade")
    when = out.partition(" until ")[2].partition(",")[0]
    left = datetime.fromisoformat(when).timestamp() - time.time()  # noqa: TID251
    assert 7100 < left < 7205
    assert ", upgrade: " in out


def test_a_daemon_that_goes_by_another_file_is_no_success(site: FakeSite) -> None:
    """No factor is outstanding only because the queue is empty: the next job would get one."""
    site.configure("metrics", port=free_port())
    for job in JOBS:
        site.cluster.end_job(job, site.now)
    log = site.folder / "daemon.log"
    with running_daemon(site.folder, log) as process:
        until(lambda: "cycle=done mode=active" in log.read_text(), "a cycle")
        site.configure("hook", disable_file=f"{site.folder}/OTHER")  # and no reload
        status, out, _ = site("disable", "--wait", "3")
        assert status == 1
        assert "the daemon has not said within 3 s that it goes by this file" in out
        stop(process)


@pytest.mark.usefixtures("site")
def test_letters_that_a_terminal_lacks_end_no_verb() -> None:
    """LANG=en_US is ISO-8859-1; a colleague's reason need not be."""
    for verb in (["disable", "--reason", "łódź"], ["status"]):
        done = subprocess.run(
            [*(sys.executable, "-m", "slurm_rl_plugin.cli.entry"), *verb, "--config", "site.toml"],
            env={**os.environ, "PYTHONPATH": str(TOP), "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            check=False,
        )
        assert b"\\u0142\xf3d\\u017a" in done.stdout
        assert (done.returncode, done.stderr) == (0, b"")
