from __future__ import annotations

import math
from pathlib import Path

import pytest

from slurm_rl_plugin.domain.machine import MachinePartition
from tests.unit.machine_files.written_files import NODES, machine_of_lines


def partition(folder: Path, keys: str, *others: str) -> MachinePartition:
    return machine_of_lines(folder, *others, NODES, f"PartitionName=p {keys}").partitions[0]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 3600),
        ("60:30", 3660),  # whole minutes, upwards
        ("1:00:00", 3600),
        ("2-0", 172800),
        ("1-12:30", 131400),
        ("1-00:00:10", 86460),
        ("UNLIMITED", math.inf),
        ("infinite", math.inf),
        ("-1", math.inf),
    ],
)
def test_every_form_of_a_span_of_time(tmp_path: Path, text: str, seconds: float) -> None:
    found = partition(tmp_path, f"Nodes=ALL MaxTime={text} DefaultTime={text}")
    assert (found.longest, found.default_time) == (seconds, seconds)


@pytest.mark.parametrize(
    ("keys", "tier", "factor"),
    [
        ("", 1, 1),
        ("PriorityTier=3", 3, 1),
        ("PriorityJobFactor=7", 1, 7),
        ("Priority=100", 100, 100),
        ("Priority=100 PriorityTier=3", 100, 100),
    ],
)
def test_tier_and_factor(tmp_path: Path, keys: str, tier: int, factor: int) -> None:
    found = partition(tmp_path, f"Nodes=ALL {keys}")
    assert (found.tier, found.priority_factor) == (tier, factor)


@pytest.mark.parametrize(
    ("keys", "cluster", "per_cpu", "per_node"),
    [
        ("", "", 0, 0),
        ("", "DefMemPerCPU=5", 5, 0),
        ("", "DefMemPerNode=UNLIMITED", 0, 0),
        ("DefMemPerCPU=2", "DefMemPerNode=5", 2, 0),
        ("DefMemPerNode=2", "DefMemPerCPU=5", 0, 2),
        ("DefMemPerNode=2 DefMemPerCPU=3", "", 0, 2),
    ],
)
def test_default_memory(
    tmp_path: Path, keys: str, cluster: str, per_cpu: int, per_node: int
) -> None:
    found = partition(tmp_path, f"Nodes=ALL {keys}", cluster)
    told = (found.default_memory_per_cpu, found.default_memory_per_node)
    assert told == (per_cpu, per_node)


@pytest.mark.parametrize(
    ("keys", "whole"),
    [
        ("", False),
        ("OverSubscribe=EXCLUSIVE", True),
        ("Shared=exclusive", True),
        ("OverSubscribe=NO", False),
        ("Exclusive=NODE", True),
        ("ExclusiveTopo=YES", True),
        ("OverSubscribe=EXCLUSIVE Exclusive=NO", False),
        # Slurm looks for OverSubscribe first, in DEFAULT lines too
        ("OverSubscribe=EXCLUSIVE Shared=NO", True),
        ("Shared=NO OverSubscribe=EXCLUSIVE", True),
        ("Shared=EXCLUSIVE OverSubscribe=NO", False),
        ("Shared=EXCLUSIVE\nPartitionName=DEFAULT OverSubscribe=NO", True),
    ],
)
def test_whole_nodes(tmp_path: Path, keys: str, whole: bool) -> None:
    assert partition(tmp_path, f"Nodes=ALL {keys}").whole_nodes is whole


@pytest.mark.parametrize(
    ("default", "keys", "whole"),
    [
        ("OverSubscribe=NO", "Shared=EXCLUSIVE", False),
        ("Shared=NO", "OverSubscribe=EXCLUSIVE", True),
        ("Shared=NO", "Shared=EXCLUSIVE", True),
        ("OverSubscribe=EXCLUSIVE", "", True),
        ("ExclusiveTopo=YES", "", False),  # Slurm takes it from no DEFAULT line
    ],
)
def test_whole_nodes_by_a_default_line(
    tmp_path: Path, default: str, keys: str, whole: bool
) -> None:
    found = partition(tmp_path, f"Nodes=ALL {keys}", f"PartitionName=DEFAULT {default}")
    assert found.whole_nodes is whole


def test_further_keys(tmp_path: Path) -> None:
    found = partition(
        tmp_path,
        "Nodes=ALL MaxNodes=4 QOS=Long Default=YES "
        'TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=2.5,gres/gpu:a100=4,license/x=1"',
    )
    assert (found.widest, found.qos, found.is_default) == (4, "long", True)
    assert found.billing == {
        "cpus": 1.0,
        "memory": 0.25 / 1024,
        "gpus": 2.5,
        "gres/gpu:a100": 4.0,
        "license/x": 1.0,
    }


def test_nodes_by_sets_and_by_names(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n[1-3] RealMemory=9",
        "NodeName=g[1-2] RealMemory=9 Feature=gpu,new",
        "NodeSet=withgpu Feature=gpu",
        "NodeSet=few Nodes=n[1-2]",
        "PartitionName=DEFAULT MaxTime=10 Nodes=n3",
        "PartitionName=a Nodes=withgpu,n1",
        'PartitionName=b Nodes="few g1"',
        "PartitionName=c MaxTime=20",
        'PartitionName=none Nodes=""',
    )
    names = [kind.name for kind in machine.kinds]
    members = {each.name: [names[i] for i in each.kinds] for each in machine.partitions}
    assert members == {"a": ["g1", "g2", "n1"], "b": ["g1", "n1", "n2"], "c": ["n3"], "none": []}
    assert [each.longest for each in machine.partitions] == [600, 600, 1200, 600]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("OverSubscribe=FORCE:4", "OverSubscribe=FORCE:4: a CPU goes to one job at a time."),
        ("ExclusiveUser=YES", "ExclusiveUser: jobs of several users share its nodes."),
        ("Exclusive=USER", "ExclusiveUser: jobs of several users share its nodes."),
        ("State=DOWN", "State=DOWN: its jobs start as if it were UP."),
        ("LLN=YES", "LLN: nodes are not filled evenly."),
        ("MaxCPUsPerNode=4", "MaxCPUsPerNode=4: a job may take all CPUs of a node."),
        ("PreemptMode=REQUEUE", "PreemptMode=REQUEUE: no job is preempted."),
        ("Newfangled=3", "Newfangled=3: not known here, so it has no effect."),
    ],
)
def test_what_is_not_modelled_is_told(tmp_path: Path, keys: str, sentence: str) -> None:
    machine = machine_of_lines(tmp_path, NODES, f"PartitionName=p Nodes=ALL {keys}")
    (told,) = machine.left_out
    assert told.endswith(sentence)


def test_who_may_use_it_has_no_weight_for_starts(tmp_path: Path) -> None:
    keys = "Nodes=ALL AllowQos=a,b AllowAccounts=c DenyQos=d Hidden=YES PreemptMode=OFF"
    machine = machine_of_lines(tmp_path, NODES, f"PartitionName=p {keys} MaxCPUsPerNode=UNLIMITED")
    assert machine.left_out == ()


def test_a_partition_named_twice(tmp_path: Path) -> None:
    lines = ("PartitionName=p Nodes=n1", "PartitionName=p Nodes=ALL")
    machine = machine_of_lines(tmp_path, NODES, *lines)
    assert len(machine.partitions) == 1
    assert "named before" in machine.left_out[0]
