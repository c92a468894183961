"""Fairness of service against shares (2008, eq. 4), and who got what.

Fairness lies within a few percent whatever the order, since demand bounds it; the service that
accounts received against their shares distinguishes orders (docs/research/definitions.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.resources import Rows
from slurm_rl_plugin.units import DAY, FloatArray, IntArray


def share_deficit(shares: Any, usage: Any) -> Any:
    """D = max_k (w_k - S_k)+ for shares w and received fractions S, both of shape [accounts]."""
    return max(np.max(shares - usage), 0.0)


def fairness(shares: Any, usage: Any) -> Any:
    """F = 1 - D/M with M = max_k w_k (2008, eq. 4); 0 while nothing was consumed.

    Of the shares, sum 1, and the fractions of the consumed service, both of shape [accounts].
    """
    if np.sum(usage) <= 0.0:
        return 0.0
    return 1.0 - share_deficit(shares, usage) / np.max(shares)


def service_at(
    times: FloatArray, start: FloatArray, run_time: FloatArray, charged: FloatArray | IntArray
) -> FloatArray:
    """Service consumed strictly before each of `times` by jobs, running ones included; [t].

    Times, starts and run times are in seconds; `charged` is what each job is charged for a second.
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
    """F_j of each job: eq. 4 on the service consumed strictly before its start; shape [n].

    0 for jobs that start before anything was consumed. Starts are in any order; `charged` is what
    each job is charged for a second, `account` an index into shares, whose sum is 1.
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


#: Length of a window and the step from window to window, seconds.
FORTNIGHT, _STEP = 14 * DAY, 2 * DAY
#: Number of consecutive windows.
WINDOWS_TOGETHER = 7
#: Windows at most: of a log with a false time of a thousand years they are further apart.
_MOST_WINDOWS = 5_000
#: Part of a window's service below which an entitlement is too small to judge its account by.
SMALL = 0.02
#: Part of its entitlement that an account receives at least where its share is kept.
KEPT = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Service of each account in each window, in processor-seconds or what the site bills."""

    delivered: FloatArray  #: shape [windows, accounts]
    #: What was delivered, filled into accounts by share up to their demand; [windows, accounts].
    entitled: FloatArray

    @property
    def misdelivered_parts(self) -> FloatArray:
        """Part of each window's service that went to the wrong account, shape [windows].

        NaN where nothing was delivered.
        """
        lacking = np.maximum(self.entitled - self.delivered, 0.0).sum(axis=1)
        whole = self.delivered.sum(axis=1)
        parts: FloatArray = np.divide(
            lacking, whole, out=np.full(len(whole), np.nan), where=whole > 0.0
        )
        return parts

    @property
    def misdelivered(self) -> float:
        """Mean over windows of the part of the delivered service that went to the wrong account."""
        parts = self.misdelivered_parts
        used = np.isfinite(parts)
        return float(parts[used].mean()) if used.any() else 0.0

    @property
    def kept_parts(self) -> FloatArray:
        """Delivered over entitled of each account and window that can be judged, shape [pairs]."""
        whole = self.delivered.sum(axis=1, keepdims=True)
        judged = self.entitled > SMALL * whole
        parts: FloatArray = np.minimum(self.delivered[judged] / self.entitled[judged], 1.0)
        return parts


def entitled_service(shares: FloatArray, demand: FloatArray, pool: float) -> FloatArray:
    """A pool filled like water into accounts by their shares, each up to its demand; [accounts].

    An account without a share gets none of it.
    """
    entitled = np.zeros(len(shares))
    open_ = shares > 0.0
    while open_.any() and pool > 0.0:
        level = pool / shares[open_].sum()
        full = open_ & (demand <= level * shares)
        if not full.any():
            entitled[open_] = level * shares[open_]
            break
        entitled[full] = demand[full]
        pool -= float(demand[full].sum())
        open_ &= ~full
    return entitled


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedJobs(Rows):
    """Jobs with the starts that a schedule gave them; columns of shape [n]."""

    submit: FloatArray  #: seconds
    start: FloatArray  #: seconds
    run_time: FloatArray  #: seconds
    rate: FloatArray  #: what each job is charged for a second
    account: IntArray  #: index into shares

    def between(self, begin: float, end: float) -> ServedJobs:
        """Those that came before the end and ended after the begin."""
        return self.select((self.submit < end) & (self.start + self.run_time > begin))

    def delivered(self, begin: float, end: float, accounts: int) -> FloatArray:
        """Service between two times, shape [accounts]."""
        ran = np.minimum(self.start + self.run_time, end) - np.maximum(self.start, begin)
        return self._of_accounts(np.maximum(ran, 0.0), accounts)

    def demanded(self, begin: float, end: float, accounts: int) -> FloatArray:
        """What of the jobs was there and could have run between two times, shape [accounts]."""
        left = self.run_time - np.clip(begin - self.start, 0.0, self.run_time)
        could = np.minimum(left, end - np.clip(self.submit, begin, end))
        return self._of_accounts(could, accounts)

    def usable(self, begin: float, end: float, accounts: int) -> FloatArray:
        """The same, but no later than the schedule ended each job, shape [accounts]."""
        there = np.maximum(self.submit, begin)
        could = np.minimum(self.run_time, end - there)
        could = np.minimum(could, np.maximum(self.start + self.run_time - there, 0.0))
        return self._of_accounts(could, accounts)

    def _of_accounts(self, seconds: FloatArray, accounts: int) -> FloatArray:
        summed = np.bincount(self.account, seconds * self.rate, accounts)
        return np.asarray(summed, dtype=np.float64)


def service_of_windows(
    jobs: ServedJobs, shares: FloatArray, *, begin: float, end: float, most: float = np.inf
) -> Service:
    """What each account received in each fortnight, and what it was entitled to.

    The demand of an account in a window is what of its jobs was there and could have run, each day
    at most the whole machine, which is charged `most` for a second; inf if that is not known.
    Jobs are of all accounts, in submit order. The first window begins at `begin`, and none ends
    after `end`, seconds; a single one is as long as both are apart.
    """
    accounts = len(shares)
    length = min(FORTNIGHT, max(end - begin, 1.0))
    last = max(end - length, begin)
    step = max(_STEP, (last - begin) / _MOST_WINDOWS)
    firsts = np.arange(begin, last + 1e-6, step)
    a_day = most * min(DAY, length)
    days: dict[float, FloatArray] = {}
    delivered, entitled = np.empty((2, len(firsts), accounts))
    came, live = 0, np.empty(0, dtype=np.int64)
    ends = jobs.start + jobs.run_time
    for window, first in enumerate(firsts.tolist()):
        until = int(np.searchsorted(jobs.submit, first + length))
        live = np.concatenate([live[ends[live] > first], np.arange(came, until)])
        came = until
        there = jobs.select(live).between(first, first + length)
        usable = np.zeros(accounts)
        for day in range(max(int(length // DAY), 1)):
            from_ = first + day * DAY
            if from_ not in days:
                to = min(from_ + DAY, first + length)
                of_day = there.between(from_, to).usable(from_, to, accounts)
                days[from_] = np.minimum(of_day, a_day)
            usable += days[from_]
        delivered[window] = there.delivered(first, first + length, accounts)
        demand = np.minimum(there.demanded(first, first + length, accounts), usable)
        demand = np.maximum(demand, delivered[window])
        entitled[window] = entitled_service(shares, demand, float(delivered[window].sum()))
    return Service(delivered=delivered, entitled=entitled)
