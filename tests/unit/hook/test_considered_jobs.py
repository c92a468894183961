"""Ranks of a decided queue, and a look that is what a cycle does next."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision, PendingJobs
from slurm_rl_plugin.hook.memory.records import MemoryFile
from slurm_rl_plugin.hook.order.queue_plan import ConsideredJobs, QueuePlan, planned_order
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from tests.unit.hook.queues import (
    CountingPolicy,
    QueueInMemory,
    cycle_over,
    pending_jobs,
    snapshot_of,
)


def considered(pending: PendingJobs, scores: list[float]) -> ConsideredJobs:
    snapshot = snapshot_of(pending)
    decision = Decision(scores=np.array(scores, dtype=np.float64))
    order, changes = planned_order(snapshot, decision, UntouchedJobs())
    plan = QueuePlan(
        snapshot=snapshot, decision=decision, fallback_reason=None, order=order, changes=changes
    )
    return ConsideredJobs.of(plan, UntouchedJobs())


def test_three_ranks_of_one_queue() -> None:
    pending = pending_jobs([40, 30, 20, 10], factor=[0, 0, 0, 100])
    jobs = considered(pending, [1, 2, 4, 3])
    assert jobs.rank.tolist() == [4, 3, 1, 2]
    assert jobs.site_rank.tolist() == [1, 2, 3, 4]
    assert jobs.current_rank.tolist() == [2, 3, 4, 1]
    assert jobs.ranked == 4


def test_a_job_that_cannot_start_has_no_rank_and_comes_last() -> None:
    pending = pending_jobs([40, 0, 20, 10], held=[False, True, False, False])
    pending.jobs.eligible[0] = np.inf
    jobs = considered(pending, [4, 3, 1, 2])
    assert jobs.rank.tolist() == [0, 0, 2, 1]
    assert jobs.untouched == ("not_eligible", "held", "", "")
    assert jobs.in_order == [3, 2, 0, 1]
    assert jobs.wait.tolist() == [0, 0, 970, 960]


def test_equal_priorities_are_ranked_by_job_number() -> None:
    jobs = considered(pending_jobs([7, 7, 7]), [3, 2, 1])
    assert jobs.site_rank.tolist() == [1, 2, 3]


def test_a_higher_tier_comes_first_whatever_the_priorities() -> None:
    pending = pending_jobs([40, 30, 20, 10], factor=[0, 0, 0, 100], tier=[1, 5, 1, 5])
    jobs = considered(pending, [4, 1, 3, 2])
    assert jobs.site_rank.tolist() == [3, 1, 4, 2]
    assert jobs.current_rank.tolist() == [3, 2, 4, 1]
    assert jobs.rank.tolist() == [3, 2, 4, 1]


def test_a_fallback_to_the_site_ranks_by_its_own_priority() -> None:
    plan = considered(pending_jobs([1, 2, 3], factor=[500, 0, 0]), [3, 2, 1]).plan
    jobs = ConsideredJobs.of(replace(plan, changes=[], releases=True), UntouchedJobs())
    assert jobs.rank.tolist() == jobs.site_rank.tolist() == [3, 2, 1]


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 9), st.booleans()), min_size=1, max_size=30
    )
)
def test_once_all_is_written_the_ranks_of_now_are_the_decided_ones(
    jobs: list[tuple[int, int, bool]],
) -> None:
    pending = pending_jobs(
        [native for native, _, _ in jobs], admin_set=[by_hand for _, _, by_hand in jobs]
    )
    before = considered(pending, [float(score) for _, score, _ in jobs])
    for change in before.plan.changes:
        pending.factor[pending.jobs.job_id == change.job_id] = change.new
    after = considered(pending, [float(score) for _, score, _ in jobs])
    assert after.current_rank.tolist() == before.rank.tolist() == after.rank.tolist()
    assert after.site_rank.tolist() == before.site_rank.tolist()
    ranked = [place for place in before.in_order if not before.untouched[place]]
    assert ranked == before.plan.order


def test_a_look_decides_as_the_next_cycle_and_leaves_nothing(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([5, 4, 3]))
    cycle = cycle_over(queue, CountingPolicy([1.0, 2.0, 3.0]), tmp_path)
    plan = cycle.look()
    assert list(tmp_path.iterdir()) == []
    assert not queue.written
    cycle.run()
    assert [change.job_id for change in plan.changes] == [each.job_id for each in queue.written]
    line = json.loads((tmp_path / "audit.jsonl").read_text().splitlines()[0])
    assert line["order"] == plan.snapshot.pending.jobs.job_id[plan.order].tolist()
    assert cycle.look().memory == [1.0]
    memory = MemoryFile(path=tmp_path / "state.json.memory", model_sha256="abc")
    assert memory.read() == [1.0]
