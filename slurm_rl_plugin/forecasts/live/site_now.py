"""The site as the daemon's look shows it, behind what accounting tells of the past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.live.joined_log import joined_log
from slurm_rl_plugin.forecasts.live.present_jobs import PresentJobs, present_jobs
from slurm_rl_plugin.forecasts.live.site_at import SiteAt, usage_until
from slurm_rl_plugin.simulator.workloads.log_shares import OF_CLUSTER
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log, told_apart
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Nobody's class is looked up anew: the look tells it.
_NO_CLASSES = JobClassifier(rules=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteNow:
    """A live site.

    Attributes:
        site: at the instant of the look.
        row: of each pending job of the look, its place in `site.pending`; -1 for one that does
            not wait for room, or that this machine never holds; shape [pending].
    """

    site: SiteAt
    row: IntArray


def site_now(
    history: PreparedLog, snapshot: QueueSnapshot, waits: BoolArray, half_life: float
) -> SiteNow:
    """The site at the instant of a look.

    Args:
        history: what accounting tells of runs that have ended.
        snapshot: the look.
        waits: which pending jobs wait for room, shape [pending].
        half_life: of past usage, seconds.
    """
    present = present_jobs(snapshot, waits)
    prepared = _joined(history, snapshot, _prepared(present, history), present)
    number = -1 - prepared.log.job_id
    mine = np.flatnonzero(number >= 0)
    runs = number[mine] < present.running
    running, pending = mine[runs], mine[~runs]
    of_pending = present.place[number[pending] - present.running]
    row = np.full(len(snapshot.pending), -1, dtype=np.int64)
    row[of_pending[::-1]] = np.arange(len(pending))[::-1]  # of an array the first of its tasks
    expected = snapshot.pending.expected
    nothing = np.full(len(pending), np.nan)
    whole = float(usage_until(prepared, snapshot.now, half_life).sum())
    site = SiteAt(
        now=snapshot.now,
        prepared=prepared,
        running=running[np.lexsort((running, prepared.log.start[running]))],
        pending=pending,
        usage=whole * _by_name(snapshot.accounts, snapshot.usage, prepared.accounts),
        expected=nothing if expected is None else expected[of_pending],
    )
    return SiteNow(site=site, row=row)


def with_present(history: PreparedLog, snapshot: QueueSnapshot, half_life: float) -> PreparedLog:
    """What accounting tells of runs that have ended, and who runs and waits at a look beside it.

    Whoever runs has his number and his start; the number of who waits is negative, and when he
    starts is not known.

    Args:
        history: what accounting tells.
        snapshot: the look.
        half_life: of past usage, seconds.
    """
    prepared = site_now(history, snapshot, snapshot.waits_for_machine, half_life).site.prepared
    job_id, runs = prepared.log.job_id.copy(), snapshot.running.jobs.job_id
    row = -1 - job_id
    mine = (row >= 0) & (row < len(runs))
    job_id[mine] = runs[row[mine]]
    return replace(prepared, log=replace(prepared.log, job_id=job_id))


def _prepared(present: PresentJobs, history: PreparedLog) -> PreparedLog | None:
    """The jobs of a look that the machine holds; None for nobody."""
    if len(present.log) == 0:
        return None
    try:
        return prepare_log(
            present.log,
            capacity=history.capacity,
            classifier=_NO_CLASSES,
            machine=history.machine,
        )
    except ConfigurationError:  # none of them fits
        return None


def _joined(
    history: PreparedLog,
    snapshot: QueueSnapshot,
    now: PreparedLog | None,
    present: PresentJobs,
) -> PreparedLog:
    over = history.log.start + history.log.run_time <= snapshot.now
    before, later = history.log.select(over), present.log.select(np.empty(0, dtype=np.int64))
    if now is not None:
        later = now.log
    log, order = joined_log(before, later)
    interactive = np.concatenate(
        [history.interactive[over], present.interactive[-1 - later.job_id]]
    )
    billed = None
    if history.billed is not None:
        of_later = np.empty(0) if now is None else now.charged
        billed = np.concatenate([history.billed[over], of_later])[order]
    return PreparedLog(
        log=log,
        interactive=interactive[order],
        class_rule=history.class_rule,
        account=log.account,
        accounts=log.accounts,
        shares=_by_name(snapshot.accounts, snapshot.shares, log.accounts),
        shares_from=OF_CLUSTER,
        capacity=max(snapshot.capacity, int(log.processors.max(initial=1))),
        past=told_apart(log),
        machine=history.machine,
        billed=billed,
    )


def _by_name(names: tuple[str, ...], values: FloatArray, wanted: tuple[str, ...]) -> FloatArray:
    """The value of each wanted name, 0 for one without."""
    known: Mapping[str, float] = dict(zip(names, values.tolist(), strict=True))
    return np.array([known.get(name, 0.0) for name in wanted])
