"""A queue of honest jobs, and a user whose dummy runs try to lift a large job past them.

The shipped model scores it as in production: it reads runs in snapshots and keeps them in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, load_q_network
from tests.unit.features.run_tables import Run, snapshot_of

MODEL = Path(__file__).parents[2] / "policy_models" / "default.onnx"
HOUR, DAY = 3600.0, 86_400.0
NOW = 100 * DAY
ATTACKER = 0
#: Of the honest users the last two have never run a job.
USERS = ("mallory", *(f"honest{number}" for number in range(8)))
EXPERIENCED = 6
LIMITS = np.array([600.0, HOUR, 4 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY])


class Dummies(NamedTuple):
    """Runs of one kind, one after the other; `time_limit` and `processors` make the template."""

    count: int
    run_time: float
    processors: int
    time_limit: float = HOUR

    @property
    def spent(self) -> float:
        """Core-seconds."""
        return self.count * self.run_time * self.processors


def large_job(processors: int, time_limit: float) -> Run:
    """The job that is to be lifted; it has waited for ten minutes."""
    return Run(1, ATTACKER, processors, time_limit, NOW - 600.0)


def asked_by(job: Run) -> float:
    """Core-seconds."""
    return job.processors * job.time_limit


def runs_of(dummies: Sequence[Dummies]) -> list[Run]:
    """All have ended by an hour ago, in the order given, a tenth of a second apart."""
    kinds = [kind for kind in dummies for _ in range(kind.count)]
    ends = NOW - HOUR - 0.1 * np.arange(len(kinds), 0, -1.0)
    return [
        Run(100_000 + place, ATTACKER, kind.processors, kind.time_limit, end - kind.run_time, end)
        for place, (kind, end) in enumerate(zip(kinds, ends.tolist(), strict=True))
    ]


@cache
def shipped_model() -> QNetworkPolicy:
    """The model of this release, loaded once."""
    return load_q_network(MODEL)


@dataclass(frozen=True, slots=True)
class PoisonedQueue:
    """Honest jobs, and what the model remembers of honest runs up to ten days ago."""

    honest: list[Run]
    memory: Memory

    @classmethod
    def drawn(cls, seed: int, jobs: int = 200, *, newcomers: bool = False) -> Self:
        """Jobs of many sizes; newcomers are users of whom no run is known."""
        rng = np.random.default_rng(seed)

        def run(job_id: int, user: int, start: float) -> Run:
            return Run(job_id, user, int(2 ** rng.integers(0, 7)), float(rng.choice(LIMITS)), start)

        users = len(USERS) - 1 if newcomers else EXPERIENCED
        honest = [
            run(100 + n, 1 + n % users, NOW - float(10 ** rng.uniform(1, 5.2))) for n in range(jobs)
        ]
        past = [
            run(10_000 + n, 1 + n % EXPERIENCED, NOW - float(rng.uniform(15, 25)) * DAY)
            for n in range(300)
        ]
        ended = [replace(r, end=r.start + float(10 ** rng.uniform(0.5, 4.3))) for r in past]
        before = snapshot_of(NOW - 10 * DAY, ended=ended, users=USERS)
        memory = shipped_model().decide(before).memory
        assert memory is not None
        return cls(honest, memory)

    def snapshot(
        self,
        job: Run,
        *,
        ended: Sequence[Run] = (),
        others: Sequence[Run] = (),
        running: Sequence[Run] = (),
        now: float = NOW,
    ) -> QueueSnapshot:
        """Pending: the attacker's job first, then the honest ones, then others."""
        pending = [job, *self.honest, *others]
        return snapshot_of(
            now, pending=pending, ended=list(ended), running=list(running), users=USERS
        )

    def scores(self, job: Run, dummies: Sequence[Dummies] = ()) -> tuple[float, np.ndarray]:
        """Of the attacker's job, and of the honest ones, after these dummy runs."""
        snapshot = self.snapshot(job, ended=runs_of(dummies))
        scores = shipped_model().decide(snapshot, self.memory).scores
        return float(scores[0]), scores[1:]

    def ahead(self, job: Run, dummies: Sequence[Dummies] = ()) -> int:
        """Honest jobs before the attacker's."""
        own, honest = self.scores(job, dummies)
        return int((honest > own).sum())
