"""The machine by pbsnodes and qstat, from answers in the form of OpenPBS 22.05."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import (
    FairShareFiles,
    parse_tree,
    read_fair_share,
)
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    PBSNODES,
    QSTAT_SERVER,
    parse_machine,
    read_running_machine,
    with_order,
)
from slurm_rl_plugin.batch_systems.pbs.kind import PBS
from slurm_rl_plugin.batch_systems.pbs.process import QSTAT_QUEUES
from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from slurm_rl_plugin.errors import BatchSystemError
from tests.architecture.markdown_documents import TOP
from tests.fakes.fake_pbs_cluster import FakePbs
from tests.unit.machine_files.test_small_machines import in_json, plainly

ASSETS = TOP / "tests" / "assets" / "pbs"
NODES = json.loads((ASSETS / "pbsnodes.json").read_text())
QUEUES = json.loads((ASSETS / "qstat_queues.json").read_text())


def test_vnodes_and_queues(tmp_path: Path) -> None:
    server = {"Server": {"head": {"job_sort_formula": "rl_score"}}}
    answers = {PBSNODES: NODES, QSTAT_QUEUES: QUEUES, QSTAT_SERVER: server}
    machine = read_running_machine(lambda command: answers[tuple(command)], tmp_path)
    assert machine.name == "head"
    assert machine.resources == ("cpus", "memory", "gpus")
    told = [(kind.name, kind.count, kind.resources) for kind in machine.kinds]
    assert told == [("n[1-2]", 2, (16.0, 16384.0, 0.0)), ("g[1-2]", 2, (32.0, 65536.0, 4.0))]
    work, gpu = machine.partitions
    assert (work.name, work.kinds, work.longest, work.default_time, work.widest) == (
        *("workq", (0,), 259200.0, 3600.0),
        2.0,
    )
    assert (gpu.name, gpu.kinds, gpu.longest, gpu.widest) == ("gpu", (1,), math.inf, math.inf)
    assert machine.left_out[1:4] == (
        "n2: out of use now, but counted.",
        "g2: allocated whole by its sharing attribute; jobs share it here.",
        "queue gpu: stopped or closed now, but its jobs start here.",
    )


@pytest.mark.parametrize(
    ("formula", "own"),
    [
        ("", ""),
        ("rl_score", ""),
        ("1000*rl_score + asinh(queue_priority)", "queue_priority"),
        (" eligible_time/3600 + 5*fairshare_factor ", "eligible_time/3600 + 5*fairshare_factor"),
    ],
)
def test_the_sites_own_formula_is_its_priority(formula: str, own: str) -> None:
    machine = with_order(parse_machine(NODES, QUEUES), formula, FairShareFiles())
    assert (machine.weights.formula, len(machine.left_out)) == (own, 4)
    odd = with_order(parse_machine(NODES, QUEUES), "ncpus * eligible_time", FairShareFiles())
    assert odd.weights.formula == ""
    assert odd.left_out[-1] == (
        "job_sort_formula 'ncpus * eligible_time' is no sum of a fixed part, eligible_time and "
        "fairshare_factor with weights. Replays sort without it."
    )


@pytest.mark.parametrize(("nodes", "queues"), [({}, QUEUES), (NODES, {}), ({}, {})])
def test_an_answer_without_nodes_or_queues(nodes: dict[str, Any], queues: dict[str, Any]) -> None:
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_machine(nodes, queues)


@pytest.mark.parametrize(
    ("size", "mebibytes"),
    [("1048576b", 1.0), ("2mb", 2.0), ("1tb", 1048576.0), ("128kw", 1.0), ("much", 0.0)],
)
def test_sizes_of_memory(size: str, mebibytes: float) -> None:
    nodes = json.loads(json.dumps(NODES))
    nodes["nodes"]["n1"]["resources_available"]["mem"] = size
    assert parse_machine(nodes, QUEUES).kinds[0].resources[1] == mebibytes


def test_the_registry_asks_a_running_pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakePbs(tmp_path)
    fake.enter(monkeypatch)
    (fake.home / "sched_priv" / "sched_config").write_text("fairshare_entity: queue\n")
    (fake.home / "sched_priv" / "resource_group").write_text("batch 50 root 40\n")
    assert PBS.machine is not None
    machine = PBS.machine(20.0)
    assert [(kind.name, kind.resources[0]) for kind in machine.kinds] == [("n[1-3]", 4.0)]
    assert {partition.name for partition in machine.partitions} == {"batch", "long", "workq"}
    assert (machine.entity, Association("root", "batch", share=40.0) in machine.associations) == (
        "queues",
        True,
    )


GROUPS = """# name  number  group  shares
grp1    50      root    40
grp2    51      root    40
usr1    60      root    10
usr2    61      grp1    30
usr3    62      grp1    10
"""


def test_the_tree_and_the_unknown_group() -> None:
    tree = ShareTree.of(parse_tree(GROUPS, unknown_shares=10))
    percent = tree.ranked().fraction
    assert {name: percent[at] for name, at in tree.entities.items()} == pytest.approx(
        {
            "unknown": 0.1,
            "grp1": 0.4,
            "grp2": 0.4,  # without children: an entity
            "usr1": 0.1,
            "usr2": 0.3,
            "usr3": 0.1,
        }
    )
    assert sorted(user for user in tree.users if user) == ["grp2", "usr1", "usr2", "usr3"]


@pytest.mark.parametrize(
    "line",
    ["usr9 x root 5", "usr9 70 root many", "usr9 70 grp9 5", "grp1 70 root 5", "usr9 70 root", ""],
)
def test_a_line_that_pbs_refuses_is_passed_over(line: str) -> None:
    assert parse_tree(f"grp1 50 root 40\n{line}\n", 0) == parse_tree("grp1 50 root 40\n", 0)


FAIR_SHARE = tomllib.loads((ASSETS / "fair_share.toml").read_text())


@pytest.mark.parametrize("expected", FAIR_SHARE.values(), ids=FAIR_SHARE)
def test_fair_share_and_what_sorts(tmp_path: Path, expected: dict[str, Any]) -> None:
    for name in {"sched_config", "resource_group"} & expected.keys():
        (tmp_path / name).write_text(expected.pop(name))
    formula = expected.pop("formula", "")
    files = read_fair_share(tmp_path)
    machine = with_order(parse_machine(NODES, QUEUES), formula, files)
    assert in_json({**plainly(files), "weights": plainly(machine.weights)}) == in_json(expected)
    assert machine.billing.weights["gpu"] == files.usage
