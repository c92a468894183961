"""What every adapter must do that gives jobs plan estimates; subclass it and give `planned`.

class TestMyEstimates(PlanEstimatesContract):
    @pytest.fixture
    def planned(self) -> PlannedQueue: ...
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.plan_port import ChecksEstimates, PlansByEstimates
from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN

UNKNOWN_JOB = 999999


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQueue:
    """A batch system that plans by estimates, with a queue in which nothing moves by itself.

    Attributes:
        system: the adapter, fresh.
        waiting: at least two waiting jobs without an estimate that may have one, of 10 minutes.
        barred: a waiting job that must not have one.
    """

    system: PlansByEstimates
    waiting: tuple[int, ...]
    barred: int


class PlanEstimatesContract:
    """Tests of the port `PlansByEstimates`."""

    def test_jobs_are_told_and_the_cluster_can(self, planned: PlannedQueue) -> None:
        assert isinstance(planned.system, PlansByEstimates)
        assert planned.system.estimates_refused() is None
        told = planned.system.estimates()
        assert {told[job].seconds for job in planned.waiting} == {0}
        assert {told[job].obstacle for job in planned.waiting} == {None}

    def test_an_estimate_is_set_and_taken_away(self, planned: PlannedQueue) -> None:
        one, other = planned.waiting[:2]
        report = planned.system.write_estimates({one: 300, other: 61})
        assert (report.applied, report.rejected) == (2, {})
        told = planned.system.estimates()
        assert told[one].seconds == 300
        assert 61 <= told[other].seconds <= 120  # rounded up, to whole minutes at most
        assert planned.system.write_estimates({one: 0}).rejected == {}
        assert planned.system.estimates()[one].seconds == 0
        assert planned.system.estimates()[other].seconds == told[other].seconds

    def test_what_is_not_below_the_limit_is_refused(self, planned: PlannedQueue) -> None:
        one, other = planned.waiting[:2]
        report = planned.system.write_estimates({one: 600, other: 300})
        assert (report.applied, report.rejected.keys()) == (1, {one})
        assert planned.system.estimates()[one].seconds == 0

    def test_a_job_that_is_gone_is_reported_and_stops_no_other(self, planned: PlannedQueue) -> None:
        (job, *_) = planned.waiting
        report = planned.system.write_estimates({UNKNOWN_JOB: 300, job: 300})
        assert report.rejected.keys() == {UNKNOWN_JOB}
        assert planned.system.estimates()[job].seconds == 300

    def test_a_job_that_must_not_have_one_says_why(self, planned: PlannedQueue) -> None:
        assert planned.system.estimates()[planned.barred].obstacle

    def test_checks_say_each_thing_once_and_none_fails(self, planned: PlannedQueue) -> None:
        assert isinstance(planned.system, ChecksEstimates)
        checks = list(planned.system.estimate_checks(writes=True))
        assert len({check.name for check in checks}) == len(checks) > 0
        assert {check.result for check in checks} <= {PASS, WARN, FAIL}
        assert [check for check in checks if check.result == FAIL] == []
        assert {each.seconds for each in planned.system.estimates().values()} == {0}
