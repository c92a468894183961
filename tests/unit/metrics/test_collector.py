from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slurm_rl_plugin.domain import StartedJobs
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.metrics.collector import CycleMetrics
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

NAMES = {
    "slurm_rl_up",
    "slurm_rl_mode",
    "slurm_rl_cycles_total",
    "slurm_rl_cycle_failures_total",
    "slurm_rl_cycle_duration_seconds_bucket",
    "slurm_rl_last_success_timestamp_seconds",
    "slurm_rl_pending_jobs",
    "slurm_rl_job_wait_seconds_bucket",
    "slurm_rl_pending_age_seconds_median",
    "slurm_rl_pending_age_seconds_max",
    "slurm_rl_account_share_target_ratio",
    "slurm_rl_account_usage_ratio",
    "slurm_rl_fairness_ratio",
    "slurm_rl_share_deficit_ratio",
    "slurm_rl_adjustments_total",
    "slurm_rl_adjustments_suppressed_total",
    "slurm_rl_fallback_active",
    "slurm_rl_reserve_processors",
    "slurm_rl_model_info",
    "slurm_rl_batch_system_call_duration_seconds_bucket",
}


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


def series(registry: CollectorRegistry) -> set[str]:
    text = generate_latest(registry).decode()
    return {s.name for family in text_string_to_metric_families(text) for s in family.samples}


def test_every_name_of_the_design_is_served(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    snapshot = replace(snapshot_of(pending_jobs([1])), started=started([5.0], True))
    metrics.publish(report(snapshot=snapshot, calls=(("squeue", 0.01),)))
    assert series(registry) >= NAMES


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


def test_fallback_and_mode_are_shown(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    metrics.publish(report(mode="fallback", fallback_reason="broken"))
    value = registry.get_sample_value
    assert value("slurm_rl_fallback_active") == 1
    assert value("slurm_rl_mode", {"slurm_rl_mode": "fallback"}) == 1
    assert value("slurm_rl_mode", {"slurm_rl_mode": "active"}) == 0


def test_writes_and_suppressed_changes_add_up(
    registry: CollectorRegistry, metrics: CycleMetrics
) -> None:
    for _ in range(2):
        metrics.publish(report(adjustments={"up": 3}, suppressed={"held": 2}))
    value = registry.get_sample_value
    assert value("slurm_rl_adjustments_total", {"direction": "up"}) == 6
    assert value("slurm_rl_adjustments_suppressed_total", {"reason": "held"}) == 4
