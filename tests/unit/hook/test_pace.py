"""When cycles are due."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.daemon.pace import Pace


def report(*, calls: float = 0.0, pass_interval: float = 30.0) -> CycleReport:
    return CycleReport(
        time=1.0,
        mode="active",
        policy="p",
        calls=(("squeue", calls / 2), ("scontrol", calls / 2)),
        pass_interval=pass_interval,
    )


@pytest.mark.parametrize(
    ("pace", "calls", "earliest", "latest"),
    [
        (Pace(longest=30.0), 0.0, 15.0, 30.0),
        (Pace(longest=10.0), 0.0, 10.0, 10.0),
        (Pace(longest=30.0, soonest=2.0), 0.1, 2.0, 30.0),
        (Pace(longest=30.0, soonest=2.0), 1.0, 10.0, 30.0),
        (Pace(longest=30.0, soonest=2.0), 8.0, 80.0, 80.0),
        (Pace(longest=30.0, soonest=2.0, busy_share=1.0), 8.0, 8.0, 30.0),
        (Pace(longest=30.0, soonest=2.0, busy_share=0.001), 2.0, 300.0, 300.0),
    ],
)
def test_soon_after_a_change_and_never_busier_than_allowed(
    pace: Pace, calls: float, earliest: float, latest: float
) -> None:
    last = report(calls=calls)
    assert (pace.earliest(last), pace.latest(last)) == (earliest, latest)
    assert 1.0 <= pace.poll(last) <= 5.0


def test_without_a_known_pass_the_next_cycle_may_follow_at_once() -> None:
    assert Pace(longest=30.0).earliest(report(pass_interval=0.0)) == 0.0


def test_accounting_at_the_start_earns_no_pause() -> None:
    last = CycleReport(time=1.0, mode="active", policy="p", calls=(("sacct", 60.0),))
    assert Pace(longest=30.0).latest(last) == 30.0
