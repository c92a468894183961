"""A user's nice orders the places of his own jobs, and nobody else's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.hook.order.queue_plan import orderable_by_score, planned_order
from slurm_rl_plugin.hook.order.said_order import in_own_order, own_jobs
from slurm_rl_plugin.hook.rails.guard_rails import StarvationBound, UntouchedJobs
from slurm_rl_plugin.hook.rails.reserve import ReserveRail, ReserveSettings
from tests.unit.hook.queues import NOW, pending_jobs, snapshot_of

ALL = UntouchedJobs()


def queue(
    nice: Sequence[int],
    user: Sequence[int] | None = None,
    native: Sequence[int] | None = None,
    **columns: Sequence[int],
) -> QueueSnapshot:
    """Jobs 1, 2, ... with these nice values; columns are those of the jobs."""
    pending = pending_jobs(native or [100] * len(nice), nice=nice)
    users = {"user": user or [0] * len(nice)}
    arrays = {name: np.array(values) for name, values in (users | columns).items()}
    return snapshot_of(replace(pending, jobs=replace(pending.jobs, **arrays)))


def decided(scores: Sequence[float]) -> Decision:
    return Decision(scores=np.array(scores, dtype=np.float64))


def started(snapshot: QueueSnapshot, scores: Sequence[float], influence: float = math.inf) -> str:
    """Job numbers in the order of priority once all is written."""
    pending = snapshot.pending
    _, changes = planned_order(snapshot, decided(scores), ALL, influence)
    total = dict(zip(pending.jobs.job_id.tolist(), pending.native_priority.tolist(), strict=True))
    for change in changes:
        total[change.job_id] += change.new
    return " ".join(str(job) for job in sorted(total, key=lambda job: -total[job]))


@pytest.mark.parametrize("influence", [math.inf, 3000.0])
@pytest.mark.parametrize(
    ("nice", "order"),
    [
        ((0, 0, 0, 0), "1 2 3 4"),
        ((7, 7, 7, 7), "1 2 3 4"),
        ((1, 0, 0, 0), "2 3 4 1"),
        ((0, 0, 0, -1), "4 1 2 3"),
        ((2, 1, 0, 1), "3 2 4 1"),
    ],
)
def test_lower_nice_goes_first_and_equal_nice_goes_by_the_score(
    nice: tuple[int, ...], order: str, influence: float
) -> None:
    assert started(queue(nice), [4, 3, 2, 1], influence) == order


@pytest.mark.parametrize("influence", [math.inf, 3000.0])
def test_nobody_elses_place_changes(influence: float) -> None:
    snapshot = queue([9, 0, 0, 0], user=[0, 1, 0, 1])
    assert started(snapshot, [4, 3, 2, 1], influence) == "3 2 1 4"


@pytest.mark.parametrize("column", ["account", "partition", "user"])
def test_only_jobs_that_scontrol_top_compares_exchange_places(column: str) -> None:
    snapshot = queue([9, 0, 0], **{column: [0, 1, 0]})
    assert started(snapshot, [3, 2, 1]) == "3 2 1"
    apart = queue([9, 0, 0], **{column: [0, 1, 2]})
    assert started(apart, [3, 2, 1]) == "1 2 3"


def test_jobs_of_another_qos_keep_their_places() -> None:
    snapshot = queue([9, 0, 0])
    snapshot = replace(snapshot, pending=replace(snapshot.pending, qos=np.array([0, 1, 0])))
    assert started(snapshot, [3, 2, 1]) == "3 2 1"


def test_jobs_that_start_in_another_tier_keep_their_places() -> None:
    snapshot = queue([9, 0, 0])
    snapshot = replace(snapshot, pending=replace(snapshot.pending, tier=np.array([1, 2, 1])))
    assert started(snapshot, [3, 2, 1]) == "3 2 1"


def test_jobs_of_unknown_users_are_not_one_users() -> None:
    assert started(queue([9, 0, 0], user=[-1, -1, -1]), [3, 2, 1]) == "1 2 3"


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-3, 3), st.integers(0, 5)),
        max_size=30,
    )
)
def test_places_of_each_user_stay_the_same(jobs: list[tuple[int, int, int, int]]) -> None:
    user, account, nice, score = (
        [each[column] for each in jobs] if jobs else [] for column in range(4)
    )
    snapshot = queue(nice, user=user, account=account)
    order = orderable_by_score(snapshot, np.array(score, dtype=np.float64), ALL)
    own = in_own_order(snapshot.pending, order, np.array(nice, dtype=np.int64))
    groups = own_jobs(snapshot.pending)
    assert groups[own].tolist() == groups[order].tolist()
    assert sorted(own.tolist()) == sorted(order.tolist())
    for group in set(groups.tolist()):
        mine = [place for place in own.tolist() if groups[place] == group]
        score_order = [place for place in order.tolist() if groups[place] == group]
        assert mine == sorted(score_order, key=lambda place: nice[place])


def test_the_order_stays_in_further_cycles() -> None:
    snapshot = queue([5, 0, 0], native=[95, 100, 100])
    decision = decided([3, 2, 1])
    _, changes = planned_order(snapshot, decision, ALL)
    factor = np.zeros(3, dtype=np.int64)
    for change in changes:
        factor[change.job_id - 1] = change.new
    again = replace(snapshot, pending=replace(snapshot.pending, factor=factor))
    order, changes = planned_order(again, decision, ALL)
    assert (order, list(changes)) == ([1, 2, 0], [])


def test_no_job_takes_the_place_of_a_starving_one() -> None:
    # job 1 has waited 990 s, the others less; its user asked for it to be last
    snapshot = queue([9, 0, 0])
    rail = StarvationBound(bound=985.0)
    decision = rail.check(Decision(scores=np.array([1.0, 2.0, 3.0])), snapshot)
    assert decision.kept is not None
    assert decision.kept.tolist() == [True, False, False]
    order, _ = planned_order(snapshot, decision, ALL)
    assert order == [0, 2, 1]


def test_batch_jobs_take_no_place_of_interactive_ones_beside_a_reserve() -> None:
    """A batch job before them, below the limit, would block them."""
    snapshot = queue([9, 0, 5], interactive=[True, False, True], submit=[NOW] * 3)
    rail = ReserveRail(ReserveSettings(most=2))
    decision = rail.check(Decision(scores=np.array([1.0, 3.0, 2.0]), reserve=2), snapshot)
    assert decision.reserve == 2
    order, _ = planned_order(snapshot, decision, ALL)
    assert order == [2, 0, 1]


@pytest.mark.parametrize(
    ("limit", "nice", "order"),
    [
        ((60, 900, 900), (0, 0, 0), "1 2 3"),
        ((60, 900, 900), (9, 0, 0), "2 3 1"),  # the short job steps back, and lends no place
        ((900, 60, 900), (9, 0, 0), "2 3 1"),
        ((900, 900, 60), (0, 0, -1), "3 1 2"),
        ((60, 60, 900), (0, 0, -1), "3 1 2"),
        ((60, 900, 60), (5, 9, 0), "3 1 2"),
    ],
)
def test_each_users_nice_is_kept_whatever_his_jobs_ask_for(
    limit: tuple[int, ...], nice: tuple[int, ...], order: str
) -> None:
    assert started(queue(nice, time_limit=limit), [3, 2, 1]) == order


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(-2, 2), st.integers(1, 3), st.sampled_from([60, 600])
        ),
        min_size=1,
        max_size=25,
    )
)
def test_nobody_gets_more_of_anothers_work_before_his_jobs(
    jobs: list[tuple[int, int, int, int]],
) -> None:
    user, nice, processors, limit = ([each[column] for each in jobs] for column in range(4))
    nice = [each if mine else 0 for mine, each in zip(user, nice, strict=True)]
    snapshot = queue(nice, user=user, processors=processors, time_limit=limit)
    order = np.arange(len(jobs))
    own = in_own_order(snapshot.pending, order, np.array(nice, dtype=np.int64)).tolist()
    ordered = [job for job in own if user[job]]
    assert ordered == sorted(ordered, key=lambda job: (nice[job], job))
    for place, job in enumerate(own):
        for width, time in product((1, 2, 3), (60, 600)):
            asks = [
                bool(mine) and wide >= width and long >= time
                for mine, wide, long in zip(user, processors, limit, strict=True)
            ]
            assert user[job] or sum(asks[each] for each in own[:place]) <= sum(asks[:job])


def test_a_job_without_gpus_lends_its_place_to_none_with_gpus() -> None:
    snapshot = queue([9, 0, 0], user=[0, 1, 0])
    total = np.array([[1.0, 50.0, 0.0], [1.0, 50.0, 4.0], [1.0, 50.0, 4.0]])
    requests = ResourceRequests.of_totals(total, nodes=np.ones(3, dtype=np.int64))
    jobs = replace(snapshot.pending.jobs, requests=requests)
    snapshot = replace(snapshot, pending=replace(snapshot.pending, jobs=jobs))
    here = np.array([16.0, 4000.0, 8.0])
    machine = ResourcesNow(names=BASIC_RESOURCES, capacity=here, free=here)
    assert started(snapshot, [3, 2, 1]) == "3 2 1"
    assert started(replace(snapshot, resources=machine), [3, 2, 1]) == "2 3 1"


def starts(
    nice: Sequence[int], user: Sequence[int], limit: Sequence[int] | None = None
) -> list[int]:
    """Jobs 1, 2, ... in the order of their starts; the first job by our order starts each time."""
    waiting, order = list(range(len(nice))), []
    limits = limit or [600] * len(nice)
    while waiting:
        snapshot = queue(
            [nice[job] for job in waiting],
            user=[user[job] for job in waiting],
            time_limit=[limits[job] for job in waiting],
        )
        first = int(started(snapshot, [-job for job in waiting]).split()[0])
        order.append(waiting.pop(first - 1) + 1)
    return order


def test_a_short_job_with_a_bad_nice_lends_its_place_to_no_longer_one() -> None:
    short, long, others = [1], [4, 5, 6], [2, 3]
    user = [1 if job in others else 0 for job in range(1, 7)]
    limit = [60, 60, 60, 9000, 9000, 9000]
    assert starts([0] * 6, user, limit) == short + others + long
    assert starts([9, 0, 0, 0, 0, 0], user, limit) == others + long + short


def test_what_a_job_costs_that_lends_its_place_to_jobs_alike() -> None:
    """An older job of the same request stands where the younger one stood, again and again."""
    older, younger, others = [1], [4, 5, 6], [2, 3]
    user = [1 if job in others else 0 for job in range(1, 7)]
    at_once = started(queue([9, 0, 0, 0, 0, 0], user=user), [6, 5, 4, 3, 2, 1])
    assert at_once == "4 2 3 5 6 1"
    assert starts([9, 0, 0, 0, 0, 0], user) == younger + older + others


def written(
    native: list[int], spread: list[int], scores: list[float], **columns: list[object]
) -> list[tuple[int, int]]:
    """Job and factor of each write."""
    snapshot = snapshot_of(pending_jobs(native, spread=spread, **columns))
    _, changes = planned_order(snapshot, Decision(scores=np.array(scores)), UntouchedJobs())
    return [(change.job_id, change.new) for change in changes]


def test_nobody_between_is_no_write() -> None:
    assert written([5000, 3000, 1000], [0, 900, 0], [3, 2, 1]) == []


def test_one_between_is_one_write_of_the_job_alone() -> None:
    assert written([5000, 3500, 3000], [0, 0, 900], [3, 2, 1]) == [(3, 1)]


def test_a_factor_that_the_job_has_is_written_again() -> None:
    columns = {"factor": [0, 0, 70]}
    assert written([5000, 3500, 2930], [0, 0, 900], [3, 2, 1], **columns) == [(3, 70)]


def test_a_job_that_is_placed_anyway_is_written_once() -> None:
    jobs = [job for job, _ in written([5000, 3500, 3000], [0, 0, 900], [1, 2, 3])]
    assert len(jobs) == len(set(jobs))
    assert 3 in jobs


@pytest.mark.parametrize("reason", ["held", "admin_set"])
def test_a_job_that_we_do_not_order_stays_as_it_is(reason: str) -> None:
    columns = {reason: [False, False, True]}
    assert written([5000, 3500, 3000], [0, 0, 900], [3, 2, 1], **columns) == []


def test_a_job_that_was_moved_between_is_seen() -> None:
    # the second one comes down behind the first, whose components reach 2000 points below it
    changes = written([8000, 9000, 1000], [3000, 0, 0], [3, 2, 1])
    assert changes[0][0] in (1, 2)
