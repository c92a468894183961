"""Fixtures with a real Slurm of their own; without one they skip the test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.running_daemon import free_port
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm
from tests.real.slurm_releases import RELEASES, SlurmRelease, missing_programs, missing_release
from tests.real.throwaway_root import build_package

ACCOUNTS = {
    "physics": Account(share=70, users=("alice",)),
    "biology": Account(share=30, users=("bob",)),
}

StartSlurm = Callable[[ClusterPlan], PrivateSlurm]
#: Names of the releases to test, such as "24.11 26.05"; without it the installed one is tested.
CHOSEN = tuple(os.environ.get("SLURM_RL_TEST_RELEASES", "").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A real test that fails is run once more (ADR 19); the summary says so: look at each."""
    for item in items:
        if item.get_closest_marker("real"):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=5))


def skip_without_daemons(release: SlurmRelease | None = None) -> None:
    """Skips the test and says how to install what is missing."""
    if release is not None:
        reason = "needs root" if os.geteuid() != 0 else missing_release(release)
        if reason:
            pytest.skip(reason)
        return
    missing = missing_programs()
    if os.geteuid() != 0 or missing:
        lacking = f" (missing: {' '.join(missing)})" if missing else ""
        pytest.skip(
            "needs root and slurmctld, slurmdbd, slurmd, munge and MariaDB: "
            f"run tests/real/install_daemons.sh{lacking}"
        )


@contextmanager
def running_slurm(
    plan: ClusterPlan, release: SlurmRelease | None = None, storage_of: PrivateSlurm | None = None
) -> Iterator[PrivateSlurm]:
    """A cluster in a folder of its own, both gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="private-slurm-"))
    directory.chmod(0o755)  # jobs and commands of other users must get in
    try:
        with PrivateSlurm(directory, plan, release, storage_of) as cluster:
            yield cluster
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session", params=CHOSEN or None)
def release(request: pytest.FixtureRequest) -> SlurmRelease | None:
    """The release to test, each of SLURM_RL_TEST_RELEASES in turn; None is the installed one."""
    name: str | None = getattr(request, "param", None)
    if name is not None and name not in RELEASES:
        raise pytest.UsageError(f"no release {name}: choose from {' '.join(RELEASES)}")
    return None if name is None else RELEASES[name]


@pytest.fixture(scope="session")
def shared_slurm(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """One cluster of 2 nodes with 4 processors each for all tests; ask for `slurm` instead."""
    skip_without_daemons(release)
    with running_slurm(ClusterPlan(accounts=ACCOUNTS), release) as cluster:
        yield cluster


@pytest.fixture
def slurm(shared_slurm: PrivateSlurm) -> Iterator[PrivateSlurm]:
    """The shared cluster with an empty queue and its partitions up."""
    yield shared_slurm
    shared_slurm.cancel("root", "alice", "bob")
    shared_slurm.set_partition("up", "batch", "short")
    shared_slurm.wait_empty(20)


@pytest.fixture
def closed_slurm(slurm: PrivateSlurm) -> PrivateSlurm:
    """The shared cluster with both partitions down: jobs queue and none starts."""
    slurm.set_partition("down", "batch", "short")
    return slurm


def private_slurm(
    plan: ClusterPlan,
    prepare: Callable[[PrivateSlurm], object] = lambda slurm: None,
    scope: Any = "module",
) -> Any:
    """Makes a fixture: a cluster of this plan, prepared once."""

    @pytest.fixture(scope=scope)
    def cluster(release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
        skip_without_daemons(release)
        with running_slurm(plan, release) as slurm:
            prepare(slurm)
            yield slurm

    return cluster


@pytest.fixture
def start_slurm(release: SlurmRelease | None) -> Iterator[StartSlurm]:
    """Start further clusters, for a test that needs another plan or breaks its daemons."""
    skip_without_daemons(release)
    with ExitStack() as stack:
        yield lambda plan: stack.enter_context(running_slurm(plan, release))


@pytest.fixture(name="free_port")
def a_free_port() -> int:
    return free_port()


@pytest.fixture(scope="session")
def debian_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our package, built once from this checkout."""
    return build_package(tmp_path_factory.mktemp("package"))
