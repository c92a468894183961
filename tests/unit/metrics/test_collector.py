"""What a cycle's report becomes in the metrics: one row a promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slurm_rl_plugin import __version__
from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot, StartedJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.rails.reserve import (
    ACCOUNT,
    NO_RESERVE,
    OVERRUN,
    USER,
    LimitReport,
)
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import MetricsTextfile
from tests.bench.speed.metrics_answer import large_site_reports
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

#: Of eight processors, memory and two GPUs.
CAPACITY = np.array([8.0, 4000.0, 2.0])
MACHINE = ResourcesNow(names=BASIC_RESOURCES, capacity=CAPACITY, free=CAPACITY)
NOBODY = snapshot_of(pending_jobs([]))


def report(**changes: object) -> CycleReport:
    snapshot = snapshot_of(pending_jobs([1, 1, 1]))
    first = CycleReport(time=1000.0, mode="active", policy="default", snapshot=snapshot)
    return replace(first, **changes)  # type: ignore[arg-type]


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Values by name, without our prefix, and labels: `up`, `pending_jobs{partition=batch}`."""
    return {
        f"{sample.name.removeprefix('slurm_rl_')}"
        + (f"{{{','.join(f'{k}={v}' for k, v in labels)}}}" if labels else ""): sample.value
        for family in registry.collect()
        for sample in family.samples
        for labels in [sorted(sample.labels.items())]
    }


def shown(*reports: CycleReport, max_accounts: int = 3) -> dict[str, float]:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"}, max_accounts=max_accounts)
    for each in reports:
        metrics.publish(each)
    return samples(registry)


def started(waits: list[float], account: list[int] | None = None) -> QueueSnapshot:
    """No job is pending; interactive jobs have just started after these waits."""
    count = len(waits)
    jobs = job_table(count, interactive=[True] * count, account=account or [0] * count)
    started = StartedJobs(jobs=jobs, start=jobs.eligible + np.array(waits))
    return replace(NOBODY, started=started)


def of_accounts(
    shares: Mapping[str, float], usage: list[float] | None = None, seen: QueueSnapshot = NOBODY
) -> QueueSnapshot:
    return replace(
        seen,
        accounts=tuple(shares),
        shares=np.array(list(shares.values())),
        usage=np.array(usage or [0.0] * len(shares)),
    )


def asking() -> QueueSnapshot:
    """Two jobs on the machine; one asks for three GPUs."""
    alone = snapshot_of(pending_jobs([1, 2]))
    asked = np.array([[1.0, 100.0, 0.0], [2.0, 50.0, 3.0]])
    requests = ResourceRequests.of_totals(asked, nodes=np.zeros(2, dtype=np.int64))
    pending = replace(alone.pending, jobs=replace(alone.pending.jobs, requests=requests))
    return replace(alone, pending=pending, resources=MACHINE)


def held_and_late() -> QueueSnapshot:
    eligible = [10.0, 900.0, 960.0, 5000.0]
    return snapshot_of(pending_jobs([1] * 4, held=[True, False, False, False], eligible=eligible))


