"""Processor seconds of the simulations of two papers.

The market of 10,000 jobs with and without rescheduling (2002), on CTC-SP2 where `SLURM_RL_TRACES`
names the folder that holds it, else on jobs drawn like it; and 6,000 ticks of the grid of 2005
(N = 1000, R = 250, g = 0.2).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.brokers.agents.grid import GridSettings, draw_grid
from slurm_rl_plugin.brokers.agents.simulation import RULES, AgentRule, run_grid
from slurm_rl_plugin.brokers.market.market_simulation import MarketSettings, simulate_market
from slurm_rl_plugin.papers.economic_2002.markets import (
    CONFIGURATIONS,
    EXTRACT_JOBS,
    extract,
    read_ctc,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload


def drawn(jobs: int) -> Workload:
    """Jobs of many widths that ask for more than they run, at a load of about .6 on 512."""
    rng = np.random.default_rng(0)
    run_time = np.minimum(rng.lognormal(7.5, 2.0, jobs), 64800.0)
    processors = np.minimum(2 ** rng.integers(0, 9, jobs), 336)
    gap = (run_time * processors).mean() / (0.6 * 512)
    asked = np.minimum(run_time * rng.integers(1, 6, jobs), 64800.0)
    return Workload.of(
        submit=np.cumsum(rng.exponential(gap, jobs)),
        run_time=run_time,
        estimate=asked,
        time_limit=asked,
        processors=processors.astype(np.int64),
        account=np.zeros(jobs, dtype=np.int64),
        interactive=np.zeros(jobs, dtype=np.bool_),
        shares=np.ones(1),
    )


def market() -> dict[str, float]:
    """Seconds with MF1 and UF1, by the sizes of the machines."""
    traces, found = os.environ.get("SLURM_RL_TRACES"), {}
    jobs = extract(read_ctc(Path(traces)), 1).asked if traces else drawn(EXTRACT_JOBS)
    for configuration in ("m512", "m128"):
        for rescheduling, way in ((True, "rescheduling"), (False, "as agreed")):
            settings = MarketSettings(
                machines=CONFIGURATIONS[configuration], rescheduling=rescheduling
            )
            simulate_market(drawn(20), settings)  # compiles
            taken = _seconds_of(lambda s=settings: simulate_market(jobs, s))
            found[f"market, {configuration}, {way}"] = taken
    return found


def agents() -> dict[str, float]:
    """Seconds by how agents choose a resource, and by when they learn of a job."""
    size, found = GridSettings(), {}
    small, grid = replace(size, ticks=10), draw_grid(size, 1)
    for name in RULES:
        for at_completion, heard in ((False, "at once"), (True, "at completion")):
            rule = AgentRule(name=name, at_completion=at_completion)
            run_grid(small, draw_grid(small, 1), rule, 1)  # compiles
            taken = _seconds_of(lambda r=rule: run_grid(size, grid, r, 1))
            found[f"agents, {name}, told {heard}"] = taken
    return found


def _seconds_of(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin
