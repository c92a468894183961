"""What users and the site say of the order: nice, `scontrol top`, points of QOS and partition."""

from __future__ import annotations

import math
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


ALL = UntouchedJobs()


def queue(
    nice: Sequence[int],
    user: Sequence[int] | None = None,
    native: Sequence[int] | None = None,
    **columns: Sequence[int],
) -> QueueSnapshot:
    """Jobs 1, 2, ... with these nice values."""
    columns = {"user": user or [0] * len(nice), **columns}
    return snapshot_of(pending_jobs(native or [100] * len(nice), nice=nice, **columns))


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
def test_lower_nice_goes_first(nice: tuple[int, ...], order: str, influence: float) -> None:
    assert started(queue(nice), [4, 3, 2, 1], influence) == order


@pytest.mark.parametrize("column", ["account", "partition", "user", "qos", "tier"])
def test_only_jobs_that_scontrol_top_compares_exchange_places(column: str) -> None:
    assert started(queue([9, 0, 0], **{column: [1, 2, 1]}), [3, 2, 1]) == "3 2 1"
    apart = queue([9, 0, 0], **{column: [0, 1, 2]})
    assert column == "tier" or started(apart, [3, 2, 1]) == "1 2 3"


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


def test_no_job_takes_the_place_of_a_starving_one() -> None:
    # job 1 has waited 990 s, the others less; its user asked for it to be last
    snapshot = queue([9, 0, 0])
    rail = StarvationBound(bound=985.0)
    decision = rail.check(Decision(scores=np.array([1.0, 2.0, 3.0])), snapshot)
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
    assert started(snapshot, [3, 2, 1]) == "3 2 1"
    assert started(replace(snapshot, resources=machine), [3, 2, 1]) == "2 3 1"


@pytest.mark.parametrize(
    ("native", "spread", "scores", "columns", "written"),
    [
        ([5000, 3000, 1000], [0, 900, 0], [3, 2, 1], {}, []),  # no job is between
        ([5000, 3500, 3000], [0, 0, 900], [3, 2, 1], {}, [(3, 1)]),  # one write, of the job alone
        ([5000, 3500, 2930], [0, 0, 900], [3, 2, 1], {"factor": [0, 0, 70]}, [(3, 70)]),
        # a job that is placed anyway is written once
        ([5000, 3500, 3000], [0, 0, 900], [1, 2, 3], {}, [(3, 1004000), (2, 1002500)]),
        # jobs that we do not order stay as they are
        ([5000, 3500, 3000], [0, 0, 900], [3, 2, 1], {"held": [False, False, True]}, []),
        ([5000, 3500, 3000], [0, 0, 900], [3, 2, 1], {"admin_set": [False, False, True]}, []),
        # the second one comes down behind the first, whose components reach 2000 points below it
        ([8000, 9000, 1000], [3000, 0, 0], [3, 2, 1], {}, [(1, 2000)]),
    ],
)
def test_another_job_between_the_components_of_one_is_a_write(
    native: list[int],
    spread: list[int],
    scores: list[float],
    columns: dict[str, list[object]],
    written: list[tuple[int, int]],
) -> None:
    snapshot = snapshot_of(pending_jobs(native, spread=spread, **columns))
    _, changes = planned_order(snapshot, decided(scores), ALL)
    assert [(change.job_id, change.new) for change in changes] == written


#: Age, fair share and size, as slurm.conf weighs them.
SPAN = 1000.0


def queue_with_points(standing: Sequence[int], **columns: Sequence[int]) -> QueueSnapshot:
    """Jobs 1, 2, ... of one user each."""
    columns = {"user": list(range(len(standing))), **columns}
    return snapshot_of(pending_jobs([100] * len(standing), standing=standing, **columns))


def order_with_points(
    snapshot: QueueSnapshot,
    scores: Sequence[float] | None = None,
    span: float = SPAN,
    decision: Decision | None = None,
) -> list[int]:
    """Job numbers in the decided order_with_points; by default job 1 has the best score."""
    count = len(snapshot.pending)
    given = decision or Decision(scores=np.array(scores or range(count, 0, -1), dtype=np.float64))
    places, _ = planned_order(snapshot, given, UntouchedJobs(), span=span)
    return [place + 1 for place in places]


@pytest.mark.parametrize(
    ("standing", "wanted"),
    [
        # the places of four jobs add 1000, 750, 500 and 250 points
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
def test_points_move_a_job_by_their_places(standing: list[int], wanted: list[int]) -> None:
    assert order_with_points(queue_with_points(standing)) == wanted


def test_a_site_that_weighs_nothing_else_is_ordered_by_its_points_then_by_score() -> None:
    assert order_with_points(queue_with_points([0, 7, 0, 9]), span=0.0) == [4, 2, 1, 3]


def test_a_system_that_tells_no_points_keeps_the_order_of_the_score() -> None:
    snapshot = queue_with_points([0, 0, 900])
    assert order_with_points(
        replace(snapshot, pending=replace(snapshot.pending, standing=None))
    ) == [1, 2, 3]
    nobody = snapshot_of(pending_jobs([], standing=np.empty(0, dtype=np.int64)))
    assert order_with_points(nobody) == []


def test_users_own_orders_come_after_the_sites_points() -> None:
    who = {"user": [0, 1, 0, 1], "partition": [0, 0, 0, 1], "nice": [9, 0, 0, 0]}
    snapshot = queue_with_points([0, 0, 0, 5000], **who)
    assert order_with_points(snapshot) == [4, 3, 2, 1]


def test_a_starving_job_stays_before_its_account_however_high_the_others_stand() -> None:
    snapshot = queue_with_points([0, 5000, 0], account=[0, 0, 1])
    rail = StarvationBound(bound=985.0)  # job 1 has waited 990 s
    decision = rail.check(Decision(scores=np.array([1.0, 2.0, 3.0])), snapshot)
    assert order_with_points(snapshot, decision=decision) == [1, 2, 3]


def test_no_batch_job_passes_an_interactive_one_beside_a_reserve() -> None:
    snapshot = queue_with_points([0, 5000, 400], interactive=[True, False, True], submit=[NOW] * 3)
    decision = Decision(scores=np.array([3.0, 2.0, 1.0]), reserve=2)
    decision = ReserveRail(ReserveSettings(most=2)).check(decision, snapshot)
    assert order_with_points(snapshot, decision=decision) == [3, 1, 2]


@pytest.mark.parametrize(
    ("settings", "first"),
    [({}, [3, 1, 2]), ({"site_points": False}, [1, 2, 3]), ({"influence": 10.0}, [1, 2, 3])],
    ids=str,
)
def test_the_cycle_keeps_them_in_the_full_order_unless_they_are_turned_off(
    tmp_path: Path, settings: dict[str, float], first: list[int]
) -> None:
    system = QueueInMemory(pending_jobs([100, 100, 700], standing=[0, 0, 600], user=range(3)))
    system.known = replace(FACTS, replaced_points=600.0)
    cycle = cycle_over(system, ScorePolicy([3.0, 2.0, 1.0]), tmp_path, **settings)
    report = cycle.run()
    assert report.failure is None
    assert [place + 1 for place in report.order] == first
