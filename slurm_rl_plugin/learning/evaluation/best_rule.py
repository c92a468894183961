"""The simple rules on the training part of a log on a machine of nodes, by continuous replay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    Replayed,
    RunProgress,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate, knowing_recent_runs
from slurm_rl_plugin.learning.load_windows import training_jobs
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared


def rules_on_training_part(
    rules: Sequence[str],
    prepared: PreparedLog,
    settings: SimulationSettings,
    protocol: ContinuousProtocol,
    *,
    progress: RunProgress | None = None,
) -> dict[str, float]:
    """Mean bounded slowdown of each rule over runs through the training part alone.

    Nothing of what came later is simulated, nor known to a rule by predicted run times.

    Args:
        rules: their names.
        prepared: the log with classes known at submission.
        settings: the batch system.
        protocol: how many runs.
        progress: called after each run of a rule.

    Raises:
        ConfigurationError: no job was submitted in the training part.
    """
    jobs = training_jobs(prepared)
    if jobs == 0:
        raise ConfigurationError("no rule can be chosen on a log without time: give a longer log.")
    past = select_prepared(prepared, np.arange(jobs))
    past = knowing_recent_runs(past, past.workload(RequestedLimit()), settings)
    replayed = [Replayed(name=name, candidate=Candidate(name=name), alone=True) for name in rules]
    whole = ContinuousProtocol(runs=protocol.runs, seed=protocol.seed, whole=True, by_days=True)
    runs = replay_continuously(replayed, past, settings, whole, progress=progress)
    return {
        name: float(np.mean([run.waits.bounded_slowdown for run in each]))
        for name, each in runs.items()
    }
