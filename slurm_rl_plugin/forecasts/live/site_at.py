"""A site at one instant: every job that is known, who runs, who waits, what accounts have used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.site import HALF_LIFE
from slurm_rl_plugin.simulator.scoring.fair_share import FairShare
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.site_points import fair_share_of_log
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAt:
    """A site at one instant; jobs are rows of the log.

    Attributes:
        now: seconds.
        prepared: every known job in order of submission. Starts and ends after `now` are not
            looked at.
        running: who runs, in the order of their starts, shape [r].
        pending: who waits for room, ascending, shape [p].
        usage: what each account was charged until now, decayed, shape [accounts].
        expected: when the batch system itself expects each pending job to start, seconds; NaN
            where it says nothing; shape [p].
    """

    now: float
    prepared: PreparedLog
    running: IntArray
    pending: IntArray
    usage: FloatArray
    expected: FloatArray


def site_in_log(prepared: PreparedLog, now: float, half_life: float) -> SiteAt:
    """A site as its accounting alone shows it at a time in the past.

    Args:
        prepared: the log, with recorded starts.
        now: seconds.
        half_life: of past usage, seconds.
    """
    log = prepared.log
    running = np.flatnonzero((log.start <= now) & (log.start + log.run_time > now))
    pending = np.flatnonzero((log.submit <= now) & ~(log.start <= now))
    return SiteAt(
        now=now,
        prepared=prepared,
        running=running[np.lexsort((running, log.start[running]))],
        pending=pending,
        usage=usage_until(prepared, now, half_life),
        expected=np.full(len(pending), np.nan),
    )


def longest_wait_until(log: JobLog, now: float) -> FloatArray:
    """The longest wait known lately, and when, seconds, shape [2] (`features.site.longest_wait`).

    Args:
        log: with recorded starts.
        now: seconds.
    """
    until = np.minimum(np.where(np.isfinite(log.start), log.start, now), now)
    waits = np.maximum(until - log.submit, 0.0) * 0.5 ** ((now - until) / HALF_LIFE)
    return np.array([np.max(waits, initial=0.0), now])


def usage_until(prepared: PreparedLog, now: float, half_life: float) -> FloatArray:
    """What each account was charged until a time, decayed since the middle of each run."""
    charged = _charged_until(prepared, now, half_life)
    return np.bincount(prepared.account, charged, len(prepared.accounts)).astype(np.float64)


def fair_share_until(prepared: PreparedLog, now: float, half_life: float) -> FairShare | None:
    """The same of accounts and users, as the site's own priority counts it; None on processors."""
    if prepared.machine is None:
        return None
    fair = fair_share_of_log(prepared, prepared.machine)
    charged = _charged_until(prepared, now, half_life)
    usage = np.bincount(fair.association, charged, len(fair.usage)).astype(np.float64)
    return fair.holding(usage, now)


def _charged_until(prepared: PreparedLog, now: float, half_life: float) -> FloatArray:
    """What each job was charged until a time, decayed since the middle of its run, shape [n]."""
    log = prepared.log
    begin = np.minimum(np.where(np.isfinite(log.start), log.start, log.submit), now)
    end = np.minimum(begin + log.run_time, now)
    kept = 0.5 ** ((now - (begin + end) / 2.0) / half_life)
    charged: FloatArray = (end - begin) * prepared.charged * kept
    return charged
