"""OpenPBS: jobs in queues from which pbs_sched starts nothing now, and many that leave at once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.port import FactorChange
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from tests.fakes.fake_pbs_cluster import DEFAULT_SCORE, NOW, FakePbs, fake_libpbs


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_libpbs(tmp_path_factory.mktemp("libpbs"))


@pytest.fixture(params=["libpbs", "qstat"])
def fake(request: pytest.FixtureRequest, tmp_path: Path, library: Path) -> FakePbs:
    return FakePbs(tmp_path, library if request.param == "libpbs" else None)


def adapter(fake: FakePbs, timeout: float = 10.0) -> Pbs:
    return Pbs(
        AdapterParts(
            shares=None,
            classifier=JobClassifier(),
            clock=lambda: float(NOW),
            timeout=timeout,
            environment=fake.env,
        )
    )


def snapshot_of(fake: FakePbs) -> QueueSnapshot:
    return adapter(fake).snapshot()


def test_jobs_that_pbs_has_yet_to_route_cannot_start(fake: FakePbs) -> None:
    """In a routing queue a job gets no `etime` (svr_enquejob of 23.06)."""
    fake.set_queue("door", attributes={"queue_type": "Route"})
    fake.add("1.head", queue="door", etime=None)
    fake.add("2.head", queue="workq")
    fake.add("3.head", queue="workq", etime=None)
    snapshot = snapshot_of(fake)
    since = dict(
        zip(
            snapshot.pending.jobs.job_id.tolist(),
            snapshot.pending.jobs.eligible.tolist(),
            strict=True,
        )
    )
    assert since == {1: math.inf, 2: NOW - 90.0, 3: NOW - 100.0}
    assert snapshot.waits_for_machine.tolist() == [number != 1 for number in since]
    assert snapshot.accrued_wait[list(since).index(1)] == 0.0


@pytest.mark.parametrize("reservation", ["R17.head", "S3.head", None])
def test_a_job_in_a_reservation_waits_for_that(fake: FakePbs, reservation: str | None) -> None:
    """A site's own queue may be called like one of a reservation."""
    fake.add("1.head", queue="R17", reserve_ID=reservation, comment="Not Running: anything")
    fake.add("2.head", queue="R17", reserve_ID=reservation)
    pending = snapshot_of(fake).pending
    assert pending.each_own_doing.tolist() == [reservation is not None] * 2
    by_number = dict(
        zip(pending.jobs.job_id.tolist(), pending.each_for_processors.tolist(), strict=True)
    )
    assert by_number == {1: False, 2: reservation is None}


@pytest.mark.parametrize(("most", "own"), [(2, True), (1, True), (3, False), (None, False)])
def test_an_array_that_its_user_keeps_back_waits_for_that(
    fake: FakePbs, most: int | None, own: bool
) -> None:
    """Of an array that has begun PBS tells no other reason than that (fifo.cpp of 23.06)."""
    count = "Queued:5 Running:2 Exiting:0 Expired:0 "
    fake.add("9[].head", job_state="B", array_state_count=count, max_run_subjobs=most)
    fake.change("9[].head", comment="Job Array Began at Sat Nov 21 at 00:13")
    for subjob in ("9[0].head", "9[1].head"):
        fake.add(subjob, job_state="R", stime=NOW - 5)
    pending = snapshot_of(fake).pending
    assert pending.each_own_doing.tolist() == [own]
    assert pending.each_for_processors.tolist() == [not own]


@pytest.mark.parametrize("named", [True, False])
def test_what_a_job_was_given_is_taken_back_though_another_of_its_number_came(
    fake: FakePbs, named: bool
) -> None:
    """Peer scheduling brings it; which of the two was ours nobody knows, and needs not."""
    fake.add("2.head")
    system = adapter(fake)
    system.apply([FactorChange(job_id=2, old=0, new=50)])
    fake.add("2.other")
    system.snapshot()
    report = system.release(np.array([2]) if named else None)
    assert (report.applied, report.rejected) == (1, {})
    assert fake.score("2.head") == fake.score("2.other") == DEFAULT_SCORE
    assert system.apply([FactorChange(job_id=2, old=0, new=50)]).applied == 0


def test_hundreds_of_jobs_that_end_between_two_looks_take_no_longer_than_one(fake: FakePbs) -> None:
    """Asked for one by one they would take 28 s, in each look anew."""
    names = [f"{number}.head" for number in range(1, 401)]
    fake.add(names[0])
    job = fake.state["jobs"][names[0]]
    jobs = {name: {**job, "job_state": "R", "stime": NOW - 50} for name in names}
    fake.set(jobs=jobs)
    system = adapter(fake, timeout=5.0)
    system.facts()  # it keeps a history
    system.snapshot()
    fake.set(jobs={n: {**each, "job_state": "F", "obittime": NOW} for n, each in jobs.items()})
    fake.break_command("qstat", "busy")
    assert len(system.snapshot().ended) == 400
