"""What the replay with plan estimates takes of a log, and what it makes of its runs."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import pytest

from bench.plan_hours.campaign import goals, options
from bench.plan_hours.figures import figures_of
from bench.plan_hours.load import ADDED, USERS, StretchPlan, stretch_of
from bench.plan_hours.machine import Closed, Ended
from bench.plan_hours.pbs_machine import ended_of
from bench.plan_hours.replay import BEYOND, submit_stretch
from bench.reserve_hours.replay import Stopped, in_time
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from tests.architecture.markdown_documents import TOP, shell_lines

PLAN = StretchPlan(jobs=200, minutes=2.0, processors=5, load=(0.1, 2.0))


def test_a_stretch_is_of_the_last_part_and_keeps_its_load() -> None:
    log = generated_log("mmn:jobs=4000,processors=5")
    jobs = stretch_of(log, PLAN)
    assert jobs == stretch_of(log, PLAN)
    assert len(jobs) == PLAN.jobs
    due = np.array([job.submit for job in jobs])
    assert due[0] == 0.0
    assert due[-1] == pytest.approx(60.0 * PLAN.minutes)
    assert (np.diff(due) >= 0.0).all()
    work = sum((job.seconds + ADDED) * job.processors for job in jobs)
    low, high = PLAN.load
    assert low <= work / (PLAN.processors * 60.0 * PLAN.minutes) <= high
    assert all(60 * job.minutes >= job.seconds + 60 for job in jobs)
    assert min(job.minutes for job in jobs) >= 2
    assert {job.user for job in jobs} <= set(USERS)


def test_a_load_that_no_stretch_has_is_told() -> None:
    log = generated_log("mmn:jobs=4000,processors=5")
    with pytest.raises(ValueError, match="no 200 jobs of this log make a load of 8 to 9"):
        stretch_of(log, StretchPlan(jobs=200, processors=5, load=(8.0, 9.0)))


class FakeMachine:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def submit(self, job: object) -> int:
        self.asked.append(job)
        return len(self.asked)

    def reserve(self, ahead: float) -> Closed:
        self.asked.append(ahead)
        return Closed(begin=ahead, end=ahead + 60.0)


def test_the_reservation_is_made_among_the_submissions_beyond_every_limit() -> None:
    plan = StretchPlan(jobs=200, minutes=0.002, processors=5, load=(0.0, 1e9))
    jobs = stretch_of(generated_log("mmn:jobs=4000,processors=5"), plan)
    machine = FakeMachine()
    numbers, closed, _ = submit_stretch("x", machine, jobs, plan, Event())  # type: ignore[arg-type]
    ahead = 60.0 * max(job.minutes for job in jobs) + BEYOND
    assert closed.begin == ahead
    assert 20 < machine.asked.index(ahead) < 120
    assert [each for each in machine.asked if each != ahead] == jobs
    assert len(numbers) == len(jobs)


def test_submissions_end_when_they_are_broken_off() -> None:
    stop, done = Event(), list[int]()

    def act(place: int) -> None:
        done.append(place)
        stop.set()

    with pytest.raises(Stopped):
        in_time("x", [0.0, 0.0, 9.0], act, stop)
    assert done == [0]


def job(**other: Any) -> dict[str, Any]:
    """Asked for two minutes, waited 30 s, ran 5 s."""
    usual = {"submit": 1000.0, "start": 1030.0, "end": 1035.0, "state": "COMPLETED", "limit": 120.0}
    return {**usual, "estimate": 0.0, "minutes": 2, "processors": 4, **other}


def run_of(*jobs: dict[str, Any]) -> dict[str, Any]:
    closed = {"begin": 2000.0, "end": 2060.0}
    return {"jobs": jobs, "closed": closed, "writes": {"given": 3, "rejected": 0}, "late": 0.5}


def test_figures_count_every_wrong() -> None:
    good = figures_of(run_of(job(), job(end=1130.0, estimate=60.0)))
    assert (good["killed"], good["changed"], good["overlapping"]) == (0, 0, 0)
    assert (good["given"], good["started_with"], good["outlived"]) == (3, 1, 1)
    assert good["slowdown"] == pytest.approx((3.5 + 1.3) / 2.0)
    assert good["longest_wait"] == 30.0
    wrong = [
        job(state="TIMEOUT", end=1090.0),
        job(state="TIMEOUT", end=1150.0),  # at its own limit
        job(limit=60.0),
        job(end=2000.5),
        job(start=2059.0, end=2061.0),
        job(start=2060.0, end=2061.0),
    ]
    bad = figures_of(run_of(*wrong))
    assert (bad["killed"], bad["changed"], bad["overlapping"]) == (1, 1, 2)
    released = {"stood": 2, "left": 1}
    missed = [what for what, _, met in goals({"none": good, "estimates": bad}, released) if not met]
    assert missed == [
        "killed, estimates",
        "changed, estimates",
        "overlapping, estimates",
        "left after a release",
    ]


def test_a_record_of_pbs_tells_how_a_job_ended() -> None:
    told = (
        "user=alice ctime=1000 qtime=1000 etime=1000 start=1030 Resource_List.ncpus=4 "
        "Resource_List.walltime=00:02:00 end=1035 Exit_status={}"
    )
    usual = {"submit": 1000.0, "start": 1030.0, "end": 1035.0, "limit": 120.0}
    expected = Ended(**usual, state="COMPLETED", estimate=0.0)
    assert ended_of(told.format("0")) == expected
    soft = "Resource_List.soft_walltime=00:01:01 "
    expected = Ended(**usual, state="Exit_status=-29", estimate=61.0)
    assert ended_of(soft + told.format("-29")) == expected


def test_documented_commands_are_understood() -> None:
    words = [
        line.partition("bench.plan_hours.campaign ")[2].split()
        for line in shell_lines(TOP / "docs" / "plan-estimates.md")
        if "bench.plan_hours.campaign" in line
    ]
    assert {options(each).batch_system for each in words} == {"slurm", "pbs"}
