"""The audit log: one JSON line a cycle with the decided order, and one a write with its reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import FloatArray


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
    """

    time: float
    mode: str
    policy: str
    model_sha256: str
    reason: str
    job_ids: Sequence[int]
    scores: FloatArray


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Appends to a JSONL file; opened for each cycle, so that logrotate may move it.

    Attributes:
        path: the file; None keeps no audit.
        order_limit: how many jobs of the decided order a cycle line holds.
    """

    path: Path | None
    order_limit: int = 1000

    def record(self, order: DecidedOrder, changes: Sequence[FactorChange], event: str) -> None:
        """Append one cycle line and one line a change.

        Args:
            order: what was decided.
            changes: what is about to be written, or would be in shadow mode.
            event: "write" or "would_write".

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
            "order": [int(job) for job in order.job_ids[: self.order_limit]],
        }
        lines: list[dict[str, Any]] = [cycle]
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
        self._append("".join(json.dumps(line) + "\n" for line in lines))

    def _append(self, text: str) -> None:
        assert self.path is not None
        try:
            with self.path.open("a") as file:
                file.write(text)
        except OSError as error:
            raise ConfigurationError(
                f"audit log {self.path} cannot be written ({error.strerror}): make its folder "
                "writable for this user."
            ) from None
