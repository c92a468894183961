"""Names of nodes: hostlists, and openb's list."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.machine_files.statements import compress, expand
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.unit.accounting.published_samples import NODES as NODE_LIST
from tests.unit.accounting.published_samples import as_csv, pods


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
