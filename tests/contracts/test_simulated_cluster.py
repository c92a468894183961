"""The simulated cluster under the contract that every adapter keeps."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.simulated import SimulatedCluster
from slurm_rl_plugin.simulator.generators import mmn_log
from slurm_rl_plugin.simulator.log_workload import prepare_log
from slurm_rl_plugin.simulator.simulation import SimulationSettings
from tests.contracts.batch_system_contract import BatchSystemContract, PreparedQueue


class TestSimulatedCluster(BatchSystemContract):
    @pytest.fixture
    def queue(self) -> PreparedQueue:
        """One processor, busy with job 1; jobs 2 to 5 wait, 5 on hold."""
        log = mmn_log(np.random.default_rng(1), processors=1, jobs=5, load=50.0)
        cluster = SimulatedCluster(prepare_log(log), SimulationSettings(capacity=1))
        cluster.advance(float(log.submit[4]))
        cluster.hold(5)
        assert cluster.snapshot().running.jobs.job_id.tolist() == [1]

        def start(job_id: int) -> None:
            for other in (2, 3, 4):
                if other != job_id:
                    cluster.hold(other)
            cluster.advance(float(log.run_time[0] + log.submit[0]))

        return PreparedQueue(system=cluster, waiting=(2, 3, 4), held=5, start=start)
