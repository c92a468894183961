"""What plan estimates are worth under a trained order, on the logs that it was trained on.

The first 60 % of each log are replayed continuously, with estimates and without, and all of them
count: nothing is looked at that training may not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.learning.evaluation.bootstrap import interval_of
from slurm_rl_plugin.learning.evaluation.continuous import (
    STRETCH,
    STRETCHES_DRAWN,
    ContinuousProtocol,
    ContinuousRun,
    Replayed,
    drawn_ratios,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.schedule_waits import median_ratios
from slurm_rl_plugin.learning.load_windows import class_known_at_submission, training_part
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.plan_gain import NOT_MEASURED, PlanGain
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog

#: Four times the runs of `evaluate`: what is gained is less than what an order gains, and a verdict
#: hangs on the interval.
PROTOCOL = ContinuousProtocol(runs=16, whole=True)
#: Jobs of a training part that an interval needs.
FEWEST_JOBS = 2 * STRETCHES_DRAWN * STRETCH
#: The three that are compared, and runs of each.
WITH, WITHOUT, FIRST_COME = "with", "without", "fifo"
Runs = Mapping[str, Sequence[ContinuousRun]]


def measured_gain(
    network: QNetwork | EchoStateNetwork,
    logs: Sequence[PreparedLog],
    classifier: JobClassifier | None = None,
) -> PlanGain | None:
    """Replay the logs; None for a network that foretells no run times: nobody could be told any.

    Args:
        network: trained, with its protection.
        logs: whole logs; what lies behind their first 60 % is not looked at.
        classifier: job-class rules; by default as `class_known_at_submission`.
    """
    if not isinstance(network, QNetwork):
        return None
    if network.prediction is None or network.prediction.spread is None:
        return None
    known = [class_known_at_submission(training_part(each), classifier) for each in logs]
    long = [each for each in known if len(each.log) >= FEWEST_JOBS]
    if not long:
        return PlanGain(verdict=NOT_MEASURED)
    return gain_of([_replayed(network, each) for each in long])


def _replayed(network: QNetwork, known: PreparedLog) -> Runs:
    order = Candidate(name="this model", network=network)
    compared = [
        Replayed(name=WITH, candidate=order, plan="pending", prediction=network.prediction),
        Replayed(name=WITHOUT, candidate=order),
        Replayed(name=FIRST_COME, candidate=Candidate(name="fifo")),
    ]
    backfilling = "easy" if known.machine is None else AS_SLURM  # on nodes Slurm alone is told
    settings = SimulationSettings(capacity=known.capacity, backfilling=backfilling)
    return replay_continuously(compared, known, settings, PROTOCOL)


def gain_of(logs: Sequence[Runs]) -> PlanGain:
    """The gain that runs show: of several logs the geometric mean, and the worst longest wait.

    Args:
        logs: of each log the runs WITH estimates, WITHOUT, and under FIRST_COME, of FEWEST_JOBS
            at least.
    """
    logarithms, draws, waits = [], [], []
    for place, runs in enumerate(logs):
        drawn = drawn_ratios(runs[WITH], runs[WITHOUT], np.random.default_rng((1, place)))
        assert drawn is not None, "too few jobs for an interval"
        draws.append(np.log(drawn))
        mine, without, first = (
            [run.waits for run in runs[name]] for name in (WITH, WITHOUT, FIRST_COME)
        )
        slowdown = median_ratios(mine, without)["bounded_slowdown"]
        assert slowdown is not None, "a bounded slowdown is 1 at least"
        logarithms.append(np.log(slowdown))
        waits.append(median_ratios(mine, first)["longest_wait"] or 0.0)  # nobody waits
    return PlanGain.judged(
        slowdown=float(np.exp(np.mean(logarithms))),
        ci95=interval_of(np.exp(np.mean(draws, axis=0))),
        longest_wait=max(waits),
        runs=len(logs[0][WITH]),
    )
