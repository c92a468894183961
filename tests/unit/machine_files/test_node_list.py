"""openb's list of nodes as a machine."""

from __future__ import annotations

import re

import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import read_machine
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.unit.accounting.published_samples import NODES, as_csv, pods


def machine_of(text, tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    return read_machine(path)


def test_nodes_that_are_alike_are_one_kind(tmp_path):
    machine = machine_of(NODES, tmp_path)
    kinds = [(each.name, each.count, each.resources, set(each.features)) for each in machine.kinds]
    assert kinds == [
        ("openb-node-[0000,0002]", 2, (32.0, 262144.0, 0.0), set()),
        ("openb-node-0001", 1, (96.0, 393216.0, 8.0), {"T4"}),
        ("openb-node-0003", 1, (64.0, 262144.0, 2.0), {"V100M16"}),
    ]
    assert machine.capacity.tolist() == [224.0, 1179648.0, 10.0]
    assert [(each.name, each.kinds) for each in machine.partitions] == [("openb", (0, 1, 2))]
    assert machine.left_out == (
        "nodes.csv: jobs get whole CPUs and whole GPUs: parts that pods ask for are rounded up.",
    )


def test_pods_run_on_nodes_of_the_type_that_they_ask_for(tmp_path):
    """V100s are two GPUs on one node: pods that ask for 8 of them fit nowhere."""
    sample = pods(300)
    log, _ = read_log(as_csv(sample, tmp_path / "pods.csv"))
    prepared = prepare_log(log, machine=machine_of(NODES, tmp_path))
    assert log.requests is not None
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
    ],
)
def test_a_line_that_is_not_understood_is_named(line, words, tmp_path):
    with pytest.raises(ConfigurationError) as refused:
        machine_of(NODES + line + "\n", tmp_path)
    assert re.search(words, str(refused.value)), str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_list_without_nodes_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="lists no node"):
        machine_of(NODES.splitlines()[0] + "\n", tmp_path)
