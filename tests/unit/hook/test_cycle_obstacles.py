"""Cycles that must do nothing, and the limit on batch jobs that is always lifted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import Pace
from slurm_rl_plugin.hook.memory import carried_factors
from slurm_rl_plugin.hook.memory.carried_factors import CarriedFactors, StateFile
from slurm_rl_plugin.hook.rails.reserve import BatchLimit, ReserveRail, ReserveSettings
from slurm_rl_plugin.units import IntArray
from tests.unit.hook.queues import (
    FACTS,
    CountedStop,
    CountingPolicy,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    daemon_of,
    memory_of,
    pending_jobs,
    site,
    state_jobs,
)

AWAY = replace(FACTS, in_charge=False)


def test_on_standby_nothing_is_read_written_or_taken_back(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    cycle.run()
    here.known = AWAY
    here.asked.clear()
    here.pending.factor[0] += 5  # as the daemon of the other controller writes
    factors = here.pending.factor.tolist()
    daemon, reports = daemon_of(cycle)
    assert daemon.run()
    assert [(each.mode, each.succeeded) for each in reports] == [("standby", True)]
    assert set(here.asked) == {"facts"}
    assert here.pending.factor.tolist() == factors


@pytest.mark.parametrize("how", ["stop", "shadow", "disabled", "failed cycle", "no answer"])
def test_a_standby_leaves_the_others_factors(tmp_path: Path, how: str) -> None:
    here, other = site(tmp_path)
    other.run()
    factors = here.pending.factor.tolist()
    here.known = AWAY
    cycle = cycle_over(
        here, other.policy, tmp_path, beside_controllers=True, shadow=how == "shadow"
    )
    daemon, _ = daemon_of(cycle, 2, disable_file=tmp_path / "DISABLE")
    if how == "disabled":
        (tmp_path / "DISABLE").touch()
    if how == "failed cycle":
        here.away = True
        daemon.run_once()
        here.away = False
    here.away = how == "no answer"
    if how == "stop":
        daemon.leave()
    assert daemon.run() == (how != "no answer")  # then it is not known whose they are
    assert here.pending.factor.tolist() == factors


def test_without_a_known_controller_nothing_is_done_and_a_stop_asks_again(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    cycle.run()
    factors = here.pending.factor.tolist()
    here.known = replace(FACTS, in_charge=None)
    daemon, reports = daemon_of(cycle)
    assert not daemon.run()
    assert reports[0].failure == "batch_system"
    assert here.pending.factor.tolist() == factors
    assert state_jobs(tmp_path) == here.pending.jobs.job_id[np.array(factors) != 0].tolist()
    daemon.sleep = lambda seconds: setattr(here, "known", FACTS)
    assert daemon.leave()
    assert here.pending.factor.tolist() == [0, 0, 0]


@dataclass
class HoldingQueue(QueueInMemory):
    """Cannot take factors back from some jobs for now."""

    kept: frozenset[int] = frozenset({2})

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        done = super().release(job_ids)
        return replace(done, rejected=dict.fromkeys(self.kept, "it is held"), later=self.kept)


def test_jobs_that_keep_their_factor_for_now_are_not_forgotten(tmp_path: Path) -> None:
    here = HoldingQueue(pending_jobs([3, 2, 1]))
    daemon, _ = daemon_of(cycle_over(here, ScorePolicy([1, 2, 3]), tmp_path))
    assert not daemon.run()
    assert state_jobs(tmp_path) == [2]
    here.kept = frozenset()
    assert daemon.leave()
    assert state_jobs(tmp_path) == []


@pytest.mark.parametrize("shadow", [True, False])
def test_where_writes_would_be_undone_only_shadow_mode_goes_on(
    tmp_path: Path, shadow: bool
) -> None:
    here, cycle = site(tmp_path, shadow=shadow)
    here.known = replace(FACTS, harm="a plugin overwrites every factor")
    report = cycle.run()
    assert report.failure == (None if shadow else "refused")
    assert shadow or report.failure_reason == "a plugin overwrites every factor"
    assert not here.written


def test_a_cycle_follows_soon_when_something_happened(tmp_path: Path) -> None:
    here, cycle = site(tmp_path)
    stop = CountedStop(4, lambda number: setattr(here, "events", (number // 2,)))
    daemon, reports = daemon_of(cycle, stop, pace=Pace(longest=60.0, soonest=4.0))
    daemon.run()
    # waits until 4 s are over, sees nothing, looks again each second, then a cycle
    assert stop.pauses == [4.0, 1.0, 4.0, 1.0]
    assert len(reports) == 2


def test_a_failed_look_waits_for_the_next_cycle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, cycle = site(tmp_path)
    daemon, reports = daemon_of(cycle, 3, pace=Pace(longest=60.0, soonest=1.0))
    answers = [here.load()]

    def load() -> object:
        asked.append("load")
        if answers:
            return answers.pop()
        raise BatchSystemUnavailable("no answer")

    asked: list[str] = []
    monkeypatch.setattr(here, "load", load)
    daemon.run()
    assert len(reports) == 1
    assert len(asked) == 2  # the cycle's own, and one between cycles


def test_bounded_influence_is_worth_hours_of_age(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, [5000, 100, 100], [0, 1, 2], influence=24.0)
    assert cycle.run().writes == 3
    assert here.pending.factor.tolist() == [800, 1600, 2400]  # 100 points an hour
    assert here.order() == [1, 3, 2]


def test_calls_that_waited_for_a_takeover_are_no_reason_to_pause(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    here.known = AWAY
    clock, facts = [0.0], here.facts

    def slow_facts() -> object:
        clock[0] += 70.0 if here.known is FACTS else 0.0
        return facts()

    def between(number: int) -> None:
        clock[0] += stop.pauses[-1]
        if clock[0] == 10.0:
            here.known = FACTS
            cycle.calls.append(("scontrol", 7.0))

    here.facts = slow_facts  # type: ignore[assignment,method-assign]
    stop = CountedStop(3, between)
    pace = Pace(longest=10.0, soonest=1.0)
    daemon, reports = daemon_of(cycle, stop, pace=pace, monotonic=lambda: clock[0])
    daemon.run()
    assert [each.mode for each in reports] == ["standby", "active"]
    assert stop.pauses[-1] == 1.0  # for ten times 7 s, or for 70 s, it would be a slice
    assert reports[1].calls == (("scontrol", 7.0),)  # the metrics have them


def test_what_the_other_daemon_wrote_is_known_after_a_takeover(tmp_path: Path) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    here.known = AWAY
    daemon, reports = daemon_of(cycle)
    assert not cycle.has_outstanding
    daemon.run_once()
    cycle_over(here, cycle.policy, tmp_path).run()  # the other one, with the same state file
    assert cycle.has_outstanding
    here.known = FACTS
    assert daemon.run()
    assert [(each.mode, each.disturbances) for each in reports] == [("standby", {}), ("active", {})]
    assert here.pending.factor.tolist() == [0, 0, 0]
    assert state_jobs(tmp_path) == []


def test_a_standby_leaves_the_others_memory_and_reads_it_at_a_takeover(tmp_path: Path) -> None:
    memory_file, service = memory_of(tmp_path), tmp_path / "state.json.service"
    here, cycle = site(tmp_path, policy=CountingPolicy([1, 2, 3]), beside_controllers=True)
    for here.known in (FACTS, FACTS, AWAY):
        cycle.run()
    memory_file.write(np.array([40.0]))  # the other's
    service.write_text('{"version": 1, "days": {}, "site_waits": {"serial": 99.0}}')
    cycle.remember()
    assert memory_file.read() == [40]
    here.known = FACTS
    cycle.run()
    assert memory_file.read() == [41]
    cycle.remember()
    assert json.loads(service.read_text())["site_waits"] == {"serial": 99.0}


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        # two such daemons would each take themselves for the one that acts
        ({"controller_here": False}, "slurm.conf names no controller"),
        ({"alone": "it is for others alone"}, "it is for others alone."),
    ],
)
def test_where_no_daemon_may_be_beside_another_nothing_is_written(
    tmp_path: Path, known: dict[str, object], reason: str
) -> None:
    here, cycle = site(tmp_path, beside_controllers=True)
    here.known = replace(FACTS, **known)  # type: ignore[arg-type]
    report = cycle.run()
    assert (report.failure, reason in str(report.failure_reason)) == ("refused", True)
    assert not here.pending.factor.any()
    assert cycle_over(here, cycle.policy, tmp_path).run().succeeded


def test_a_release_that_is_cut_short_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_factors, "RELEASED_AT_ONCE", 2)
    here, _ = site(tmp_path)
    state = StateFile(tmp_path / "state.json")
    state.write({1, 2, 3})
    asked: list[list[int]] = []

    def release(job_ids: IntArray) -> ApplyReport:
        asked.append(job_ids.tolist())
        if len(asked) == 2:
            raise BatchSystemUnavailable("away")
        return ApplyReport(accepted=frozenset(job_ids.tolist()))

    monkeypatch.setattr(here, "release", release)
    with pytest.raises(BatchSystemUnavailable):
        CarriedFactors(state).restore(here)
    assert state.read() == {3}
    assert CarriedFactors(state).restore(here).applied == 1
    assert asked == [[1, 2], [3], [3]]
    assert state.read() == set()


INTERVAL = 60.0


@dataclass
class LimitedQueue(QueueInMemory):
    """A queue whose batch jobs can be limited; raises `fault` instead."""

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
    """Wants a number of processors kept free."""

    reserve: int = 1

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        decision = ScorePolicy.decide(self, snapshot, memory)
        return replace(decision, reserve=self.reserve)


class Hook:
    """A cycle over a queue of 4 processors with an interactive job, and its clock."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.time, self.file = 0.0, folder / "state.json.limits"
        pending = pending_jobs([3, 2, 1], interactive=[False, False, True])
        self.queue, self.policy = LimitedQueue(pending, file=self.file), Wishing([3, 2, 1])
        self.cycle = self.over(folder, **settings)

    def over(self, folder: Path, **settings: object) -> Cycle:
        rail = ReserveRail(ReserveSettings(most=2, change_interval=INTERVAL))
        cycle = cycle_over(self.queue, self.policy, folder, rail, **settings)
        cycle.limit = BatchLimit(rail=rail, path=self.file, monotonic=lambda: self.time)
        return cycle


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(ChangeRejected("no right"), "refused"), (BatchSystemUnavailable("down"), "unavailable")],
)
def test_a_limit_that_cannot_be_set_is_tried_again(hook: Hook, fault: Exception, kind: str) -> None:
    hook.queue.fault = fault
    report = hook.cycle.run()
    limit = report.limit
    assert (report.succeeded, report.writes > 0) == (True, True)
    assert (limit.failure, limit.failing, limit.processors) == (kind, True, None)
    limit = hook.cycle.run().limit  # not yet
    assert (limit.failure, limit.failing, len(hook.queue.limits)) == (None, True, 1)
    hook.time, hook.queue.fault = INTERVAL, None
    assert (hook.cycle.run().limit.failing, hook.queue.limit) == (False, 3)


