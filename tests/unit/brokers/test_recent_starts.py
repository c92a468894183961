"""The batch system is asked rarely, by few at a time, and not at all while it does not answer."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.recent_starts import REST, RecentStarts, StartLimits
from slurm_rl_plugin.domain.site import JobRequest
from slurm_rl_plugin.errors import BatchSystemUnavailable, JobNotAccepted, RequestRefused

REQUEST = job_request({"processors": 1, "user": "alice"})


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class BatchSystem:
    """Counts questions, and how many are on their way at a time."""

    def __init__(self, clock: Clock | None = None, takes: float = 0.0) -> None:
        self.asked: list[JobRequest] = []
        self.most = 0
        self.error: Exception | None = None
        self._clock, self._takes = clock, takes
        self._at_once = 0
        self._lock = threading.Lock()

    def __call__(self, request: JobRequest) -> float:
        with self._lock:
            self.asked.append(request)
            self._at_once += 1
            self.most = max(self.most, self._at_once)
        if self._clock is not None:
            self._clock.now += self._takes
        else:
            time.sleep(self._takes)
        with self._lock:
            self._at_once -= 1
        if self.error is not None:
            raise self.error
        return float(len(self.asked))


def named(name: str) -> JobRequest:
    return replace(REQUEST, job=replace(REQUEST.job, name=name))


def test_the_same_question_is_asked_once_in_a_while_whoever_asks() -> None:
    clock = Clock()
    system = BatchSystem(clock)
    starts = RecentStarts(system, StartLimits(keep=5.0, busy_share=1.0), clock)
    bobs = replace(REQUEST, job=replace(REQUEST.job, user="bob"))
    assert [starts.expected_start(each) for each in (REQUEST, bobs, REQUEST)] == [1.0, 1.0, 1.0]
    clock.now += 5.1
    assert starts.expected_start(REQUEST) == 2.0
    assert starts.expected_start(named("other")) == 3.0
    assert {each.job.user for each in system.asked} == {""}  # nothing of the user's is passed on


def test_a_refusal_is_kept_as_well() -> None:
    clock = Clock()
    system = BatchSystem(clock)
    system.error = JobNotAccepted("no")
    starts = RecentStarts(system, StartLimits(), clock)
    for _ in range(3):
        with pytest.raises(JobNotAccepted):
            starts.expected_start(REQUEST)
    assert len(system.asked) == 1


def test_few_are_on_their_way_at_a_time_and_all_are_answered() -> None:
    system = BatchSystem(takes=0.02)
    limits = StartLimits(at_once=2, busy_share=1.0, patience=30.0)
    starts = RecentStarts(system, limits, time.monotonic)
    found: list[float | None] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(starts.expected_start(named(str(n % 12)))))
        for n in range(48)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 48
    assert len(system.asked) == 12  # who asks the same waits for the same answer
    assert system.most <= 2


def test_a_place_stays_empty_the_longer_the_slower_the_answer_was() -> None:
    clock = Clock()
    system = BatchSystem(clock, takes=2.0)
    starts = RecentStarts(system, StartLimits(at_once=1, busy_share=0.1, patience=0.0), clock)
    starts.expected_start(named("first"))
    clock.now += 17.9
    with pytest.raises(RequestRefused, match="too many ask at once"):
        starts.expected_start(named("second"))
    clock.now += 0.2
    starts.expected_start(named("second"))
    assert len(system.asked) == 2


def test_nothing_is_asked_for_a_while_after_no_answer() -> None:
    clock = Clock()
    system = BatchSystem(clock)
    starts = RecentStarts(system, StartLimits(keep=0.0, busy_share=1.0), clock)
    system.error = BatchSystemUnavailable("gone")
    with pytest.raises(BatchSystemUnavailable):
        starts.expected_start(REQUEST)
    system.error = None
    clock.now += REST - 1.0
    with pytest.raises(RequestRefused) as refused:
        starts.expected_start(named("other"))
    assert refused.value.retry_after == pytest.approx(1.0)
    clock.now += 1.1
    assert starts.expected_start(REQUEST) == 2.0


def test_a_fault_of_ours_leaves_no_place_taken() -> None:
    clock = Clock()
    system = BatchSystem(clock)
    starts = RecentStarts(
        system, StartLimits(keep=0.0, at_once=1, busy_share=1.0, patience=0.0), clock
    )
    system.error = ZeroDivisionError()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            starts.expected_start(REQUEST)
        clock.now += 1.0
    system.error = None
    assert starts.expected_start(REQUEST) == 4.0
