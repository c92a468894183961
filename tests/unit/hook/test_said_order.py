"""What users and the site say of the order: nice, `scontrol top`, points of QOS and partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision, QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.hook.order.queue_plan import orderable_by_score, planned_order
from slurm_rl_plugin.hook.order.said_order import OwnNice, in_own_order, own_jobs
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from tests.unit.hook.queues import (
    NOW,
    pending_jobs,
    snapshot_of,
)


@dataclass
class OneUser:
    """One user's pending jobs, ordered by the number of the job and by his nice.

    Attributes:
        factor, nice: of jobs 1, 2, ...; the site gives each job 100,000 points.
        seen: what the hook remembers.
    """

    path: Path
    factor: list[int]
    nice: list[int]
    seen: OwnNice = field(init=False)
    #: Jobs that are not pending, and those of them that run.
    away: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    now: float = NOW

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.seen = OwnNice(path=self.path)

    @property
    def priority(self) -> list[int]:
        return [
            100_000 - nice + factor for nice, factor in zip(self.nice, self.factor, strict=True)
        ]

    def top(self, *jobs: int) -> None:
        """Do as `_set_top` of slurmctld's job_mgr.c."""
        before, total = self.priority, 0
        wanted = sorted(before, reverse=True)
        last = 2**40
        for job, place in zip(jobs, wanted, strict=False):
            last = place - (place == last)
            total += last - before[job - 1]
            self.nice[job - 1] -= last - before[job - 1]
        others = [job for job in range(len(before)) if job + 1 not in jobs]
        for place, job in enumerate(others):
            share = int(total / (len(others) - place))
            if before[job] - share >= last:
                share = before[job] - last + 1
            self.nice[job] += share
            total -= share

    def say(self, job: int, nice: int) -> None:
        self.nice[job - 1] = nice

    def add(self) -> None:
        self.nice.append(0)
        self.factor.append(0)

    def cycle(self) -> list[int]:
        """Job numbers in the order that a cycle decides and writes."""
        native = [100_000 - each for each in self.nice]
        pending = pending_jobs(native, factor=self.factor, nice=self.nice)
        here = [job - 1 for job in pending.jobs.job_id.tolist() if job not in self.away]
        snapshot = snapshot_of(pending.select(np.array(here)), self.now)
        if self.running:
            table = pending.jobs.select(np.array(self.running) - 1)
            runs = RunningJobs(jobs=table, start=table.submit)
            snapshot = replace(snapshot, running=runs)
        scores = -np.array(here, dtype=np.float64)
        own = self.seen.look(snapshot)
        order, changes = planned_order(snapshot, Decision(scores=scores), UntouchedJobs(), nice=own)
        self.seen.keep()
        for change in changes:
            self.factor[change.job_id - 1] = change.new
        return [here[place] + 1 for place in order]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json.own-nice"


def jobs(path: Path, count: int, gap: int = 1000, nice: Sequence[int] = ()) -> OneUser:
    """Jobs whose priorities fall by `gap` points."""
    factor = [gap * (count - job) for job in range(count)]
    user = OneUser(path, factor, list(nice) or [0] * count)
    user.cycle()
    return user


@pytest.mark.parametrize(
    ("count", "steps", "order"),
    [
        (6, "top 6, top 3", [3, 6, 1, 2, 4, 5]),
        (6, "top 5 2 6;", [5, 2, 6, 1, 3, 4]),
        (4, "top 4; restart, top 2", [2, 4, 1, 3]),  # while no daemon runs
        (4, "top 3; add", [3, 1, 2, 4, 5]),  # a later job is placed by its score
        # its place adds fewer points than its nice, which stays above that of the others
        (3, "say 2 50000; restart, top 2", [2, 1, 3]),
        # two values that the user changes at once are no top
        (4, "say 1 -100, say 2 100", [1, 3, 4, 2]),
        # a nice that the user sets counts as it is
        (4, "top 4; say 4 0", [1, 2, 3, 4]),
        # of those who paid for the top, one gets some of it back: no other user pays for that
        (4, "top 4; say 4 0; say 1 700", [2, 3, 4, 1]),
    ],
)
def test_changes_between_two_cycles(path: Path, count: int, steps: str, order: list[int]) -> None:
    """A cycle follows each `;` and the last step."""
    user = jobs(path, count)
    for step in steps.split(";"):
        for verb, *words in map(str.split, filter(str.strip, step.split(","))):
            getattr(user, verb)(*map(int, words))
        found = user.cycle()
    assert found == order


