"""Fair-share factors of trees, decay of usage and points of jobs, by numbers known by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind, PriorityWeights
from slurm_rl_plugin.domain.machine import ResourceLimit as Qos
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from slurm_rl_plugin.domain.site_priority import association_factors, fixed_points, next_reset
from tests.reference.slurm_priority import (
    age_factors,
    fair_share_factors,
    with_those_below,
)

CLASSIC = PriorityWeights(flags=frozenset({"NO_FAIR_TREE"}))
#: Account, user, account above, share (None for Fairshare=parent), own usage.
Row = tuple[str, str, str, float | None, float]


def tree_of(*rows: Row) -> tuple[ShareTree, np.ndarray[Any, np.dtype[np.float64]]]:
    """The tree, and usage of each association with all below it."""
    tree = ShareTree.of(Association(*row[:4]) for row in rows)
    own = {(row[0], row[1]): row[4] for row in rows}
    usage = [own.get(pair, 0.0) for pair in zip(tree.accounts, tree.users, strict=True)]
    return tree, with_those_below(tree, np.array(usage))


def by_user(tree: ShareTree, factors: np.ndarray[Any, Any]) -> dict[str, float]:
    return {user: factors[at] for at, user in enumerate(tree.users) if user}


def test_fair_tree_ranks_users_by_their_accounts_first() -> None:
    tree, usage = tree_of(
        ("a", "", "root", 40, 0),
        ("b", "", "root", 60, 0),
        ("a", "heavy", "", 1, 50),  # a: level (40/100)/(60/100) = 0.67
        ("a", "light", "", 1, 10),
        ("b", "greedy", "", 1, 40),  # b: 0.6/0.4 = 1.5, whatever its user has used
        ("b", "new", "", None, 0),
    )
    factors = by_user(tree, fair_share_factors(PriorityWeights(), tree, usage))
    assert factors == {"new": 1.0, "greedy": 0.75, "light": 0.5, "heavy": 0.25}


def test_accounts_that_tie_keep_their_users_apart() -> None:
    """As slurmctld does, which does not merge them: see `fair_tree_factors`."""
    tree, usage = tree_of(
        ("a", "", "root", 0, 0),
        ("b", "", "root", 0, 0),
        ("a", "a1", "", 1, 10),
        ("a", "a2", "", 1, 20),
        ("b", "b1", "", 1, 1),
        ("b", "b2", "", 1, 90),
    )
    factors = by_user(tree, fair_share_factors(PriorityWeights(), tree, usage))
    assert factors == {"a1": 1.0, "a2": 0.75, "b1": 0.75, "b2": 0.25}


def test_children_of_an_account_with_its_parents_share_compete_one_level_higher() -> None:
    tree, usage = tree_of(
        ("a", "", "root", None, 0),
        ("b", "", "root", 1, 0),
        ("a", "u", "", 3, 60),  # next to b among the children of the root: (3/4)/(60/100)
        ("b", "v", "", 1, 40),  # b: (1/4)/(40/100)
    )
    assert by_user(tree, fair_share_factors(PriorityWeights(), tree, usage)) == {"u": 1, "v": 0.5}
    classic = by_user(tree, fair_share_factors(CLASSIC, tree, usage))
    assert classic == pytest.approx({"u": 2 ** -(0.6 / 0.75), "v": 2 ** -(0.4 / 0.25)})


def test_classic_fair_share_inherits_usage_of_the_account_above() -> None:
    """Effective usage = own + (the account's - own) x the part of the siblings' shares."""
    tree, usage = tree_of(
        ("a", "", "root", 40, 0),
        ("b", "", "root", 60, 0),
        ("a", "u", "", 3, 20),
        ("a", "v", "", 1, 25),
        ("b", "w", "", None, 55),
        ("b", "none", "", 0, 0),
    )
    damped = replace(CLASSIC, dampening=2.0)
    effective_u, effective_v = 0.20 + (0.45 - 0.20) * 3 / 4, 0.25 + (0.45 - 0.25) / 4
    assert by_user(tree, fair_share_factors(damped, tree, usage)) == pytest.approx(
        {
            "u": 2 ** -(effective_u / 0.3 / 2),
            "v": 2 ** -(effective_v / 0.1 / 2),
            "w": 2 ** -(0.55 / 0.6 / 2),
            "none": 0.0,
        }
    )


@pytest.mark.parametrize(
    ("period", "following"),
    [
        ("DAILY", (2026, 11, 15)),
        ("WEEKLY", (2026, 11, 15)),  # the 14th is a Saturday
        ("MONTHLY", (2026, 12, 1)),
        ("QUARTERLY", (2027, 1, 1)),
        ("YEARLY", (2027, 1, 1)),
        ("NONE", None),
    ],
)
def test_usage_is_reset_at_midnight(period: str, following: tuple[int, int, int] | None) -> None:
    last = datetime(2026, 11, 14, 13, 37, 5)
    assert next_reset(period, last) == (following and datetime(*following))


@pytest.mark.parametrize(
    ("flags", "favours_small", "size", "partition", "qos", "node"),
    [
        ("", False, (2 / 4 + 8 / 32) / 2, 5 / 20, 30 / 120, 2 / 3),
        ("", True, 1 - (2 / 4 + 8 / 32) / 2, 5 / 20, 30 / 120, 2 / 3),
        ("SMALL_RELATIVE_TO_TIME", False, 2 / 4 / 3, 5 / 20, 30 / 120, 2 / 3),
        ("NO_NORMAL_PART NO_NORMAL_QOS NO_NORMAL_TRES", False, 0.375, 5, 30, 2),
    ],
)
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
