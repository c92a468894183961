"""A log with as many jobs as the experiments want of LPC-EGEE, for tests that have no real one."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.papers.study.trials import SEGMENT_JOBS
from slurm_rl_plugin.simulator.workloads.generators import mmn_log

#: Segments 0 to 21.
JOBS = 22 * SEGMENT_JOBS


def lpc_like_log() -> JobLog:
    """Sequential jobs of four accounts, in whole seconds."""
    return mmn_log(np.random.default_rng(7), interactive=0.5, processors=60, jobs=JOBS)
