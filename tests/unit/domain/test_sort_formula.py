"""OpenPBS's job_sort_formula taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain.sort_formula import check_formula, sorted_by, used_each_second
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
        ("-fairshare_tree_usage", "names fairshare_tree_usage, which is not modelled"),
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


@pytest.mark.parametrize(
    ("formula", "weights"),
    [
        ("cput", {"cpus": 1.0}),
        ("ncpus*walltime", {"cpus": 1.0}),
        ("walltime", {"jobs": 1.0}),
        ("walltime * (ncpus + 4*ngpus)", {"cpus": 1.0, "gpus": 4.0}),
        ("mem*walltime/1024 + 2*nodect*walltime", {"memory": 1.0, "nodes": 2.0}),
        ("my_licence + cput", {"cpus": 1.0}),  # PBS has 0 for what a job does not name
    ],
)
def test_what_a_second_of_a_job_adds_to_usage(formula: str, weights: dict[str, float]) -> None:
    assert used_each_second(formula) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("ncpus", "is no weighted sum"),  # a job is charged the same however long it runs
        ("ncpus*ncpus*walltime", "is no weighted sum"),
        ("ncpus*ngpus*walltime", "is no weighted sum"),
        ("vmem", "gives no usage"),
        ("-cput", "gives no usage, or less"),
        ("cput +", "is no expression"),
    ],
)
def test_usage_that_does_not_grow_by_the_second_is_refused(formula: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"fairshare_usage_res .* {why}"):
        used_each_second(formula)
