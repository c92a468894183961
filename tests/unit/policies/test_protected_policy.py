"""A live policy with jobs protected: who is overtaken, who goes first, what is remembered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import Decision, JobTable, PendingJobs, QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.jobs import EndedJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.policies.protected_policy import (
    Overtaken,
    ProtectedPolicy,
    protected_policy,
    protecting_among,
    scorer_of,
)
from slurm_rl_plugin.policies.protection import Protection
from slurm_rl_plugin.policies.registry import rule_policy
from tests.unit.hook.queues import job_table, snapshot_of

HOUR = 3600.0


def jobs_at(submit: list[float], first: int = 1, processors: int = 1) -> JobTable:
    table = job_table(len(submit))
    arrived = np.array(submit)
    return replace(
        table,
        job_id=table.job_id + first - 1,
        submit=arrived,
        eligible=arrived,
        processors=np.full(len(submit), processors, dtype=np.int64),
    )


def look(now: float, waiting: JobTable, running: JobTable, start: float, **columns):
    """A snapshot of a machine of four processors."""
    pending = replace(PendingJobs.untouched(waiting), **columns)
    snapshot = replace(snapshot_of(pending, now), capacity=4)
    return replace(snapshot, running=RunningJobs(jobs=running, start=np.full(len(running), start)))


def newest_first() -> ProtectedPolicy:
    class NewestFirst:
        name = "newest"

        def decide(self, snapshot: QueueSnapshot, memory=None) -> Decision:
            count = 0.0 if memory is None else memory[0]
            scores = np.nan_to_num(snapshot.pending.jobs.submit)
            return Decision(scores=scores, memory=np.array([count + 1]))

    policy = protected_policy(NewestFirst(), Protection(jobs=1, after=0.1))
    assert isinstance(policy, ProtectedPolicy)
    return policy


#: Two wait, one came before and one after those that run on half of the machine.
WAITING, RUNNING = jobs_at([0.0, 200.0]), jobs_at([100.0, 100.0], first=11)


def asking(jobs: JobTable, gpus: list[float]) -> JobTable:
    """Jobs that ask for GPUs beside their processors."""
    total = np.column_stack([jobs.processors, np.zeros(len(jobs)), gpus]).astype(np.float64)
    nodes = np.zeros(len(jobs), dtype=np.int64)
    return replace(jobs, requests=ResourceRequests.of_totals(total, nodes=nodes))


@pytest.mark.parametrize(("runs_with", "overtaken"), [(0.0, [0.0, 0.5]), (4.0, [1.0, 0.5])])
def test_a_job_is_overtaken_on_the_resource_that_it_asks_most_of(
    runs_with: float, overtaken: list[float]
) -> None:
    waiting = asking(jobs_at([0.0, 0.0]), [2.0, 0.0])
    running = asking(jobs_at([100.0], first=11, processors=2), [runs_with])
    capacity = np.array([4.0, 0.0, 4.0])
    machine = ResourcesNow(names=BASIC_RESOURCES, capacity=capacity, free=capacity)
    first = replace(look(1000.0, waiting, running, 1000.0), resources=machine)
    later = replace(look(1000.0 + HOUR, waiting, running, 1000.0), resources=machine)
    known = Overtaken().after(first).after(later)
    assert (known.of(waiting.job_id) / HOUR).tolist() == overtaken


def test_a_job_is_overtaken_while_later_ones_use_the_machine() -> None:
    known = Overtaken().after(look(HOUR, WAITING, RUNNING, start=0.5 * HOUR))
    assert known.of(np.array([1, 2, 3])).tolist() == [0.25 * HOUR, 0.0, 0.0]
    known = known.after(look(2 * HOUR, WAITING, RUNNING, start=0.5 * HOUR))
    assert known.of(np.array([1])).tolist() == [0.75 * HOUR]
    assert known.longest == 2 * HOUR


def test_jobs_that_ended_between_two_looks_count() -> None:
    snapshot = look(HOUR, WAITING, jobs_at([]), start=0.0)
    ended = EndedJobs(jobs=RUNNING, start=np.full(2, 600.0), end=np.array([1200.0, np.nan]))
    known = Overtaken().after(replace(snapshot, ended=ended))
    assert known.of(np.array([1])).tolist() == [150.0]


def test_the_overtaken_job_goes_first_and_says_so() -> None:
    policy = newest_first()
    calm = policy.decide(look(210.0, WAITING, RUNNING, start=100.0))
    assert calm.scores.tolist() == [0.0, 200.0]
    late = policy.decide(look(HOUR, WAITING, RUNNING, start=100.0), calm.memory)
    assert late.scores[0] > late.scores[1]
    assert late.protected.tolist() == [0]


@pytest.mark.parametrize(
    ("longest", "asks", "protected"),
    [
        (4 * HOUR, np.nan, []),
        (4 * HOUR, HOUR, [0]),
        (4 * HOUR, 3 * HOUR, []),
        (0.0, 3 * HOUR, [0]),  # where nobody has waited long
    ],
)
def test_who_asks_for_long_is_protected_later(
    longest: float, asks: float, protected: list[int]
) -> None:
    """Both jobs are overtaken by half an hour."""
    waiting = replace(WAITING, time_limit=np.full(2, asks))
    known = Overtaken(time=0.0, longest=longest).to_memory(None)
    snapshot = look(1.1 * HOUR, waiting, RUNNING, start=0.1 * HOUR)
    assert newest_first().decide(snapshot, known).protected.tolist() == protected


def test_the_policy_keeps_its_own_memory_and_a_broken_one_is_none() -> None:
    policy = newest_first()
    decision = policy.decide(look(210.0, WAITING, RUNNING, start=100.0))
    decision = policy.decide(look(HOUR, WAITING, RUNNING, start=100.0), decision.memory)
    assert decision.memory is not None
    assert scorer_of(policy, decision.memory)[1] == np.array([2.0])
    for broken in (
        decision.memory[:5],
        np.full(9, np.pi),
        np.array([1.0, 0, 0, -1.0]),
        np.empty(0),
    ):
        known, own = Overtaken.from_memory(broken)
        assert (known.time, len(known.job_id), own) == (-np.inf, 0, None)


@pytest.mark.parametrize(
    "columns",
    [
        {"held": np.array([True, False])},
        {"own_doing": np.array([True, False])},
        {"jobs": replace(WAITING, eligible=np.array([2 * HOUR, 200.0]))},
    ],
    ids=["held", "own doing", "not eligible"],
)
def test_who_does_not_wait_for_the_machine_is_neither_overtaken_nor_protected(columns) -> None:
    snapshot = look(HOUR, WAITING, RUNNING, start=100.0, **columns)
    decision = newest_first().decide(snapshot)
    assert decision.protected.tolist() == []
    assert decision.scores.tolist() == [0.0, 200.0]


def test_a_wait_that_was_banked_is_not_overtaken() -> None:
    """A hold is over and the batch system counts little: it came after those that run."""
    snapshot = look(HOUR, WAITING, RUNNING, start=100.0, accrued=np.array([60.0, 60.0]))
    assert newest_first().decide(snapshot).protected.tolist() == []


def test_each_partition_has_its_own() -> None:
    waiting = replace(jobs_at([0.0, 1.0, 2.0]), partition=np.array([0, 0, 1]))
    decision = newest_first().decide(look(HOUR, waiting, RUNNING, start=100.0))
    assert decision.protected.tolist() == [0, 2]


def test_who_is_protected_stays_so_though_the_longest_wait_grows() -> None:
    policy = newest_first()
    late = policy.decide(look(HOUR, WAITING, RUNNING, start=100.0))
    nobody = jobs_at([])
    for hours in (10, 100, 1000):
        late = policy.decide(look(hours * HOUR, WAITING, nobody, start=0.0), late.memory)
        assert late.protected.tolist() == [0]


def test_one_user_has_half_of_the_places() -> None:
    waiting = replace(jobs_at([0.0, 1.0, 2.0, 3.0]), user=np.array([0, 0, 0, 1]))
    policy = replace(newest_first(), protection=Protection(jobs=4, after=0.1))
    assert policy.decide(look(HOUR, waiting, RUNNING, start=100.0)).protected.tolist() == [0, 1, 3]


def test_jobs_that_the_order_does_not_reach_take_nobodys_place() -> None:
    waiting = jobs_at([0.0, 1.0, 200.0])
    snapshot = look(HOUR, waiting, RUNNING, start=100.0)
    reached = np.array([False, True, True])
    policy = protecting_among(newest_first(), lambda _: reached)
    assert policy.decide(snapshot).protected.tolist() == [1]
    assert newest_first().decide(snapshot).protected.tolist() == [0]
    sjf = rule_policy("sjf")
    assert protecting_among(sjf, lambda _: reached) is sjf


def test_a_clock_that_was_set_back_counts_nothing_twice() -> None:
    known = Overtaken().after(look(HOUR, WAITING, RUNNING, start=100.0))
    before = known.of(np.array([1]))[0]
    known = known.after(look(HOUR - 600.0, WAITING, RUNNING, start=100.0))
    assert known.of(np.array([1]))[0] == before


@pytest.mark.parametrize("ahead", [2 * HOUR, 87_600 * HOUR])
def test_once_a_clock_is_right_again_all_is_as_if_it_had_been(ahead: float) -> None:
    """For months nobody would be protected before he was overtaken for three days."""
    right = Overtaken().after(look(HOUR, WAITING, RUNNING, start=100.0))
    wrong = Overtaken().after(look(HOUR + ahead, WAITING, RUNNING, start=100.0))
    again = wrong.after(look(HOUR, WAITING, RUNNING, start=100.0))
    assert again.longest == right.longest
    overtaken = again.of(np.array([1, 2]))
    assert right.of(np.array([1]))[0] <= overtaken[0] <= HOUR
    assert overtaken[1] == 0.0


def test_what_is_not_known_of_one_job_spoils_nothing_of_the_others() -> None:
    """Times that a batch system does not tell, of one that waits and of one that runs."""
    unknown = np.array([np.nan, 0.0, 200.0])
    waiting = replace(jobs_at([0.0, 0.0, 200.0]), submit=unknown, eligible=unknown)
    untold = np.array([np.nan, 100.0])
    running = replace(RUNNING, submit=untold, eligible=untold)
    decision = newest_first().decide(look(4 * HOUR, waiting, running, start=100.0))
    assert decision.protected.tolist() == [1]
    assert decision.memory is not None
    assert np.isfinite(decision.memory).all()


def test_an_empty_queue_and_a_policy_without_protection() -> None:
    decision = newest_first().decide(look(HOUR, jobs_at([]), RUNNING, start=100.0))
    assert len(decision.scores) == len(decision.protected) == 0
    sjf = rule_policy("sjf")
    assert protected_policy(sjf, None) is sjf
    assert protected_policy(sjf, Protection(jobs=0)) is sjf
    assert scorer_of(sjf, None) == (sjf, None)
