"""OpenPBS's job_sort_formula taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain.sort_formula import check_formula, sorted_by
from slurm_rl_plugin.errors import ConfigurationError

JOBS = {"ncpus": np.array([1.0, 64.0]), "walltime": np.array([3600.0, 60.0])}


@pytest.mark.parametrize(
    ("formula", "fixed", "a_second", "a_factor"),
    [
        ("ncpus", [1, 64], 0, 0),
        ("10*ncpus + eligible_time/3600 - walltime/60", [-50, 639], 1 / 3600, 0),
        ("sqrt(ncpus) + 100*fairshare_factor + ngpus", [1, 8], 0, 100),
        ("(500 if ncpus > 32 else 0) + 2*eligible_time", [0, 500], 2, 0),
        ("log(ncpus - 1)", [0, np.log(63)], 0, 0),  # PBS has 0 where a formula fails
    ],
)
def test_terms(formula: str, fixed: list[float], a_second: float, a_factor: float) -> None:
    found = sorted_by(formula, JOBS, 2)
    assert found.fixed.tolist() == pytest.approx(fixed)
    assert (found.a_second, found.a_factor) == pytest.approx((a_second, a_factor))
    check_formula(formula)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("ncpus *", "is no expression"),
        ("eligible_time**2", "is no sum"),
        ("ncpus * fairshare_factor", "is no sum"),
        ("eligible_time * fairshare_factor", "is no sum"),
        ("__import__('os').system('true')", "has a Call"),
        ("ncpus.real", "has a Attribute"),
        ("[ncpus for _ in 'ab']", "has a ListComp"),
    ],
)
def test_what_is_no_such_sum_is_refused(formula: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"job_sort_formula .* {why}"):
        check_formula(formula)


@pytest.mark.parametrize(
    "formula", ["9**9**9**9", "int(9)**int(9)**int(9)**int(9)", "pow(int(9), factorial(99999))"]
)
def test_a_huge_power_ends_at_once(formula: str) -> None:
    assert sorted_by(formula, JOBS, 2).fixed.tolist() == [0.0, 0.0]
