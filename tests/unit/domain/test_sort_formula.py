"""OpenPBS's job_sort_formula and fairshare_usage_res taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain.sort_formula import check_formula, sorted_by, used_each_second
from slurm_rl_plugin.errors import ConfigurationError
from tests.case_files import rows


@rows("formulas", "terms", "formula terms")
def test_terms(formula: str, terms: list[Any]) -> None:
    jobs = {"ncpus": np.array([1.0, 64.0]), "walltime": np.array([3600.0, 60.0])}
    found = sorted_by(formula, jobs, 2)
    assert found.fixed.tolist() == pytest.approx(terms[0])
    assert [found.a_second, found.a_factor] == pytest.approx(terms[1:])
    check_formula(formula)


@rows("formulas", "refused", "formula why")
def test_what_is_no_such_sum_is_refused(formula: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"job_sort_formula .* {why}"):
        check_formula(formula)


@rows("formulas", "usage", "formula weights")
def test_what_a_second_of_a_job_adds_to_usage(formula: str, weights: dict[str, float]) -> None:
    assert used_each_second(formula) == pytest.approx(weights)


@rows("formulas", "usage_refused", "formula why")
def test_usage_that_does_not_grow_by_the_second_is_refused(formula: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"fairshare_usage_res .* {why}"):
        used_each_second(formula)
