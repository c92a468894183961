"""In the full order, what QOS, partition and association add to a priority keeps counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.hook.order.queue_plan import planned_order
from slurm_rl_plugin.hook.rails.guard_rails import StarvationBound, UntouchedJobs
from slurm_rl_plugin.hook.rails.reserve import ReserveRail, ReserveSettings
from tests.unit.hook.queues import (
    FACTS,
    NOW,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    pending_jobs,
    snapshot_of,
)

#: Age, fair share and size, as slurm.conf weighs them.
SPAN = 1000.0


def queue(standing: Sequence[int], **columns: Sequence[int]) -> QueueSnapshot:
    """Jobs 1, 2, ... of one user each; columns are those of the jobs."""
    pending = pending_jobs([100] * len(standing), standing=standing)
    users = {"user": list(range(len(standing)))}
    arrays = {name: np.array(values) for name, values in (users | columns).items()}
    return snapshot_of(replace(pending, jobs=replace(pending.jobs, **arrays)))


def order(
    snapshot: QueueSnapshot,
    scores: Sequence[float] | None = None,
    span: float = SPAN,
    decision: Decision | None = None,
) -> list[int]:
    """Job numbers in the decided order; by default job 1 has the best score."""
    count = len(snapshot.pending)
    given = decision or Decision(scores=np.array(scores or range(count, 0, -1), dtype=np.float64))
    places, _ = planned_order(snapshot, given, UntouchedJobs(), span=span)
    return [place + 1 for place in places]


@pytest.mark.parametrize(
    ("standing", "wanted"),
    [
        # of four jobs the places are worth 1000, 750, 500 and 250 points
        ([0, 0, 0, 0], [1, 2, 3, 4]),
        ([500, 500, 500, 500], [1, 2, 3, 4]),
        ([0, 0, 0, 249], [1, 2, 3, 4]),
        ([0, 0, 0, 250], [1, 2, 3, 4]),  # as much as the third: the score decides
        ([0, 0, 0, 251], [1, 2, 4, 3]),
        ([0, 0, 0, 600], [1, 4, 2, 3]),
        ([0, 0, 0, 5000], [4, 1, 2, 3]),
        ([0, 300, 0, 5000], [4, 2, 1, 3]),
    ],
)
def test_points_move_a_job_by_the_places_that_they_are_worth(
    standing: list[int], wanted: list[int]
) -> None:
    assert order(queue(standing)) == wanted


def test_a_site_that_weighs_nothing_else_is_ordered_by_its_points_then_by_score() -> None:
    assert order(queue([0, 7, 0, 9]), span=0.0) == [4, 2, 1, 3]


def test_they_are_the_same_whatever_the_scores_are() -> None:
    assert order(queue([0, 0, 0, 600]), [1e9, 3.0, 2.0, -1e9]) == [1, 4, 2, 3]


def test_a_system_that_tells_no_points_keeps_the_order_of_the_score() -> None:
    snapshot = queue([0, 0, 900])
    assert order(replace(snapshot, pending=replace(snapshot.pending, standing=None))) == [1, 2, 3]
    nobody = snapshot_of(pending_jobs([], standing=np.empty(0, dtype=np.int64)))
    assert order(nobody) == []


def test_users_own_orders_come_after_the_sites_points() -> None:
    snapshot = queue([0, 0, 0, 5000], user=[0, 1, 0, 1], partition=[0, 0, 0, 1])
    snapshot = replace(
        snapshot, pending=replace(snapshot.pending, nice=np.array([9, 0, 0, 0], dtype=np.int64))
    )
    assert order(snapshot) == [4, 3, 2, 1]


def test_a_starving_job_stays_before_its_account_however_high_the_others_stand() -> None:
    snapshot = queue([0, 5000, 0], account=[0, 0, 1])
    rail = StarvationBound(bound=985.0)  # job 1 has waited 990 s
    decision = rail.check(Decision(scores=np.array([1.0, 2.0, 3.0])), snapshot)
    assert order(snapshot, decision=decision) == [1, 2, 3]


def test_no_batch_job_passes_an_interactive_one_beside_a_reserve() -> None:
    snapshot = queue([0, 5000, 400], interactive=[True, False, True], submit=[NOW] * 3)
    decision = Decision(scores=np.array([3.0, 2.0, 1.0]), reserve=2)
    decision = ReserveRail(ReserveSettings(most=2)).check(decision, snapshot)
    assert order(snapshot, decision=decision) == [3, 1, 2]


@pytest.mark.parametrize(
    ("settings", "first"),
    [({}, [3, 1, 2]), ({"site_points": False}, [1, 2, 3]), ({"influence": 10.0}, [1, 2, 3])],
    ids=str,
)
def test_the_cycle_keeps_them_in_the_full_order_unless_they_are_turned_off(
    tmp_path: Path, settings: dict[str, float], first: list[int]
) -> None:
    pending = pending_jobs([100, 100, 700], standing=[0, 0, 600])
    users = replace(pending.jobs, user=np.arange(3))
    system = QueueInMemory(replace(pending, jobs=users))
    system.known = replace(FACTS, replaced_points=600.0)
    cycle = cycle_over(system, ScorePolicy([3.0, 2.0, 1.0]), tmp_path, **settings)
    report = cycle.run()
    assert report.failure is None
    assert [place + 1 for place in report.order] == first
