"""The audit log: one JSON line a cycle with the decided order, and one a write with its reason."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.domain.request_watch import RequestChange
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.hook.rails.batch_limit import LimitReport, processors_of
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray
from slurm_rl_plugin.whole_file import PRIVATE, append_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedOrder:
    """The order that a cycle decided.

    Attributes:
        time: of the snapshot, seconds since the epoch.
        mode: shadow, active or fallback.
        policy: who decided.
        model_sha256: "" for a rule.
        reason: "policy", or why the policy was not used.
        job_ids: the orderable jobs, first to start first.
        scores: their scores, same order.
        native_priority: the site's own priority of them without our factor, same order.
        tier: of their partitions, which the batch system orders by before the priority; same order.
        interactive: their job class.
        account: index of each into `accounts`.
        accounts: names.
        guard_rails: names of those that changed the decision.
        failed: failures of the cycles since the last one that is in the log.
    """

    time: float
    mode: str
    policy: str
    model_sha256: str
    reason: str
    job_ids: Sequence[int]
    scores: FloatArray
    native_priority: IntArray
    tier: IntArray
    interactive: BoolArray
    account: IntArray
    accounts: Sequence[str]
    guard_rails: Sequence[str] = ()
    failed: Sequence[str] = ()

    def first(self, count: int) -> dict[str, Any]:
        """The first jobs and, beside them, what the site itself makes of them.

        `site_rank` counts from 0 among all orderable jobs, as the place in `order` does;
        `interactive` holds places in `order`; `account` one index into `accounts` a job.
        """
        site = np.lexsort((np.asarray(self.job_ids), -self.native_priority, -self.tier))
        rank = np.empty(len(site), dtype=np.int64)
        rank[site] = np.arange(len(site))
        used, account = np.unique(self.account[:count], return_inverse=True)
        return {
            "order": [int(job) for job in self.job_ids[:count]],
            "site_rank": rank[:count].tolist(),
            "interactive": np.flatnonzero(self.interactive[:count]).tolist(),
            "account": account.tolist(),
            "accounts": [self.accounts[index] for index in used],
            "guard_rails": list(self.guard_rails),
            "failed": list(self.failed),
        }


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Appends to a JSONL file; opened for each cycle, so that logrotate may move it.

    Attributes:
        path: the file; None keeps no audit.
        order_limit: how many jobs of the decided order a cycle line holds.
    """

    path: Path | None
    order_limit: int = 1000

    def record(
        self,
        order: DecidedOrder,
        changes: Sequence[FactorChange],
        event: str,
        limit: LimitReport | None = None,
        requests: Sequence[RequestChange] = (),
        *,
        whole: bool = True,
    ) -> None:
        """Append one cycle line and one line a change.

        Args:
            order: what was decided.
            changes: what is about to be written, or would be in shadow mode.
            event: "write" or "would_write".
            limit: on batch jobs that is about to be set, or would be; a line where it changes.
            requests: what ranked jobs ask for otherwise; a line each, up to `order_limit`.
            whole: False for the places of new jobs alone, which get no cycle line.

        Raises:
            ConfigurationError: the file cannot be written; nothing may be changed unaudited.
        """
        if self.path is None:
            return
        place = {job: index for index, job in enumerate(order.job_ids)}
        shared = {
            "time": order.time,
            "mode": order.mode,
            "policy": order.policy,
            "model": order.model_sha256,
            "reason": order.reason,
        }
        cycle = {
            "event": "cycle",
            **shared,
            "jobs": len(order.job_ids),
            **order.first(self.order_limit),
        }
        lines: list[dict[str, Any]] = [cycle] if whole else []
        for each in requests[: self.order_limit]:
            values = {"job": each.job_id, "old": each.old, "new": each.new}
            lines.append({"event": "request", **shared, "reason": each.part, **values})
        for change in changes:
            rank = place.get(change.job_id)  # None for a job that is exempt from now on
            lines.append(
                {
                    "event": event,
                    **shared,
                    "job": change.job_id,
                    "old": change.old,
                    "new": change.new,
                    "rank": rank,
                    "score": None if rank is None else float(order.scores[rank]),
                }
            )
        if limit is not None and limit.change is not None:
            # the cycle's own reason is the policy's; here it is the limit's
            words = {**shared, "reason": limit.reason, "change": limit.change}
            limits = {
                "old": processors_of(limit.before),
                "new": limit.processors,
                "resources": limit.others,
            }
            lines.append({"event": event.replace("write", "limit"), **words, **limits})
        self._append("".join(json.dumps(line) + "\n" for line in lines))

    def tell_experiment(self, time: float, mode: str, policy: str, reason: str) -> None:
        """Append a line: whose turn it is in an experiment, or why the queue is left to the site.

        Args:
            time: seconds since the epoch.
            mode: of the cycle.
            policy: that is on trial.
            reason: in words.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        if self.path is None:
            return
        line = {"event": "experiment", "time": time, "mode": mode, "policy": policy, "model": ""}
        self._append(json.dumps({**line, "reason": reason}) + "\n")

    def _append(self, text: str) -> None:
        assert self.path is not None
        try:
            with open(self.path, "a+b", buffering=0, opener=_opened) as file:
                append_whole(file, text.encode())
        except OSError as error:
            raise ConfigurationError(
                f"audit log {self.path} cannot be written ({error.strerror}): make its folder "
                "writable for this user."
            ) from None


def _opened(path: str, flags: int) -> int:
    """A new file names jobs and accounts; one that is there stays as open as the site made it.

    A link, such as /dev/stdout, is followed only in a folder of this user's or of root's.
    """
    follows = Path(path).parent.stat().st_uid in {0, os.geteuid()}
    return os.open(path, flags | (0 if follows else os.O_NOFOLLOW), PRIVATE)


def decided_order(
    report: CycleReport, plan: QueuePlan, guard_rails: Sequence[str], failed: Sequence[str]
) -> DecidedOrder:
    """What the audit log says of a decision.

    Args:
        report: of the cycle.
        plan: what was decided.
        guard_rails: names of those that changed the decision.
        failed: failures of the cycles since the last one that is in the log.
    """
    pending, order = plan.snapshot.pending, np.asarray(plan.order, dtype=np.int64)
    tier = pending.each_tier
    order = order[np.argsort(-tier[order], kind="stable")]  # as the jobs are tried
    return DecidedOrder(
        time=plan.snapshot.now,
        mode=report.mode,
        policy=report.policy,
        model_sha256=report.model_sha256,
        reason=report.fallback_reason or "policy",
        job_ids=pending.jobs.job_id[order].tolist(),
        scores=plan.decision.scores[order],
        native_priority=pending.native_priority[order],
        tier=tier[order],
        interactive=pending.jobs.interactive[order],
        account=pending.jobs.account[order],
        accounts=plan.snapshot.accounts,
        guard_rails=guard_rails,
        failed=failed,
    )
