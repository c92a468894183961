"""Responsiveness, relative overhead and bounded slowdown of a job; elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np


def responsiveness(wait: Any, run_time: Any) -> Any:
    """Run time over turnaround, in (0, 1] (Perez et al. 2011); run times below 1 s count as 1 s."""
    counted = np.maximum(run_time, 1.0)
    return counted / (counted + wait)


def relative_overhead(wait: Any, run_time: Any) -> Any:
    """Wait over run time (2008, Fig. 3); run times below 1 s count as 1 s."""
    return wait / np.maximum(run_time, 1.0)


def bounded_slowdown(wait: Any, run_time: Any, bound: float = 10.0) -> Any:
    """max(1, (wait + run) / max(run, bound)), with `bound` in seconds."""
    return np.maximum((wait + run_time) / np.maximum(run_time, bound), 1.0)
