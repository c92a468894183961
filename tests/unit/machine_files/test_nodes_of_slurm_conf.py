from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.machine_files.written_files import PARTITION, machine_of_lines


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
    assert machine.left_out == ("n3: no RealMemory, so 1 MiB each, as Slurm takes it.",)


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
        "DownNodes=n[2-3] State=DRAIN Reason=broken",
        "PartitionName=all Nodes=n[1-9],f1,d1,c1",
    )
    assert [kind.name for kind in machine.kinds] == ["c1,n[1,4-9]"]
    assert machine.left_out == (
        "c1: State=CLOUD, counted as if always powered up.",
        "d1,f[1-2],n[2-3]: down, drained or FUTURE, so not part of the machine.",
        "i1: in no partition, so not part of the machine.",
    )


@pytest.mark.parametrize(("state", "left"), [("", "n1"), (" State=UNKNOWN", "n[1-3]")])
def test_down_nodes_are_down_where_their_line_says_no_state(
    tmp_path: Path, state: str, left: str
) -> None:
    """As Slurm takes such a line."""
    machine = machine_of_lines(
        tmp_path,
        "NodeName=n[1-3] RealMemory=9",
        f"DownNodes=n[2-3]{state} Reason=broken",
        "PartitionName=all Nodes=ALL",
    )
    assert [kind.name for kind in machine.kinds] == [left]


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
    words = "n1: a core of 2 CPUs goes to one job whole; CPUs are given out one by one."
    assert words in machine_of_lines(tmp_path, nodes, PARTITION).left_out
    by_cpu = machine_of_lines(tmp_path, nodes, PARTITION, "SelectTypeParameters=CR_CPU_Memory")
    assert by_cpu.left_out == ()
