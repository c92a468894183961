"""What the campaign of faults calls lost, held, failed and starved."""

from __future__ import annotations

import pytest

from tests.bench.faults.jobs_under_fault import SeenJob, failed, held, lost, starved
from tests.bench.faults.scene import Sign

BOUND, GRACE = 25.0, 10.0


def job(name: str, **more: object) -> SeenJob:
    usual = {
        "state": "COMPLETED",
        "reason": "None",
        "restarts": 0,
        "eligible": 0.0,
        "start": 5.0,
        "processors": 1,
        "priority": 100,
    }
    return SeenJob(job=name, **{**usual, **more})  # type: ignore[arg-type]


def test_a_job_that_nobody_knows_is_lost() -> None:
    assert lost({"1", "2_3"}, {"1": job("1")}) == ["2_3"]


def test_held_is_by_reason_or_by_priority_and_not_by_its_user() -> None:
    seen = [
        job("1", state="PENDING", reason="JobHeldAdmin"),
        job("2", state="PENDING", reason="Priority", priority=0),
        job("3", state="PENDING", reason="JobHeldUser"),
        job("4", priority=0),  # has run
        job("5", state="PENDING", reason="launch_failed_requeued_held", priority=0),  # by Slurm
    ]
    found = held({each.job: each for each in seen}, {"3"})
    assert found == ["1 (JobHeldAdmin)", "2 (Priority)"]


@pytest.mark.parametrize("reruns", [True, False])
def test_failed_is_what_did_not_complete_or_ran_again(reruns: bool) -> None:
    seen = [
        job("1"),
        job("2", state="CANCELLED"),
        job("3", state="CANCELLED"),
        job("4", restarts=1),
    ]
    found = list(failed({each.job: each for each in seen}, {"3"}, reruns=reruns))
    assert found == ["2 (CANCELLED)", *([] if reruns else ["4 (run again 1 times)"])]


def test_a_job_is_starved_where_a_newer_one_of_its_size_passes_it_beyond_the_bound() -> None:
    old = job("old", start=60.0)
    assert starved([old, job("new", eligible=40.0, start=50.0)], BOUND, GRACE)
    assert not starved([old, job("new", eligible=40.0, start=50.0)], BOUND, GRACE, until=45.0)
    assert not starved([old, job("early", eligible=20.0, start=30.0)], BOUND, GRACE)
    assert not starved([old, job("as old", eligible=1.0, start=50.0)], BOUND, GRACE)
    assert not starved(
        [job("wide", start=60.0, processors=2), job("new", eligible=40.0, start=50.0)], BOUND, GRACE
    )


@pytest.mark.parametrize(
    ("sign", "before", "now", "shows"),
    [
        (Sign("a"), {"a": 1.0}, {"a": 2.0}, True),
        (Sign("a"), {"a": 2.0}, {"a": 2.0}, False),
        (Sign("a"), None, {"a": 1.0}, True),
        (Sign("a", 0.0), {"a": 1.0}, {"a": 0.0}, True),
        (Sign("a", 0.0), {"a": 1.0}, None, False),
        (Sign(""), {"a": 1.0}, None, True),
        (Sign(""), {"a": 1.0}, {"a": 1.0}, False),
        (Sign("a", labels='b="c"'), {}, {'a{b="c"}': 1.0}, True),
        (Sign("a", labels='b="c"'), {}, {'a{b="d"}': 1.0}, False),
    ],
)
def test_a_sign_shows_by_what_was_scraped(
    sign: Sign, before: dict[str, float] | None, now: dict[str, float] | None, shows: bool
) -> None:
    assert sign.shows(before, now) == shows