BATCH = "{job_class=batch,partition=batch}"
QUICK = "{job_class=interactive,partition=batch}"
FIVE = {"a": 0.4, "b": 0.3, "c": 0.1, "d": 0.1, "e": 0.1}
THREE = {"a": 0.5, "b": 0.3, "c": 0.2}
SERVICE = ServiceSeen(delivered=np.array([30.0, 70.0, 0.0]), entitled=np.array([60.0, 39, 1]))
FEW = of_accounts(FIVE, seen=started([5.0, 7.0, 9.0], [3, 4, 0]))
LIMITED = LimitReport(amounts={"cpus": 5, "gpus": 2}, reason="kept", change="lowered")
LIFTED = LimitReport(before={"cpus": 5}, reason="fallback", change="lifted")
FAILED = report(snapshot=None, failure="batch_system", time=0.0)
IN_FALLBACK = report(mode="fallback", fallback_reason="broken", reserve=5)
OF_NEW_JOBS = CycleReport(
    time=1001.0,
    mode="active",
    policy="default",
    of_new_jobs=True,
    adjustments={"up": 2},
    place_seconds=(0.5, 3.0),
)
#: A promise: the reports that are published, and what is served then; None where nothing is.
ROWS: dict[str, tuple[list[CycleReport], dict[str, object]]] = {
    "closed label sets start at zero": (
        [],
        {
            "adjustments_total{direction=reset}": 0,
            "adjustments_suppressed_total{reason=held}": 0,
            "cycle_failures_total{reason=batch_system}": 0,
            "cycle_duration_seconds_count{phase=apply}": 0,
            "fairness_ratio": 0,
            "up": 0,
        },
    ),
    "a look at new jobs is no cycle and takes nothing back": (
        [report(), OF_NEW_JOBS],
        {
            "cycles_total": 1,
            f"pending_jobs{BATCH}": 3,
            "adjustments_total{direction=up}": 2,
            "place_seconds_sum": 3.5,
            "place_seconds_bucket{le=2.0}": 1,
        },
    ),
    "resources are not counted if the machine shows none": (
        [report()],
        {"resource_usable{resource=gpus}": None},
    ),
    "resources are counted if the machine shows them": (
        [report(snapshot=asking())],
        {
            "resource_pending{resource=gpus}": 3.0,
            "resource_pending{resource=memory}": 150.0 * 1024**2,
            "resource_usable{resource=cpus}": 8.0,
            "resource_usable{resource=memory}": 4000.0 * 1024**2,
            "resource_running{resource=gpus}": 0.0,
        },
    ),
    "waits are counted at the start with an edge at two minutes": (
        [report(snapshot=started([0.0, 120.0, 121.0]))],
        {
            "job_wait_seconds_bucket{job_class=interactive,le=120.0,partition=batch}": 2,
            f"job_wait_seconds_count{QUICK}": 3,
            f"job_wait_seconds_count{BATCH}": 0,
        },
    ),
    # jobs 1, 2, 3 became eligible at 10, 20, 30 s; now is 1000 s
    "pending ages count from eligibility": (
        [report()],
        {
            f"pending_jobs{BATCH}": 3,
            f"pending_age_seconds_median{BATCH}": 980,
            f"pending_age_seconds_max{BATCH}": 990,
        },
    ),
    "jobs that are held or not yet eligible have no age": (
        [report(snapshot=held_and_late())],
        {
            f"pending_jobs{BATCH}": 4,
            f"pending_age_seconds_max{BATCH}": 100,
            f"pending_age_seconds_median{BATCH}": 70,
        },
    ),
    "accounts past the cap are summed up": (
        [report(snapshot=of_accounts(FIVE, [0.5, 0.2, 0.2, 0.05, 0.05]))],
        {
            "account_usage_ratio{account=a}": 0.5,
            "account_share_target_ratio{account=_other}": 0.2,
            "account_usage_ratio{account=d}": None,
            "share_deficit_ratio": pytest.approx(0.1),
            "fairness_ratio": pytest.approx(0.75),
        },
    ),
    "an account that is called other is one of the rest": (
        [report(snapshot=of_accounts({"_other": 0.5, "a": 0.2, "b": 0.1, "c": 0.1, "d": 0.1}))],
        {"account_share_target_ratio{account=_other}": 0.6},
    ),
    "who got what is not said before enough is known": (
        [report(snapshot=of_accounts(THREE))],
        {"misdelivered_ratio": None},
    ),
    "who got what is said once enough is known": (
        [report(snapshot=of_accounts(THREE), service=SERVICE)],
        {
            "misdelivered_ratio": pytest.approx(0.31),
            "entitlement_ratio{account=a}": 0.5,
            "entitlement_ratio{account=c}": None,  # too little is due
        },
    ),
    "jobs that count as batch are counted by reason": (
        [report(snapshot=snapshot_of(pending_jobs([1, 1, 1], as_batch=[1, -1, 1])))],
        {
            f"interactive_jobs_as_batch{{reason={why}}}": count
            for why, count in {ACCOUNT: 0, USER: 2, OVERRUN: 0, NO_RESERVE: 0}.items()
        },
    ),
    "users whose limits do not count are counted, and a failed cycle has no count": (
        [report(overrunners=2), report(failure="write")],
        {"users_as_batch": 2},
    ),
    "groups of jobs have their waits and lifts": (
        [report(lifts=Lifts(groups={"half or more": 0.5}, group_waits={"up to 1 h": 90.0}))],
        {
            "group_lift_doublings{group=half or more}": 0.5,
            "group_wait_seconds{group=up to 1 h}": 90.0,
            "group_lift_doublings{group=up to 1 h}": None,
        },
    ),
    "a failed cycle keeps the last queue and says down": (
        [report(), FAILED],
        {
            "up": 0,
            "cycle_failures_total{reason=batch_system}": 1,
            "last_success_timestamp_seconds": 1000,
            f"pending_jobs{BATCH}": 3,
        },
    ),
    "what the last decision said": (
        [IN_FALLBACK],
        {
            "fallback_active": 1,
            "reserve_processors": 5,
            "mode{slurm_rl_mode=fallback}": 1,
            "mode{slurm_rl_mode=active}": 0,
        },
    ),
    "a failed cycle keeps what the last decision said": (
        [IN_FALLBACK, FAILED],
        {"fallback_active": 1, "reserve_processors": 5},
    ),
    "nothing of it is left once the daemon is disabled": (
        [IN_FALLBACK, FAILED, report(mode="disabled", snapshot=None, time=0.0)],
        {"fallback_active": 0},
    ),
    "the limit of a failed cycle is that of before": (
        [report(limit=LIMITED), report(failure="batch_system"), replace(FAILED, time=1000.0)],
        {"batch_limit_processors": 5, "batch_limit_resource{resource=gpus}": 2},
    ),
    "unless it was lifted": (
        [report(limit=LIMITED), replace(FAILED, failure="refused", limit=LIFTED)],
        {
            "batch_limit_processors": float("inf"),
            "batch_limit_changes_total{direction=lifted}": 1,
        },
    ),
    "writes and suppressed changes add up": (
        [report(adjustments={"up": 3}, suppressed={"held": 2})] * 2,
        {"adjustments_total{direction=up}": 6, "adjustments_suppressed_total{reason=held}": 4},
    ),
    "counters of accounts past the cap are summed up": (
        [report(snapshot=FEW)],
        {
            "account_wait_seconds_total{account=_other}": 12,
            "account_jobs_started_total{account=_other}": 2,
            "account_wait_seconds_total{account=a}": 9,
            "account_jobs_started_total{account=b}": 0,
        },
    ),
    # now d weighs most, but a series of its own would begin with what _other has counted
    "and never change their series": (
        [report(snapshot=FEW), report(snapshot=replace(FEW, shares=np.array([0, 0, 0, 1.0, 0])))],
        {
            "account_wait_seconds_total{account=_other}": 24,
            "account_wait_seconds_total{account=d}": None,
        },
    ),
    "a start whose account is not known counts for no account": (
        [report(snapshot=started([5.0, 7.0], [-1, 0]))],
        {
            "account_wait_seconds_total{account=physics}": 7,
            "account_jobs_started_total{account=physics}": 1,
        },
    ),
    "jobs that carry a factor are counted": (
        [report(snapshot=snapshot_of(pending_jobs([1, 1, 1], factor=[0, 5, -5])))],
        {"jobs_with_factor{partition=batch}": 2, "account_pending_jobs{account=physics}": 3},
    ),
    **{
        f"who does not read the queue says nothing of it: {mode}": (
            [report(), report(mode=mode, snapshot=None, time=0.0)],
            {f"pending_jobs{BATCH}": None, "last_success_timestamp_seconds": 1000},
        )
        for mode in ("standby", "disabled")
    },
    **{
        f"rank changes are the fewest jobs to move: {native} {order}": (
            [report(snapshot=snapshot_of(pending_jobs(native)), order=order)],
            {"rank_changes{partition=batch}": moved},
        )
        for native, order, moved in (
            ([30, 20, 10], [0, 1, 2], 0),
            ([30, 20, 10], [2, 0, 1], 1),  # one job moved to the front, not three elsewhere
            ([30, 20, 10], [2, 1, 0], 2),
            ([7, 7, 7], [0, 1, 2], 0),  # of equal priority, the site starts by number
            ([7, 7, 7], [1, 0, 2], 1),
            ([30, 20, 10], [], 0),
        )
    },
    # the dashboard divides one by the other: both count bytes
    "a limit of memory is a part of what nodes have": (
        [
            report(
                snapshot=replace(snapshot_of(pending_jobs([1])), resources=MACHINE),
                limit=LimitReport(amounts={"cpus": 4, "memory": 1000, "gpus": 1}, reason="kept"),
            )
        ],
        {
            "batch_limit_resource{resource=memory}": 1000.0 * 1024**2,
            "resource_usable{resource=memory}": 4000.0 * 1024**2,
            "batch_limit_resource{resource=gpus}": 1,
            "resource_usable{resource=gpus}": 2,
        },
    ),
}