@pytest.mark.parametrize(
    "content", ["{", '{"version": 9}', '{"version": 1, "jobs": [[1, 2, 1e99]]}']
)
def test_a_restart_remembers_it_and_a_broken_file_leaves_the_nice(path: Path, content: str) -> None:
    user = jobs(path, 10)
    user.top(10)
    user.cycle()
    user.top(2)
    wanted = user.cycle()
    user.restart()
    assert user.cycle() == wanted
    path.write_text(content)
    user.restart()
    assert user.cycle()[0] == 10


@pytest.mark.parametrize(
    ("running", "seconds", "remembered"),
    [
        ((), 30.0, True),
        ((), 599.0, True),
        ((), 700.0, False),
        ((3,), 9e6, True),
        ((), -500.0, True),
    ],
)
def test_a_job_that_is_requeued_has_the_nice_that_its_user_meant(
    path: Path, running: tuple[int, ...], seconds: float, remembered: bool
) -> None:
    user = jobs(path, 5)
    user.top(5)
    assert user.cycle() == [5, 1, 2, 3, 4]
    user.away, user.running = (3,), running
    user.now += seconds
    assert user.cycle() == [5, 1, 2, 4]
    user.restart()
    user.cycle()
    user.away = user.running = ()
    assert user.cycle() == ([5, 1, 2, 3, 4] if remembered else [5, 1, 2, 4, 3])


def test_what_is_remembered_of_jobs_that_are_gone_does_not_grow(path: Path) -> None:
    user = jobs(path, 50)
    user.away = tuple(range(2, 51))
    for _ in range(3):
        user.now += 400.0
        user.cycle()
    assert user.seen._seen is not None
    assert len(user.seen._seen) == 1


def test_a_file_that_could_not_be_written_is_written_later(path: Path) -> None:
    user = jobs(path, 4)
    user.top(4)
    path.mkdir()
    user.cycle()
    path.rmdir()
    user.cycle()
    assert path.is_file()


def test_without_any_top_there_is_no_file(path: Path) -> None:
    user = jobs(path, 4, nice=[5, 0, 0, 0])
    assert user.cycle() == [2, 3, 4, 1]
    assert not path.exists()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5000)), max_size=8),
    st.integers(1, 3000),
)
def test_any_tops_in_any_spacing_are_moves_to_the_front(
    tmp_path_factory: pytest.TempPathFactory, tops: list[tuple[int, int]], gap: int
) -> None:
    user = jobs(tmp_path_factory.mktemp("hook") / "own-nice", 8, gap)
    wanted = list(range(1, 9))
    for job, spread in tops:
        user.top(job)
        wanted = [job, *(each for each in wanted if each != job)]
        assert user.cycle() == wanted
        for place, each in enumerate(reversed(wanted), start=1):  # the queue is spaced anew
            user.factor[each - 1] = spread * place + user.nice[each - 1]
        assert user.cycle() == wanted


def queue(nice: Sequence[int], **columns: Sequence[int]) -> QueueSnapshot:
    """Jobs 1, 2, ... with these nice values."""
    return snapshot_of(pending_jobs([100] * len(nice), nice=nice, **columns))


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
    order = orderable_by_score(snapshot, np.array(score, dtype=np.float64), UntouchedJobs())
    own = in_own_order(snapshot.pending, order, np.array(nice, dtype=np.int64))
    groups = own_jobs(snapshot.pending)
    assert groups[own].tolist() == groups[order].tolist()
    assert sorted(own.tolist()) == sorted(order.tolist())
    for group in set(groups.tolist()):
        mine = [place for place in own.tolist() if groups[place] == group]
        score_order = [place for place in order.tolist() if groups[place] == group]
        assert mine == sorted(score_order, key=lambda place: nice[place])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(-2, 2), st.integers(1, 3), st.sampled_from([60, 600])
        ),
        min_size=1,
        max_size=25,
    )
)
def test_no_user_gets_more_work_of_others_before(jobs: list[tuple[int, int, int, int]]) -> None:
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
    decision, shown = (
        Decision(scores=np.array([3.0, 2.0, 1.0])),
        replace(snapshot, resources=machine),
    )
    assert planned_order(snapshot, decision, UntouchedJobs())[0] == [2, 1, 0]
    assert planned_order(shown, decision, UntouchedJobs())[0] == [1, 2, 0]
