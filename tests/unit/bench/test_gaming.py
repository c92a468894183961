"""What a job gains by asking otherwise: changed requests and figures of hand-made logs."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import IntArray
from tests.bench.shares.gaming import (
    Changed,
    Gain,
    Replay,
    Way,
    changed_log,
    gain_of,
    may_ask,
    replayed,
)

#: Submission, processors, run time, time limit; of the second job all is changed.
JOBS = ((0.0, 4, 600.0, 600.0), (5000.0, 8, 1000.0, 2400.0), (5000.0, 1, 100.0, 120.0))
SECOND = np.array([1])


def prepared(jobs: tuple[tuple[float, int, float, float], ...] = JOBS) -> PreparedLog:
    submit, processors, run_time, limit = (np.array(column) for column in zip(*jobs, strict=True))
    zero = np.zeros(len(jobs), dtype=np.int64)
    log = JobLog(
        job_id=np.arange(len(jobs)),
        submit=submit,
        eligible=submit,
        start=np.full(len(jobs), np.nan),
        run_time=run_time,
        processors=processors,
        time_limit=limit,
        account=np.array([0, 0, 1]),
        user=zero,
        partition=zero,
        accounts=("large", "small"),
        users=("ann",),
        partitions=("batch",),
        processors_available=16,
        kind="swf",
    )
    return prepare_log(log, shares={"large": 0.5, "small": 0.5})


def asked(way: Way) -> list[tuple[float, int, float, float]]:
    """What stands in the place of the second job: as JOBS, dummies too."""
    changed = changed_log(prepared(), SECOND, way)
    log, mine = changed.log.log, changed.honest == 1
    columns = (log.submit, log.processors, log.run_time, log.time_limit)
    return list(zip(*(column[mine].tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("way", "found"),
    [
        (Way(processors=2.0), [(5000.0, 16, 1000.0, 2400.0)]),
        (Way(time_limit=0.5), [(5000.0, 8, 1000.0, 1200.0)]),
        (Way(time_limit=0.25), [(5000.0, 8, 600.0, 600.0)]),  # killed at 600 s
        (Way(processors=0.25, parts=4), [(5000.0, 2, 1000.0, 2400.0)] * 4),
        (Way(time_limit=0.25, run_time=0.25, parts=4), [(5000.0, 8, 250.0, 600.0)] * 4),
        (Way(dummies=2), [(1400.0, 8, 5.0, 2400.0)] * 2 + [JOBS[1]]),
        (Way(dummies=1, narrow=True), [(1400.0, 1, 5.0, 2400.0), JOBS[1]]),
    ],
)
def test_what_is_asked_for(way: Way, found: list[tuple[float, int, float, float]]) -> None:
    assert asked(way) == found


@pytest.mark.parametrize(
    ("way", "able"),
    [
        (Way(processors=2.0), [True, True, True]),
        (Way(processors=4.0), [True, False, True]),  # 32 of 16 processors
        (Way(processors=0.25), [True, True, False]),  # a quarter of one
        (Way(time_limit=0.25), [True, True, False]),  # 30 s
    ],
)
def test_only_requests_that_a_site_takes_are_made(way: Way, able: list[bool]) -> None:
    assert may_ask(prepared(), way).tolist() == able


def one_machine_full() -> PreparedLog:
    """All but the third ask for the whole machine."""
    return prepared(((0.0, 16, 600.0, 600.0), (10.0, 16, 300.0, 600.0), (20.0, 1, 100.0, 100.0)))


@pytest.mark.parametrize(
    ("scores", "wait", "ahead"),
    [
        ((3.0, 2.0, 1.0), [0.0, 590.0, 880.0], 1.0),  # after both: 600 + 300 - 20
        ((3.0, 1.0, 2.0), [0.0, 690.0, 580.0], 0.0),  # at 600, and the second after its 100 s
    ],
)
def test_waits_and_the_place_as_a_job_comes(
    scores: tuple[float, ...], wait: list[float], ahead: float
) -> None:
    log, third = one_machine_full(), np.array([2])
    order = QueueOrder(scores=np.array(scores))
    replay = replayed(log, changed_log(log, third, Way()), third, order)
    assert replay.wait.tolist() == wait
    assert (replay.response - replay.wait).tolist() == [600.0, 300.0, 100.0]
    assert replay.ahead.tolist() == [ahead]


def test_a_split_job_has_waited_when_its_last_part_starts() -> None:
    """Two parts of 8 processors run at once, then the others."""
    log = prepared(((0.0, 16, 600.0, 600.0), (10.0, 16, 300.0, 600.0), (2000.0, 1, 100.0, 100.0)))
    changed = changed_log(log, SECOND, Way(processors=0.5, parts=4))
    order = QueueOrder(scores=np.arange(6.0)[::-1])
    replay = replayed(log, changed, SECOND, order)
    assert replay.wait[1] == 600.0 + 300.0 - 10.0
    assert replay.response[1] == 600.0 + 2 * 300.0 - 10.0


def gain(changed: Changed, before: list[float], after: list[float], drawn: IntArray) -> Gain:
    log = prepared()
    replays = [
        Replay(np.array(wait), np.array(wait) + log.log.run_time, np.array([ahead]))
        for wait, ahead in ((before, 0.5), (after, 0.2))
    ]
    judged = np.array([True, True, True])
    return gain_of(log, drawn, judged, changed, (replays[0], replays[1]))


def test_figures_of_a_job_that_asks_for_twice_the_processors() -> None:
    changed = changed_log(prepared(), SECOND, Way(processors=2.0))
    found = gain(changed, [0.0, 540.0, 60.0], [30.0, 240.0, 60.0], SECOND)
    assert found.wait == 240 / 540
    assert found.median == 300 / 600  # a minute more than they are
    assert found.response == 1240 / 1540
    assert found.ahead == pytest.approx(-0.3)
    assert (found.paid, found.killed, found.lost) == (2.0, 0.0, 0.0)
    assert found.others == 90 / 60


def test_a_killed_job_has_lost_its_work_and_its_wait_does_not_count() -> None:
    """Of the first and the second, 2400 and 8000 core-seconds, the second reaches its limit."""
    both = np.array([0, 1])
    changed = changed_log(prepared(), SECOND, Way(time_limit=0.25))
    found = gain(changed, [100.0, 540.0, 60.0], [50.0, 0.0, 60.0], both)
    assert (found.killed, found.lost) == (0.5, 8000 / 10_400)
    assert found.paid == (2400 + 8 * 600) / 10_400
    assert found.wait == 0.5
