"""The limit in a cycle: failures are reported and tried again, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.port import SchedulerFacts
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.rails.guard_rails import default_guard_rails
from slurm_rl_plugin.hook.rails.reserve import BatchLimit, ReserveRail, ReserveSettings
from tests.unit.hook.queues import (
    FACTS,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    pending_jobs,
)

INTERVAL = 60.0


@dataclass
class LimitedQueue(QueueInMemory):
    """A queue of which batch jobs can be limited; `fault` is raised instead."""

    file: Path = field(kw_only=True)
    limit: int | None = None
    fault: Exception | None = None
    limits: list[int | None] = field(default_factory=list)

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        processors = None if amounts is None else amounts["cpus"]
        self.limits.append(processors)
        if self.fault is not None:
            raise self.fault
        self.limit = processors
        self.file.unlink(missing_ok=True) if processors is None else self.file.touch()


@dataclass
class Wishing(ScorePolicy):
    """Wants so many processors kept free."""

    reserve: int = 1

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        decision = ScorePolicy.decide(self, snapshot, memory)
        return replace(decision, reserve=self.reserve)


class Hook:
    """A cycle over a queue of 4 processors with an interactive job, and its clock."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.time = 0.0
        self.file = folder / "state.json.limits"
        pending = pending_jobs([3, 2, 1])
        pending.jobs.interactive[2] = True
        self.queue = LimitedQueue(pending, file=self.file)
        self.policy = Wishing([3, 2, 1])
        self.cycle = self.over(folder, **settings)

    def over(self, folder: Path, **settings: object) -> Cycle:
        rail = ReserveRail(ReserveSettings(most=2, change_interval=INTERVAL))
        cycle = cycle_over(self.queue, self.policy, folder, **settings)
        cycle.guard_rails = default_guard_rails(float("inf"), rail)
        cycle._guard = cycle._new_guard()
        cycle.limit = BatchLimit(rail=rail, path=self.file, monotonic=lambda: self.time)
        return cycle


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path)


def test_it_changes_no_oftener_than_it_may(hook: Hook) -> None:
    hook.cycle.run()
    hook.policy.reserve = 2
    hook.time = INTERVAL - 1
    assert hook.cycle.run().limit.processors == 3
    hook.time = INTERVAL
    assert hook.cycle.run().limit.processors == hook.queue.limit == 2
    hook.policy.broken = True  # in fallback at once
    report = hook.cycle.run()
    assert (report.limit.processors, report.limit.reason) == (None, "fallback")
    assert hook.queue.limit is None


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(ChangeRejected("no right"), "refused"), (BatchSystemUnavailable("down"), "unavailable")],
)
def test_a_limit_that_cannot_be_set_stops_no_order_and_is_tried_again(
    hook: Hook, fault: Exception, kind: str
) -> None:
    hook.queue.fault = fault
    report = hook.cycle.run()
    assert (report.succeeded, report.writes > 0) == (True, True)
    assert (report.limit.failure, report.limit.failing, report.limit.processors) == (
        kind,
        True,
        None,
    )
    report = hook.cycle.run()  # not yet
    assert (report.limit.failure, report.limit.failing) == (None, True)
    assert len(hook.queue.limits) == 1
    hook.time, hook.queue.fault = INTERVAL, None
    report = hook.cycle.run()
    assert (report.limit.failing, hook.queue.limit) == (False, 3)


