"""Constraints over node features, as sbatch takes them."""

from __future__ import annotations

import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.node_constraints import meets

NODE = frozenset({"a", "b"})


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("", True),
        ("a", True),
        ("c", False),
        ("a&b", True),
        ("a,c", False),
        ("c&a|b", True),
        ("a|b&c", True),
        ("c&(a|b)", False),
        ("[a|c]*2", True),
        (" a & ( c | b ) ", True),
    ],
)
def test_who_meets_a_constraint(constraint: str, holds: bool) -> None:
    assert meets(constraint, NODE) is holds


@pytest.mark.parametrize("constraint", ["(", "a&", "|a", "(a", "a)", "()", "a(b)", "(" * 100_000])
def test_what_cannot_be_read_is_told(constraint: str) -> None:
    with pytest.raises(ConfigurationError, match="is no expression over features"):
        meets(constraint, NODE)
