"""What the report of the reserve's hours computes; the hours themselves run on real Slurms."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.live.compressed_time import Stopped
from tests.bench.reserve_hours.campaign import each_hour, over_hours
from tests.bench.reserve_hours.load import HourJob
from tests.bench.reserve_hours.runs import (
    ORDER,
    PLAIN,
    RESERVE,
    ReplayedJob,
    Side,
    submit_in_time,
)


def replayed(wait: float, *, interactive: bool) -> ReplayedJob:
    return ReplayedJob(
        submit=10.0,
        sent=10.0,
        wait=wait,
        run_time=60.0,
        processors=1,
        interactive=interactive,
        wanted_run_time=60.0,
    )


HOURS = (1, 2, 3, 4, 5, 6)


def hour(interactive: float, batch: float) -> list[ReplayedJob]:
    return [replayed(interactive, interactive=True), replayed(batch, interactive=False)]


def test_an_interval_holds_the_figure_and_is_a_point_where_all_hours_are_alike() -> None:
    alike = {
        (seed, side): hour(*waits)
        for seed in HOURS
        for side, waits in (
            (PLAIN, (100.0, 80.0)),
            (ORDER, (50.0, 100.0)),
            (RESERVE, (10.0, 120.0)),
        )
    }
    found = {what: (figure, *ci95) for what, figure, ci95 in over_hours(alike, HOURS) if ci95}
    assert found["interactive within 120 s, reserve"] == (1.0, 1.0, 1.0)
    assert found["interactive wait, reserve / Slurm"] == pytest.approx((0.1,) * 3)
    assert found["batch wait, reserve / order"] == pytest.approx((1.2,) * 3)
    assert {ci95 for *_, ci95 in over_hours(alike, HOURS[:4])} == {None}
    alike[6, RESERVE] = hour(130.0, 120.0)
    found = {what: (figure, *ci95) for what, figure, ci95 in over_hours(alike, HOURS) if ci95}
    figure, low, high = found["interactive wait, reserve / Slurm"]
    assert low == pytest.approx(0.1)
    assert figure == pytest.approx(0.3)
    assert low < figure < high
    assert [met for *_, met in each_hour(alike, HOURS[3:])] == [
        [True, True, False, True],
        [True, True, False, True],
        [False, False, False, True],
    ]


def test_an_hour_that_is_broken_off_submits_nothing_more() -> None:
    stop, submitted = Event(), list[float]()

    def submit(*_: str, **what: Any) -> int:
        submitted.append(what["seconds"])
        stop.set()
        return 1

    job = HourJob(submit=0.0, run_time=60.0, processors=1, interactive=True, account=0)
    with pytest.raises(Stopped):
        submit_in_time(SimpleNamespace(submit=submit), Side(name=PLAIN), [job] * 3, stop)  # type: ignore[arg-type]
    assert submitted == [10.0]
