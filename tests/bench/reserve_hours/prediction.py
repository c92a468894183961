"""The same hour in our simulator, with Slurm's own times in it, and its figures beside the real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    simulate_network,
    simulate_order,
)
from slurm_rl_plugin.units import HOUR, FloatArray
from tests.bench.reserve_hours.load import PROCESSORS, SHARES, HourJob
from tests.bench.reserve_hours.replay import ReplayedJob

#: Seconds of the hour within which an interactive job should start.
SOON = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """What Slurm adds, seconds of the hour; measured on other hours than the one shown.

    Attributes:
        start: from the moment at which a job could start until it does.
        end: for which a job holds its processors beyond its run time.
    """

    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFigures:
    """Figures of one run of an hour; waits in seconds of the hour, jobs of its beginning left out.

    Attributes:
        interactive_wait, batch_wait: means.
        within_120s: part of the interactive jobs.
        wide_wait: longest wait of a batch job of several processors; 0 without any.
        utilization: of the processors within the hour.
    """

    interactive_wait: float
    within_120s: float
    batch_wait: float
    wide_wait: float
    utilization: float


def workload_of(
    jobs: Sequence[HourJob], latency: Latency, sent: FloatArray | None = None
) -> Workload:
    """The hour as the simulator takes it; limits are the requested ones, `sent` the submissions."""
    interactive = np.array([job.interactive for job in jobs], dtype=np.bool_)
    limit = np.where(interactive, 720.0, 4320.0)
    return Workload.of(
        submit=np.array([job.submit for job in jobs]) if sent is None else sent,
        run_time=np.array([job.run_time for job in jobs]) + latency.end,
        estimate=limit,
        time_limit=limit,
        processors=np.array([job.processors for job in jobs], dtype=np.int64),
        account=np.array([job.account for job in jobs], dtype=np.int64),
        interactive=interactive,
        shares=np.array(SHARES),
    )


def predicted(
    jobs: Sequence[HourJob],
    latency: Latency,
    network: QNetwork | None,
    *,
    class_limit: ClassLimit | None = None,
    sent: FloatArray | None = None,
) -> list[ReplayedJob]:
    """The hour under Slurm alone, or under the order of a network.

    Args:
        jobs: of the hour.
        latency: what Slurm adds.
        network: of the daemon; None for Slurm alone.
        class_limit: how its reserve is kept; None keeps nothing.
        sent: when the jobs of a real run were really submitted, shape [n].
    """
    workload = workload_of(jobs, latency, sent)
    settings = SimulationSettings(
        capacity=PROCESSORS,
        backfilling="easy",
        class_limit=class_limit,
        half_life=7 * 24 * HOUR,
    )
    if network is None:
        start = simulate_order(workload, QueueOrder(rule="multifactor"), settings).start
    else:
        if class_limit is None:
            network = replace(network, reserve_weights=None, reserve_bias=0.0)
        start = simulate_network(workload, network, settings).start
    return replayed(jobs, workload.submit, start - workload.submit + latency.start)


def replayed(jobs: Sequence[HourJob], sent: FloatArray, wait: FloatArray) -> list[ReplayedJob]:
    """Jobs of a simulated hour; `sent` and `wait` of shape [n], seconds of the hour."""
    return [
        ReplayedJob(
            submit=job.submit,
            sent=at,
            wait=waited,
            run_time=job.run_time,
            processors=job.processors,
            interactive=job.interactive,
            wanted_run_time=job.run_time,
        )
        for job, at, waited in zip(jobs, sent.tolist(), wait.tolist(), strict=True)
    ]


def figures_of(jobs: Sequence[ReplayedJob]) -> HourFigures:
    """What the table shows of a run, real or simulated."""
    wait, submit = (np.array([getattr(job, name) for job in jobs]) for name in ("wait", "submit"))
    interactive = np.array([job.interactive for job in jobs])
    processors = np.array([job.processors for job in jobs])
    batch = ~interactive & (submit > 0.0)
    wide = wait[batch & (processors > 1)]
    begin = np.array([job.sent for job in jobs]) + wait
    end = begin + np.array([job.run_time for job in jobs])
    within = np.clip(np.minimum(end, HOUR) - np.maximum(begin, 0.0), 0.0, None)
    return HourFigures(
        interactive_wait=float(wait[interactive].mean()),
        within_120s=float((wait[interactive] <= SOON).mean()),
        batch_wait=float(wait[batch].mean()),
        wide_wait=float(wide.max(initial=0.0)),
        utilization=float((within * processors).sum() / (PROCESSORS * HOUR)),
    )
