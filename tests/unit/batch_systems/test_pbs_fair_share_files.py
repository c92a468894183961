"""Fair share of pbs_sched by its files: the tree, the usage that counts, and what sorts by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import (
    FairShareFiles,
    parse_tree,
    read_fair_share,
)
from slurm_rl_plugin.batch_systems.pbs.answers.machine import parse_machine, with_order
from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from tests.unit.batch_systems.test_pbs_machine import NODES, QUEUES

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


def test_what_is_set(tmp_path: Path) -> None:
    found = files(
        tmp_path,
        "fair_share: true ALL\nunknown_shares: 10\nfairshare_entity: queue\n"
        "fairshare_usage_res: ncpus*walltime\nfairshare_decay_time: 12:00:00\n"
        "fairshare_decay_factor: 0.25\n",
    )
    assert (found.entity, found.usage, found.sorts_by_usage) == ("queues", {}, True)
    assert (found.decay_every, found.decay_factor) == (43200.0, 0.25)
    assert Association("unknown", parent="root", share=10.0) in found.associations
    assert len(found.notes) == 1


def test_what_holds_where_nothing_is_set(tmp_path: Path) -> None:
    found = files(tmp_path, "")
    assert (found.entity, found.usage, found.sorts_by_usage) == ("users", {}, False)
    assert (found.decay_every, found.decay_factor) == (86400.0, 0.5)
    assert Association("unknown", parent="root", share=0.0) in found.associations
    assert found.notes == ("fairshare_usage_res cput: jobs are taken to use all of their CPUs.",)


@pytest.mark.parametrize(
    ("config", "groups", "note"),
    [
        ("fairshare_entity: egroup:euser", GROUPS, "fairshare_entity egroup:euser: no log has it"),
        ("fairshare_entity: egroup", GROUPS, "fairshare_entity egroup: the entity of a job is"),
        ("fairshare_usage_res: vmem", GROUPS, "Replays count ncpus * walltime."),
        ("fair_share: true prime", GROUPS, "fair_share is on in one of prime time"),
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
