"""A wide job under a stream of short ones: shortest first lets it wait, `wide_jobs` starts it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.real.conftest import StartSlurm
from tests.real.daemon_under_test import running_hook
from tests.real.load import repeating
from tests.real.private_cluster import Account, ClusterPlan

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
        # more one-processor jobs than the machine can run, a few always waiting
        repeating(
            lambda: cluster.submit(user="alice", minutes=1, seconds=STREAM_SECONDS, name="short"),
            lambda: STREAM_SECONDS / PROCESSORS / 1.5,
        ),
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
