"""A limit is advised where runs alike say that it is safe, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.forecasts.limits import (
    KILLED,
    LimitRule,
    RunsAlike,
    SeenLimits,
    chosen_rule,
    killed_at_most,
    limits_report,
    runs_alike,
)
from slurm_rl_plugin.units import HOUR


def log_of(run_time: np.ndarray, user: np.ndarray, *, limit: float = 10 * HOUR) -> JobLog:
    """Jobs an hour apart that start at once."""
    count = len(run_time)
    submit = HOUR * np.arange(count, dtype=np.float64)
    return JobLog(
        job_id=np.arange(1, count + 1),
        submit=submit,
        eligible=submit,
        processors=np.ones(count, dtype=np.int64),
        time_limit=np.full(count, limit),
        account=user % 2,
        user=user,
        partition=np.zeros(count, dtype=np.int64),
        start=submit,
        run_time=run_time,
        accounts=("physics", "biology"),
        users=tuple(f"u{each}" for each in range(int(user.max()) + 1)),
        partitions=("batch",),
        kind="sacct",
    )


def steady(seed: int = 1, count: int = 4000) -> JobLog:
    """Users whose jobs all run half an hour, give or take a little."""
    rng = np.random.default_rng(seed)
    return log_of(rng.uniform(1700.0, 1900.0, count), rng.integers(0, 30, count))


def test_only_runs_that_have_ended_are_known() -> None:
    log = log_of(np.array([600.0, 5000.0, 700.0, 800.0]), np.zeros(4, dtype=np.int64))
    past, known = runs_alike(log)
    assert past.seen.tolist() == [0, 1, 1, 3]  # the second still runs when the third comes
    assert past.longest[1:].tolist() == [600.0, 600.0, 5000.0]
    assert list(known.values()) == [[600.0, 700.0, 800.0, 5000.0]]


def test_steady_jobs_are_advised_and_safe() -> None:
    report = limits_report(steady(), days=7.0)
    assert report["held_out"]["advised"] > 1000
    assert report["held_out"]["killed"] <= KILLED
    assert report["held_out"]["over_run_time"] < 2.0
    first = report["templates"][0]
    assert 1900.0 <= first["advised"] < 0.8 * first["limit"]


def test_jobs_of_any_length_are_not_advised() -> None:
    rng = np.random.default_rng(2)
    wild = log_of(10.0 ** rng.uniform(1.0, 4.5, 4000), rng.integers(0, 30, 4000))
    assert limits_report(wild, days=7.0)["rule"] is None


def test_whose_runs_have_grown_is_told_nothing() -> None:
    grown = np.repeat([1800.0, 3600.0], 100)
    past = runs_alike(log_of(grown, np.zeros(200, dtype=np.int64)))[0]
    told = LimitRule(fewest=10, alike=1.5, margin=1.1).advised(past, np.full(200, 10 * HOUR))
    assert np.isfinite(told[20:100]).all()
    assert np.isnan(told[102:]).all()  # the longest is now twice the median


def test_kills_of_one_template_count_as_one() -> None:
    spread = np.zeros(4000, dtype=np.bool_)
    spread[::250] = True
    together = np.zeros(4000, dtype=np.bool_)
    together[:16] = True
    template = np.repeat(np.arange(40), 100)
    assert spread.sum() == together.sum()
    counts = np.ones(4000)
    assert killed_at_most(together, template, counts) > killed_at_most(spread, template, counts)


def test_few_jobs_tell_nothing() -> None:
    nobody = np.zeros(299, dtype=np.bool_)
    assert killed_at_most(nobody, np.arange(299), np.ones(299)) == 1.0
    one = np.zeros(4000, dtype=np.bool_)
    assert killed_at_most(one, np.zeros(4000, dtype=np.int64), np.ones(4000)) == 1.0


@pytest.mark.parametrize("of_eve", [0, 1000, 20_000])
def test_no_user_makes_a_rule_safe_for_all_by_short_runs(of_eve: int) -> None:
    """Of the others' jobs 3 % run five times as long as any before; those of one user never do."""
    count = 2000 + of_eve
    user = np.where(np.arange(count) < 2000, np.arange(count) % 30, 30)
    usual = np.where(user < 30, 1800.0, 5.0)
    run_time = np.where((user < 30) & (np.arange(count) % 33 == 0), 5.0 * usual, usual)
    past = RunsAlike(
        template=np.where(user < 30, user, 30 + np.arange(count) % 40),
        seen=np.full(count, 50),
        middle=usual,
        longest=usual,
    )
    jobs = SeenLimits(past, np.full(count, 10 * HOUR), run_time, user)
    assert chosen_rule(jobs, np.ones(count, dtype=np.bool_)) is None


def test_accounts_are_told_what_they_ask_and_use() -> None:
    log = log_of(np.full(40, HOUR), np.arange(40) % 2, limit=4 * HOUR)
    accounts = limits_report(log, days=30.0)["accounts"]
    assert [each["account"] for each in accounts] == ["physics", "biology"]
    assert accounts[0]["asked_hours"] == pytest.approx(80.0)
    assert accounts[0]["used_hours"] == pytest.approx(20.0)
    assert accounts[0]["limit_over_run_time"] == 4.0


def test_a_limit_that_is_hardly_shorter_is_not_worth_a_word() -> None:
    past = runs_alike(steady())[0]
    rule = LimitRule(fewest=10, alike=2.0, margin=1.1)
    assert np.isnan(rule.advised(past, np.full(4000, 2100.0))).all()