def test_a_limit_that_cannot_be_lifted_is_tried_in_every_cycle(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.fault, hook.policy.broken = BatchSystemUnavailable("down"), True
    for _ in range(2):
        report = hook.cycle.run()
        assert (report.limit.processors, report.limit.failure) == (3, "unavailable")
    hook.queue.fault = None
    assert hook.cycle.run().limit.processors is None
    assert hook.queue.limit is None


def unwritable(hook: Hook, folder: Path) -> None:
    (folder / "audit.jsonl").unlink()
    (folder / "audit.jsonl").mkdir()


def undone(hook: Hook, folder: Path) -> None:
    del folder
    hook.queue.known = replace(FACTS, harm="writing would do nothing")


def not_understood(hook: Hook, folder: Path) -> None:
    del folder

    def snapshot() -> QueueSnapshot:
        raise BatchSystemError("sshare answered a line that is not understood")

    hook.queue.snapshot = snapshot  # type: ignore[method-assign]


def without_facts(hook: Hook, folder: Path) -> None:
    del folder

    def facts() -> SchedulerFacts:
        raise BatchSystemError("scontrol answered a line that is not understood")

    hook.queue.facts = facts  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("harm", "failure"),
    [
        (unwritable, "write"),
        (undone, "refused"),
        (not_understood, "batch_system"),
        (without_facts, "batch_system"),
    ],
)
def test_no_limit_stands_while_cycles_fail_for_reasons_of_their_own(
    hook: Hook, tmp_path: Path, harm: Callable[[Hook, Path], None], failure: str
) -> None:
    hook.cycle.run()
    assert hook.queue.limit == 3
    harm(hook, tmp_path)
    report = hook.cycle.run()
    assert (report.failure, report.limit.change, hook.queue.limit) == (failure, "lifted", None)
    asked = len(hook.queue.limits)
    assert hook.cycle.run().limit.change is None
    assert len(hook.queue.limits) == asked


def test_a_fault_of_ours_while_lifting_ends_no_cycle(hook: Hook) -> None:
    hook.cycle.run()
    undone(hook, Path())
    hook.queue.fault = ZeroDivisionError("of ours")
    report = hook.cycle.run()
    assert (report.failure, report.limit.failure, report.limit.processors) == (
        "refused",
        "refused",
        3,
    )


@pytest.mark.parametrize("known", [{"in_charge": False}, {"controller_here": False}])
def test_the_limit_of_another_hosts_daemon_is_left_alone(
    tmp_path: Path, known: dict[str, bool]
) -> None:
    hook = Hook(tmp_path, beside_controllers=True)
    hook.cycle.run()
    hook.queue.known = replace(FACTS, **known)  # type: ignore[arg-type]
    hook.cycle.run()
    assert hook.queue.limit == 3


def test_without_facts_it_may_be_another_hosts_and_is_left_alone(tmp_path: Path) -> None:
    hook = Hook(tmp_path, beside_controllers=True)
    hook.cycle.run()
    without_facts(hook, tmp_path)
    assert hook.cycle.run().failure == "batch_system"
    assert hook.queue.limit == 3


def test_without_an_answer_the_limit_stays(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.away = True
    assert hook.cycle.run().failure == "batch_system"
    assert hook.queue.limits == [3]


def test_release_takes_factors_and_limit_and_neither_waits_for_the_other(hook: Hook) -> None:
    hook.cycle.run()
    assert hook.cycle.has_outstanding
    hook.queue.fault = BatchSystemUnavailable("slurmdbd is down")
    with pytest.raises(BatchSystemUnavailable, match="slurmdbd"):
        hook.cycle.release()
    assert not hook.queue.pending.factor.any()
    assert hook.cycle.has_outstanding  # the limit
    hook.queue.fault = None
    hook.cycle.release()
    assert hook.queue.limit is None
    assert not hook.cycle.has_outstanding


def test_a_reload_keeps_the_distance_between_changes(hook: Hook, tmp_path: Path) -> None:
    hook.cycle.run()
    fresh = hook.over(tmp_path)
    fresh.limit.go_on_from(hook.cycle.limit)
    hook.policy.reserve = 2
    hook.time = INTERVAL / 2
    assert fresh.run().limit.processors == 3
    hook.time = INTERVAL
    assert fresh.run().limit.processors == 2


def test_a_batch_system_that_cannot_limit_says_so(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    hook.cycle.batch_system = QueueInMemory(hook.queue.pending)
    report = hook.cycle.run()
    assert report.succeeded
    assert report.limit.failure == "refused"
    assert 'mechanism = "off"' in str(report.limit.failure_reason)
