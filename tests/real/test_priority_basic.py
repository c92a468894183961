"""A site with `priority/basic`: nothing is written, and the lines that `check` gives mend it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, StartSlurm
from tests.real.daemon_under_test import running_hook, write_configuration
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.test_slurm_adapters_real import submit

pytestmark = pytest.mark.real

WITHOUT_SLURMDBD = dict.fromkeys(
    f"AccountingStorage{name}" for name in ("Type", "Host", "Port", "Pass")
)
#: As slurm.conf names a setting, and as `check` says what to set.
SETTING = re.compile(r"\bPriority\w+=[\w/]+")


def lever(cluster: PrivateSlurm, folder: Path) -> tuple[str, str]:
    """What `check` finds of it."""
    checks = json.loads(cluster.slurm_rl("check", "--json", folder=folder).stdout)["checks"]
    (found,) = [each for each in checks if each["name"] == "lever"]
    return found["result"], found["what"]


def priorities(cluster: PrivateSlurm) -> dict[int, int]:
    lines = cluster.run("squeue", "-h", "-O", "JobID:|,PriorityLong:").stdout.split()
    return {int(job): int(priority) for job, priority in (line.split("|") for line in lines)}


def restart_with(cluster: PrivateSlurm, settings: list[str]) -> None:
    """Set keys in slurm.conf; another PriorityType needs a start of slurmctld."""
    time.sleep(6)  # slurmctld saves its state
    conf = cluster.directory / "etc" / "slurm.conf"
    names = {setting.partition("=")[0] for setting in settings}
    kept = [line for line in conf.read_text().splitlines() if line.partition("=")[0] not in names]
    conf.write_text("\n".join([*kept, *settings, ""]))
    cluster.restart("slurmctld")


def test_the_lines_that_check_gives_let_our_order_win_without_slurmdbd(
    start_slurm: StartSlurm, tmp_path: Path
) -> None:
    options = {**WITHOUT_SLURMDBD, "PriorityType": "priority/basic"}
    cluster = start_slurm(ClusterPlan(nodes=1, options=options, partitions=CLOSED_PARTITIONS))
    jobs = [cluster.submit(processors=4, minutes=minutes, seconds=0.3) for minutes in (30, 20, 10)]
    write_configuration(tmp_path, "sjf", mode="active", cycle=1)
    before = priorities(cluster)
    result, what = lever(cluster, tmp_path)
    assert (result, what.count(": ")) == ("fail", 1)
    refused = cluster.slurm_rl("run", "--once", folder=tmp_path)
    assert (refused.returncode, what in refused.stderr) == (2, True), refused.stderr
    assert priorities(cluster) == before
    settings = [each for each in SETTING.findall(what) if each != "PriorityType=priority/basic"]
    restart_with(cluster, settings)
    cluster.wait_eligible(tuple(jobs))
    assert priorities(cluster) == dict.fromkeys(jobs, 1)
    assert lever(cluster, tmp_path)[0] == "pass"
    ordered = cluster.slurm_rl("run", "--once", folder=tmp_path)
    assert ordered.returncode == 0, ordered.stderr
    now = priorities(cluster)
    assert sorted(jobs, key=lambda job: -now[job]) == jobs[::-1]
    cluster.set_partition("up")
    cluster.wait_empty(90)
    assert cluster.run_order(jobs) == jobs[::-1]


def test_factors_from_before_priority_basic_are_gone_when_the_site_comes_back(
    start_slurm: StartSlurm, tmp_path: Path
) -> None:
    cluster = start_slurm(ClusterPlan(nodes=1, accounts=ACCOUNTS, partitions=CLOSED_PARTITIONS))
    jobs = tuple(submit(cluster, f"--time={minutes}") for minutes in (30, 20, 10))
    cluster.wait_eligible(jobs)
    with running_hook(cluster, tmp_path, "sjf", cycle=0.5) as hook:
        assert cluster.site_factors()[jobs[2]] > 0
        cluster.scontrol("hold", str(jobs[2]))
        restart_with(cluster, ["PriorityType=priority/basic"])
        hook.wait_for("failure=refused", 60)
    restart_with(cluster, ["PriorityType=priority/multifactor"])
    cluster.scontrol("release", str(jobs[2]))
    cluster.wait_eligible(jobs)
    assert cluster.site_factors() == dict.fromkeys(jobs, 0)
