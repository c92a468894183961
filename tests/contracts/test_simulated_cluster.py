"""The simulated cluster under the contract that every adapter keeps."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.simulated import SimulatedCluster
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.contracts.batch_system_contract import BatchSystemContract, PreparedQueue, set_factor


class TestSimulatedCluster(BatchSystemContract):
    @pytest.fixture
    def queue(self) -> PreparedQueue:
        """One processor, busy with job 1; jobs 2 to 5 wait."""
        log = mmn_log(np.random.default_rng(1), processors=1, jobs=5, load=50.0)
        cluster = SimulatedCluster(prepare_log(log), SimulationSettings(capacity=1))
        cluster.advance(float(log.submit[4]))
        assert cluster.snapshot().running.jobs.job_id.tolist() == [1]

        def start(job_id: int) -> None:
            cluster.apply([set_factor(job_id, 10**6)])
            cluster.advance(float(log.run_time[0] + log.submit[0]))

        def end(job_id: int) -> None:
            cluster.advance(float(cluster.start[job_id - 1] + log.run_time[job_id - 1]))

        return PreparedQueue(system=cluster, waiting=(2, 3, 4), start=start, end=end)

    @pytest.mark.parametrize("seed", range(4))
    def test_at_any_pace_each_end_is_reported_once_and_when_it_was(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        log = mmn_log(rng, processors=4, jobs=200, load=0.9)
        cluster = SimulatedCluster(prepare_log(log), SimulationSettings(capacity=4))
        assert len(cluster.snapshot().ended) == 0
        ends: dict[int, float] = {}
        last = cluster.now
        while not cluster.finished:
            cluster.advance(cluster.now + float(rng.exponential(3000.0)))
            ended = cluster.snapshot().ended
            assert not ended.from_accounting
            assert ((ended.end > last) & (ended.end <= cluster.now)).all()
            for job_id, end in zip(ended.jobs.job_id.tolist(), ended.end.tolist(), strict=True):
                assert job_id not in ends
                ends[job_id] = end
            last = cluster.now
        assert [ends[job_id] for job_id in range(1, 201)] == pytest.approx(
            (cluster.start + log.run_time).tolist()
        )
