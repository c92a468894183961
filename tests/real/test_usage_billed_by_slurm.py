"""Jobs with memory, GPUs and licences under TRESBillingWeights: our usage is sshare's RawUsage.

Some are of a QOS whose UsageFactor is not 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.own_accounting import Stretch, read_accounting_dump
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.simulator.workloads.log_workload import billed_on_machine
from tests.real.conftest import ACCOUNTS, running_slurm, skip_without_daemons
from tests.real.drawn_order import settings_of
from tests.real.private_cluster import ClusterPlan, NodeKind, PrivateSlurm
from tests.real.slurm_releases import SlurmRelease, installed_number

pytestmark = pytest.mark.real

FLAGS = {"sum": None, "dearest": "MAX_TRES", "dearest and gres": "MAX_TRES_GRES"}
#: The first release that knows MAX_TRES_GRES.
WITH_GRES = (25, 5)
WEIGHTS = "CPU=0.3,Mem=0.7G,GRES/gpu=2.5,Node=0.2,License/matlab=1.5"
PARTITIONS = (
    "PartitionName=plain Nodes=n[1-2] Default=YES DefMemPerCPU=500",
    f"PartitionName=dear Nodes=ALL DefMemPerCPU=500 TRESBillingWeights={WEIGHTS}",
    "PartitionName=whole Nodes=g1 DefMemPerCPU=500 OverSubscribe=EXCLUSIVE "
    "TRESBillingWeights=CPU=0.3,Mem=0.25G,GRES/gpu=2.5",
)
#: User, CPUs, seconds, and sbatch's other options.
JOBS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("alice", 2, 7, ("--partition=plain",)),
    ("bob", 1, 9, ("--partition=plain", "--mem=2000")),
    ("alice", 1, 8, ("--partition=dear",)),
    ("bob", 3, 8, ("--partition=dear", "--mem-per-cpu=900")),
    ("alice", 2, 9, ("--partition=dear", "--mem=3000", "--gres=gpu:1")),
    ("bob", 1, 7, ("--partition=dear", "--mem=300", "--gres=gpu:2", "-L", "matlab:2")),
    ("alice", 2, 6, ("--partition=dear", "--nodes=2", "--mem=1000", "-L", "matlab:1")),
    ("bob", 1, 6, ("--partition=whole", "--mem=1000")),
    ("bob", 2, 8, ("--partition=plain", "--qos=dear")),
    ("alice", 3, 9, ("--partition=plain", "--qos=free")),
)
#: UsageFactor of each QOS.
FACTORS = {"dear": "2.5", "free": "0"}


def plan(flags: str | None) -> ClusterPlan:
    return ClusterPlan(
        kinds=(
            NodeKind(name="n", count=2, processors=8, memory=16000),
            NodeKind(name="g", count=1, processors=8, memory=16000, gpus=4, weight=9),
        ),
        accounts=ACCOUNTS,
        options={
            "SelectTypeParameters": "CR_Core_Memory",
            # without limits slurmctld counts no job when it ends, only those that run at its rounds
            "AccountingStorageEnforce": "associations,limits,qos",
            "AccountingStorageTRES": "gres/gpu,license/matlab",
            "Licenses": "matlab:10",
            "PriorityDecayHalfLife": "1000-0",
            "PriorityWeightFairshare": "10000",
            "PriorityFlags": flags,
        },
        partitions=PARTITIONS,
    )


@pytest.fixture(scope="module", params=FLAGS.values(), ids=list(FLAGS))
def cluster(request: pytest.FixtureRequest, release: SlurmRelease | None) -> Iterator[PrivateSlurm]:
    """A cluster on which all jobs have run."""
    skip_without_daemons(release)
    number = release.number if release else installed_number()
    if request.param == FLAGS["dearest and gres"] and number < WITH_GRES:
        pytest.skip("Slurm knows MAX_TRES_GRES from 25.05 on")
    with running_slurm(plan(request.param), release) as slurm:
        for name, factor in FACTORS.items():
            slurm.run("sacctmgr", "-i", "add", "qos", name, f"UsageFactor={factor}")
        names = f"qos+={','.join(FACTORS)}"
        slurm.run("sacctmgr", "-i", "modify", "account", "physics,biology", "set", names)
        slurm.wait_until(lambda: "free" in _known_qos(slurm), 30, "slurmctld knows each QOS")
        for user, processors, seconds, options in JOBS:
            slurm.submit(*options, user=user, processors=processors, seconds=seconds)
        slurm.wait_empty(90)
        slurm.wait_until(lambda: len(dump(slurm).splitlines()) > len(JOBS), 30, "all in accounting")
        yield slurm


def _known_qos(slurm: PrivateSlurm) -> str:
    return slurm.run("scontrol", "show", "assoc_mgr", "flags=qos").stdout


def dump(slurm: PrivateSlurm) -> str:
    """Of all jobs, as `--from slurm` reads it."""
    runner = CommandRunner(environment=slurm.env, timeout=20)
    end = datetime.now().replace(microsecond=0)
    day = Stretch(begin=end.replace(hour=0, minute=0, second=0), end=end)
    return read_accounting_dump(runner, [day], lambda _done, _lines: None).text


def raw_usage(slurm: PrivateSlurm) -> dict[str, float]:
    words = ("sshare", "-a", "-P", "-h", "-o", "Account,User,RawUsage")
    lines = (line.split("|") for line in slurm.run(*words).stdout.splitlines())
    return {account.strip(): float(usage) for account, user, usage in lines if not user}


def test_usage_of_the_log_is_sshares(cluster: PrivateSlurm, tmp_path: Path) -> None:
    path = tmp_path / "sacct.log"
    path.write_text(dump(cluster))
    log, _ = SacctReader().read(path)
    assert len(log) == len(JOBS)
    tables = ("sacctmgr", "-P", "--readonly", "show", "qos")
    (cluster.directory / "etc" / "qos.txt").write_text(cluster.run(*tables).stdout)
    machine = read_machine(cluster.directory / "etc")
    billed = billed_on_machine(log, machine)
    assert billed is not None
    assert sorted(set(log.qos)) == ["dear", "free", "normal"]
    ours = np.bincount(log.account, billed * log.run_time)
    usage = raw_usage(cluster)
    for place, name in enumerate(log.accounts):
        assert usage[name] > 50
        assert ours[place] == pytest.approx(usage[name], rel=0.01, abs=1.0)
    assert ours.sum() == pytest.approx(usage["root"], rel=0.01, abs=1.0)
    assert (log.processors * log.run_time).sum() < 0.9 * usage["root"]


def test_evaluate_and_the_snapshot_have_the_same_fractions(
    cluster: PrivateSlurm, tmp_path: Path
) -> None:
    path, usage = tmp_path / "sacct.log", raw_usage(cluster)
    path.write_text(dump(cluster))
    both = usage["physics"] + usage["biology"]  # sshare cuts each number off, root's as well
    expected = {name: usage[name] / both for name in ("physics", "biology")}
    words = ("evaluate", str(path), "--cluster", str(cluster.directory / "etc"))
    policies = ("--policy", "native", "--policy", "multifactor", "--json")
    done = cluster.slurm_rl(*words, *policies, timeout=300)  # the first run compiles the simulator
    document = json.loads(done.stdout)
    assert document["log"]["shares"] == pytest.approx(expected, rel=0.01)
    accounts = document["policies"]["native"]["accounts"]
    work = {name: each["work_fraction"] for name, each in accounts.items()}
    assert work == pytest.approx(expected, rel=0.01)
    assert document["log"]["machine"]["billing_weights"].keys() == {"dear", "whole"}
    snapshot = SlurmCommands(settings_of(cluster)).snapshot()
    seen = dict(zip(snapshot.accounts, snapshot.usage.tolist(), strict=True))
    assert {name: seen[name] for name in expected} == pytest.approx(expected, rel=0.001)
