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
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.memory.records import unwritable
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.hook.rails.reserve import processors_of
from slurm_rl_plugin.units import IntArray
from slurm_rl_plugin.whole_file import PRIVATE, append_whole


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
        report: CycleReport,
        plan: QueuePlan,
        changes: Sequence[FactorChange],
        *,
        guard_rails: Sequence[str] = (),
        failed: Sequence[str] = (),
        new_jobs: bool = False,
    ) -> None:
        """Append one cycle line, one line a changed request, one a write, one a changed limit.

        Args:
            report: of the cycle so far.
            plan: what was decided.
            changes: what is about to be written, or would be in shadow mode.
            guard_rails: names of those that changed the decision.
            failed: failures of the cycles since the last one that is in the log.
            new_jobs: the places of new jobs alone, which get no cycle line.

        Raises:
            ConfigurationError: the file cannot be written; nothing may be changed unaudited.
        """
        if self.path is None:
            return
        pending, event = plan.snapshot.pending, "write"
        if report.mode == "shadow":
            event = "would_write"
        order = np.asarray(plan.order, dtype=np.int64)
        order = order[np.argsort(-pending.each_tier[order], kind="stable")]  # as jobs are tried
        job_ids = pending.jobs.job_id[order].tolist()
        shared = {
            "time": plan.snapshot.now,
            "mode": report.mode,
            "policy": report.policy,
            "model": report.model_sha256,
            "reason": report.fallback_reason or "policy",
        }
        lines = list[dict[str, Any]]()
        if not new_jobs:
            rails = {"guard_rails": list(guard_rails), "failed": list(failed)}
            first = _first(plan, order, self.order_limit)
            lines.append({"event": "cycle", **shared, "jobs": len(job_ids), **first, **rails})
        for each in plan.requests.changes[: self.order_limit]:
            values = {"job": each.job_id, "old": each.old, "new": each.new}
            lines.append({"event": "request", **shared, "reason": each.part, **values})
        place = {job: index for index, job in enumerate(job_ids)}
        for change in changes:
            rank = place.get(change.job_id)  # None for a job that is exempt from now on
            values = {"job": change.job_id, "old": change.old, "new": change.new, "rank": rank}
            score = None if rank is None else float(plan.decision.scores[order[rank]])
            lines.append({"event": event, **shared, **values, "score": score})
        limit = plan.limit
        if not new_jobs and limit.change is not None:
            # the cycle's own reason is the policy's; here it is the limit's
            words = {**shared, "reason": limit.reason, "change": limit.change}
            old, new = processors_of(limit.before), limit.processors
            limits = {"old": old, "new": new, "resources": limit.others}
            lines.append({"event": event.replace("write", "limit"), **words, **limits})
        self._append("".join(json.dumps(line) + "\n" for line in lines))

    def tell_experiment(self, time: float, mode: str, policy: str, reason: str) -> None:
        """Append a line: whose turn it is in an experiment, or why the site has the queue."""
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
            raise unwritable("audit log", self.path, error) from None


def _first(plan: QueuePlan, order: IntArray, count: int) -> dict[str, Any]:
    """The first jobs of the order, and what the site itself makes of them.

    `site_rank` counts from 0 among all orderable jobs, as the place in `order` does;
    `interactive` holds places in `order`; `account` one index into `accounts` a job.
    """
    pending = plan.snapshot.pending
    jobs, tier = pending.jobs, pending.each_tier
    site = np.lexsort((jobs.job_id[order], -pending.native_priority[order], -tier[order]))
    rank = np.empty(len(site), dtype=np.int64)
    rank[site] = np.arange(len(site))
    first = order[:count]
    used, account = np.unique(jobs.account[first], return_inverse=True)
    return {
        "order": jobs.job_id[first].tolist(),
        "site_rank": rank[:count].tolist(),
        "interactive": np.flatnonzero(jobs.interactive[first]).tolist(),
        "account": account.tolist(),
        "accounts": [plan.snapshot.accounts[index] for index in used],
    }


def _opened(path: str, flags: int) -> int:
    """A new file names jobs and accounts; one that is there stays as open as the site made it.

    A link, such as /dev/stdout, is followed only in a folder of this user's or of root's.
    """
    follows = Path(path).parent.stat().st_uid in {0, os.geteuid()}
    return os.open(path, flags | (0 if follows else os.O_NOFOLLOW), PRIVATE)
