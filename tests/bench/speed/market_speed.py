"""`make bench`: processor seconds for a market of 10,000 jobs with rescheduling (2002).

On CTC-SP2 where `SLURM_RL_TRACES` names the folder that holds it, else on jobs drawn like it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

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


def main() -> None:
    traces = os.environ.get("SLURM_RL_TRACES")
    name = "CTC-SP2, jobs 10-20k" if traces else "jobs drawn like CTC-SP2's"
    jobs = extract(read_ctc(Path(traces)), 1).asked if traces else drawn(EXTRACT_JOBS)
    print(f"market of {len(jobs.submit):,} jobs ({name}), MF1 and UF1, processor seconds")
    for configuration in ("m512", "m128"):
        for rescheduling in (True, False):
            market = MarketSettings(
                machines=CONFIGURATIONS[configuration], rescheduling=rescheduling
            )
            simulate_market(drawn(20), market)  # compiles
            begin = time.process_time()
            simulate_market(jobs, market)
            way = "rescheduling" if rescheduling else "as agreed"
            print(f"  {configuration:5s} {way:13s} {time.process_time() - begin:6.2f} s")


if __name__ == "__main__":
    main()
