"""Laws that hold for any schedule of the kernel, checked on the starts alone."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.cluster import empty_cluster
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_scores,
)
from tests.reference.loads import random_workload, workload_of

CAPACITY = 12
SEEDS = range(4)


def fifo_starts(workload: Workload, **how: object) -> np.ndarray:
    settings = SimulationSettings(capacity=CAPACITY, **how)
    return simulate_scores(workload, -workload.submit, settings).start


@pytest.mark.parametrize("backfilling", ["none", "easy"])
def test_narrow_batch_jobs_do_not_starve_a_wide_one_behind_a_reserve(backfilling: str) -> None:
    """8 processors, a batch job of 6 under a stream of batch jobs of 1 processor and 100 s."""
    submit = np.concatenate(([5.0], np.arange(0.0, 8000.0, 20.0)))
    order = np.argsort(submit, kind="stable")
    jobs = len(submit)
    processors = np.where(np.arange(jobs) == 0, 6, 1)[order]
    workload = workload_of(submit[order], np.full(jobs, 100.0), processors=processors)
    settings = SimulationSettings(capacity=8, backfilling=backfilling, reserve=1)
    start = simulate_scores(workload, -workload.submit, settings).start
    assert (start - workload.submit)[processors == 6][0] <= 200.0


@pytest.mark.parametrize("seed", SEEDS)
def test_easy_with_known_run_times_never_delays_the_head_job(seed: int) -> None:
    workload = random_workload(seed, parallel=True, exact=True)
    start = fifo_starts(workload, backfilling="easy")
    end = start + workload.run_time
    heads = 0
    for job in range(1, len(start)):
        # from here on all earlier jobs have started: in FIFO order the job is the head
        became_head = max(workload.submit[job], start[:job].max())
        if start[job] == became_head:
            continue
        heads += 1
        others = (start < became_head) | ((start == became_head) & (np.arange(len(start)) < job))
        others &= (end > became_head) & (np.arange(len(start)) != job)
        for promised in np.sort(end[others]):
            still = others & (end > promised)
            if CAPACITY - workload.processors[still].sum() >= workload.processors[job]:
                break
        assert start[job] <= promised
    assert heads > 20


@pytest.mark.parametrize(("capacity", "words"), [(3, "wider"), (0, "0 processors")])
def test_a_machine_that_is_too_small_is_refused(capacity: int, words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        empty_cluster(random_workload(1, parallel=True), capacity)