@pytest.mark.parametrize(("reports", "expected"), ROWS.values(), ids=ROWS)
def test_what_reports_become(reports: list[CycleReport], expected: dict[str, object]) -> None:
    found = shown(*reports)
    assert {name: found.get(name) for name in expected} == expected


def test_accounts_of_one_label_have_the_greatest_lift_of_them() -> None:
    lifts = Lifts(accounts=np.array([0.25, 1.5, 0.5]))
    found = shown(report(snapshot=of_accounts(THREE), lifts=lifts), max_accounts=1)
    assert found["account_lift_doublings{account=a}"] == 0.25
    assert found["account_lift_doublings{account=_other}"] == 1.5


def test_what_the_configuration_says_is_served() -> None:
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"})
    assert samples(registry)["starvation_bound_seconds"] == float("inf")
    metrics.update(configured_mode="active", starvation_bound=3600.0, adapter="slurm_commands")
    metrics.publish(report(release="22.05.8"))
    metrics.publish(report(snapshot=None, failure="batch_system"))  # it did not say so again
    found = samples(registry)
    assert found["starvation_bound_seconds"] == 3600
    assert found["configured_mode{slurm_rl_configured_mode=active}"] == 1
    labels = f"adapter=slurm_commands,slurm_version=22.05.8,version={__version__}"
    assert found[f"build_info{{{labels}}}"] == 1


