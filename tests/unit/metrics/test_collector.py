from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain import EndedJobs, StartedJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.rails.reserve import (
    ACCOUNT,
    AS_BATCH,
    NO_RESERVE,
    OVERRUN,
    USER,
    LimitReport,
)
from slurm_rl_plugin.metrics.collector import CycleMetrics
from tests.bench.speed.metrics_answer import large_site_reports
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

#: Of eight processors, memory and two GPUs.
MACHINE = ResourcesNow(
    names=BASIC_RESOURCES,
    capacity=np.array([8.0, 4000.0, 2.0]),
    free=np.array([8.0, 4000.0, 2.0]),
)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> CycleMetrics:
    return CycleMetrics(registry, {"name": "default"}, max_accounts=3)


def report(**changes: object) -> CycleReport:
    snapshot = snapshot_of(pending_jobs([1, 1, 1]))
    first = CycleReport(time=1000.0, mode="active", policy="default", snapshot=snapshot)
    return replace(first, **changes)  # type: ignore[arg-type]


def started(waits: list[float], interactive: bool) -> StartedJobs:
    jobs = job_table(len(waits))
    return StartedJobs(
        jobs=replace(jobs, interactive=np.full(len(waits), interactive)),
        start=jobs.eligible + np.array(waits),
    )


