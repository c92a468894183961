"""The shipped units under a real systemd, over a real Slurm: what happens to the factors."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.booted_head_node import DAEMON, WATCHDOG, HeadNode, booted_head_node
from tests.real.daemon import wait_until

pytestmark = pytest.mark.real

OFFER = "slurm-rl-offer.service"
CONFIGURATION = """
[hook]
mode = "active"
cycle = 1
soonest_cycle = 0.5
busy_share = 1
[metrics]
port = 0
[shares]
physics = 0.7
biology = 0.3
"""


@pytest.fixture(scope="module")
def head_node(debian_package: Path) -> Iterator[HeadNode]:
    with booted_head_node(debian_package.parent) as node:
        node.root.run("dpkg", "--install", str(debian_package))
        yield node


@pytest.fixture
def node(head_node: HeadNode) -> Iterator[HeadNode]:
    """Six jobs wait, the configuration is good, and nothing runs."""
    head_node.slurm.set_partition("down", "batch", "short")
    for minutes in (9, 5, 7, 1, 3, 2):
        head_node.slurm.submit(minutes=minutes, user="alice")
    wait_until(lambda: len(head_node.factors()) == 6, 15, "all jobs eligible", str)
    head_node.configure(CONFIGURATION)
    head_node.systemctl("reset-failed", DAEMON, WATCHDOG, check=False)
    yield head_node
    head_node.systemctl("stop", DAEMON, "slurm-rl-watchdog.timer", check=False)
    head_node.slurm.run("scancel", "-u", "alice")
    wait_until(lambda: not head_node.slurm.run("squeue", "-h").stdout, 20, "empty queue", str)


def test_an_installation_starts_nothing(head_node: HeadNode) -> None:
    for unit in (DAEMON, "slurm-rl-watchdog.timer"):
        assert head_node.systemctl("is-active", unit, check=False) == "inactive"
        assert head_node.systemctl("is-enabled", unit, check=False) == "disabled"


def test_it_orders_with_the_shipped_model_under_every_restriction(node: HeadNode) -> None:
    node.start_daemon()
    assert node.systemctl("is-active", "slurm-rl-watchdog.timer") == "active"
    lines = [line for line in node.audit() if line["event"] == "cycle"]
    assert {(line["mode"], line["reason"]) for line in lines} == {("active", "policy")}
    assert all(line["model"] for line in lines)
    status = node.root.run("cat", f"/proc/{node.shows('MainPID')}/status").stdout
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"
    assert int(facts["CapBnd"], 16) == 0
    assert facts["Uid"].split()[0] != "0"
    node.systemctl("stop", DAEMON)
    assert not node.carries()
    assert node.shows("Result") == "success"


def test_a_reload_keeps_the_process(node: HeadNode) -> None:
    before = node.start_daemon()
    node.configure(CONFIGURATION.replace("active", "shadow"))
    node.systemctl("reload", DAEMON)
    node.wait(False, "factors taken back")
    assert node.shows("MainPID") == before
    assert "reload=done" in node.journal()


def test_a_killed_daemon_leaves_no_factor_and_comes_back(node: HeadNode) -> None:
    before = node.start_daemon()
    node.systemctl("kill", "--signal=KILL", "--kill-who=main", DAEMON)
    node.wait(False, "factors taken back by ExecStopPost", 9)  # before it starts again
    node.wait(True, "factors of the next daemon")
    assert node.shows("MainPID") not in ("0", before)
    assert re.search(r"released [1-9]\d* jobs", node.journal())


def test_a_daemon_that_hangs_is_killed_by_the_watchdog(node: HeadNode) -> None:
    hurry = node.root.folder / f"run/systemd/system/{DAEMON}.d/hurry.conf"
    hurry.parent.mkdir(parents=True)
    hurry.write_text("[Service]\nWatchdogSec=8\n")
    node.systemctl("daemon-reload")
    try:
        node.start_daemon()
        node.systemctl("kill", "--signal=STOP", "--kill-who=main", DAEMON)
        node.wait(False, "factors taken back", 60)
        assert "Watchdog timeout" in node.journal()
    finally:
        hurry.unlink()
        hurry.parent.rmdir()
        node.systemctl("daemon-reload")


def test_a_faulty_configuration_is_not_tried_again_and_keeps_no_factor(node: HeadNode) -> None:
    node.start_daemon()
    node.configure("[hook]\nmode = 7\n")
    node.systemctl("kill", "--signal=KILL", "--kill-who=main", DAEMON)
    wait_until(
        lambda: node.systemctl("is-active", DAEMON, check=False) == "failed",
        40,
        "no further start",
        node.journal,
    )
    assert node.shows("ExecMainStatus") == "2"
    assert not node.carries()
    time.sleep(12)  # longer than RestartSec
    assert node.systemctl("is-active", DAEMON, check=False) == "failed"


def leave_factors(node: HeadNode) -> None:
    """As a daemon does that is killed together with what systemd runs after it."""
    command = ("/usr/bin/slurm-rl", "run", "--once")
    setting = f"SLURM_CONF={node.slurm.env['SLURM_CONF']}"
    node.root.run("runuser", "-u", "slurmrl", "--", "env", setting, *command)
    assert node.carries()


def test_the_watchdog_unit_takes_back_what_nobody_looks_after(node: HeadNode) -> None:
    leave_factors(node)
    node.systemctl("start", WATCHDOG)
    assert not node.carries()
    assert re.search(r"released [1-9]\d* jobs", node.journal(WATCHDOG))
    job = node.slurm.by_priority()[0]
    node.slurm.scontrol("update", f"jobid={job}", "sitefactor=77")
    node.systemctl("start", WATCHDOG)
    assert 77 in node.factors(), "a factor that the daemon did not write"
    node.slurm.scontrol("update", f"jobid={job}", "sitefactor=0")


def test_the_timer_starts_the_watchdog_unit(node: HeadNode) -> None:
    leave_factors(node)
    node.systemctl("start", "slurm-rl-watchdog.timer")
    node.wait(False, "factors taken back within a minute", 80)


def test_the_watchdog_unit_leaves_a_running_daemon_alone(node: HeadNode) -> None:
    node.start_daemon()
    node.systemctl("start", WATCHDOG)
    assert node.shows("Result", WATCHDOG) == "exec-condition"
    assert node.carries()
    assert node.systemctl("is-active", DAEMON) == "active"


def test_an_upgrade_goes_on_where_a_daemon_ran(node: HeadNode, debian_package: Path) -> None:
    def installed_again() -> None:
        node.root.run("dpkg", "--install", str(debian_package))

    installed_again()
    assert node.systemctl("is-active", DAEMON, check=False) == "inactive"
    before = node.start_daemon()
    installed_again()
    wait_until(
        lambda: node.shows("MainPID") not in ("0", before), 30, "the next daemon", node.journal
    )
    node.wait(True, "factors of the next daemon")
    assert "leaving=done" in node.journal()
    assert node.systemctl("is-active", "slurm-rl-watchdog.timer") == "active"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("deconfigure in-favour other 1.0", "configure 0.1"),
        ("deconfigure in-favour other 1.0", "abort-deconfigure in-favour other 1.0"),
        ("remove in-favour other 1.0", "abort-remove in-favour other 1.0"),
    ],
)
def test_a_daemon_goes_on_after_what_dpkg_may_do_beside_an_upgrade(
    node: HeadNode, before: str, after: str
) -> None:
    """Debian Policy, 6.5: postinst is called whenever the package is to work again."""
    scripts = "/var/lib/dpkg/info/slurm-rl"
    node.start_daemon()
    node.root.run(f"{scripts}.prerm", *before.split())
    assert node.systemctl("is-active", DAEMON, check=False) == "inactive"
    assert not node.carries()
    node.root.run(f"{scripts}.postinst", *after.split())
    node.wait(True, "factors of the next daemon")


def test_the_offer_service_answers_under_every_restriction(node: HeadNode) -> None:
    token, folder = "t" * 64, node.root.folder / "etc/slurm-rl"
    (folder / "offer-token").write_text(token)
    node.root.run("chown", "slurmrl-offer", "/etc/slurm-rl/offer-token")
    (folder / "offer-token").chmod(0o400)
    node.configure('[offer]\nport = 0\naccount = "physics"\n')
    node.slurm.set_partition("up", "short")  # where no job waits
    node.systemctl("start", OFFER)  # comes back when it said that it is ready
    try:
        found = re.findall(r"url=http://127.0.0.1:(\d+)/offer", node.journal(OFFER))
        request = urllib.request.Request(
            f"http://127.0.0.1:{found[-1]}/offer",
            data=b'{"processors": 1, "time_limit": 60, "partition": "short"}',
            headers={"Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            offer = json.loads(answer.read())
        assert (offer["site"], offer["processors"]) == ("trial", 8)
        status = node.root.run("cat", f"/proc/{node.shows('MainPID', OFFER)}/status").stdout
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
        assert facts["Uid"].split()[0] != "0"
    finally:
        node.systemctl("stop", OFFER)
    assert node.shows("Result", OFFER) == "success"


def test_removing_the_package_takes_the_factors_back(node: HeadNode) -> None:
    """Runs last: the package is gone afterwards."""
    node.start_daemon()
    node.root.run("dpkg", "--remove", "slurm-rl")
    assert not node.carries()
    assert not (node.root.folder / "opt/slurm-rl").exists()
