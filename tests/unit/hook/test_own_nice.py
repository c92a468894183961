"""What a user meant by the nice of his jobs, though `scontrol top` booked others on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision, RunningJobs
from slurm_rl_plugin.hook.order.queue_plan import planned_order
from slurm_rl_plugin.hook.order.said_order import OwnNice
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from tests.unit.hook.queues import NOW, pending_jobs, snapshot_of


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
    """So many jobs whose priorities fall by `gap` points."""
    factor = [gap * (count - job) for job in range(count)]
    user = OneUser(path, factor, list(nice) or [0] * count)
    user.cycle()
    return user


@pytest.mark.parametrize("gap", [1, 7, 1000])
def test_the_job_on_top_goes_first_and_the_others_keep_their_order(path: Path, gap: int) -> None:
    user = jobs(path, 7, gap)
    user.top(7)
    for _ in range(3):
        assert user.cycle() == [7, 1, 2, 3, 4, 5, 6]


def test_the_nice_alone_would_turn_the_others_round(path: Path) -> None:
    """The second job is put on top: the first pays the only point, and the others nothing."""
    user = jobs(path, 5, gap=1)
    user.top(2)
    assert user.nice == [1, -1, 0, 0, 0]
    assert user.cycle() == [2, 1, 3, 4, 5]


def test_the_second_on_top_goes_before_the_first_though_its_nice_is_higher(path: Path) -> None:
    user = jobs(path, 10)
    user.top(10)
    user.cycle()
    user.top(2)
    assert user.nice[1] > user.nice[9]
    for _ in range(3):
        assert user.cycle() == [2, 10, 1, 3, 4, 5, 6, 7, 8, 9]


def test_two_tops_between_two_cycles(path: Path) -> None:
    user = jobs(path, 6)
    user.top(6)
    user.top(3)
    assert user.cycle() == [3, 6, 1, 2, 4, 5]


def test_several_jobs_on_top_go_first_in_their_order(path: Path) -> None:
    user = jobs(path, 6)
    user.top(5, 2, 6)
    for _ in range(2):
        assert user.cycle() == [5, 2, 6, 1, 3, 4]


def test_a_job_with_a_nice_of_its_own_can_be_put_on_top(path: Path) -> None:
    """Its place is worth fewer points than its nice, which stays above that of the others."""
    user = OneUser(path, [3000, 51_000, 2000], [0, 50_000, 0])
    assert user.cycle() == [1, 3, 2]
    user.top(2)
    assert user.nice[1] > max(user.nice[0], user.nice[2])
    assert user.cycle() == [2, 1, 3]


def test_a_job_that_comes_later_stands_by_its_score(path: Path) -> None:
    user = jobs(path, 4)
    user.top(3)
    user.cycle()
    user.nice.append(0)
    user.factor.append(0)
    assert min(user.nice[0], user.nice[1], user.nice[3]) > 0
    assert user.cycle() == [3, 1, 2, 4, 5]


def test_a_nice_that_the_user_sets_counts_as_it_is(path: Path) -> None:
    user = jobs(path, 4)
    user.top(4)
    user.cycle()
    user.nice[3] = 0
    assert user.cycle() == [1, 2, 3, 4]
    user.nice[0] = 700
    assert user.cycle() == [2, 3, 4, 1]


def test_two_values_that_the_user_changes_at_once_are_no_top(path: Path) -> None:
    user = jobs(path, 4, nice=[100, 100, 100, 100])
    user.nice[0], user.nice[1] = 0, 200
    assert user.cycle() == [1, 3, 4, 2]


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


def test_what_a_user_does_while_no_daemon_runs_is_seen_at_the_start(path: Path) -> None:
    user = jobs(path, 10)
    user.top(10)
    user.cycle()
    user.restart()
    user.top(2)
    assert user.cycle()[:3] == [2, 10, 1]


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
