"""The whole hook on a real Slurm: interactive jobs sooner, no job harmed, nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from slurm_rl_plugin.features.site import SITE
from tests.real.conftest import ACCOUNTS, StartSlurm, private_slurm
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.load import Outcome, PlannedJob, mean, mixed_load, outcomes, submit_all
from tests.real.private_cluster import ClusterPlan, PrivateSlurm
from tests.real.prometheus_server import prometheus_scraping, query

pytestmark = [pytest.mark.real, pytest.mark.promise]

MODEL = Path(__file__).parents[2] / "policy_models" / "default.onnx"
INTERACTIVE, BATCH, SEED = 60, 30, 20261121
#: Plain Slurm is FIFO here: age alone counts.
FIFO_PLAN = ClusterPlan(
    nodes=2,
    processors_per_node=4,
    accounts=ACCOUNTS,
    options={
        "PriorityWeightAge": "1000",
        "PriorityWeightFairshare": "0",
        "PriorityWeightJobSize": "0",
        "PriorityWeightPartition": "0",
        "SchedulerParameters": "sched_interval=1,bf_interval=2,default_queue_depth=1000",
    },
)


def run_all(slurm: PrivateSlurm, jobs: dict[int, PlannedJob]) -> dict[int, Outcome]:
    """Open the partition, wait until every job is done and accounted for."""
    slurm.set_partition("up")
    slurm.wait_empty(240)
    slurm.wait_until(lambda: len(outcomes(slurm, list(jobs))) == len(jobs), 30, "all accounted for")
    return outcomes(slurm, list(jobs))


def waits_from(opened: float, done: dict[int, Outcome], jobs: dict[int, PlannedJob]) -> list[float]:
    """Seconds from the opening of the partition to the start of each interactive job."""
    return [max(done[job].start - opened, 0.0) for job, plan in jobs.items() if plan.interactive]


@contextmanager
def first_light(
    slurm: PrivateSlurm, folder: Path, model: Path | str
) -> Iterator[tuple[RunningHook, dict[int, PlannedJob]]]:
    """The mixed load, submitted to a closed partition, with the daemon's first cycle applied."""
    slurm.set_partition("down")
    jobs = submit_all(slurm, mixed_load(INTERACTIVE, BATCH, SEED))
    # a minute of usage says nothing about shares, and all runs are in the shortest class
    goals = "\n[goals]\nshares = 0\ninteractive = 8\n"
    with running_hook(slurm, folder, model, more=goals) as hook:
        yield hook, jobs


fifo_slurm = private_slurm(FIFO_PLAN)


def test_interactive_jobs_wait_a_third_of_fifo_and_no_job_is_harmed(
    fifo_slurm: PrivateSlurm, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    slurm = fifo_slurm
    slurm.set_partition("down")
    plain_jobs = submit_all(slurm, mixed_load(INTERACTIVE, BATCH, SEED))
    opened = datetime.now(tz=UTC).timestamp()
    plain = run_all(slurm, plain_jobs)
    fifo_wait = mean(waits_from(opened, plain, plain_jobs))

    with first_light(slurm, tmp_path, MODEL) as (hook, jobs):
        opened = datetime.now(tz=UTC).timestamp()
        done = run_all(slurm, jobs)
        assert hook.metric("slurm_rl_fallback_active") == 0
        assert hook.stop() == 0
        audit = hook.audit
    hook_wait = mean(waits_from(opened, done, jobs))

    record_property("fifo_interactive_wait", fifo_wait)
    record_property("hook_interactive_wait", hook_wait)
    print(f"interactive wait: FIFO {fifo_wait:.1f} s, hook {hook_wait:.1f} s")  # noqa: T201
    assert hook_wait <= fifo_wait / 3
    assert {each.state for each in done.values()} == {"COMPLETED"}
    assert len(done) == INTERACTIVE + BATCH
    assert all(line["model"] for line in audit)


def not_a_number_model(path: Path) -> None:
    """A model of our schema whose every score is NaN."""
    nan = helper.make_tensor("nan", TensorProto.FLOAT, [1], [float("nan")])
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["jobs", "axis"], ["sums"], keepdims=0),
            helper.make_node("ReduceSum", ["queue"], ["total"], keepdims=1),
            helper.make_node("Add", ["sums", "total"], ["all"]),
            helper.make_node("Mul", ["all", "nan"], ["score"]),
        ],
        "nan",
        [
            helper.make_tensor_value_info("queue", TensorProto.FLOAT, [len(SITE.queue)]),
            helper.make_tensor_value_info("jobs", TensorProto.FLOAT, ["n", len(SITE.jobs)]),
        ],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n"])],
        initializer=[nan, helper.make_tensor("axis", TensorProto.INT64, [1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"schema_name": SITE.name, "schema_digest": SITE.digest})
    onnx.save(model, path)


def test_a_broken_model_falls_back_to_fifo_and_the_queue_drains(
    fifo_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    slurm, reason = fifo_slurm, "not finite"
    model = tmp_path / "broken.onnx"
    not_a_number_model(model)
    slurm.set_partition("down")
    jobs = submit_all(slurm, mixed_load(12, 0, SEED))
    with running_hook(slurm, tmp_path, model, cycle=1) as hook:
        done = run_all(slurm, jobs)
        assert hook.metric("slurm_rl_fallback_active") == 1
        assert reason in hook.log
        cycles = [line for line in hook.audit if line["event"] == "cycle"]
    assert {line["policy"] for line in cycles} == {"fifo"}
    assert all(reason in line["reason"] for line in cycles)
    in_submit_order = sorted(done)
    assert [done[job].start for job in in_submit_order] == sorted(
        done[job].start for job in in_submit_order
    )
    assert {each.state for each in done.values()} == {"COMPLETED"}


def test_prometheus_scrapes_the_daemon(
    start_slurm: StartSlurm, tmp_path: Path, free_port: int
) -> None:
    # Slurm accounts for usage only where fair-share has some weight
    slurm = start_slurm(ClusterPlan(accounts=ACCOUNTS))
    wanted = (
        "slurm_rl_up == 1",
        "slurm_rl_job_wait_seconds_count > 0",
        'slurm_rl_account_usage_ratio{account="physics"} > 0',
        "slurm_rl_fairness_ratio > 0",
    )
    slurm.set_partition("down")
    submit_all(slurm, mixed_load(10, 2, SEED))
    # Slurm charges running jobs once a minute (PriorityCalcPeriod): this one is caught by it
    slurm.submit(user="alice", seconds=130, minutes=10)
    with (
        running_hook(slurm, tmp_path, MODEL, cycle=1) as hook,
        prometheus_scraping(hook.port, free_port, tmp_path),
    ):
        slurm.set_partition("up")
        slurm.wait_until(
            lambda: all(query(free_port, expression) for expression in wanted),
            180,
            "every wanted series in Prometheus",
        )
