"""An account that an order robs gets its share back: cycle after cycle on a small machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.site import dynamic_job_features
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.hook.memory.state_file import StateFile
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray
from tests.unit.hook.queues import QueueInMemory, job_table, pending_jobs

BEGIN = 20_000 * DAY
PROCESSORS, LENGTH = 4, 8 * HOUR


class SharePolicy:
    """The share and the wait in the points of the default model, and nothing else."""

    name = "shares"

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        account = snapshot.pending.jobs.account
        wait, _, _, shares = dynamic_job_features(
            snapshot.accrued_wait, np.inf, snapshot.shares[account], snapshot.usage[account], 0, 12
        )
        return Decision(scores=wait - shares)


@dataclass
class LyingSite(QueueInMemory):
    """Four processors; four arrays of arts and four of physics always wait.

    The usage that it tells fades by half in a week, and counts what arts uses four times. By it
    4 a / .6 = (1 - a) / .4 where arts gets a = .27 of the service, with a share of .6.
    """

    submit: FloatArray = field(default_factory=lambda: np.full(8, BEGIN))
    started: list[tuple[float, float, int]] = field(default_factory=list)
    used: FloatArray = field(default_factory=lambda: np.array([0.6, 0.4]))

    def snapshot(self) -> QueueSnapshot:
        submit, start = (np.array([each[place] for each in self.started]) for place in (0, 1))
        account = np.array([each[2] for each in self.started], dtype=np.int64)
        table = replace(job_table(len(submit)), submit=submit, eligible=submit, account=account)
        self.running = RunningJobs(jobs=table, start=start)
        jobs = replace(
            self.pending.jobs,
            submit=self.submit,
            eligible=self.submit,
            account=np.repeat([0, 1], 4),
            time_limit=np.full(8, LENGTH),
        )
        return replace(
            super().snapshot(),
            pending=replace(self.pending, jobs=jobs, tasks=np.full(8, 50)),
            accounts=("arts", "physics"),
            shares=np.array([0.6, 0.4]),
            usage=self.used * [4, 1] / (self.used @ [4, 1]),
        )

    def go_on(self, order: Sequence[int]) -> list[int]:
        """Start the first jobs of an order, wait ten minutes; processors of each account."""
        for place in order[: PROCESSORS - len(self.started)]:
            self.started.append((float(self.submit[place]), self.now, int(place >= 4)))
            self.submit[place] = self.now  # another one comes in its place
        account = [each[2] for each in self.started]
        self.now += 10 * MINUTE
        self.started = [each for each in self.started if each[1] + LENGTH > self.now]
        got = [account.count(0), account.count(1)]
        self.used = self.used * 0.5 ** (10 * MINUTE / (7 * DAY)) + got
        return got


def service_of(folder: Path, goals: Goals, days: int) -> FloatArray:
    """Part of each day's service that arts got, shape [days]."""
    site, ticks = LyingSite(pending_jobs([0] * 8), now=BEGIN), count()
    cycle = Cycle(
        batch_system=site,
        policy=SharePolicy(),
        model_sha256="",
        settings=CycleSettings(goals=goals),
        guard_rails=(),
        untouched=UntouchedJobs(),
        state=StateFile(folder / "state.json"),
        audit=AuditLog(None),
        monotonic=lambda: next(ticks) * 1e-6,
    )
    found = np.zeros((days, 2))
    for day in range(days):
        for _ in range(144):
            found[day] += site.go_on(cycle.run().order)
    return found[:, 0] / found.sum(axis=1)


def test_it_gets_nine_tenths_of_its_share_back(tmp_path: Path) -> None:
    found = service_of(tmp_path, Goals(shares=12.0), 42)
    assert found[:7].mean() < 0.3
    assert found[28:].mean() == pytest.approx(0.9 * 0.6, abs=0.06)


def test_it_stays_robbed_where_shares_do_not_count(tmp_path: Path) -> None:
    assert service_of(tmp_path, Goals(shares=0.0), 21)[7:].mean() == pytest.approx(0.27, abs=0.02)
