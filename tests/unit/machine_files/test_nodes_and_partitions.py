"""Nodes and partitions: of slurm.conf, of hostlists, of openb's list."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.domain.machine import MachinePartition
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.machine_files.statements import compress, expand
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.unit.accounting.published_samples import NODES as NODE_LIST
from tests.unit.accounting.published_samples import as_csv, pods
from tests.unit.machine_files.written_files import NODES, PARTITION, machine_of_lines


@pytest.mark.parametrize(
    ("keys", "cpus"),
    [
        ("CPUs=8", 8),
        ("Procs=8", 8),
        ("Sockets=2 CoresPerSocket=16", 32),
        ("Sockets=2 CoresPerSocket=16 ThreadsPerCore=2", 64),
        ("CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2", 32),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=4", 16),
        ("CoresPerSocket=4", 4),
        ("CPUs=7 Sockets=2 CoresPerSocket=4", 8),
        ("CPUs=8 CoreSpecCount=2 Sockets=2 CoresPerSocket=4", 6),
        ("Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1", 6),
        ("CPUs=8 CpuSpecList=0,4-5", 5),
        ("", 1),
    ],
)
def test_cpus_told_or_inferred(tmp_path: Path, keys: str, cpus: int) -> None:
    machine = machine_of_lines(tmp_path, f"NodeName=n1 RealMemory=100 {keys}", PARTITION)
    assert machine.kinds[0].resources[0] == cpus


@pytest.mark.parametrize(
    ("default", "keys", "cpus", "features"),
    [
        ("", "CPUs=16 Procs=8 Feature=x Features=y", 16, {"x"}),
        ("", "PROCS=8 cpus=16 FEATURES=y feature=x", 16, {"x"}),
        ("", "CPUs=8 CPUs=16 Features=x Features=y", 16, {"y"}),
        ("CPUs=4 Feature=d", "Procs=8 Features=y", 4, {"y"}),
        ("Procs=4 Features=d", "CPUs=8", 8, {"d"}),
        ("CPUs=4 Feature=d\nNodeName=DEFAULT Procs=2 Features=e", "Weight=1", 4, {"d"}),
    ],
)
def test_of_two_names_of_a_key_slurms_first_holds(
    tmp_path: Path, default: str, keys: str, cpus: int, features: set[str]
) -> None:
    """As slurmctld 22.05.8 and `_parse_nodename` of 26.05 have it, in either order."""
    machine = machine_of_lines(
        tmp_path, f"NodeName=DEFAULT {default}", f"NodeName=n1 RealMemory=9 {keys}", PARTITION
    )
    assert (machine.kinds[0].resources[0], machine.kinds[0].features) == (cpus, features)
    assert not machine.left_out


def test_memory_less_what_the_system_keeps(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n1 RealMemory=1000 MemSpecLimit=100",
        "NodeName=n2 RealMemory=1000 MemSpecLimit=1000",
        "NodeName=n3",
        PARTITION,
    )
    assert [kind.resources[1] for kind in machine.kinds] == [900.0, 1000.0, 1.0]
    assert machine.left_out == ("n3: no RealMemory, so 1 MiB each, as in Slurm.",)


@pytest.mark.parametrize(
    ("gres", "gpus", "others"),
    [
        ("gpu", 1, {}),
        ("gpu:4", 4, {}),
        ("gpu:a100:2", 2, {"gres/gpu:a100": 2}),
        ("gpu:a100:2(S:0,1),gpu:v100:1(S:0-1)", 3, {"gres/gpu:a100": 2, "gres/gpu:v100": 1}),
        ("gpu:a100", 1, {"gres/gpu:a100": 1}),
        ("gpu:2,shard:8,bandwidth:lustre:no_consume:4G", 2, {"gres/shard": 8}),
        ("nic:2K", 0, {"gres/nic": 2048}),
        ("(null)", 0, {}),
    ],
)
def test_generic_resources(tmp_path: Path, gres: str, gpus: int, others: dict[str, int]) -> None:
    machine = machine_of_lines(tmp_path, f"NodeName=n1 RealMemory=9 Gres={gres}", PARTITION)
    (kind,) = machine.kinds
    assert kind.resources[2] == gpus
    assert dict(zip(machine.resources[3:], kind.resources[3:], strict=True)) == others


def test_types_that_gres_conf_tells(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n1 RealMemory=9 Gres=gpu:4",
        "NodeName=n2 RealMemory=9 Gres=gpu:v100:2",
        "NodeName=n3 RealMemory=9",
        PARTITION,
        gres_conf=(
            "AutoDetect=off\n"
            "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-2]\n"
            "NodeName=n[2-3] Name=gpu Type=a100 Count=8\n"
        ),
    )
    columns = ("cpus", "memory", "gpus", "gres/gpu:a100", "gres/gpu:v100")
    assert machine.resources == columns
    assert [kind.resources[2:] for kind in machine.kinds] == [(4, 3, 0), (2, 0, 2), (0, 0, 0)]


def test_defaults_hold_for_what_follows_and_add_up(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n1 CPUs=2 RealMemory=5",
        "NodeName=DEFAULT CPUs=4 RealMemory=10 Weight=3",
        "NodeName=n2 Feature=x",
        "NodeName=DEFAULT RealMemory=20 Features=y",
        "NodeName=n3 Weight=9",
        PARTITION,
    )
    told = [(kind.resources[:2], kind.weight, set(kind.features)) for kind in machine.kinds]
    assert told == [((2, 5), 1, set()), ((4, 10), 3, {"x"}), ((4, 20), 9, {"y"})]


def test_nodes_out_of_service_are_no_part_of_it(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n[1-9] RealMemory=9",
        "NodeName=f[1-2] RealMemory=9 State=FUTURE",
        "NodeName=d1 RealMemory=9 State=DOWN",
        "NodeName=c1 RealMemory=9 State=CLOUD",
        "NodeName=i1 RealMemory=9 State=IDLE",
        "DownNodes=n2 State=DRAIN Reason=broken",
        "DownNodes=n3 Reason=broken",
        "DownNodes=n4 State=UNKNOWN",
        "PartitionName=all Nodes=n[1-9],f1,d1,c1",
    )
    assert [kind.name for kind in machine.kinds] == ["c1,n[1,4-9]"]
    assert machine.left_out == (
        "c1: State=CLOUD, counted as if always powered up.",
        "d1,f[1-2],n[2-3]: down, drained or FUTURE, so not part of the machine.",
        "i1: in no partition, so not part of the machine.",
    )


def test_a_kind_is_a_run_of_nodes_that_are_alike(tmp_path: Path) -> None:
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n[1-4] RealMemory=9",
        "NodeName=n4big RealMemory=99",
        "NodeName=n[5-6] RealMemory=9",
        "PartitionName=all Nodes=ALL",
        "PartitionName=some Nodes=n[3-4]",
    )
    assert [kind.name for kind in machine.kinds] == ["n[1-2]", "n[3-4]", "n4big", "n[5-6]"]
    assert [partition.kinds for partition in machine.partitions] == [(0, 1, 2, 3), (1,)]
    assert machine.nodes == 7


def test_nodes_are_numbered_by_name(tmp_path: Path) -> None:
    names = ["n10", "m1", "n9", "n010", "n009", "login", "N1", "n9-ib"]
    lines = [f"NodeName={name} RealMemory={i + 1}" for i, name in enumerate(names)]
    machine = machine_of_lines(tmp_path, *lines, PARTITION)
    in_order = ["N1", "login", "m1", "n009", "n010", "n9", "n9-ib", "n10"]
    assert [kind.name for kind in machine.kinds] == in_order


def test_cores_that_go_to_one_job_whole(tmp_path: Path) -> None:
    nodes = "NodeName=n1 RealMemory=9 CoresPerSocket=4 ThreadsPerCore=2"
    words = "n1: Slurm gives a core of 2 CPUs to one job; here CPUs are allocated one by one."
    assert words in machine_of_lines(tmp_path, nodes, PARTITION).left_out
    by_cpu = machine_of_lines(tmp_path, nodes, PARTITION, "SelectTypeParameters=CR_CPU_Memory")
    assert by_cpu.left_out == ()


def partition(folder: Path, keys: str, *others: str) -> MachinePartition:
    return machine_of_lines(folder, *others, NODES, f"PartitionName=p {keys}").partitions[0]


SPANS = {
    "60": 3600.0,
    "60:30": 3660.0,  # whole minutes, upwards
    "1:00:00": 3600.0,
    "2-0": 172800.0,
    "1-12:30": 131400.0,
    "1-00:00:10": 86460.0,
    **dict.fromkeys(("UNLIMITED", "infinite", "-1"), math.inf),
}


@pytest.mark.parametrize(("text", "seconds"), SPANS.items())
def test_every_form_of_a_span_of_time(tmp_path: Path, text: str, seconds: float) -> None:
    found = partition(tmp_path, f"Nodes=ALL MaxTime={text} DefaultTime={text}")
    assert (found.longest, found.default_time) == (seconds, seconds)


TIER, MEMORY = ("tier", "priority_factor"), ("default_memory_per_cpu", "default_memory_per_node")
WHOLE = ("whole_nodes",)
#: Names of fields, keys of the partition, a line before it, and the values of the fields.
KEYS = [
    (TIER, "", "", (1, 1)),
    (TIER, "PriorityTier=3", "", (3, 1)),
    (TIER, "PriorityJobFactor=7", "", (1, 7)),
    (TIER, "Priority=100", "", (100, 100)),
    (TIER, "Priority=100 PriorityTier=3", "", (100, 100)),
    (MEMORY, "", "", (0, 0)),
    (MEMORY, "", "DefMemPerCPU=5", (5, 0)),
    (MEMORY, "", "DefMemPerNode=UNLIMITED", (0, 0)),
    (MEMORY, "DefMemPerCPU=2", "DefMemPerNode=5", (2, 0)),
    (MEMORY, "DefMemPerNode=2", "DefMemPerCPU=5", (0, 2)),
    (MEMORY, "DefMemPerNode=2 DefMemPerCPU=3", "", (0, 2)),
    (WHOLE, "", "", (False,)),
    (WHOLE, "OverSubscribe=EXCLUSIVE", "", (True,)),
    (WHOLE, "Shared=exclusive", "", (True,)),
    (WHOLE, "OverSubscribe=NO", "", (False,)),
    (WHOLE, "Exclusive=NODE", "", (True,)),
    (WHOLE, "ExclusiveTopo=YES", "", (True,)),
    (WHOLE, "OverSubscribe=EXCLUSIVE Exclusive=NO", "", (False,)),
    # Slurm looks for OverSubscribe first, in DEFAULT lines too
    (WHOLE, "OverSubscribe=EXCLUSIVE Shared=NO", "", (True,)),
    (WHOLE, "Shared=NO OverSubscribe=EXCLUSIVE", "", (True,)),
    (WHOLE, "Shared=EXCLUSIVE OverSubscribe=NO", "", (False,)),
    (WHOLE, "Shared=EXCLUSIVE\nPartitionName=DEFAULT OverSubscribe=NO", "", (True,)),
    (WHOLE, "Shared=EXCLUSIVE", "PartitionName=DEFAULT OverSubscribe=NO", (False,)),
    (WHOLE, "OverSubscribe=EXCLUSIVE", "PartitionName=DEFAULT Shared=NO", (True,)),
    (WHOLE, "Shared=EXCLUSIVE", "PartitionName=DEFAULT Shared=NO", (True,)),
    (WHOLE, "", "PartitionName=DEFAULT OverSubscribe=EXCLUSIVE", (True,)),
    # Slurm takes it from no DEFAULT line
    (WHOLE, "", "PartitionName=DEFAULT ExclusiveTopo=YES", (False,)),
    (("widest", "qos", "is_default"), "MaxNodes=4 QOS=Long Default=YES", "", (4, "long", True)),
]


@pytest.mark.parametrize(("fields", "keys", "before", "values"), KEYS)
def test_keys_of_a_partition(
    tmp_path: Path, fields: tuple[str, ...], keys: str, before: str, values: tuple[object, ...]
) -> None:
    found = partition(tmp_path, f"Nodes=ALL {keys}", before)
    assert tuple(getattr(found, name) for name in fields) == values


def test_weights_of_billing(tmp_path: Path) -> None:
    weights = "CPU=1.0,Mem=0.25G,GRES/gpu=2.5,gres/gpu:a100=4,license/x=1"
    assert partition(tmp_path, f'Nodes=ALL TRESBillingWeights="{weights}"').billing == {
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
        ("\nPartitionName=p Nodes=n1", "named before, so this line has no effect."),
        ("AllowQos=a AllowAccounts=c DenyQos=d Hidden=YES PreemptMode=OFF", None),
        ("MaxCPUsPerNode=UNLIMITED", None),
    ],
)
def test_what_is_not_modelled_is_told(tmp_path: Path, keys: str, sentence: str | None) -> None:
    machine = machine_of_lines(tmp_path, NODES, f"PartitionName=p Nodes=ALL {keys}")
    assert [each[-len(sentence or "") :] for each in machine.left_out] == [sentence] * bool(
        sentence
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("rack[0-1]n[1-2]", ["rack0n1", "rack0n2", "rack1n1", "rack1n2"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("[1-2]x", ["1x", "2x"]),
        ("n1 n2", ["n1", "n2"]),
        ("", []),
    ],
)
def test_names_of_a_hostlist(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["n[1-3", "n1-3]", "n[a-c]", "n[3-1]", "n[]", "n[1-9999999999]", "n[[1]]", "n[1-999999][1-9]"],
)
def test_what_is_no_hostlist(text: str) -> None:
    with pytest.raises(ValueError, match=r"it|the|\["):
        expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"n{i:03d}" for i in [*range(1, 88), 100]], "n[001-087,100]"),
        (["n9", "n10", "m1", "login"], "n[9-10],m1,login"),
        (["rack0n1", "rack0n2", "rack1n1"], "rack0n[1-2],rack1n1"),
        (["n1", "n01"], "n[1,01]"),
    ],
)
def test_names_shortened(names: list[str], text: str) -> None:
    assert compress(names) == text


@given(st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,3}[0-9]{0,4}", fullmatch=True), max_size=30))
def test_what_is_shortened_expands_to_the_same(names: list[str]) -> None:
    assert expand(compress(names)) == names


def machine_of(text, tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    return read_machine(path)


def test_nodes_that_are_alike_are_one_kind(tmp_path):
    machine = machine_of(NODE_LIST, tmp_path)
    kinds = [(each.name, each.count, each.resources, set(each.features)) for each in machine.kinds]
    assert kinds == [
        ("openb-node-[0000,0002]", 2, (32.0, 262144.0, 0.0), set()),
        ("openb-node-0001", 1, (96.0, 393216.0, 8.0), {"T4"}),
        ("openb-node-0003", 1, (64.0, 262144.0, 2.0), {"V100M16"}),
    ]
    assert machine.capacity.tolist() == [224.0, 1179648.0, 10.0]
    assert [(each.name, each.kinds) for each in machine.partitions] == [("openb", (0, 1, 2))]
    assert machine.left_out == (
        "nodes.csv: jobs get whole CPUs and whole GPUs: parts that pods request are rounded up.",
    )


def test_pods_run_on_nodes_of_the_type_that_they_ask_for(tmp_path):
    """V100s are two GPUs on one node: pods that ask for 8 of them fit nowhere."""
    sample = pods(300)
    log, _ = read_log(as_csv(sample, tmp_path / "pods.csv"))
    prepared = prepare_log(log, machine=machine_of(NODE_LIST, tmp_path))
    assert prepared.log.requests is not None
    wide = log.requests.of("gpus") == 8
    v100 = log.requests.constraint == log.requests.constraints.index("V100M16|V100M32")
    assert prepared.dropped == {"no node of its partition holds it": int((wide & v100).sum())}
    assert prepared.dropped["no node of its partition holds it"] > 0
    assert prepared.capacity == 224


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("n,32000,many,0,", r"nodes.csv:6: memory_mib=many: this is no whole number"),
        ("n,999,1,0,", r"nodes.csv:6: cpu_milli=999: write 1000 at least"),
        ("n,32000,1", r"nodes.csv:6: gpu=: this is no whole number"),
        (",32000,1,0,", r"nodes.csv:6: sn=: a node needs a name"),
        ("openb-node-0001,32000,1,0,", r"nodes.csv:6: sn=openb-node-0001: it has a line already"),
        (None, "lists no node"),
    ],
)
def test_a_line_that_is_not_understood_is_named(line, words, tmp_path):
    with pytest.raises(ConfigurationError) as refused:
        machine_of(NODE_LIST.splitlines()[0] if line is None else NODE_LIST + line, tmp_path)
    assert re.search(words, str(refused.value)), str(refused.value)
    assert "\n" not in str(refused.value)
