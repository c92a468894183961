"""A user's order among his own jobs: nice and `scontrol top`, under our order and without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.real.cluster_files import CLOSED_PARTITIONS
from tests.real.conftest import ACCOUNTS, private_slurm
from tests.real.drawn_order import DrawnOrder, adapter_of, cycle_of
from tests.real.private_cluster import ClusterPlan, PrivateSlurm

pytestmark = pytest.mark.real

NICE = (0, 3000, -2000, 900, 6000, -50)
INFLUENCES = pytest.mark.parametrize("influence", [math.inf, 72.0], ids=["full", "72 h"])


@pytest.mark.parametrize("released", [True, False], ids=["released", "ordered"])
def test_nice_orders_the_starts_of_one_users_jobs(
    closed_slurm: PrivateSlurm, tmp_path: Path, released: bool
) -> None:
    cluster = closed_slurm
    asked = {
        cluster.submit(f"--nice={nice}", user="alice", processors=8, seconds=0.3): nice
        for nice in NICE
    }
    cluster.wait_eligible(tuple(asked))
    policy = DrawnOrder(seed=1)
    cycle = cycle_of(adapter_of(cluster), policy, tmp_path)
    for policy.sign in (1, -1):
        cycle.run()
    if released:
        cycle.release()
    shown = cluster.run("squeue", "-h", "-O", "JobID:|,Nice:").stdout.split()
    assert {int(job): int(nice) for job, nice in (line.split("|") for line in shown)} == asked
    cluster.set_partition("up")
    cluster.wait_empty(90)
    by_nice = sorted(asked, key=lambda job: asked[job])
    assert by_nice != sorted(asked, key=lambda job: -policy.score(job))
    assert cluster.run_order(asked) == by_nice


#: A closed cluster on which users may call `scontrol top`.
topping_slurm = private_slurm(
    ClusterPlan(
        nodes=1,
        accounts=ACCOUNTS,
        partitions=CLOSED_PARTITIONS,
        options={"SchedulerParameters": "enable_user_top"},
    )
)


@pytest.fixture
def queue(topping_slurm: PrivateSlurm, tmp_path: Path) -> Iterator[QueueOfTwo]:
    """Seven jobs of alice and seven of bob, in turns."""
    cluster = topping_slurm
    jobs = {cluster.submit(user=user): user for _ in range(7) for user in ("alice", "bob")}
    cluster.wait_eligible(tuple(jobs))
    yield QueueOfTwo(cluster, jobs, tmp_path)
    cluster.cancel("alice", "bob")
    cluster.wait_empty(20)


class QueueOfTwo:
    """Two users' jobs, and a hook that orders them by drawn scores."""

    def __init__(self, cluster: PrivateSlurm, users: dict[int, str], folder: Path) -> None:
        self.cluster, self.users, self._folder = cluster, users, folder
        self._policy = DrawnOrder(seed=3)

    def begin(self, influence: float) -> None:
        """Start the daemon's work, again where it has begun."""
        self._cycle = cycle_of(
            adapter_of(self.cluster), self._policy, self._folder, influence=influence
        )

    def ordered(self) -> list[int]:
        """Job numbers by Slurm's priority after three cycles."""
        for _ in range(3):
            report = self._cycle.run()
            assert report.failure is None, report.failure_reason
        assert report.writes == 0
        return self.cluster.by_priority()

    def of(self, user: str, jobs: Sequence[int]) -> list[int]:
        return [job for job in jobs if self.users[job] == user]

    def owners(self, jobs: Sequence[int]) -> list[str]:
        return [self.users[job] for job in jobs]


@INFLUENCES
def test_what_a_user_puts_on_top_stays_there(queue: QueueOfTwo, influence: float) -> None:
    queue.begin(influence)
    before = queue.ordered()
    mine = queue.of("alice", before)
    # the last one, then the second, then the first of these again: Slurm's nice turns them round
    for chosen in (mine[-1], mine[1], mine[-1], mine[3]):
        queue.cluster.run("scontrol", "top", str(chosen), user="alice")
        mine = [chosen, *(job for job in mine if job != chosen)]
        assert queue.of("alice", queue.cluster.by_priority()) == mine
        after = queue.ordered()
        assert queue.of("alice", after) == mine
        assert queue.of("bob", after) == queue.of("bob", before)
        if math.isinf(influence):
            assert queue.owners(after) == queue.owners(before)
    queue.begin(influence)
    assert queue.of("alice", queue.ordered()) == mine


@INFLUENCES
def test_what_a_user_gives_more_nice_goes_behind_his_others(
    queue: QueueOfTwo, influence: float
) -> None:
    queue.begin(influence)
    before = queue.ordered()
    first, *others = queue.of("alice", before)
    queue.cluster.run("scontrol", "update", f"jobid={first}", "nice=10000", user="alice")
    after = queue.ordered()
    assert queue.of("alice", after) == [*others, first]
    assert queue.of("bob", after) == queue.of("bob", before)
    if math.isinf(influence):
        assert queue.owners(after) == queue.owners(before)
    queue.cluster.run("scontrol", "update", f"jobid={first}", "nice=0", user="alice")
    assert queue.ordered() == before