def test_a_limit_that_cannot_be_lifted_is_tried_in_every_cycle(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.fault, hook.policy.broken = BatchSystemUnavailable("down"), True
    for _ in range(2):
        report = hook.cycle.run()
        assert (report.limit.processors, report.limit.failure) == (3, "unavailable")
    hook.queue.fault = None
    assert hook.cycle.run().limit.processors is None
    assert hook.queue.limit is None


def not_understood() -> NoReturn:
    raise BatchSystemError("a command answered a line that is not understood")


def unwritable(hook: Hook) -> None:
    path = hook.file.with_name("audit.jsonl")
    path.unlink()
    path.mkdir()


def undone(hook: Hook) -> None:
    hook.queue.known = replace(FACTS, harm="writing would do nothing")


@pytest.mark.parametrize(
    ("harm", "failure"),
    [
        (unwritable, "write"),
        (undone, "refused"),
        (lambda hook: setattr(hook.queue, "snapshot", not_understood), "batch_system"),
        (lambda hook: setattr(hook.queue, "facts", not_understood), "batch_system"),
    ],
)
def test_no_limit_stands_while_cycles_fail_for_reasons_of_their_own(
    hook: Hook, harm: Callable[[Hook], None], failure: str
) -> None:
    hook.cycle.run()
    assert hook.queue.limit == 3
    harm(hook)
    report = hook.cycle.run()
    assert (report.failure, report.limit.change, hook.queue.limit) == (failure, "lifted", None)
    asked = len(hook.queue.limits)
    assert hook.cycle.run().limit.change is None
    assert len(hook.queue.limits) == asked


def test_a_fault_of_ours_while_lifting_ends_no_cycle(hook: Hook) -> None:
    hook.cycle.run()
    undone(hook)
    hook.queue.fault = ZeroDivisionError("a fault")
    report = hook.cycle.run()
    limit = report.limit
    assert (report.failure, limit.failure, limit.processors) == ("refused", "refused", 3)


@pytest.mark.parametrize("known", [{"in_charge": False}, {"controller_here": False}, None])
def test_another_hosts_limit_is_left_alone(tmp_path: Path, known: dict[str, bool] | None) -> None:
    """Without facts it may be another host's."""
    hook = Hook(tmp_path, beside_controllers=True)
    hook.cycle.run()
    if known is None:
        hook.queue.facts = not_understood  # type: ignore[method-assign]
    else:
        hook.queue.known = replace(FACTS, **known)  # type: ignore[arg-type]
    hook.cycle.run()
    assert hook.queue.limit == 3


def test_without_an_answer_the_limit_stays(hook: Hook) -> None:
    hook.cycle.run()
    hook.queue.away = True
    assert hook.cycle.run().failure == "batch_system"
    assert hook.queue.limits == [3]


def test_a_reload_keeps_the_distance_between_changes(hook: Hook, tmp_path: Path) -> None:
    hook.cycle.run()
    fresh = hook.over(tmp_path)
    fresh.limit.go_on_from(hook.cycle.limit)
    hook.policy.reserve = 2
    hook.time = INTERVAL / 2
    assert fresh.run().limit.processors == 3
    hook.time = INTERVAL
    assert fresh.run().limit.processors == 2
