"""A wide job under a stream of short ones: shortest first lets it wait, `wide_jobs` starts it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.conftest import StartSlurm
from tests.real.daemon_under_test import running_hook
from tests.real.private_cluster import Account, ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

#: Of the two nodes of a private cluster.
PROCESSORS = 8
#: Several times what the machine takes to drain of jobs of the stream.
BOUND = 120.0
#: The stream scores 2 ln(60 s) less; the wide job's size 3 times what the model was trained to.
GOALS = "\n[goals]\nwide_jobs = 3\n"
STREAM_SECONDS = 10.0


def plan_with(options: str) -> ClusterPlan:
    return ClusterPlan(
        accounts={"physics": Account(share=1, users=("alice", "bob"))},
        options={"SchedulerParameters": f"sched_interval=1,bf_interval=2,{options}"},
    )


@contextmanager
def stream_of_short_jobs(cluster: PrivateSlurm) -> Iterator[None]:
    """More one-processor jobs than the machine can run, a few always waiting."""
    stopped = threading.Event()

    def submit() -> None:
        while not stopped.is_set():
            cluster.submit(user="alice", minutes=1, seconds=STREAM_SECONDS, name="short")
            stopped.wait(STREAM_SECONDS / PROCESSORS / 1.5)

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ("bf_job_part_count_reserve=1", "default"),
        ("bf_continue", "default"),
        ("bf_job_part_count_reserve=1", "sjf"),
    ],
)
def test_a_wide_job_starts_within_the_bound(
    start_slurm: StartSlurm, tmp_path: Path, options: str, policy: str
) -> None:
    cluster = start_slurm(plan_with(options))
    with (
        running_hook(cluster, tmp_path, policy, cycle=2, more=GOALS),
        stream_of_short_jobs(cluster),
    ):
        cluster.wait_until(
            lambda: cluster.run("squeue", "-h", "-t", "PD").stdout.count("\n") > 3, 60, "a queue"
        )
        wide = cluster.submit(user="bob", processors=PROCESSORS, minutes=60, seconds=5, name="wide")
        begin = time.monotonic()
        while cluster.state_of(wide) == "PENDING" and time.monotonic() < begin + BOUND:
            time.sleep(1.0)
        waited = time.monotonic() - begin
        if policy == "sjf":
            assert cluster.state_of(wide) == "PENDING"
            return
        assert cluster.state_of(wide) != "PENDING", f"it still waits after {waited:.0f} s"
