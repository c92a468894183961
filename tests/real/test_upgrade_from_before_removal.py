"""An upgrade over a running daemon that still wrote what was removed (ADR 42): nothing is left."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.architecture.markdown_documents import TOP
from tests.real.booted_head_node import DAEMON, HeadNode, booted_head_node
from tests.real.conftest import ACCOUNTS
from tests.real.daemon import wait_until
from tests.real.private_cluster import ClusterPlan
from tests.real.throwaway_root import build_package

pytestmark = pytest.mark.real

#: The last commit that has all of it.
BEFORE = "d937be11"
TABLE = "/var/lib/slurm-rl-class-defaults/table"
CONFIGURATION = """
[hook]
mode = "active"
influence_hours = 0
cycle = 1
soonest_cycle = 0.5
busy_share = 1
class_defaults_file = "{table}"
[plan]
estimates = true
[policy]
model = "sjf"
[metrics]
port = 0
[[job_class]]
class = "interactive"
time_limit_at_most = 240
"""


@pytest.fixture(scope="module")
def package_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of that commit, built from the history of this repository."""
    folder = tmp_path_factory.mktemp("before")
    folder.chmod(0o755)
    source = folder / "source"
    source.mkdir()
    archive = subprocess.run(
        ["git", "-C", TOP, "archive", BEFORE], capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"needs a clone with commit {BEFORE}: git fetch --unshallow")
    subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    return build_package(folder, source)


@contextmanager
def running_before(
    package: Path, newer: Path, table: str, **options: str
) -> Iterator[tuple[HeadNode, dict[str, str]]]:
    """A head node on which the daemon of before orders six jobs; nice values of the jobs first."""
    plan = ClusterPlan(accounts=ACCOUNTS, options=options)
    with booted_head_node(package.parent, newer.parent, plan=plan) as node:
        node.root.run("dpkg", "--install", str(package))
        node.slurm.set_partition("down", "batch", "short")
        for minutes in (9, 5, 7, 1, 3, 2):
            node.slurm.submit(minutes=minutes, user="alice")
        wait_until(lambda: len(nice_values(node)) == 6, 15, "all jobs", str)
        before = nice_values(node)
        node.configure(CONFIGURATION.format(table=table))
        node.systemctl("start", DAEMON)
        yield node, before
        node.systemctl("stop", DAEMON, check=False)


def nice_values(node: HeadNode) -> dict[str, str]:
    lines = node.slurm.run("squeue", "-h", "-O", "JobID:|,Nice:").stdout.splitlines()
    return dict(line.split("|", 1) for line in lines)


def table_rules(node: HeadNode) -> str:
    return (node.root.folder / TABLE.removeprefix("/")).read_text()


def test_the_table_for_slurmctld_is_void_and_the_new_daemon_goes_on(
    package_before: Path, debian_package: Path
) -> None:
    with running_before(package_before, debian_package, TABLE) as (node, _):
        node.wait(True, "factors of the daemon of before")
        wait_until(lambda: "rule" in table_rules(node), 20, "a table that gives factors", str)
        old = node.shows("MainPID")
        node.root.run("dpkg", "--install", str(debian_package))
        wait_until(lambda: node.shows("MainPID") not in ("0", old), 30, "the daemon", node.journal)
        assert "rule" not in table_rules(node)
        node.wait(True, "factors of the new daemon")
        told = node.journal()
        assert re.search(r"\[hook\] class_defaults_file named the table", told)
        assert re.search(r"\[plan\] ", told)
        node.systemctl("stop", DAEMON)
        assert not node.carries()
        left = node.root.run("sh", "-c", "ls /var/lib/slurm-rl").stdout.split()
        assert [name for name in left if ".plan" in name or ".nice" in name] == []


def test_users_own_nice_values_stand_again(package_before: Path, debian_package: Path) -> None:
    with running_before(package_before, debian_package, "", PriorityType="priority/basic") as (
        node,
        own,
    ):
        wait_until(lambda: nice_values(node) != own, 30, "nice values of before", node.journal)
        node.root.run("dpkg", "--install", str(debian_package))
        assert nice_values(node) == own
        wait_until(
            lambda: "PriorityType=priority/multifactor" in node.journal(), 30, "why", node.journal
        )
        assert nice_values(node) == own
