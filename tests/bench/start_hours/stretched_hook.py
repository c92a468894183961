"""`slurm-rl run` whose policy gets the log's own time.

python -m tests.bench.start_hours.stretched_hook run --config FILE
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.cli import run
from slurm_rl_plugin.cli.entry import main
from slurm_rl_plugin.domain import Decision, JobTable, Memory, QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.jobs import EndedJobs, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.services.hook import LoadedPolicy, load_policy_or_fall_back
from slurm_rl_plugin.units import FloatArray

#: Seconds of the log in one second of the run, as in tests.bench.node_hours.
SPEED = 170.0


def stretched(snapshot: QueueSnapshot, origin: float, speed: float = SPEED) -> QueueSnapshot:
    """Stretches all times of a snapshot about `origin`, seconds since the epoch."""

    def at(times: FloatArray) -> FloatArray:
        return origin + (times - origin) * speed

    def jobs(table: JobTable) -> JobTable:
        return replace(
            table,
            submit=at(table.submit),
            eligible=at(table.eligible),
            time_limit=table.time_limit * speed,
        )

    def begun(table: RunningJobs | StartedJobs | EndedJobs) -> Any:
        times = replace(table, jobs=jobs(table.jobs), start=at(table.start))
        return replace(times, end=at(times.end)) if isinstance(times, EndedJobs) else times

    pending = snapshot.pending
    accrued, expected = pending.accrued, pending.expected
    return replace(
        snapshot,
        now=float(at(np.array([snapshot.now]))[0]),
        pending=replace(
            pending,
            jobs=jobs(pending.jobs),
            accrued=None if accrued is None else accrued * speed,
            expected=None if expected is None else at(expected),
        ),
        running=begun(snapshot.running),
        started=begun(snapshot.started),
        ended=begun(snapshot.ended),
    )


def stretched_classes(classifier: JobClassifier, speed: float = SPEED) -> JobClassifier:
    """The rules of job classes with stretched limits."""
    return JobClassifier(
        rules=tuple(
            rule
            if rule.time_limit_at_most is None
            else replace(rule, time_limit_at_most=rule.time_limit_at_most * speed)
            for rule in classifier.rules
        )
    )


def stretched_machine(machine: Machine, speed: float = SPEED) -> Machine:
    """The machine with its settings in the log's own time."""

    def longer(table: Any, *names: str) -> Any:
        return replace(table, **{name: getattr(table, name) * speed for name in names})

    spans = ("interval", "window", "resolution", "main_interval")
    return replace(
        machine,
        partitions=tuple(longer(each, "longest", "default_time") for each in machine.partitions),
        backfill=longer(machine.backfill, *spans),
        weights=longer(machine.weights, "highest_age", "half_life", "period"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchedPolicy:
    """A policy that sees each snapshot stretched about the epoch."""

    policy: Policy

    @property
    def name(self) -> str:
        """Name of the wrapped policy."""
        return self.policy.name

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Decision of the wrapped policy on the stretched snapshot."""
        return self.policy.decide(stretched(snapshot, 0.0), memory)


def _loaded(model: str) -> LoadedPolicy:
    loaded = load_policy_or_fall_back(model)
    return replace(loaded, policy=StretchedPolicy(policy=loaded.policy))


if __name__ == "__main__":
    run.load_policy_or_fall_back = _loaded  # type: ignore[attr-defined] # the name in `run`
    sys.exit(main(sys.argv[1:]))
