"""Fairness of the service that accounts received against their shares (2008, eq. 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.units import FloatArray, IntArray


def share_deficit(shares: Any, usage: Any) -> Any:
    """D = max_k (w_k - S_k)+ for shares w and received fractions S, both of shape [accounts]."""
    return max(np.max(shares - usage), 0.0)


def fairness(shares: Any, usage: Any) -> Any:
    """F = 1 - D/M with M = max_k w_k (2008, eq. 4); 0 while nothing was consumed.

    Args:
        shares: configured share of each account, shape [accounts], sum 1.
        usage: fraction of the consumed service of each account, shape [accounts].
    """
    if np.sum(usage) <= 0.0:
        return 0.0
    return 1.0 - share_deficit(shares, usage) / np.max(shares)


def service_at(
    times: FloatArray, start: FloatArray, run_time: FloatArray, charged: FloatArray | IntArray
) -> FloatArray:
    """Service consumed strictly before each of `times` by jobs, running ones included.

    Args:
        times: instants, seconds, shape [t].
        start: start of each job, seconds, shape [n].
        run_time: seconds, shape [n].
        charged: what each job is charged for a second, shape [n].
    """
    return _ramp(times, start, charged) - _ramp(times, start + run_time, charged)


def _ramp(times: FloatArray, begin: FloatArray, slope: FloatArray | IntArray) -> FloatArray:
    """Sum over jobs of slope * (t - begin)+ at each time, by prefix sums in O(n log n)."""
    order = np.argsort(begin, kind="stable")
    begun = begin[order]
    slopes = slope[order].astype(np.float64)
    total_slope = np.concatenate(([0.0], np.cumsum(slopes)))
    total_offset = np.concatenate(([0.0], np.cumsum(slopes * begun)))
    before = np.searchsorted(begun, times, side="left")
    return np.asarray(total_slope[before] * times - total_offset[before], dtype=np.float64)


def fairness_at_starts(
    start: FloatArray,
    run_time: FloatArray,
    charged: FloatArray | IntArray,
    account: IntArray,
    shares: FloatArray,
) -> FloatArray:
    """F_j of each job: eq. 4 on the service consumed strictly before the job's start.

    Args:
        start: seconds, shape [n]; any order.
        run_time: seconds, shape [n].
        charged: what each job is charged for a second: its processors, or what the site bills;
            shape [n].
        account: index into shares, shape [n].
        shares: shape [accounts], sum 1.

    Returns:
        float64[n]; 0 for jobs that start before anything was consumed.
    """
    origin = start.min() if len(start) else 0.0
    begin = start - origin  # small numbers: prefix sums of epoch seconds would lose digits
    served = np.empty((len(shares), len(start)))
    for index in range(len(shares)):
        mine = account == index
        served[index] = service_at(begin, begin[mine], run_time[mine], charged[mine])
    total = served.sum(axis=0)
    consumed = total > 0.0
    fraction = np.divide(served, total, out=np.zeros_like(served), where=consumed)
    deficit = np.maximum((shares[:, None] - fraction).max(axis=0), 0.0)
    return np.where(consumed, 1.0 - deficit / shares.max(), 0.0)
