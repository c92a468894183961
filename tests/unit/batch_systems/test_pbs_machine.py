"""The machine by pbsnodes and qstat, from answers in the form of OpenPBS 22.05."""

from __future__ import annotations

import json
import math
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
from tests.fakes.fake_pbs_cluster import FakePbs

HEAD = {"timestamp": 1790000000, "pbs_version": "22.05.11", "pbs_server": "head"}


def vnode(cpus: int, memory: str, gpus: int = 0, **others: str) -> dict[str, Any]:
    available = {"arch": "linux", "ncpus": cpus, "mem": memory, "vnode": "x"}
    if gpus:
        available["ngpus"] = gpus
    return {
        "Mom": "x",
        "state": "free",
        "pcpus": cpus,
        "resources_available": available,
        "resources_assigned": {},
        "sharing": "default_shared",
        **others,
    }


NODES = {
    **HEAD,
    "nodes": {
        "n1": vnode(16, "16777216kb"),
        "n2": vnode(16, "16777216kb", state="down,offline"),
        "g1": vnode(32, "64gb", 4, queue="gpu"),
        "g2": vnode(32, "64gb", 4, queue="gpu", sharing="force_excl"),
    },
}
QUEUES = {
    **HEAD,
    "Queue": {
        "workq": {
            "queue_type": "Execution",
            "total_jobs": 0,
            "resources_max": {"walltime": "72:00:00", "nodect": 2},
            "resources_default": {"walltime": "01:00:00"},
            "enabled": "True",
            "started": "True",
        },
        "gpu": {"queue_type": "e", "enabled": "True", "started": "False"},
        "route": {"queue_type": "Route", "enabled": "True", "started": "True"},
    },
}


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


@pytest.mark.parametrize(("nodes", "queues"), [(HEAD, QUEUES), (NODES, HEAD), ({}, {})])
def test_an_answer_without_nodes_or_queues(nodes: dict[str, Any], queues: dict[str, Any]) -> None:
    with pytest.raises(BatchSystemError, match="not understood"):
        parse_machine(nodes, queues)


@pytest.mark.parametrize(
    ("size", "mebibytes"),
    [("1048576b", 1.0), ("2mb", 2.0), ("1tb", 1048576.0), ("128kw", 1.0), ("much", 0.0)],
)
def test_sizes_of_memory(size: str, mebibytes: float) -> None:
    nodes = json.loads(json.dumps(NODES))
    nodes["nodes"] = {"n1": vnode(1, size)}
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


def files(folder: Path, config: str, groups: str | None = GROUPS) -> FairShareFiles:
    (folder / "sched_config").write_text(config)
    if groups is not None:
        (folder / "resource_group").write_text(groups)
    return read_fair_share(folder)


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


SET = """fair_share: true ALL
unknown_shares: 10
fairshare_entity: queue
fairshare_usage_res: ncpus*walltime
fairshare_decay_time: 12:00:00
fairshare_decay_factor: 0.25
"""
BY_CPUT = "fairshare_usage_res cput: jobs are assumed to use all of their CPUs."


@pytest.mark.parametrize(
    ("config", "entity", "sorts_by_usage", "decay", "unknown", "notes"),
    [(SET, "queues", True, (43200.0, 0.25), 10.0, 1), ("", "users", False, (86400.0, 0.5), 0.0, 1)],
    ids=["set", "not set"],
)
def test_what_sched_config_says(
    tmp_path: Path,
    config: str,
    entity: str,
    sorts_by_usage: bool,
    decay: tuple[float, float],
    unknown: float,
    notes: int,
) -> None:
    found = files(tmp_path, config)
    assert (found.entity, found.usage, found.sorts_by_usage) == (entity, {}, sorts_by_usage)
    assert (found.decay_every, found.decay_factor) == decay
    assert Association("unknown", parent="root", share=unknown) in found.associations
    assert len(found.notes) == notes
    assert config or found.notes == (BY_CPUT,)


@pytest.mark.parametrize(
    ("config", "groups", "note"),
    [
        ("fairshare_entity: egroup:euser", GROUPS, "fairshare_entity egroup:euser: no log has it"),
        ("fairshare_entity: egroup", GROUPS, "fairshare_entity egroup: the entity of a job is"),
        ("fairshare_usage_res: vmem", GROUPS, "Replays count ncpus * walltime."),
        ("fair_share: true prime", GROUPS, "fair_share is on in only one"),
        ('job_sort_key: "ncpus HIGH" ALL', GROUPS, "job_sort_key ncpus HIGH: not modelled"),
        ("", None, "resource_group cannot be read (No such file or directory)"),
    ],
)
def test_what_is_not_modelled_is_said(
    tmp_path: Path, config: str, groups: str | None, note: str
) -> None:
    assert any(note in each for each in files(tmp_path, config, groups).notes)


def test_without_the_right_to_read_accounts_have_the_logs_shares(tmp_path: Path) -> None:
    found = read_fair_share(tmp_path / "nobody")
    assert (found.associations, found.entity) == ((), "")
    (note,) = found.notes
    assert note.startswith("sched_config cannot be read (No such file or directory)")


@pytest.mark.parametrize(
    ("config", "formula", "sorted_by"),
    [
        ("fair_share: true ALL", "", ("", 1e6)),
        ("fair_share: true ALL", "rl_score", ("", 1e6)),
        ("fair_share: true ALL", "eligible_time", ("eligible_time", 0.0)),
        ('job_sort_key: "fair_share_perc HIGH" ALL', "", ("fairshare_perc", 0.0)),
        (
            'job_sort_key: "fair_share_perc LOW" ALL\njob_sort_key: "mem LOW" ALL',
            "",
            ("-fairshare_perc", 0.0),
        ),
        ('job_sort_key: "mem LOW" ALL', "", ("", 0.0)),
    ],
)
def test_what_sorts(
    tmp_path: Path, config: str, formula: str, sorted_by: tuple[str, float]
) -> None:
    machine = with_order(parse_machine(NODES, QUEUES), formula, files(tmp_path, config))
    assert (machine.weights.formula, machine.weights.fairshare) == sorted_by


def test_usage_is_billed_as_the_site_counts_it(tmp_path: Path) -> None:
    counted = files(tmp_path, 'fairshare_usage_res: "walltime*(ncpus + 4*ngpus)"')
    machine = with_order(parse_machine(NODES, QUEUES), "", counted)
    assert machine.billing.weights["gpu"] == pytest.approx({"cpus": 1.0, "gpus": 4.0})
    assert machine.weights.half_life == pytest.approx(86400.0)
