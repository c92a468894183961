from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.domain import RunningJobs
from slurm_rl_plugin.hook.memory.carried_factors import REMEMBERED_AFTER_END
from slurm_rl_plugin.hook.memory.records import MemoryFile
from slurm_rl_plugin.hook.order.order_changes import in_safe_order
from slurm_rl_plugin.hook.rails.guard_rails import (
    MEMORY_INTERVAL,
    UntouchedJobs,
)
from tests.unit.hook.queues import (
    CountingPolicy,
    QueueInMemory,
    ScorePolicy,
    audit_lines,
    cycle_over,
    pending_jobs,
    site,
    state_jobs,
)


def test_the_queue_follows_the_scores(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [5, 4, 3, 2], [1, 4, 2, 3])
    report = cycle.run()
    assert queue.order() == [2, 4, 3, 1]
    assert report.succeeded
    assert report.mode == "active"
    assert report.writes == len(queue.written)


def test_a_second_cycle_with_the_same_scores_writes_nothing(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [5, 4, 3, 2], [1, 4, 2, 3])
    cycle.run()
    queue.written.clear()
    assert cycle.run().writes == 0
    assert not queue.written


def test_shadow_mode_audits_and_writes_nothing(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [5, 4, 3], shadow=True)
    report = cycle.run()
    assert not queue.written
    assert report.suppressed["shadow"] > 0
    assert {line["event"] for line in audit_lines(tmp_path)} == {"cycle", "would_write"}


def test_held_and_admin_set_jobs_are_never_written(tmp_path: Path) -> None:
    pending = pending_jobs([9, 8, 7, 6], held=[True, False, False, False])
    pending.admin_set[1] = True
    queue = QueueInMemory(pending)
    report = cycle_over(queue, ScorePolicy([1, 2, 3, 4]), tmp_path).run()
    assert {change.job_id for change in queue.written} <= {3, 4}
    assert report.suppressed["held"] == 1
    assert report.suppressed["admin_set"] == 1


@pytest.mark.parametrize("scores", [[1.0, float("nan"), 2.0], [1.0, 2.0]])
def test_invalid_scores_fall_back_to_fifo(tmp_path: Path, scores: list[float]) -> None:
    queue = QueueInMemory(pending_jobs([1, 2, 3]))
    report = cycle_over(queue, ScorePolicy(scores), tmp_path).run()
    assert queue.order() == [1, 2, 3]
    assert report.mode == "fallback"
    assert report.policy == "fifo"
    assert report.fallback_reason
    assert report.succeeded


def test_fallback_to_the_site_takes_our_factors_back(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    policy = ScorePolicy([1, 2, 3])
    cycle = cycle_over(queue, policy, tmp_path, fallback="site")
    cycle.run()
    assert queue.order() == [3, 2, 1]
    policy.broken = True
    report = cycle.run()
    assert queue.pending.factor.tolist() == [0, 0, 0]
    assert report.adjustments["reset"] > 0
    assert cycle.run().adjustments["reset"] == 0


def test_a_policy_that_keeps_failing_rests_and_is_then_asked_again(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([1, 1]))
    policy = ScorePolicy([1, 2], broken=True)
    cycle = cycle_over(queue, policy, tmp_path, breaker_failures=2, breaker_rest=3)
    reasons = {cycle.run().fallback_reason for _ in range(5)}
    assert policy.asked == 2
    assert reasons == {"the model is broken"}
    policy.broken = False
    assert cycle.run().fallback_reason is None
    assert policy.asked == 3


def test_an_empty_queue_does_not_end_a_fallback(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([1, 1]))
    policy = ScorePolicy([1, float("nan")])
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    queue.pending = pending_jobs([])
    policy.scores = []
    assert cycle.run().fallback_reason
    queue.pending = pending_jobs([1])
    policy.scores = [1.0]
    assert cycle.run().fallback_reason is None


def test_an_unreachable_batch_system_is_reported_and_nothing_is_touched(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([1, 1]), away=True)
    report = cycle_over(queue, ScorePolicy([1, 2]), tmp_path).run()
    assert report.failure == "batch_system"
    assert not queue.written
    assert not (tmp_path / "audit.jsonl").exists()


def test_writes_are_bounded_and_the_first_places_come_first(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [1] * 10, range(10), max_writes=3)
    report = cycle.run()
    assert [change.job_id for change in queue.written] == [10, 9, 8]
    assert report.suppressed["write_bound"] > 0
    for _ in range(5):
        cycle.run()
    assert queue.order() == list(range(10, 0, -1))


def test_jobs_are_remembered_before_they_are_written(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([1, 1, 1]))
    seen: list[list[int]] = []
    apply = queue.apply
    queue.apply = lambda changes: (seen.append(state_jobs(tmp_path)), apply(changes))[1]  # type: ignore[method-assign]
    cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path).run()
    assert seen
    assert set(seen[0]) >= {change.job_id for change in queue.written}


