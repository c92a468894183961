"""Feature columns of a snapshot, by hand and at the edges; parity with the kernel is elsewhere."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import PendingJobs
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.domain.resources import ResourceRequests, ResourcesNow
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.site import (
    RESOURCE_FEATURES,
    SCARCE_SHARE,
    SITE,
    SITE_OF_PROCESSORS,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from tests.reference.loads import snapshot_of
from tests.reference.readable_simulator import Moment

#: job 0 runs since 100 on 4 of 8 processors, 1 and 2 wait at 200
LOAD = Workload(
    submit=np.array([100.0, 110.0, 150.0]),
    run_time=np.array([1000.0, 540.0, 99.0]),
    estimate=np.array([1000.0, 540.0, 99.0]),
    time_limit=np.array([9999.0, 999.0, 99.0]),  # equal to the estimate: none was requested
    processors=np.array([4, 2, 8]),
    account=np.array([0, 0, 1]),
    interactive=np.array([True, True, False]),
    shares=np.array([0.75, 0.25]),
)
AT_200 = Moment(200.0, [1, 2], [0], [100.0, math.nan, math.nan])
SNAPSHOT = snapshot_of(LOAD, AT_200, 8)


ARRIVED = np.array([9.0, 99.0, 999.0])


def queue_of(snapshot, estimate, running):
    values = site_queue_features(snapshot, np.array(estimate), np.array(running), ARRIVED)
    assert values.dtype == np.float32
    return dict(zip(SITE.queue, values.tolist(), strict=True))


def test_queue_features_by_hand():
    queue = queue_of(SNAPSHOT, [540.0, 99.0], [1000.0])
    assert queue == pytest.approx(
        {
            "idle_fraction": 0.5,
            "log_pending_jobs": math.log10(3) / 5,
            "pending_interactive_fraction": 0.5,
            "log_pending_demand": math.log10(1 + 10 / 8) / 3,
            "log_pending_work_hours": math.log10(1 + (1080 + 792) / 3600 / 8) / 4,
            "log_next_release": math.log10(1 + 900) / 6,
            "running_interactive_fraction": 0.5,
            "fairness": 1 - 0.25 / 0.75,
            "log_pending_interactive": math.log10(2) / 3,
            "log_pending_batch": math.log10(2) / 3,
            "log_running_interactive": math.log10(5) / 3,
            "log_released_soon": 0.0,
            "log_shortest_batch": math.log10(100) / 6,
            "log_arrived_in_10_min": 1 / 3,
            "log_arrived_in_1_h": 2 / 3,
            "log_arrived_in_6_h": 1.0,
            "scarce_free": 0.5,
            "log_scarce_demand": math.log10(1 + 10 / 8) / 3,
        },
        rel=1e-6,  # float32
    )


def test_job_features_by_hand():
    features = site_job_features(SNAPSHOT, np.array([540.0, 99.0]))
    assert features.dtype == np.float32
    first, second = (dict(zip(SITE.jobs, row.tolist(), strict=True)) for row in features)
    assert first == pytest.approx(
        {
            "log_estimate": math.log10(541) / 6,
            "log_time_limit": math.log10(1000) / 6,
            "log_processors": math.log10(2) / 4,
            "log_work": math.log10(1081) / 9,
            "interactive": 1.0,
            **dict.fromkeys(RESOURCE_FEATURES, 0.0),  # processors alone
            "log_wait": math.log10(91) / 6,
            "log_turnaround": math.log10(631) / 6,
            "responsiveness_now": 540 / 630,
            "time_utility_now": math.exp(-0.5 * 30 / 60),
            "log_loss_rate_per_work": math.log10(math.exp(-0.25) * 0.5 / 60 / 1080) / 12 + 0.5,
            "share_deficit": (0.75 - 1.0) / 0.75,
            SCARCE_SHARE: 0.0,
            **dict.fromkeys(SITE.history_jobs, 0.0),  # no model here predicts run times
        },
        rel=1e-6,
    )
    assert second["log_time_limit"] == pytest.approx(2 / 6, rel=1e-6)
    assert second["time_utility_now"] == 1.0
    assert second["share_deficit"] == pytest.approx(0.25 / 0.75, rel=1e-6)
    assert second["log_loss_rate_per_work"] == pytest.approx(
        math.log10(0.3 / 159 / (99 * 8)) / 12 + 0.5, rel=1e-6
    )


#: The same machine with memory and four GPUs of two types; the running job has two of one type.
NAMES = ("cpus", "memory", "gpus", "gres/gpu:a", "gres/gpu:b")
MACHINE = ResourcesNow(
    names=NAMES,
    capacity=np.array([8.0, 1000.0, 4.0, 2.0, 2.0]),
    free=np.array([4.0, 900.0, 2.0, 0.0, 1.5]),
)


def asking(jobs, *totals):
    """The jobs with what they ask for of NAMES."""
    nodes = np.zeros(len(jobs), dtype=np.int64)
    return replace(
        jobs, requests=ResourceRequests.of_totals(np.array(totals), names=NAMES, nodes=nodes)
    )


def on_nodes(*, second_memory=100.0):
    return replace(
        SNAPSHOT,
        pending=PendingJobs.untouched(
            asking(SNAPSHOT.pending.jobs, [2.0, 250.0, 1, 0, 1], [8.0, second_memory, 0, 0, 0])
        ),
        running=replace(
            SNAPSHOT.running, jobs=asking(SNAPSHOT.running.jobs, [4.0, 100.0, 2, 2, 0])
        ),
        resources=MACHINE,
    )


def test_shares_of_each_resource_and_what_is_scarce_by_hand():
    queue = queue_of(on_nodes(), [540.0, 99.0], [1000.0])
    # CPUs: 4 of 8 run and 10 are waited for; no other resource is asked for as much
    assert queue["scarce_free"] == pytest.approx(0.5)
    assert queue["log_scarce_demand"] == pytest.approx(math.log10(1 + 10 / 8) / 3, rel=1e-6)
    features = site_job_features(on_nodes(), np.array([540.0, 99.0]))
    first, second = (dict(zip(SITE.jobs, row.tolist(), strict=True)) for row in features)
    assert first["log_memory_share"] == pytest.approx(math.log10(1 + 2500) / 4, rel=1e-6)
    # half of the GPUs of its type, a quarter of all
    assert first["log_gres_share"] == pytest.approx(math.log10(1 + 5000) / 4, rel=1e-6)
    assert first["accelerated"] == 1.0
    below = math.log10(1 + 2500) / 4 - math.log10(1 + 5000) / 4  # a quarter of the CPUs
    assert first["log_cpu_over_dominant"] == pytest.approx(below, rel=1e-5)
    assert first[SCARCE_SHARE] == first["log_cpu_over_dominant"]
    assert second["log_memory_share"] == pytest.approx(math.log10(1 + 1000) / 4, rel=1e-6)
    assert second["log_gres_share"] == second["accelerated"] == 0.0
    assert second["log_cpu_over_dominant"] == second[SCARCE_SHARE] == 0.0


def test_another_resource_can_be_the_scarce_one():
    short = on_nodes(second_memory=2000.0)
    queue = queue_of(short, [540.0, 99.0], [1000.0])
    assert queue["scarce_free"] == pytest.approx(0.9)
    assert queue["log_scarce_demand"] == pytest.approx(math.log10(1 + 2.25) / 3, rel=1e-6)
    features = site_job_features(short, np.array([540.0, 99.0]))
    told = features[:, SITE.jobs.index(SCARCE_SHARE)]
    gpus = math.log10(1 + 2500) / 4 - math.log10(1 + 5000) / 4
    assert told.tolist() == pytest.approx([gpus, 0.0], rel=1e-5)


def test_a_model_of_processors_alone_is_told_nothing_of_resources():
    old, new = SITE_OF_PROCESSORS, SITE
    estimate, running = np.array([540.0, 99.0]), np.array([1000.0])
    queue = site_queue_features(on_nodes(), estimate, running, ARRIVED)
    jobs = site_job_features(on_nodes(), estimate)
    told = site_queue_features(on_nodes(), estimate, running, ARRIVED, old)
    assert told.tolist() == [queue[new.queue.index(name)] for name in old.queue]
    told_jobs = site_job_features(on_nodes(), estimate, schema=old)
    assert (told_jobs == jobs[:, [new.jobs.index(name) for name in old.jobs]]).all()


def test_an_outlived_estimate_releases_now_and_not_in_the_past():
    assert queue_of(SNAPSHOT, [540.0, 99.0], [50.0])["log_next_release"] == 0.0


def test_an_empty_queue_has_finite_features_and_no_rows():
    idle = replace(
        SNAPSHOT,
        pending=PendingJobs.untouched(empty_job_table()),
        running=SNAPSHOT.running.select(np.empty(0, dtype=np.int64)),
    )
    queue = queue_of(idle, [], [])
    assert queue["idle_fraction"] == 1.0
    assert all(math.isfinite(value) for value in queue.values())
    assert site_job_features(idle, np.empty(0)).shape == (0, len(SITE.jobs))


def test_a_cluster_without_usable_processors_has_finite_features():
    queue = queue_of(replace(SNAPSHOT, capacity=0), [540.0, 99.0], [1000.0])
    assert queue["idle_fraction"] == 0.0
    assert all(math.isfinite(value) for value in queue.values())


def test_a_job_from_the_future_has_not_waited():
    early = replace(SNAPSHOT, now=120.0)
    waits = site_job_features(early, np.array([540.0, 99.0]))[:, SITE.jobs.index("log_wait")]
    assert waits[0] > 0
    assert waits[1] == 0


def test_features_stay_small_for_the_largest_jobs_a_site_may_hold():
    huge = replace(SNAPSHOT, now=200.0 + 100 * 86400.0)
    features = site_job_features(huge, np.array([30 * 86400.0, 1e-3]))
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 2
