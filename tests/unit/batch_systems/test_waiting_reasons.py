"""Why a job waits: what is its own doing, and what more processors would mend."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.kind import LimitKeys
from slurm_rl_plugin.batch_systems.pbs.answers import reasons as pbs_reasons
from slurm_rl_plugin.batch_systems.slurm.answers import reasons as slurm_reasons
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from tests.fakes.fake_cluster import FakeCluster


@pytest.mark.parametrize("reason", ["None", "Priority", "Resources", "Licenses", "PartitionDown"])
def test_what_no_user_controls_is_nobodys_own_doing(reason: str) -> None:
    assert not slurm_reasons.is_own_doing(reason)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("Resources,Priority", True), ("Priority,JobArrayTaskLimit", False), ("Licenses", False)],
)
def test_an_array_waits_for_processors_where_all_its_records_do(
    reason: str, expected: bool
) -> None:
    assert slurm_reasons.waits_for_processors(reason) == expected


@pytest.mark.parametrize(
    ("settings", "kept_back"),
    [
        (LimitKeys(mechanism="qos", qos="batch"), [True, False, False]),
        (LimitKeys(mechanism="licenses", license="slot"), [False, False, True]),
        (LimitKeys(), [False, False, False]),
    ],
)
def test_who_our_own_limit_keeps_back_waits_for_processors(
    tmp_path: Path, settings: LimitKeys, kept_back: list[bool]
) -> None:
    cluster = FakeCluster(tmp_path)
    cluster.add(1, reason="QOSGrpCpuLimit", qos="batch")
    cluster.add(2, reason="QOSGrpCpuLimit", qos="normal")
    cluster.add(3, reason="Licenses", qos="batch")
    pending = (
        SlurmCommands(cluster.adapter_settings(history_days=0.0, limit=settings)).snapshot().pending
    )
    assert pending.each_for_processors.tolist() == kept_back
    assert not pending.each_own_doing.any()


@pytest.mark.parametrize(
    ("comment", "own", "for_processors"),
    [
        ("", False, True),
        ("Not Running: Insufficient amount of resource: ncpus (R: 8 A: 4 T: 4)", False, True),
        ("Not Running: Job would conflict with reservation or top job", False, True),
        ("Not Running: User has reached server running job limit.", True, False),
        ("Not Running: would exceed user alice's limit on resource ncpus in complex", True, False),
        ("Not Running: would exceed overall limit on resource ncpus in queue batch", False, True),
        ("Not Running: Insufficient amount of resource: ngpus (R: 1 A: 0 T: 2)", False, False),
        ("Not Running: Job would break strict sorted order", False, True),
        ("Job Array Began at Sat Nov 21 at 00:13", False, True),  # and it stays so
        ("Not Running: Queue not started.", False, False),
        ("Not Running: something new", False, False),
    ],
)
def test_comments_of_pbs(comment: str, own: bool, for_processors: bool) -> None:
    assert pbs_reasons.is_own_doing(comment) is own
    assert pbs_reasons.is_for_processors(comment) is for_processors


def test_the_least_accrued_component_speaks_for_a_heterogeneous_job(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    now = cluster.state["now"]
    cluster.add(7, het_id=7, array_id=7, accrue=now - 500, eligible=now - 500)
    cluster.add(8, het_id=7, array_id=8, accrue=now - 5, reason="AssocGrpCpuLimit")
    snapshot = SlurmCommands(cluster.adapter_settings(history_days=0.0)).snapshot()
    assert snapshot.accrued_wait.tolist() == [5.0]
    assert snapshot.pending.each_own_doing.tolist() == [True]
    assert not math.isinf(snapshot.pending.jobs.eligible[0])
