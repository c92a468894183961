"""The reserve on a real Slurm: batch jobs leave processors, GPUs and memory free, until it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.real.conftest import (
    ACCOUNTS,
    StartSlurm,
    private_slurm,
)
from tests.real.daemon_under_test import RunningHook, running_hook, write_configuration
from tests.real.private_cluster import ClusterPlan, NodeKind, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease
from tests.real.users import AS_HIM, NAME, STAFF, give_him

pytestmark = pytest.mark.real

PROCESSORS, GPUS, MEMORY = 8, 4, 16000
PLAN = ClusterPlan(
    kinds=(NodeKind(name="g", count=1, processors=PROCESSORS, memory=MEMORY, gpus=GPUS),),
    accounts={**ACCOUNTS, **STAFF},
    options={
        "SelectTypeParameters": "CR_Core_Memory",
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStorageEnforce": "associations,limits,qos",
    },
    partitions=("PartitionName=batch Nodes=ALL Default=YES DefMemPerCPU=100 State=UP",),
    lines=(f"Licenses=slot:{PROCESSORS}",),
)
BY_QOS = """
[reserve]
mechanism = "qos"
qos = "batch"
most_processors = 4
change_seconds = 1
"""


#: One node that enforces limits; batch jobs have QOS batch.
limited_slurm = private_slurm(PLAN, lambda slurm: slurm.add_qos("batch"))


@pytest.fixture
def cluster(limited_slurm: PrivateSlurm) -> Iterator[PrivateSlurm]:
    yield limited_slurm
    limited_slurm.cancel("alice", "bob")
    limited_slurm.wait_empty(20)


def submit_batch(cluster: PrivateSlurm, count: int, processors: int = 1) -> None:
    for _ in range(count):
        cluster.submit("--qos=batch", user="alice", processors=processors)


def running(cluster: PrivateSlurm) -> int:
    return len(cluster.run("squeue", "-h", "-t", "R", "-o", "%A").stdout.split())


def reservation_of(cluster: PrivateSlurm) -> str:
    """Licences that our reservation holds."""
    text = cluster.run("scontrol", "-o", "show", "reservation", "slurm-rl-reserve", check=False)
    return text.stdout.partition(" Licenses=")[2].partition(" ")[0]


def wait_for_metric(cluster: PrivateSlurm, hook: RunningHook, name: str, value: float) -> None:
    cluster.wait_until(lambda: hook.metric(f"slurm_rl_{name} ") == value, 30, f"{name} {value}")


@contextmanager
def limiting_hook(cluster: PrivateSlurm, folder: Path, more: str = BY_QOS) -> Iterator[RunningHook]:
    """A daemon that keeps 2 of 8 processors free and one runs an interactive job: 5 are left."""
    cluster.submit(user="bob", minutes=1, seconds=60)
    with running_hook(cluster, folder, "reserve:2", cycle=0.5, more=more) as hook:
        hook.wait_for("batch_limit=5", 30)
        yield hook


def test_processors_stay_free_and_an_interactive_job_starts_at_once(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    with limiting_hook(cluster, tmp_path) as hook:
        submit_batch(cluster, 12)
        cluster.wait_until(lambda: running(cluster) == 6, 20, "5 batch jobs and one")
        assert cluster.qos_limit() == "cpu=5"
        job = cluster.submit(user="bob", minutes=1, seconds=60)
        cluster.wait_state(job, "RUNNING", 10)
        assert running(cluster) == 7
        hook.wait_for("batch_limit=4", 30)  # its processor comes on top of the reserve
    assert cluster.qos_limit() == ""
    assert not (tmp_path / "state.json.limits").exists()
    cluster.wait_until(lambda: running(cluster) == PROCESSORS, 20, "batch jobs on all the rest")


def test_gpus_and_memory_stay_free_and_an_interactive_job_gets_them_at_once(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    gpus = "--gres=gpu:1"
    kept = 'most_resources = ["gres/gpu=2", "mem=4G"]\naccount_share = 1\nuser_share = 1\n'
    whole = BY_QOS.replace("most_processors = 4", "most_processors = 2") + kept
    with limiting_hook(cluster, tmp_path, whole) as hook:
        # in addition to one processor and 100 MiB of the interactive job
        limit = {"cpu=5", "gres/gpu=2", f"mem={MEMORY - 100 - 4096}M"}
        cluster.wait_until(lambda: set(cluster.qos_limit().split(",")) == limit, 30, "all limits")
        for _ in range(6):
            cluster.submit("--qos=batch", gpus, user="alice")
        cluster.wait_until(lambda: running(cluster) == 3, 20, "two batch jobs on GPUs")
        waits = ("squeue", "-h", "-t", "PD", "-o", "%r")
        cluster.wait_until(lambda: "QOSGrpGRES" in cluster.run(*waits).stdout, 20, "the limit")
        job = cluster.submit(gpus, user="bob", minutes=1, seconds=60)
        cluster.wait_state(job, "RUNNING", 10)
        hook.wait_for("batch_limit=4,gpus=1,memory=", 30)  # its GPU comes on top
        assert hook.metric('slurm_rl_batch_limit_resource{resource="gpus"} ') == 1
    assert cluster.qos_limit() == ""
    cluster.wait_until(lambda: running(cluster) == 1 + GPUS, 20, "batch jobs on the other GPUs")


def test_a_wide_job_that_starves_below_the_limit_starts_once_it_is_lifted(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    """It waits longer than the 7.2 s that such a job may."""
    more = f"{BY_QOS}lift_hours = 0.002\nidle_minutes = 0\n"
    with limiting_hook(cluster, tmp_path, more) as hook:
        wide = cluster.submit("--qos=batch", user="alice", processors=7)
        cluster.wait_state(wide, "RUNNING", 40)
        # the metric follows the cycle, and the job may start within it
        lifted = 'batch_limit_changes_total{direction="lifted"}'
        wait_for_metric(cluster, hook, lifted, 1)
        cluster.wait_until(lambda: cluster.qos_limit() != "", 30, "the limit afterwards")
    assert [line["reason"] for line in hook.audit if line["event"] == "limit"][:2] == [
        "kept",
        "starving",
    ]


def last_first(cluster: PrivateSlurm) -> list[int]:
    """Ids of the waiting jobs, who has the lowest priority first."""
    rows = cluster.run("squeue", "-h", "-t", "PD", "-o", "%Q %A").stdout.splitlines()
    return [number for _, number in sorted(tuple(map(int, row.split())) for row in rows)]


def end_some(cluster: PrivateSlurm, count: int) -> None:
    """End running batch jobs of one processor, as many as asked for."""
    rows = cluster.run("squeue", "-h", "-t", "R", "-u", "alice", "-o", "%A").stdout.split()
    cluster.run("scancel", *rows[:count])


def test_narrow_first_keeps_a_wide_job_behind_until_its_bound_and_then_first(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    """The bound comes by a reload, so that nothing depends on how long the first part takes."""
    patient = f"{BY_QOS}narrow_first = true\nlift_hours = 1\n"
    with limiting_hook(cluster, tmp_path, patient) as hook:
        submit_batch(cluster, 5)
        cluster.wait_until(lambda: running(cluster) == 6, 20, "5 batch jobs and one")
        wide = cluster.submit("--qos=batch", user="alice", processors=4)
        submit_batch(cluster, 9)
        behind = "the wide job, which came first, behind the narrow ones"
        cluster.wait_until(lambda: last_first(cluster)[:1] == [wide], 30, behind)
        end_some(cluster, 4)  # room for the wide job
        cluster.wait_until(lambda: running(cluster) == 6, 30, "narrow jobs in their place")
        assert wide in last_first(cluster)

        impatient = patient.replace("lift_hours = 1", "lift_hours = 0.0001")
        write_configuration(tmp_path, "reserve:2", mode="active", cycle=0.5, more=impatient)
        hook.process.send_signal(signal.SIGHUP)
        cluster.wait_until(lambda: last_first(cluster)[-1:] == [wide], 30, "the wide job first")
        end_some(cluster, 4)
        cluster.wait_until(lambda: wide not in last_first(cluster), 30, "the wide job's start")
        assert last_first(cluster), "no narrow job waits that it could have gone before"
    assert cluster.qos_limit() == ""


def test_who_is_operator_only_is_told_so_and_may_use_licences(
    cluster: PrivateSlurm, tmp_path: Path, release: SlurmRelease | None
) -> None:
    if release is not None:
        pytest.skip("only root can enter another release's folder")
    cluster.make_operator(NAME)
    folder = give_him(tmp_path)
    cluster.submit(user="bob", minutes=1, seconds=60)
    write_configuration(folder, "reserve:2", mode="active", cycle=0.5, more=BY_QOS)
    checked = cluster.slurm_rl("check", folder=folder, user=NAME)
    (line,) = [each for each in checked.stdout.splitlines() if "reserve right" in each]
    assert line.startswith("fail")
    assert "AdminLevel=Administrator" in line
    assert 'mechanism = "licenses"' in line
    with running_hook(cluster, folder, "reserve:2", cycle=0.5, more=BY_QOS, before=AS_HIM) as hook:
        hook.wait_for("AdminLevel=Administrator", 30)
        wait_for_metric(cluster, hook, "batch_limit_failing", 1)
        submit_batch(cluster, 2)
        cluster.wait_until(lambda: running(cluster) == 3, 20, "batch jobs as without us")
        assert "mode=active" in hook.log.rpartition("cycle=done")[2]
        assert hook.log.count("batch_limit=failed") == 1
    assert cluster.qos_limit() == ""

    more = BY_QOS.replace('"qos"', '"licenses"')
    with running_hook(cluster, folder, "reserve:2", cycle=0.5, more=more, before=AS_HIM) as hook:
        hook.wait_for("batch_limit=5", 30)
        assert reservation_of(cluster) == "slot:3"
        for _ in range(7):
            cluster.submit("--licenses=slot:1", user="alice")
        cluster.wait_until(lambda: running(cluster) == 8, 20, "5 of them and three others")
    assert reservation_of(cluster) == ""


def test_an_interactive_job_starts_though_the_sites_priority_has_it_behind(
    start_slurm: StartSlurm, tmp_path: Path
) -> None:
    """A bounded order, and no backfill: a batch job that waits for a whole node blocks others.

    Both nodes are in use. The batch job fits below the limit, and its QOS puts it far in front.
    """
    options = {
        **PLAN.options,
        "SchedulerType": "sched/builtin",
        "PriorityWeightQOS": "1000000",
    }
    cluster = start_slurm(replace(PLAN, kinds=(), nodes=2, processors_per_node=4, options=options))
    cluster.add_qos("batch", "set", "priority=100")
    cluster.submit("--qos=batch", "--nodelist=n1", user="alice")
    short = {"user": "bob", "minutes": 1, "seconds": 60}
    cluster.submit("--nodelist=n2", **short)
    cluster.wait_until(lambda: running(cluster) == 2, 20, "a job on each node")
    with running_hook(cluster, tmp_path, "reserve:2", cycle=0.5, influence=24, more=BY_QOS) as hook:
        hook.wait_for("batch_limit=5", 30)
        whole = ("--qos=batch", "--nodes=1", "--ntasks-per-node=4")
        wide = cluster.submit(*whole, user="alice", processors=4)
        reason = ("squeue", "-h", "-j", str(wide), "-o", "%r")
        cluster.wait_until(
            lambda: cluster.run(*reason).stdout.strip() == "Resources", 20, "the wide job's wait"
        )
        job = cluster.submit(**short)
        cluster.wait_state(job, "RUNNING", 10)
        assert cluster.run(*reason).stdout.strip() == "Resources"
