"""Fair-share factors of trees, decay of usage and points of jobs, by numbers known by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind, PriorityWeights
from slurm_rl_plugin.domain.machine import ResourceLimit as Qos
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from slurm_rl_plugin.domain.site_priority import association_factors, fixed_points, next_reset
from tests.case_files import rows
from tests.reference.slurm_priority import (
    age_factors,
    fair_share_factors,
    with_those_below,
)


def factors_of(
    weights: PriorityWeights, associations: list[tuple[str, str, str, Any, float]]
) -> dict[str, float]:
    """The factor of each user; the last of each row is its own usage."""
    tree = ShareTree.of(
        Association(*names, None if share == "parent" else share)
        for *names, share, _ in associations
    )
    own = {(account, user): usage for account, user, _, _, usage in associations}
    usage = [own.get(pair, 0.0) for pair in zip(tree.accounts, tree.users, strict=True)]
    factors = fair_share_factors(weights, tree, with_those_below(tree, np.array(usage)))
    return {user: factors[at] for at, user in enumerate(tree.users) if user}


@rows("share_trees", "fair_tree", "case")
def test_factors_of_fair_tree(case: list[Any]) -> None:
    assert factors_of(PriorityWeights(), case[0]) == case[1]


@rows("share_trees", "classic", "case")
def test_classic_factors(case: list[Any]) -> None:
    dampening, associations, factors = case
    weights = PriorityWeights(flags=frozenset({"NO_FAIR_TREE"}), dampening=dampening)
    assert factors_of(weights, associations) == pytest.approx(factors)


@rows("share_trees", "resets", "period following")
def test_usage_is_reset_at_midnight(period: str, following: datetime | None) -> None:
    assert next_reset(period, datetime(2026, 11, 14, 13, 37, 5)) == (following or None)


@rows("share_trees", "points", "flags favours_small size partition qos node")
def test_points_of_what_a_job_asks_for(
    flags: str, favours_small: bool, size: float, partition: float, qos: float, node: float
) -> None:
    kinds = [NodeKind(name=f"n{n}", count=n, resources=(8.0, 100.0, 0.0)) for n in (1, 3)]
    machine = Machine(
        kinds=tuple(kinds),
        partitions=(
            MachinePartition(name="a", kinds=(1,), priority_factor=5),
            MachinePartition(name="b", kinds=(0,), priority_factor=20),
        ),
        qos={"low": Qos(priority=30), "high": Qos(priority=120)},
        weights=PriorityWeights(
            age=10,
            size=100,
            partition=200,
            qos=300,
            association=400,
            resources={"nodes": 500.0},
            highest_age=100.0,
            favours_small=favours_small,
            flags=frozenset(flags.split()),
        ),
    )
    asked = ResourceRequests.of_totals(np.array([[8.0, 10.0, 0.0]]), nodes=np.array([2]))
    half = np.array([0.5])
    fixed = fixed_points(machine, asked, np.array([0]), ["low"], np.array([150.0]), half)
    expected = (100 * size, 200 * partition, 300 * qos, 400 * 0.5, 500 * node)
    assert [*fixed[:4], fixed.resources["nodes"]] == [pytest.approx([each]) for each in expected]
    assert fixed.total == pytest.approx(sum(expected))
    ages = age_factors(machine.weights, np.array([990.0, 960.0, 800.0, 1010.0]), 1000.0)
    assert ages.tolist() == [0.1, 0.4, 1.0, 0.0]


def test_priorities_of_associations_come_from_above() -> None:
    rows = [
        Association("c", "w", priority=80.0),
        Association("b", parent="a", priority=0.0),
        Association("a", parent="root", priority=20.0),
        Association("c", parent="root"),
        *(Association(account, "u") for account in "abc"),
        Association("lost", parent="nowhere"),
    ]
    tree = ShareTree.of(rows)
    assert len(tree) == len(rows)  # the root, and not the lost one
    found = dict(zip(zip(tree.accounts, tree.users, strict=True), tree.priority, strict=True))
    pairs = [("a", "u"), ("b", "u"), ("c", "u"), ("c", "w")]
    assert [found[pair] for pair in pairs] == [20.0, 0.0, 0.0, 80.0]
    factors = association_factors(PriorityWeights(), tree)
    assert [factors[tree.places[pair]] for pair in pairs] == [0.25, 0.0, 0.0, 1.0]
    raw = PriorityWeights(flags=frozenset({"NO_NORMAL_ASSOC"}))
    assert association_factors(raw, tree) is tree.priority