def test_release_takes_back_every_factor_also_after_a_restart(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    restarted = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    assert restarted.has_outstanding
    restarted.release()
    assert queue.pending.factor.tolist() == [0, 0, 0]
    assert not restarted.has_outstanding
    assert state_jobs(tmp_path) == []


def test_a_broken_state_file_makes_release_take_back_every_factor(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    (tmp_path / "state.json").write_text('{"version": 1, "jo')
    restarted = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    assert restarted.has_outstanding
    restarted.release()
    assert queue.pending.factor.tolist() == [0, 0, 0]


def test_jobs_that_ended_are_forgotten(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    queue.pending = queue.pending.select(np.array([0]))
    cycle.policy = ScorePolicy([1])
    cycle.run()
    assert set(state_jobs(tmp_path)) >= {2, 3}
    queue.now += REMEMBERED_AFTER_END + 1
    cycle.run()
    assert not set(state_jobs(tmp_path)) & {2, 3}


def test_an_array_is_remembered_while_a_task_of_it_runs(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    task = replace(queue.pending.jobs.select(np.array([2])), job_id=np.array([103]))
    queue.running = RunningJobs(jobs=task, start=task.submit, waited_as=np.array([3]))
    queue.pending, cycle.policy = queue.pending.select(np.array([0])), ScorePolicy([1])
    cycle.run()
    queue.now += REMEMBERED_AFTER_END + 1
    cycle.run()
    assert set(state_jobs(tmp_path)) & {2, 3} == {3}


def test_a_job_that_completes_and_is_requeued_is_not_forgotten(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    before = queue.pending
    assert before.factor[2] != 0
    queue.pending, cycle.policy = before.select(np.array([0, 1])), ScorePolicy([1, 2])
    for _ in range(3):
        queue.now += 30
        cycle.run()
    assert 3 in state_jobs(tmp_path)
    queue.pending = before
    cycle.release()
    assert before.factor.tolist() == [0, 0, 0]


def test_a_factor_seen_on_a_job_is_ours_to_take_back(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([3, 2], factor=[0, 500]))
    cycle = cycle_over(queue, ScorePolicy([1, 2]), tmp_path)
    cycle.run()
    assert 2 in state_jobs(tmp_path)


def test_a_job_exempt_from_now_on_loses_its_factor(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    assert any(queue.pending.factor)
    cycle.untouched = UntouchedJobs(accounts=["physics"])
    cycle.run()
    assert queue.pending.factor.tolist() == [0, 0, 0]
    assert cycle.run().writes == 0


def test_a_priority_set_above_all_jobs_by_hand_stays_above_them(tmp_path: Path) -> None:
    admin_set = [False] * 40 + [True]
    queue = QueueInMemory(pending_jobs([37500] * 40 + [50000], admin_set=admin_set))
    cycle_over(queue, ScorePolicy(range(41)), tmp_path).run()
    assert queue.order() == [41, *range(40, 0, -1)]


def test_priorities_above_two_billion_are_ordered(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, [3_000_000_000 + each for each in range(4)], [4, 3, 2, 1])
    cycle.run()
    assert queue.order() == [1, 2, 3, 4]
    assert all(abs(change.new) < 2**31 for change in queue.written)


def test_a_policy_with_a_bug_falls_back_to_fifo(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([1, 2, 3]))
    policy = ScorePolicy([])
    policy.decide = lambda snapshot, memory=None: 1 / 0  # type: ignore[method-assign]
    report = cycle_over(queue, policy, tmp_path).run()
    assert "ZeroDivisionError" in str(report.fallback_reason)
    assert queue.order() == [1, 2, 3]


def test_an_unwritable_state_file_does_not_undo_a_release(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    cycle = cycle_over(queue, ScorePolicy([1, 2, 3]), folder)
    cycle.run()
    (folder / "state.json").unlink()
    (folder / "audit.jsonl").unlink()
    (folder / "state.json.service").unlink()
    folder.rmdir()
    cycle.release()
    assert not any(queue.pending.factor)
    assert not cycle.has_outstanding


def test_rejected_writes_are_counted(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]), refuse=(3,))
    report = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path).run()
    assert report.suppressed["rejected"] == 1
    assert report.writes == len(queue.written)


def test_every_write_is_audited_with_score_model_and_reason(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    lines = audit_lines(tmp_path)
    writes = [line for line in lines if line["event"] == "write"]
    assert {line["job"] for line in writes} == {change.job_id for change in queue.written}
    assert {line["model"] for line in lines} == {"abc"}
    assert {line["reason"] for line in lines} == {"policy"}
    assert all(line["score"] == line["job"] for line in writes)
    assert lines[0]["order"] == [3, 2, 1]


def test_jobs_that_keep_their_order_never_pass_each_other_on_the_way() -> None:
    old, new = [90, 80, 70, 60, 50], [95, 94, 30, 20, 10]
    changes = [
        FactorChange(job_id=job, old=before, new=after)
        for job, (before, after) in enumerate(zip(old, new, strict=True))
    ]
    now = list(old)
    for change in in_safe_order(changes):
        now[change.job_id] = change.new
        assert now == sorted(now, reverse=True)
    assert now == new


def test_the_policy_remembers_across_cycles_and_across_a_restart(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([5, 4, 3]))
    memory_file = MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc")
    cycle = cycle_over(queue, CountingPolicy([1, 2, 3]), tmp_path)
    for _ in range(2):
        cycle.run()
    cycle.remember()
    assert memory_file.read() == [2]
    cycle_over(queue, CountingPolicy([1, 2, 3]), tmp_path).run()
    assert memory_file.read() == [3]


def test_the_memory_is_written_at_once_then_seldom_and_before_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = QueueInMemory(pending_jobs([5, 4, 3]))
    memory_file = MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc")
    cycle = cycle_over(queue, CountingPolicy([1, 2, 3]), tmp_path)
    now = [0.0]
    monkeypatch.setattr(cycle._guard, "monotonic", lambda: now[0])
    written = []
    for now[0] in (10.0, 20.0, MEMORY_INTERVAL, MEMORY_INTERVAL + 10.0, MEMORY_INTERVAL + 20.0):
        cycle.run()
        written.append(int(memory_file.read()[0]))  # type: ignore[index]
    assert written == [1, 1, 1, 4, 4]
    cycle.remember()
    assert memory_file.read() == [5]
    memory_file.path.unlink()
    cycle.remember()  # nothing new: nothing to write
    assert not memory_file.path.exists()


def test_a_refused_decision_leaves_no_memory(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([5, 4, 3]))
    policy = CountingPolicy([1, 2, 3])
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    policy.scores = [1, 2, float("nan")]
    assert cycle.run().fallback_reason is not None
    policy.scores = [1, 2, 3]
    cycle.run()
    cycle.remember()
    memory_file = MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc")
    assert memory_file.read() == [2]


def test_a_late_decision_is_not_used_but_what_it_learnt_is(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([1, 1]))
    cycle = cycle_over(queue, CountingPolicy([1, 2]), tmp_path, inference_deadline=0.0001)
    assert "deadline" in str(cycle.run().fallback_reason)
    cycle.run()
    cycle.remember()
    assert MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc").read() == [2]


def test_the_audit_ranks_as_the_jobs_are_tried_tier_by_tier(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([40, 30, 20, 10], tier=[1, 5, 1, 5]))
    cycle_over(queue, ScorePolicy([4, 3, 2, 1]), tmp_path).run()
    (line,) = [each for each in audit_lines(tmp_path) if each["event"] == "cycle"]
    assert line["order"] == [2, 4, 1, 3]
    assert line["site_rank"] == [0, 1, 2, 3]