def test_a_look_at_new_jobs_is_no_cycle_and_takes_nothing_back(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    metrics.publish(report())
    new = CycleReport(time=1001.0, mode="active", policy="default", of_new_jobs=True)
    metrics.publish(replace(new, adjustments={"up": 2}, place_seconds=(0.5, 3.0)))
    told = registry.get_sample_value
    assert told("slurm_rl_cycles_total") == 1
    assert told("slurm_rl_pending_jobs", {"partition": "batch", "job_class": "batch"}) == 3
    assert told("slurm_rl_adjustments_total", {"direction": "up"}) == 2
    assert told("slurm_rl_place_seconds_sum") == 3.5
    assert told("slurm_rl_place_seconds_bucket", {"le": "2.0"}) == 1


def test_resources_are_counted_where_the_machine_tells_of_them(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    alone = snapshot_of(pending_jobs([1, 2]))
    metrics.publish(report(snapshot=alone))
    assert registry.get_sample_value("slurm_rl_resource_usable", {"resource": "gpus"}) is None
    asked = np.array([[1.0, 100.0, 0.0], [2.0, 50.0, 3.0]])
    requests = ResourceRequests.of_totals(asked, nodes=np.zeros(2, dtype=np.int64))
    pending = replace(alone.pending, jobs=replace(alone.pending.jobs, requests=requests))
    metrics.publish(report(snapshot=replace(alone, pending=pending, resources=MACHINE)))
    told = {
        (what, resource): registry.get_sample_value(
            f"slurm_rl_resource_{what}", {"resource": resource}
        )
        for what in ("usable", "running", "pending")
        for resource in MACHINE.names
    }
    assert told["pending", "gpus"] == 3.0
    assert told["pending", "memory"] == 150.0 * 1024**2
    assert told["usable", "cpus"] == 8.0
    assert told["usable", "memory"] == 4000.0 * 1024**2
    assert told["running", "gpus"] == 0.0


def test_closed_label_sets_start_at_zero(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    del metrics
    for name, labels in (
        ("slurm_rl_adjustments_total", {"direction": "reset"}),
        ("slurm_rl_adjustments_suppressed_total", {"reason": "held"}),
        ("slurm_rl_cycle_failures_total", {"reason": "batch_system"}),
        ("slurm_rl_cycle_duration_seconds_count", {"phase": "apply"}),
        ("slurm_rl_fairness_ratio", {}),
        ("slurm_rl_up", {}),
    ):
        assert registry.get_sample_value(name, labels) == 0, name


def test_waits_are_counted_at_start_with_an_edge_at_two_minutes(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    snapshot = replace(snapshot_of(pending_jobs([])), started=started([0.0, 120.0, 121.0], True))
    metrics.publish(report(snapshot=snapshot))
    where = {"partition": "batch", "job_class": "interactive"}
    value = registry.get_sample_value
    assert value("slurm_rl_job_wait_seconds_bucket", {**where, "le": "120.0"}) == 2
    assert value("slurm_rl_job_wait_seconds_count", where) == 3
    assert value("slurm_rl_job_wait_seconds_count", {**where, "job_class": "batch"}) == 0


def test_pending_ages_count_from_eligibility(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    metrics.publish(report())  # jobs 1, 2, 3 became eligible at 10, 20, 30 s; now is 1000 s
    where = {"partition": "batch", "job_class": "batch"}
    assert registry.get_sample_value("slurm_rl_pending_jobs", where) == 3
    assert registry.get_sample_value("slurm_rl_pending_age_seconds_median", where) == 980
    assert registry.get_sample_value("slurm_rl_pending_age_seconds_max", where) == 990


def test_accounts_past_the_cap_are_summed_up(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    accounts = ("a", "b", "c", "d", "e")
    snapshot = replace(
        snapshot_of(pending_jobs([])),
        accounts=accounts,
        shares=np.array([0.4, 0.3, 0.1, 0.1, 0.1]),
        usage=np.array([0.5, 0.2, 0.2, 0.05, 0.05]),
    )
    metrics.publish(report(snapshot=snapshot))
    value = registry.get_sample_value
    assert value("slurm_rl_account_usage_ratio", {"account": "a"}) == 0.5
    assert value("slurm_rl_account_share_target_ratio", {"account": "_other"}) == 0.2
    assert value("slurm_rl_account_usage_ratio", {"account": "d"}) is None
    assert value("slurm_rl_share_deficit_ratio") == pytest.approx(0.1)
    assert value("slurm_rl_fairness_ratio") == pytest.approx(0.75)


def test_who_got_what_is_said_once_enough_is_known(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    value = registry.get_sample_value
    snapshot = replace(
        snapshot_of(pending_jobs([])),
        accounts=("a", "b", "c"),
        shares=np.array([0.5, 0.3, 0.2]),
        usage=np.zeros(3),
    )
    metrics.publish(report(snapshot=snapshot))
    assert value("slurm_rl_misdelivered_ratio") is None
    service = ServiceSeen(delivered=np.array([30.0, 70.0, 0.0]), entitled=np.array([60.0, 39, 1]))
    metrics.publish(report(snapshot=snapshot, service=service))
    assert value("slurm_rl_misdelivered_ratio") == pytest.approx(0.31)
    assert value("slurm_rl_entitlement_ratio", {"account": "a"}) == 0.5
    assert value("slurm_rl_entitlement_ratio", {"account": "c"}) is None  # too little is due


def test_accounts_of_one_label_have_the_greatest_lift_of_them() -> None:
    snapshot = replace(
        snapshot_of(pending_jobs([])),
        accounts=("a", "b", "c"),
        shares=np.array([0.5, 0.3, 0.2]),
        usage=np.zeros(3),
    )
    registry = CollectorRegistry()
    few = CycleMetrics(registry, {}, max_accounts=1)
    few.publish(report(snapshot=snapshot, lifts=Lifts(accounts=np.array([0.25, 1.5, 0.5]))))
    value = registry.get_sample_value
    assert value("slurm_rl_account_lift_doublings", {"account": "a"}) == 0.25
    assert value("slurm_rl_account_lift_doublings", {"account": "_other"}) == 1.5


def test_jobs_that_count_as_batch_are_counted_by_reason() -> None:
    registry = CollectorRegistry()
    pending = pending_jobs([1, 1, 1], as_batch=[1, -1, 1])
    CycleMetrics(registry, {}).publish(report(snapshot=snapshot_of(pending)))
    name = "slurm_rl_interactive_jobs_as_batch"
    found = {why: registry.get_sample_value(name, {"reason": why}) for why in AS_BATCH}
    assert found == {ACCOUNT: 0, USER: 2, OVERRUN: 0, NO_RESERVE: 0}


def test_users_whose_limits_do_not_count_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {})
    metrics.publish(report(overrunners=2))
    assert registry.get_sample_value("slurm_rl_users_as_batch") == 2
    metrics.publish(report(failure="write"))  # a failed cycle has the queue and no count
    assert registry.get_sample_value("slurm_rl_users_as_batch") == 2


def test_groups_of_jobs_have_their_waits_and_lifts(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    lifts = Lifts(groups={"half or more": 0.5}, group_waits={"up to 1 h": 90.0})
    metrics.publish(report(lifts=lifts))
    value = registry.get_sample_value
    assert value("slurm_rl_group_lift_doublings", {"group": "half or more"}) == 0.5
    assert value("slurm_rl_group_wait_seconds", {"group": "up to 1 h"}) == 90.0
    assert value("slurm_rl_group_lift_doublings", {"group": "up to 1 h"}) is None


def test_a_failed_cycle_keeps_the_last_queue_and_says_down(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    metrics.publish(report())
    metrics.publish(report(snapshot=None, failure="batch_system", time=0.0))
    value = registry.get_sample_value
    assert value("slurm_rl_up") == 0
    assert value("slurm_rl_cycle_failures_total", {"reason": "batch_system"}) == 1
    assert value("slurm_rl_last_success_timestamp_seconds") == 1000
    where = {"partition": "batch", "job_class": "batch"}
    assert value("slurm_rl_pending_jobs", where) == 3


def test_a_failed_cycle_keeps_what_the_last_decision_told(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    value = registry.get_sample_value
    told = ("slurm_rl_fallback_active", "slurm_rl_reserve_processors")
    metrics.publish(report(mode="fallback", fallback_reason="broken", reserve=5))
    before = [value(name) for name in told]
    assert before == [1, 5]
    assert value("slurm_rl_mode", {"slurm_rl_mode": "fallback"}) == 1
    assert value("slurm_rl_mode", {"slurm_rl_mode": "active"}) == 0
    metrics.publish(report(snapshot=None, failure="batch_system", time=0.0))
    assert [value(name) for name in told] == before
    metrics.publish(report(mode="disabled", snapshot=None, time=0.0))
    assert value("slurm_rl_fallback_active") == 0


def test_the_limit_of_a_failed_cycle_is_that_of_before_unless_it_was_lifted(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    shown = lambda: registry.get_sample_value("slurm_rl_batch_limit_processors")  # noqa: E731
    metrics.publish(
        report(limit=LimitReport(amounts={"cpus": 5, "gpus": 2}, reason="kept", change="lowered"))
    )
    failed = report(failure="batch_system")
    for each in (failed, replace(failed, snapshot=None)):
        metrics.publish(each)
        assert shown() == 5
        of = {"resource": "gpus"}
        assert registry.get_sample_value("slurm_rl_batch_limit_resource", of) == 2
    lifted = LimitReport(before={"cpus": 5}, reason="fallback", change="lifted")
    metrics.publish(replace(failed, failure="refused", snapshot=None, limit=lifted))
    assert shown() == float("inf")
    labels = {"direction": "lifted"}
    assert registry.get_sample_value("slurm_rl_batch_limit_changes_total", labels) == 1


def test_writes_and_suppressed_changes_add_up(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    for _ in range(2):
        metrics.publish(report(adjustments={"up": 3}, suppressed={"held": 2}))
    value = registry.get_sample_value
    assert value("slurm_rl_adjustments_total", {"direction": "up"}) == 6
    assert value("slurm_rl_adjustments_suppressed_total", {"reason": "held"}) == 4


def test_counters_of_accounts_past_the_cap_are_summed_up_and_never_change_their_series(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    accounts = ("a", "b", "c", "d", "e")
    first = replace(
        snapshot_of(pending_jobs([])),
        accounts=accounts,
        shares=np.array([0.4, 0.3, 0.1, 0.1, 0.1]),
        usage=np.zeros(5),
        started=of_account(started([5.0, 7.0, 9.0], False), [3, 4, 0]),
    )
    metrics.publish(report(snapshot=first))
    value = registry.get_sample_value
    assert value("slurm_rl_account_wait_seconds_total", {"account": "_other"}) == 12
    assert value("slurm_rl_account_jobs_started_total", {"account": "_other"}) == 2
    assert value("slurm_rl_account_wait_seconds_total", {"account": "a"}) == 9
    assert value("slurm_rl_account_jobs_started_total", {"account": "b"}) == 0
    # now d weighs most, but a series of its own would begin with what _other has counted
    later = replace(first, shares=np.array([0, 0, 0, 1.0, 0]))
    metrics.publish(report(snapshot=later))
    assert value("slurm_rl_account_wait_seconds_total", {"account": "_other"}) == 24
    assert value("slurm_rl_account_wait_seconds_total", {"account": "d"}) is None


def of_account(jobs: StartedJobs, account: list[int]) -> StartedJobs:
    return replace(jobs, jobs=replace(jobs.jobs, account=np.array(account)))


def test_a_start_whose_account_nobody_knows_counts_for_no_account(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    jobs = of_account(started([5.0, 7.0], False), [-1, 0])
    metrics.publish(report(snapshot=replace(snapshot_of(pending_jobs([])), started=jobs)))
    value = registry.get_sample_value
    assert value("slurm_rl_account_wait_seconds_total", {"account": "physics"}) == 7
    assert value("slurm_rl_account_jobs_started_total", {"account": "physics"}) == 1


def test_an_account_that_is_called_other_is_one_of_the_rest(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    snapshot = replace(
        snapshot_of(pending_jobs([])),
        accounts=("_other", "a", "b", "c", "d"),
        shares=np.array([0.5, 0.2, 0.1, 0.1, 0.1]),
        usage=np.zeros(5),
    )
    metrics.publish(report(snapshot=snapshot))
    value = registry.get_sample_value
    assert value("slurm_rl_account_share_target_ratio", {"account": "_other"}) == 0.6


def test_jobs_that_are_held_or_not_yet_eligible_have_no_age(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    pending = pending_jobs([1, 1, 1, 1], held=[True, False, False, False])
    later = replace(pending.jobs, eligible=np.array([10.0, 900.0, 960.0, 5000.0]))
    metrics.publish(report(snapshot=snapshot_of(replace(pending, jobs=later))))
    where = {"partition": "batch", "job_class": "batch"}
    value = registry.get_sample_value
    assert value("slurm_rl_pending_jobs", where) == 4
    assert value("slurm_rl_pending_age_seconds_max", where) == 100
    assert value("slurm_rl_pending_age_seconds_median", where) == 70


@pytest.mark.parametrize(
    ("native", "order", "moved"),
    [
        ([30, 20, 10], [0, 1, 2], 0),
        ([30, 20, 10], [2, 0, 1], 1),  # one job moved to the front, not three in other places
        ([30, 20, 10], [2, 1, 0], 2),
        ([7, 7, 7], [0, 1, 2], 0),  # of equal priority, the site starts by number
        ([7, 7, 7], [1, 0, 2], 1),
        ([30, 20, 10], [], 0),
    ],
)
def test_rank_changes_are_the_fewest_jobs_to_move(
    registry: CollectorRegistry,
    metrics: CycleMetrics,
    native: list[int],
    order: list[int],
    moved: int,
) -> None:
    metrics.publish(report(snapshot=snapshot_of(pending_jobs(native)), order=order))
    assert registry.get_sample_value("slurm_rl_rank_changes", {"partition": "batch"}) == moved


def test_jobs_that_carry_a_factor_are_counted(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    metrics.publish(report(snapshot=snapshot_of(pending_jobs([1, 1, 1], factor=[0, 5, -5]))))
    value = registry.get_sample_value
    assert value("slurm_rl_jobs_with_factor", {"partition": "batch"}) == 2
    assert value("slurm_rl_account_pending_jobs", {"account": "physics"}) == 3


@pytest.mark.parametrize("mode", ["standby", "disabled"])
def test_who_does_not_read_the_queue_says_nothing_of_it(
    registry: CollectorRegistry, metrics: CycleMetrics, mode: str
) -> None:
    metrics.publish(report())
    metrics.publish(report(mode=mode, snapshot=None, time=0.0))
    where = {"partition": "batch", "job_class": "batch"}
    assert registry.get_sample_value("slurm_rl_pending_jobs", where) is None
    assert registry.get_sample_value("slurm_rl_last_success_timestamp_seconds") == 1000


def test_what_the_configuration_says_is_served(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    value = registry.get_sample_value
    assert value("slurm_rl_starvation_bound_seconds") == float("inf")
    metrics.describe_site(mode="active", starvation_bound=3600.0, adapter="slurm_commands")
    metrics.publish(report(release="22.05.8"))
    metrics.publish(report(snapshot=None, failure="batch_system"))  # it did not tell again
    assert value("slurm_rl_starvation_bound_seconds") == 3600
    configured = {"slurm_rl_configured_mode": "active"}
    assert value("slurm_rl_configured_mode", configured) == 1
    build = {"version": __version__, "adapter": "slurm_commands", "slurm_version": "22.05.8"}
    assert value("slurm_rl_build_info", build) == 1


def test_a_large_site_is_served_in_less_than_300_kilobytes(registry: CollectorRegistry) -> None:
    """500 accounts, 50,000 pending jobs, 80 partitions; timed in tests/bench/speed."""
    metrics = CycleMetrics(registry, {"name": "default"})
    for large in large_site_reports():
        metrics.publish(large)
    text = generate_latest(registry)
    assert b'partition="_other"' in text
    assert b'account="_other"' in text
    assert len(text) < 300_000
    pending = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "slurm_rl_pending_jobs"
    ]
    assert sum(pending) == 50_000  # capped, none forgotten


def test_the_utility_of_each_class_is_observed_when_its_jobs_end() -> None:
    """Two hours after they could start: a deadline of 3 hours, an own one of 1, and batch."""
    due = UtilityClass(form="deadline", hours=3.0)
    jobs = replace(
        job_table(3),
        class_number=np.array([2, 2, 0]),
        allowed=np.array([np.nan, 3600.0, np.nan]),
    )
    ended = EndedJobs(jobs=jobs, start=jobs.submit + 3600.0, end=jobs.submit + 7200.0)
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {})
    classes = {**BUILT_IN, "due": due}
    metrics.describe_site(mode="active", starvation_bound=1.0, adapter="x", classes=classes)
    metrics.publish(report(snapshot=replace(snapshot_of(pending_jobs([])), ended=ended)))

    def value(what: str, name: str) -> float | None:
        labels = {"job_class": name}
        return registry.get_sample_value(f"slurm_rl_job_time_utility_{what}", labels)

    assert (value("count", "due"), value("sum", "due")) == (2, 1.0)
    assert (value("count", "batch"), value("count", "interactive")) == (1, 0)
    assert value("sum", "batch") == pytest.approx((7200 / 3660) ** -0.3)
