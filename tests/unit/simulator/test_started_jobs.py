"""Single jobs without a recorded start are dropped and counted; a log without starts is not cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.started_jobs import NO_START, jobs_with_starts


def recorded(without: int, jobs: int = 100) -> PreparedLog:
    prepared = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=jobs))
    start = prepared.log.submit.copy()
    start[10 : 10 + without] = np.nan
    log = replace(prepared.log, start=start)
    return replace(prepared, log=log, dropped={"wider than the machine": 2})


@pytest.mark.parametrize("without", [1, 5])
def test_few_jobs_without_a_start_are_counted(without: int) -> None:
    found = jobs_with_starts(recorded(without))
    assert len(found.log) == 100 - without
    assert not np.isnan(found.log.start).any()
    assert found.dropped == {"wider than the machine": 2, NO_START: without}
    assert found.capacity == 5


@pytest.mark.parametrize("without", [0, 6, 90])
def test_a_log_with_all_starts_or_with_many_missing_stays(without: int) -> None:
    prepared = recorded(without)
    assert jobs_with_starts(prepared) is prepared
