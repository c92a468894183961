"""Fairness (2008, eq. 4), and its value at each start against the plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.utility.fairness import (
    fairness,
    fairness_at_starts,
    service_at,
    share_deficit,
)
from tests.reference.readable_simulator import Job, fairness_of_each, served

SHARES = np.array([0.5, 0.3, 0.2])


def test_infeasible_weights_of_the_2008_paper_bound_fairness_at_625_thousandths():
    weights = np.array([0.4, 0.2, 0.2, 0.2])
    usage = np.array([0.7, 0.2, 0.05, 0.05])
    assert share_deficit(weights, usage) == pytest.approx(0.15)
    assert fairness(weights, usage) == pytest.approx(0.625)


def test_fairness_is_one_when_everybody_got_the_share():
    assert fairness(SHARES, SHARES) == 1.0


def test_fairness_is_zero_when_the_largest_account_got_nothing():
    assert fairness(SHARES, np.array([0.0, 0.6, 0.4])) == 0.0


def test_fairness_is_zero_while_nothing_was_consumed():
    assert fairness(SHARES, np.zeros(3)) == 0.0


def test_service_counts_running_jobs_up_to_the_instant_and_none_that_start_then():
    start, run, processors = np.array([0.0, 10.0]), np.array([100.0, 5.0]), np.array([2, 3])
    at = service_at(np.array([0.0, 10.0, 12.0, 500.0]), start, run, processors)
    assert at.tolist() == [0.0, 20.0, 24.0 + 6.0, 200.0 + 15.0]


def test_fairness_at_starts_by_hand():
    # account 0 runs alone to 10, so that account 1 starts at shares .5/.5 with usage 1/0
    start = np.array([0.0, 10.0, 20.0])
    values = fairness_at_starts(
        start, np.array([40.0, 40.0, 1.0]), np.ones(3, dtype=int), np.array([0, 1, 0]), SHARES[:2]
    )
    # at 20: 20 and 10 processor-seconds; deficit of account 1 is .3 - 1/3 < 0
    assert values.tolist() == pytest.approx([0.0, 1 - 0.3 / 0.5, 1.0])


def naive(start, run, processors, account, shares):
    jobs = [
        Job(0.0, r, r, p, a, False)
        for r, p, a in zip(run.tolist(), processors.tolist(), account.tolist(), strict=True)
    ]
    return jobs, fairness_of_each(jobs, start.tolist(), shares.tolist())


@pytest.mark.parametrize("origin", [0.0, 1.7e9], ids=["small", "epoch"])
@pytest.mark.parametrize("seed", range(5))
def test_fairness_at_starts_is_the_plain_definition(seed, origin):
    rng = np.random.default_rng(seed)
    jobs = 200
    start = origin + np.floor(rng.uniform(0, 5000, jobs))
    columns = (
        start,
        np.floor(rng.exponential(500, jobs)) + 1,
        rng.integers(1, 9, jobs),
        rng.integers(0, 3, jobs),
    )
    shares = rng.dirichlet(np.ones(3))
    _, expected = naive(*columns, shares)
    # whole seconds: prefix sums below 2^53 are exact, the divisions cost some 1e-16
    np.testing.assert_allclose(fairness_at_starts(*columns, shares), expected, rtol=0, atol=1e-12)


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(1, 4), st.integers(0, 2)),
        min_size=1,
        max_size=12,
    )
)
def test_fairness_and_service_agree_with_the_definition_on_any_few_jobs(rows):
    start, run, processors, account = np.array(rows).T
    columns = (start.astype(float), run.astype(float), processors, account)
    jobs, expected = naive(*columns, SHARES)
    np.testing.assert_allclose(fairness_at_starts(*columns, SHARES), expected, rtol=0, atol=1e-12)
    service = service_at(columns[0], columns[0], columns[1], processors)
    assert service.tolist() == [sum(served(jobs, columns[0].tolist(), t, 3)) for t in columns[0]]


def test_the_order_of_the_jobs_does_not_matter():
    rng = np.random.default_rng(3)
    columns = [
        rng.uniform(0, 100, 30),
        rng.uniform(1, 50, 30),
        rng.integers(1, 5, 30),
        rng.integers(0, 3, 30),
    ]
    mixed = rng.permutation(30)
    there = fairness_at_starts(*(each[mixed] for each in columns), SHARES)
    np.testing.assert_allclose(there, fairness_at_starts(*columns, SHARES)[mixed], atol=1e-12)


def test_no_jobs_have_no_fairness():
    empty = np.empty(0)
    assert len(fairness_at_starts(empty, empty, empty.astype(int), empty.astype(int), SHARES)) == 0
