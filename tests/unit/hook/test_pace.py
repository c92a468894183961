"""When cycles are due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_rl_plugin.batch_systems.port import SchedulerLoad
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.daemon.pace import NewJobsDue, Pace


def report(*, calls: float = 0.0, pass_interval: float = 30.0) -> CycleReport:
    return CycleReport(
        time=1.0,
        mode="active",
        policy="p",
        calls=(("squeue", calls / 2), ("scontrol", calls / 2)),
        pass_interval=pass_interval,
    )


@pytest.mark.parametrize(
    ("pace", "calls", "earliest"),
    [
        (Pace(longest=30.0), 0.0, 15.0),
        (Pace(longest=10.0), 0.0, 10.0),
        (Pace(longest=30.0, soonest=2.0), 0.1, 2.0),
        (Pace(longest=30.0, soonest=2.0), 1.0, 10.0),
        (Pace(longest=30.0, soonest=2.0), 8.0, 30.0),
        (Pace(longest=30.0, soonest=2.0, busy_share=1.0), 8.0, 8.0),
    ],
)
def test_soon_after_a_change_and_never_later_than_a_cycle(
    pace: Pace, calls: float, earliest: float
) -> None:
    last = report(calls=calls)
    assert pace.earliest(last) == earliest
    assert 0.5 <= pace.poll(last) <= 5.0


def test_without_a_known_pass_the_next_cycle_may_follow_at_once() -> None:
    assert Pace(longest=30.0).earliest(report(pass_interval=0.0)) == 0.0


def test_accounting_at_the_start_earns_no_pause() -> None:
    last = CycleReport(time=1.0, mode="active", policy="p", calls=(("sacct", 60.0),))
    assert Pace(longest=30.0).owed(last) == 0.0


def seen(**suppressed: int) -> CycleReport:
    return replace(report(), suppressed=suppressed, submitted=7)


@pytest.mark.parametrize(
    ("suppressed", "may"),
    [({"held": 0}, False), ({"held": 1}, True), ({"not_eligible": 1}, True)],
)
def test_where_jobs_are_held_it_is_looked_without_a_sign(
    suppressed: dict[str, int], may: bool
) -> None:
    due = NewJobsDue.after(seen(**suppressed), Pace(longest=30.0), 2.0)
    same = SchedulerLoad(struggles=None, events=(9,), submitted=7)
    assert due.may_have_come(same, 7.0) is may
    assert not due.may_have_come(same, 6.9)


def test_a_job_that_came_is_looked_for_within_half_a_second_or_what_the_last_look_cost() -> None:
    due = NewJobsDue.after(seen(), Pace(longest=30.0), 2.0)
    more = SchedulerLoad(struggles=None, events=(9,), submitted=8)
    assert not due.may_have_come(more, 2.4)
    assert due.may_have_come(more, 2.5)
    due.looked(replace(report(calls=0.3), submitted=8), 3.5)
    assert not due.may_have_come(replace(more, submitted=9), 6.4)  # 0.3 s are a tenth of 3 s
    assert due.may_have_come(replace(more, submitted=9), 6.5)
    assert not due.may_have_come(more, 6.5)
