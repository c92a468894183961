"""Tables of jobs are cut by rows, all columns together."""

import dataclasses

import numpy as np
import pytest

from slurm_rl_plugin.domain import PendingJobs, RunningJobs
from slurm_rl_plugin.domain.resources import ResourceRequests
from tests.reference.loads import random_workload, table_of

TABLE = table_of(random_workload(1, jobs=6, parallel=True))


@pytest.mark.parametrize(
    "index", [np.array([4, 0, 2]), np.array([True, False, True, False, False, True])]
)
def test_select_takes_the_same_rows_of_every_column(index):
    chosen = TABLE.select(index)
    for field in dataclasses.fields(TABLE):
        before, after = getattr(TABLE, field.name), getattr(chosen, field.name)
        if before is None:
            assert after is None
            continue
        np.testing.assert_array_equal(after, before[index])


def test_selecting_pending_and_running_jobs_cuts_the_table_inside_too():
    index = np.array([3, 1])
    pending = PendingJobs.untouched(TABLE).select(index)
    running = RunningJobs(jobs=TABLE, start=np.arange(6.0)).select(index)
    assert len(pending) == len(running) == 2
    assert pending.jobs.job_id.tolist() == running.jobs.job_id.tolist() == [3, 1]
    assert running.start.tolist() == [3.0, 1.0]


def test_requests_are_cut_with_their_jobs():
    total = np.arange(18.0).reshape(6, 3)
    requests = ResourceRequests.of_totals(total, nodes=np.arange(6))
    chosen = dataclasses.replace(TABLE, requests=requests).select(np.array([5, 2])).requests
    assert chosen.nodes.tolist() == [5, 2]
    assert chosen.of("memory").tolist() == [16.0, 7.0]
    assert chosen.of("gres/gpu:a100").tolist() == [0.0, 0.0]