def test_a_large_site_is_served_in_less_than_300_kilobytes() -> None:
    """500 accounts, 50,000 pending jobs, 80 partitions; timed in tests/bench/speed."""
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {"name": "default"})
    for large in large_site_reports():
        metrics.publish(large)
    text = generate_latest(registry)
    assert b'partition="_other"' in text
    assert b'account="_other"' in text
    assert len(text) < 300_000
    pending = [v for name, v in samples(registry).items() if name.startswith("pending_jobs{")]
    assert sum(pending) == 50_000  # capped, none forgotten


def test_the_utility_of_each_class_is_observed_when_its_jobs_end() -> None:
    """Two hours after they could start: a deadline of 3 hours, an own one of 1, and batch."""
    due = UtilityClass(form="deadline", hours=3.0)
    jobs = job_table(3, class_number=[2, 2, 0], allowed=[np.nan, 3600.0, np.nan])
    ended = EndedJobs(jobs=jobs, start=jobs.submit + 3600.0, end=jobs.submit + 7200.0)
    registry = CollectorRegistry()
    metrics = CycleMetrics(registry, {})
    classes = {**BUILT_IN, "due": due}
    metrics.describe_site(classes=classes)
    metrics.publish(report(snapshot=replace(NOBODY, ended=ended)))
    found = samples(registry)
    expected = {
        "count{job_class=due}": 2,
        "sum{job_class=due}": 1.0,
        "count{job_class=batch}": 1,
        "count{job_class=interactive}": 0,
        "sum{job_class=batch}": pytest.approx((7200 / 3660) ** -0.3),
    }
    assert {name: found[f"job_time_utility_{name}"] for name in expected} == expected


def test_the_file_is_whole_others_may_read_it_and_it_goes_with_the_daemon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, registry = tmp_path / "slurm-rl.prom", CollectorRegistry()
    Gauge("slurm_rl_up", "", registry=registry).set(1)
    textfile = MetricsTextfile(path=path, registry=registry)
    path.write_text("half of somethi")
    textfile.write()
    (family,) = text_string_to_metric_families(path.read_text())
    assert family.samples[0].value == 1
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
    for _ in range(2):
        textfile.remove()
    assert list(tmp_path.iterdir()) == []
    lost = MetricsTextfile(path=tmp_path / "gone" / "slurm-rl.prom", registry=registry)
    lost.write()
    assert "textfile=failed" in caplog.text
    lost.remove()
