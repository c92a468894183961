"""Heterogeneous jobs: one row, one write and one release, whatever their components differ in."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.port import LARGEST_FACTOR, FactorChange
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.domain import PendingJobs
from slurm_rl_plugin.domain.job_class import JobClassifier
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.unit.batch_systems.test_slurm_queue import waiting_row

LEADER, SECOND, THIRD, PLAIN = 7, 8, 9, 20


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """A heterogeneous job of three components and a plain job."""
    fake = FakeCluster(tmp_path)
    fake.add(LEADER, het_id=LEADER, processors=3)
    fake.add(SECOND, het_id=LEADER, processors=2, nice=40)
    fake.add(THIRD, het_id=LEADER, partition="short")
    fake.add(PLAIN)
    return fake


def adapter(cluster: FakeCluster) -> SlurmCommands:
    return SlurmCommands(cluster.adapter_settings(classifier=JobClassifier(()), history_days=0.0))


def pending(system: SlurmCommands) -> PendingJobs:
    return system.snapshot().pending


def sites(cluster: FakeCluster) -> dict[int, int]:
    return {job["job_id"]: job["site"] for job in cluster.state["jobs"]}


def test_it_is_one_row_under_the_number_of_its_leader(cluster: FakeCluster) -> None:
    jobs = pending(adapter(cluster)).jobs
    assert sorted(jobs.job_id.tolist()) == [LEADER, PLAIN]
    assert jobs.processors[jobs.job_id == LEADER].tolist() == [6]


def test_the_lowest_component_tells_its_priority(cluster: FakeCluster) -> None:
    found = pending(adapter(cluster))
    native = dict(zip(found.jobs.job_id.tolist(), found.native_priority.tolist(), strict=True))
    assert native == {LEADER: 10412 - 40, PLAIN: 10412}


def test_each_component_counts_the_nice_that_it_has_now(cluster: FakeCluster) -> None:
    cluster.change(LEADER, nice=200, counted_nice=0)
    found = pending(adapter(cluster))
    native = dict(zip(found.jobs.job_id.tolist(), found.native_priority.tolist(), strict=True))
    assert native == {LEADER: 10412 - 200, PLAIN: 10412}


def test_a_factor_puts_all_components_at_one_priority_and_one_write_takes_it_back(
    cluster: FakeCluster,
) -> None:
    system = adapter(cluster)
    assert sorted(_spread(pending(system))) == [0, 11312 - 10372]
    report = system.apply([FactorChange(job_id=LEADER, old=0, new=500)])
    assert (report.applied, report.rejected) == (1, {})
    # 10412, 10372 and 11312 points without us
    assert sites(cluster) == {LEADER: 460, SECOND: 500, THIRD: -440, PLAIN: 0}
    found = pending(system)
    assert sorted(found.factor.tolist()) == [0, 500]
    assert _spread(found) == [0, 0]
    assert system.release().applied == 1
    assert set(sites(cluster).values()) == {0}


def test_a_component_that_cannot_be_written_is_told_under_its_job(cluster: FakeCluster) -> None:
    system = adapter(cluster)
    system.snapshot()
    report = system.apply([FactorChange(job_id=LEADER, old=0, new=-LARGEST_FACTOR + 100)])
    assert (report.applied, set(report.rejected)) == (0, {LEADER})


def _spread(found: PendingJobs) -> list[int]:
    assert found.spread is not None
    return [int(points) for points in found.spread]


@pytest.mark.parametrize("component", [LEADER, SECOND, THIRD])
def test_release_finds_a_factor_that_only_one_component_has(
    cluster: FakeCluster, component: int
) -> None:
    cluster.change(component, site=90)
    assert adapter(cluster).release().applied == 1
    assert set(sites(cluster).values()) == {0}


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"reason": "JobHeldUser", "eligible": None}, "held"),
        ({"by_hand": 5000}, "admin_set"),
    ],
)
def test_what_one_component_is_the_whole_job_is(
    cluster: FakeCluster, changes: dict[str, Any], column: str
) -> None:
    cluster.change(SECOND, **changes)
    found = pending(adapter(cluster))
    assert getattr(found, column)[found.jobs.job_id == LEADER].tolist() == [True]
    assert getattr(found, column)[found.jobs.job_id == PLAIN].tolist() == [False]


def test_it_is_eligible_when_all_components_are(cluster: FakeCluster) -> None:
    cluster.change(THIRD, eligible=NOW + 60)
    found = pending(adapter(cluster)).jobs
    assert found.eligible[found.job_id == LEADER].tolist() == [NOW + 60]


def test_it_starts_once_and_ends_once_when_the_last_component_has(cluster: FakeCluster) -> None:
    system = adapter(cluster)
    system.snapshot()
    for component in (LEADER, SECOND, THIRD):
        cluster.run_job(component)
    running = system.snapshot()
    assert running.started.jobs.job_id.tolist() == [LEADER]
    assert running.running.jobs.processors.tolist() == [6]
    cluster.end_job(LEADER, NOW + 5)
    cluster.end_job(THIRD, NOW + 6)
    assert len(system.snapshot().ended) == 0
    cluster.end_job(SECOND, NOW + 9)
    ended = system.snapshot().ended
    assert (ended.jobs.job_id.tolist(), ended.end.tolist()) == ([LEADER], [NOW + 9])
    assert ended.jobs.processors.tolist() == [6]
    assert len(system.snapshot().ended) == 0


def test_a_limit_that_one_component_lacks_the_job_lacks() -> None:
    parts = [waiting_row(job, job)._replace(het_id=1) for job in (1, 2)]
    (whole,) = whole_jobs([parts[0], parts[1]._replace(time_limit=math.nan)])
    assert math.isnan(whole.time_limit)
    assert whole_jobs(parts)[0].time_limit == 600
