"""Fairness (2008, eq. 4) and who got what, by hand and against plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.utility.fairness import (
    ServedJobs,
    entitled_service,
    fairness,
    fairness_at_starts,
    service_at,
    service_of_windows,
    share_deficit,
)
from tests.case_files import rows
from tests.reference.readable_simulator import Job, fairness_of_each, served

SHARES = np.array([0.5, 0.3, 0.2])


def test_infeasible_weights_of_the_2008_paper_bound_fairness_at_625_thousandths():
    weights = np.array([0.4, 0.2, 0.2, 0.2])
    usage = np.array([0.7, 0.2, 0.05, 0.05])
    assert share_deficit(weights, usage) == pytest.approx(0.15)
    assert fairness(weights, usage) == pytest.approx(0.625)


@rows("utility", "fairness", "usage value")
def test_fairness_of_all_and_of_nothing(usage, value):
    assert fairness(SHARES, np.array(usage)) == value


def naive(start, run, processors, account, shares):
    jobs = [
        Job(0.0, r, r, p, a, False)
        for r, p, a in zip(run.tolist(), processors.tolist(), account.tolist(), strict=True)
    ]
    return jobs, fairness_of_each(jobs, start.tolist(), shares.tolist())


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(1, 4), st.integers(0, 2)),
        max_size=12,
    ),
    st.sampled_from([0.0, 1.7e9]),
)
def test_fairness_and_service_agree_with_the_definition_on_any_few_jobs(rows, origin):
    start, run, processors, account = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    # whole seconds: prefix sums below 2^53 are exact, the divisions cost some 1e-16
    columns = (origin + start, run.astype(float), processors, account)
    jobs, expected = naive(*columns, SHARES)
    np.testing.assert_allclose(fairness_at_starts(*columns, SHARES), expected, rtol=0, atol=1e-12)
    since = columns[0] - origin
    service = service_at(since, since, columns[1], processors)
    assert service.tolist() == [sum(served(jobs, since.tolist(), t, 3)) for t in since]


@rows("utility", "entitled", "shares demand pool entitled")
def test_water_fills_accounts_by_shares_up_to_their_demand(
    shares: list[float], demand: list[float], pool: float, entitled: list[float]
) -> None:
    found = entitled_service(np.array(shares), np.array(demand), pool)
    assert found.tolist() == pytest.approx(entitled)


@pytest.mark.parametrize("seed", range(5))
def test_windows_are_those_of_a_count_hour_by_hour(seed: int) -> None:
    rng, jobs, accounts = np.random.default_rng(seed), 120, 3
    submit = np.sort(rng.integers(0, 40 * 24, jobs)) * HOUR
    start = submit + rng.integers(0, 10 * 24, jobs) * HOUR
    run_time = rng.integers(1, 5 * 24, jobs) * HOUR
    rate = rng.integers(1, 9, jobs).astype(np.float64)
    account, shares, most = rng.integers(0, accounts, jobs), np.array([0.6, 0.3, 0.1]), 30.0
    begin, end = float(submit[5]), float(submit[-1])
    service = service_of_windows(
        ServedJobs(submit=submit, start=start, run_time=run_time, rate=rate, account=account),
        shares,
        begin=begin,
        end=end,
        most=most,
    )
    firsts = np.arange(begin, end - 14 * DAY + 1e-6, 2 * DAY)
    assert len(service.delivered) == len(firsts) > 5
    for window, first in enumerate(firsts.tolist()):
        delivered, demand, usable = np.zeros((3, accounts))
        for day in range(14):
            of_day = np.zeros(accounts)
            for job in range(jobs):
                hours = first + (day * 24 + np.arange(24)) * HOUR
                runs = (hours >= start[job]) & (hours < start[job] + run_time[job])
                delivered[account[job]] += runs.sum() * rate[job] * HOUR
                there = (hours >= submit[job]) & (hours < start[job] + run_time[job])
                of_day[account[job]] += min(there.sum() * HOUR, run_time[job]) * rate[job]
            usable += np.minimum(of_day, most * DAY)
        for job in range(jobs):
            ran = min(max(first - start[job], 0.0), run_time[job])
            room = max(first + 14 * DAY - max(submit[job], first), 0.0)
            demand[account[job]] += min(run_time[job] - ran, room) * rate[job]
        assert service.delivered[window].tolist() == pytest.approx(delivered.tolist())
        demand = np.maximum(np.minimum(demand, usable), delivered)
        entitled = entitled_service(shares, demand, float(delivered.sum()))
        assert service.entitled[window].tolist() == pytest.approx(entitled.tolist())
    lacking = np.maximum(service.entitled - service.delivered, 0.0).sum(axis=1)
    wrong = np.mean(lacking / service.delivered.sum(axis=1))
    assert 0.0 < service.misdelivered == pytest.approx(wrong)
    large = service.entitled > 0.02 * service.delivered.sum(axis=1, keepdims=True)
    kept = np.minimum(service.delivered[large] / service.entitled[large], 1.0)
    assert service.kept_parts.tolist() == kept.tolist()


def test_a_false_time_makes_no_more_windows_than_can_be_counted() -> None:
    submit = np.array([0.0, 1e12])
    jobs = ServedJobs(
        submit=submit,
        start=submit,
        run_time=np.full(2, DAY),
        rate=np.ones(2),
        account=np.array([0, 1]),
    )
    service = service_of_windows(jobs, np.array([0.5, 0.5]), begin=0.0, end=1e12, most=2.0)
    assert 1_000 < len(service.delivered) < 6_000
    assert service.misdelivered == 0.0
