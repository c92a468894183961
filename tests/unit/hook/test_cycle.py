"""One cycle over a queue: what it decides, writes, audits and reports."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange
from slurm_rl_plugin.domain import Decision, PendingJobs, RunningJobs
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.cycle_report import Pace
from slurm_rl_plugin.hook.memory import carried_factors
from slurm_rl_plugin.hook.memory.carried_factors import (
    ACCOUNTING,
    FOUND,
    REMEMBERED_AFTER_END,
    STATE,
    AccountingWatch,
    CarriedFactors,
    Disturbances,
    StateFile,
)
from slurm_rl_plugin.hook.order.queue_plan import (
    ConsideredJobs,
    QueuePlan,
    in_safe_order,
    planned_order,
)
from slurm_rl_plugin.hook.rails.guard_rails import MEMORY_INTERVAL, UntouchedJobs
from slurm_rl_plugin.units import IntArray
from tests.unit.hook.queues import (
    FACTS,
    CountedStop,
    CountingPolicy,
    QueueInMemory,
    ScorePolicy,
    audit_lines,
    cycle_over,
    daemon_of,
    memory_of,
    pending_jobs,
    site,
    snapshot_of,
    state_jobs,
)


def test_jobs_are_remembered_before_they_are_written(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [1, 1, 1])
    seen: list[list[int]] = []
    apply = queue.apply
    queue.apply = lambda changes: (seen.append(state_jobs(tmp_path)), apply(changes))[1]  # type: ignore[method-assign]
    cycle.run()
    assert set(seen[0]) >= {change.job_id for change in queue.written}


def test_jobs_that_ended_are_forgotten_but_no_array_of_which_a_task_runs(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    task = replace(queue.pending.jobs.select(np.array([2])), job_id=np.array([103]))
    queue.running = RunningJobs(jobs=task, start=task.submit, waited_as=np.array([3]))
    queue.pending, cycle.policy = queue.pending.select(np.array([0])), ScorePolicy([1])
    cycle.run()
    assert set(state_jobs(tmp_path)) >= {2, 3}
    queue.now += REMEMBERED_AFTER_END + 1
    cycle.run()
    assert set(state_jobs(tmp_path)) & {2, 3} == {3}
    queue.running = None
    cycle.run()
    queue.now += REMEMBERED_AFTER_END + 1
    cycle.run()
    assert not set(state_jobs(tmp_path)) & {2, 3}


def test_priorities_above_two_billion_are_ordered(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [3_000_000_000 + each for each in range(4)], [4, 3, 2, 1])
    cycle.run()
    assert queue.order() == [1, 2, 3, 4]
    assert all(abs(change.new) < 2**31 for change in queue.written)


def test_an_unwritable_state_file_does_not_undo_a_release(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    queue, cycle = site(folder)
    cycle.run()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    cycle.release()
    assert not any(queue.pending.factor)
    assert not cycle.has_outstanding


def test_every_write_is_audited_and_those_rejected_are_counted(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    queue.refuse = (3,)
    report = cycle.run()
    assert report.suppressed["rejected"] == 1
    assert report.writes == len(queue.written)
    lines = audit_lines(tmp_path)
    writes = [line for line in lines if line["event"] == "write"]
    assert {line["job"] for line in writes} == {3, *(change.job_id for change in queue.written)}
    assert {(line["model"], line["reason"]) for line in lines} == {("abc", "policy")}
    assert all(line["score"] == line["job"] for line in writes)
    assert lines[0]["order"] == [3, 2, 1]


def test_jobs_that_keep_their_order_never_pass_each_other_on_the_way() -> None:
    old, new = [90, 80, 70, 60, 50], [95, 94, 30, 20, 10]
    pairs = enumerate(zip(old, new, strict=True))
    changes = [FactorChange(job_id=job, old=before, new=after) for job, (before, after) in pairs]
    now = list(old)
    for change in in_safe_order(changes):
        now[change.job_id] = change.new
        assert now == sorted(now, reverse=True)
    assert now == new


def test_the_memory_is_written_at_once_then_seldom_and_before_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_file = memory_of(tmp_path)
    queue, cycle = site(tmp_path, policy=CountingPolicy([1, 2, 3]))
    now = [0.0]
    monkeypatch.setattr(cycle._guard, "monotonic", lambda: now[0])
    written = []
    for now[0] in (10.0, 20.0, MEMORY_INTERVAL, MEMORY_INTERVAL + 10.0, MEMORY_INTERVAL + 20.0):
        cycle.run()
        written.append(int(memory_file.read()[0]))  # type: ignore[index]
    assert written == [1, 1, 1, 4, 4]
    cycle.remember()
    assert memory_file.read() == [5]
    cycle_over(queue, cycle.policy, tmp_path).run()  # after a restart
    assert memory_file.read() == [6]
    memory_file.path.unlink()
    cycle.remember()  # nothing new: nothing to write
    assert not memory_file.path.exists()


def considered(pending: PendingJobs, scores: list[float]) -> ConsideredJobs:
    snapshot = snapshot_of(pending)
    decision = Decision(scores=np.array(scores, dtype=np.float64))
    order, changes = planned_order(snapshot, decision, UntouchedJobs())
    plan = QueuePlan(
        snapshot=snapshot, decision=decision, fallback_reason=None, order=order, changes=changes
    )
    return ConsideredJobs.of(plan, UntouchedJobs())


def test_a_job_that_cannot_start_has_no_rank_and_comes_last() -> None:
    pending = pending_jobs([40, 0, 20, 10], held=[False, True, False, False])
    pending.jobs.eligible[0] = np.inf
    jobs = considered(pending, [4, 3, 1, 2])
    assert (jobs.rank.tolist(), jobs.ranked) == ([0, 0, 2, 1], 2)
    assert jobs.untouched == ("not_eligible", "held", "", "")
    assert jobs.in_order == [3, 2, 0, 1]
    assert jobs.wait.tolist() == [0, 0, 970, 960]


def test_a_higher_tier_comes_first_whatever_the_priorities() -> None:
    pending = pending_jobs([40, 30, 20, 10], factor=[0, 0, 0, 100], tier=[1, 5, 1, 5])
    jobs = considered(pending, [4, 1, 3, 2])
    assert jobs.site_rank.tolist() == [3, 1, 4, 2]
    assert jobs.current_rank.tolist() == jobs.rank.tolist() == [3, 2, 4, 1]


def test_a_fallback_to_the_site_ranks_by_its_own_priority() -> None:
    plan = considered(pending_jobs([1, 2, 3], factor=[500, 0, 0]), [3, 2, 1]).plan
    jobs = ConsideredJobs.of(replace(plan, changes=[], releases=True), UntouchedJobs())
    assert jobs.rank.tolist() == jobs.site_rank.tolist() == [3, 2, 1]


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 9), st.booleans()), min_size=1, max_size=30
    )
)
def test_once_all_is_written_the_decided_ranks_hold(jobs: list[tuple[int, int, bool]]) -> None:
    native, scores, admin_set = zip(*jobs, strict=True)
    pending = pending_jobs(native, admin_set=admin_set)
    before = considered(pending, scores)
    for change in before.plan.changes:
        pending.factor[pending.jobs.job_id == change.job_id] = change.new
    after = considered(pending, scores)
    assert after.current_rank.tolist() == before.rank.tolist() == after.rank.tolist()
    assert after.site_rank.tolist() == before.site_rank.tolist()
    ranked = [place for place in before.in_order if not before.untouched[place]]
    assert ranked == before.plan.order


@pytest.mark.parametrize(
    ("backlog", "told"),
    [
        ([0, 5, 0, 7, 0], 0),
        ([3, 3, 3], 1),
        ([3, 4, 5, 6, 7, 8], 1),  # once until it is gone
        ([9, 8, 7, 6, 5, 4], 0),  # a later job takes them
        ([3, 4, 5, 0, 3, 4, 5], 2),
        ([3, 4, 2, 5, 1, 6, 2], 0),  # a busy site: never empty, and taken all the same
        ([3, 4, 5, 2, 4, 5, 6], 1),
    ],
)
def test_accounting_that_takes_no_messages_is_told_once(backlog: list[int], told: int) -> None:
    watch, disturbances = AccountingWatch(), Disturbances()
    for waiting in backlog:
        watch.look(waiting, disturbances)
    assert disturbances.taken() == ({ACCOUNTING: told} if told else {})
    assert disturbances.taken() == {}


def test_a_release_that_is_cut_short_is_no_lost_write(tmp_path: Path) -> None:
    policy = ScorePolicy([1, 2, 3])
    queue, cycle = site(tmp_path, policy=policy, fallback="site")
    cycle.run()
    release = queue.release

    def cut(job_ids: Any = None) -> None:
        release(job_ids)
        raise BatchSystemUnavailable("no answer")

    queue.release, policy.broken = cut, True  # type: ignore[assignment,method-assign]
    assert cycle.run().failure == "batch_system"
    queue.release, policy.broken = release, False  # type: ignore[method-assign]
    assert cycle.run().disturbances == {}


def test_factors_of_an_earlier_run_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue, killed = site(tmp_path)
    killed.run()
    daemon, reports = daemon_of(cycle_over(queue, killed.policy, tmp_path), 2)
    with caplog.at_level(logging.WARNING):
        daemon.run()
    assert [report.disturbances for report in reports] == [{FOUND: 1}, {}]
    assert "disturbance=found_factors" in caplog.text
    daemon, reports = daemon_of(cycle_over(queue, killed.policy, tmp_path))
    daemon.run()
    assert reports[0].disturbances == {}  # the one before left


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_a_cut_state_file_is_told_and_forgets_no_job(tmp_path: Path, kept: float) -> None:
    """A job that starts meanwhile may be requeued: its factor must still be restored."""
    queue, cycle = site(tmp_path)
    cycle.run()
    carrying = set(queue.pending.jobs.job_id[queue.pending.factor != 0].tolist())
    assert carrying
    path = cycle.state.path
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    queue.pending = pending_jobs([])  # all of them run now
    assert cycle.run().disturbances == {STATE: 1}
    assert carrying <= (cycle.state.read() or set())
    assert cycle.run().disturbances == {}


def test_a_release_after_a_lost_state_file_also_frees_jobs_that_run(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    cycle.state.path.write_text("")
    released: list[set[int] | None] = []
    release = queue.release

    def noted(job_ids: Any = None) -> Any:
        released.append(None if job_ids is None else set(job_ids.tolist()))
        return release(job_ids)

    queue.release = noted  # type: ignore[method-assign]
    known = set(queue.pending.jobs.job_id[queue.pending.factor != 0].tolist())
    cycle.release()
    assert released[0] is None
    assert known <= (released[1] or set())
    assert cycle.state.read() == set()


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
