"""A policy with drawn scores, and its cycles over a private cluster."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.batch_systems.port import AdapterParts, BatchSystem
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleSettings
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.policies.port import Policy
from tests.fakes.fake_cluster import OF_A_MINUTE
from tests.real.private_cluster import PrivateSlurm


@dataclass(slots=True)
class DrawnOrder:
    """A score for each job, drawn when it is first met; `sign` -1 turns the order round."""

    seed: int
    sign: int = 1
    name: str = "drawn"
    scores: dict[int, float] = field(default_factory=dict)
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def score(self, job_id: int) -> float:
        """Score of a job."""
        if job_id not in self.scores:
            self.scores[job_id] = self.rng.random()
        return self.sign * self.scores[job_id]

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        del memory
        ids = snapshot.pending.jobs.job_id.tolist()
        return Decision(scores=np.array([self.score(job_id) for job_id in ids], dtype=np.float64))


def wall_clock() -> float:
    return datetime.now().timestamp()


def settings_of(cluster: PrivateSlurm, **settings: Any) -> AdapterParts:
    """What an adapter has to know of it; jobs of at most a minute are interactive."""
    given = {"classifier": OF_A_MINUTE, "environment": cluster.env}
    given["history_days"] = 30.0
    return AdapterParts(shares=None, clock=wall_clock, **{**given, **settings})


def adapter_of(cluster: PrivateSlurm, **settings: Any) -> SlurmCommands:
    """By commands, without a past; `settings` are those of AdapterParts."""
    return SlurmCommands(settings_of(cluster, history_days=0.0, **settings))


def cycle_of(system: BatchSystem, policy: Policy, folder: Path, **settings: object) -> Cycle:
    """An active cycle; `settings` are those of CycleSettings."""
    return Cycle(
        batch_system=system,
        policy=policy,
        model_sha256="",
        settings=CycleSettings(**{"shadow": False, **settings}),  # type: ignore[arg-type]
        guard_rails=default_guard_rails(float("inf")),
        untouched=UntouchedJobs(),
        state=StateFile(folder / "state.json"),
        audit=AuditLog(folder / "audit.jsonl"),
        monotonic=time.monotonic,
    )
