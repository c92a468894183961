"""Two real clusters of a federation, a daemon's cycles on each: neither touches a shared job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.daemon_under_test import running_hook
from tests.real.drawn_order import adapter_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease

pytestmark = pytest.mark.real

NAMES = ("x", "y")


@pytest.fixture
def federation(release: SlurmRelease | None) -> Iterator[dict[str, PrivateSlurm]]:
    """Two clusters by name, in which nothing starts."""
    skip_without_daemons(release)
    clusters: dict[str, PrivateSlurm] = {}
    with ExitStack() as stack:
        for name in NAMES:
            plan = ClusterPlan(
                nodes=1,
                accounts=ACCOUNTS,
                partitions=CLOSED_PARTITIONS,
                options={"ClusterName": name, "FederationParameters": "fed_display"},
            )
            first = clusters.get(NAMES[0])
            clusters[name] = stack.enter_context(running_slurm(plan, release, first))
        first = clusters[NAMES[0]]
        first.run("sacctmgr", "-i", "add", "federation", "fed", f"clusters={','.join(NAMES)}")
        for cluster in clusters.values():
            cluster.wait_until(lambda each=cluster: _is_joined(each), 30, "the other cluster")
        yield clusters


def _is_joined(cluster: PrivateSlurm) -> bool:
    return "Synced:Yes" in cluster.run("scontrol", "show", "federation").stdout


def submit(cluster: PrivateSlurm, *options: str) -> int:
    return cluster.submit(*options, user="alice")


def changes(cluster: PrivateSlurm) -> list[str]:
    """Changes of factors in slurmctld's log."""
    lines = (cluster.directory / "log" / "slurmctld.log").read_text().splitlines()
    return [line for line in lines if "AdinPrioFactor" in line]


def test_two_daemons_leave_jobs_alone_that_come_to_both_clusters(
    federation: dict[str, PrivateSlurm], tmp_path: Path
) -> None:
    """Shared jobs and own ones arrive while a daemon runs for each cluster."""
    shared: set[int] = set()
    own: dict[str, set[int]] = {name: set() for name in NAMES}
    for cluster in federation.values():
        checks = adapter_of(cluster).own_checks()
        assert ("warn", "federation") in [(each.result, each.name) for each in checks]
    with ExitStack() as stack:
        daemons = {
            name: stack.enter_context(running_hook(cluster, tmp_path / name, "sjf", cycle=1))
            for name, cluster in federation.items()
        }
        for minutes in range(8, 0, -1):
            for name, cluster in federation.items():
                options = {"user": "alice", "minutes": minutes}
                shared.add(cluster.submit(**options))
                own[name].add(cluster.submit(f"--clusters={name}", **options))
            time.sleep(2.0)
        for name, cluster in federation.items():  # an array and a heterogeneous job are its own
            own[name] |= {submit(cluster, "--array=1-3"), submit(cluster, ":", "--ntasks=1")}
        time.sleep(4.0)
        for name, cluster in federation.items():
            factors = cluster.site_factors()
            assert any(factors[job] for job in own[name])
            assert not any(factors[job] for job in shared)
            audit = daemons[name].audit
            assert {line["job"] for line in audit if line["event"] == "write"} <= own[name]
            written = {job for job in own[name] if factors[job]}
            others = [each for each in federation.values() if each is not cluster]
            _share(cluster, written.pop(), others[0])
        time.sleep(6.0)
        made = {name: changes(cluster) for name, cluster in federation.items()}
        time.sleep(6.0)
        assert {name: changes(cluster) for name, cluster in federation.items()} == made
        for daemon in daemons.values():
            assert daemon.stop() == 0
    for cluster in federation.values():
        assert not any(cluster.site_factors().values())
        assert not [line for line in changes(cluster) for job in shared if f"={job}" in line]


def _share(cluster: PrivateSlurm, job: int, other: PrivateSlurm) -> None:
    """Lets the other cluster hold a job too, after it got a factor."""
    cluster.run("scontrol", "update", f"jobid={job}", f"clusters={','.join(NAMES)}")
    other.wait_until(lambda: job in other.site_factors(), 20, "the job on both clusters")
