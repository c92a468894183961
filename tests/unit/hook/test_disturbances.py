"""What happens from outside is told: in the log, and counted in the next report."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.disturbances import (
    ACCOUNTING,
    CLOCK,
    FACTOR,
    FOUND,
    STATE,
    AccountingWatch,
    ClockWatch,
    Disturbances,
)
from tests.unit.hook.queues import (
    FACTS,
    CountedStop,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    daemon_of,
    pending_jobs,
    site,
)


@pytest.mark.parametrize(
    ("backlog", "told"),
    [
        ([0, 5, 0, 7, 0], 0),
        ([3, 3, 3], 1),
        ([3, 4, 5, 6, 7, 8], 1),  # once until it is gone
        ([9, 8, 7, 6, 5, 4], 0),  # somebody takes them
        ([3, 4, 5, 0, 3, 4, 5], 2),
        ([3, 4, 2, 5, 1, 6, 2], 0),  # a busy site: never empty, and taken all the same
        ([3, 4, 5, 2, 4, 5, 6], 1),
    ],
)
def test_accounting_that_takes_no_messages_is_told_once(backlog: list[int], told: int) -> None:
    watch, disturbances = AccountingWatch(), Disturbances()
    for waiting in backlog:
        watch.look(waiting, disturbances)
    assert disturbances.taken() == ({ACCOUNTING: told} if told else {})
    assert disturbances.taken() == {}


def test_a_clock_that_is_set_is_told_with_the_step(caplog: pytest.LogCaptureFixture) -> None:
    watch, disturbances = ClockWatch(), Disturbances()
    for now, monotonic in ((1000.0, 5.0), (1030.0, 35.0), (4630.0, 65.0), (1090.0, 95.0)):
        watch.look(now, monotonic, disturbances)
    assert disturbances.taken() == {CLOCK: 2}
    steps = [record.getMessage().split()[1] for record in caplog.records]
    assert steps == ["seconds=+3570:", "seconds=-3570:"]


def test_a_lost_write_is_told_and_written_again(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    wanted = queue.order()
    assert cycle.run().disturbances == {}
    queue.pending.factor[:] = 0  # slurmctld died before it saved them
    report = cycle.run()
    assert report.disturbances == {FACTOR: 1}
    assert queue.order() == wanted
    assert cycle.run().disturbances == {}


def test_refused_writes_and_hidden_factors_are_no_lost_ones(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]), refuse=(3,))
    cycle = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    for _ in range(3):
        assert cycle.run().disturbances == {}
    queue.pending.factor[:] = 0
    queue.pending.admin_set[:] = True
    assert cycle.run().disturbances == {}


@pytest.mark.parametrize("what", ["held", "not_eligible", "apart"])
def test_factors_that_are_only_taken_for_0_are_no_lost_ones(tmp_path: Path, what: str) -> None:
    """A requeued job waits a while without being listed, and then shows the factor it had."""
    queue = QueueInMemory(pending_jobs([1, 2, 3], spread=[0, 0, 0]))
    job = queue.pending.jobs
    if what == "held":
        queue.pending.held[0] = True
    elif what == "not_eligible":
        job.eligible[0] = queue.now + 120.0
    else:  # another component of the job speaks for it next time
        assert queue.pending.spread is not None
        queue.pending.spread[0] = 1
    cycle = cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path)
    assert cycle.run().disturbances == {}
    queue.pending.factor[0] -= 1
    queue.pending.held[0] = False
    queue.now += 120.0
    assert cycle.run().disturbances == {}
    queue.pending.factor[1] += 5
    assert cycle.run().disturbances == {FACTOR: 1}


def test_what_another_hosts_daemon_wrote_meanwhile_is_no_lost_write(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path, beside_controllers=True)
    cycle.run()
    queue.known = replace(FACTS, in_charge=False)
    assert cycle.run().mode == "standby"
    cycle_over(queue, ScorePolicy([3, 1, 2]), tmp_path).run()
    queue.known = FACTS
    report = cycle.run()
    assert (report.mode, report.disturbances) == ("active", {})


def test_a_release_that_is_cut_short_is_no_lost_write(tmp_path: Path) -> None:
    queue, policy = QueueInMemory(pending_jobs([3, 2, 1])), ScorePolicy([1, 2, 3])
    cycle = cycle_over(queue, policy, tmp_path, fallback="site")
    cycle.run()
    release = queue.release

    def cut(job_ids: np.ndarray | None = None):  # type: ignore[no-untyped-def]
        release(job_ids)
        raise BatchSystemUnavailable("no answer")

    queue.release = cut  # type: ignore[method-assign]
    policy.scores = [float("nan")] * 3
    assert cycle.run().failure == "batch_system"
    queue.release, policy.scores = release, [1, 2, 3]  # type: ignore[method-assign]
    assert cycle.run().disturbances == {}


def test_factors_of_an_earlier_run_are_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path).run()  # and is killed
    daemon, reports = daemon_of(cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path), CountedStop(2))
    with caplog.at_level(logging.WARNING):
        daemon.run()
    assert [report.disturbances for report in reports] == [{FOUND: 1}, {}]
    assert "disturbance=found_factors" in caplog.text
    daemon, reports = daemon_of(cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path), CountedStop(1))
    daemon.run()
    assert reports[0].disturbances == {}  # the one before left


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_a_cut_state_file_is_told_and_forgets_no_job(tmp_path: Path, kept: float) -> None:
    """A job of ours that runs meanwhile may be requeued: it must still be taken back."""
    queue, cycle = site(tmp_path)
    cycle.run()
    carrying = set(queue.pending.jobs.job_id[queue.pending.factor != 0].tolist())
    assert carrying
    path = cycle.state.path
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    queue.pending = pending_jobs([])  # all of them run now
    assert cycle.run().disturbances == {STATE: 1}
    assert carrying <= (cycle.state.read() or set())
    assert cycle.run().disturbances == {}


def test_a_release_after_a_lost_state_file_also_frees_jobs_that_run(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    cycle.run()
    cycle.state.path.write_text("")
    released: list[set[int] | None] = []
    release = queue.release

    def noted(job_ids: np.ndarray | None = None):  # type: ignore[no-untyped-def]
        released.append(None if job_ids is None else set(job_ids.tolist()))
        return release(job_ids)

    queue.release = noted  # type: ignore[method-assign]
    known = set(queue.pending.jobs.job_id[queue.pending.factor != 0].tolist())
    cycle.release()
    assert released[0] is None
    assert known <= (released[1] or set())
    assert cycle.state.read() == set()
