"""Other logs made of one log keep what they must, and ratios over them are told as defined."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.swf.writer import write_swf
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.generators import egee_log, mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.resampling import (
    WEEK,
    resample_prepared,
    resample_weeks,
    resampled_ratio,
    scale_load,
    whole_weeks,
)


def some_log(seed=1, **settings):
    return egee_log(np.random.default_rng(seed), **{"jobs": 1500, "processors": 10, **settings})


def with_waits(log):
    """The log as if recorded, each job eligible after 3 s and started after its number in s."""
    return replace(log, eligible=log.submit + 3, start=log.submit + log.job_id)


def offered_load(log):
    span = log.submit[-1] - log.submit[0]
    return float((log.run_time * log.processors).sum() / span)


@settings(max_examples=30, deadline=None)
@given(factor=st.floats(0.05, 20), seed=st.integers(0, 1000))
def test_a_factor_multiplies_the_offered_load_and_nothing_else(factor, seed):
    log = some_log(seed, jobs=200)
    scaled = scale_load(log, factor)
    assert offered_load(scaled) == pytest.approx(factor * offered_load(log), rel=1e-6)
    assert np.all(np.diff(scaled.submit) >= 0)
    assert scaled.submit[0] == log.submit[0]
    np.testing.assert_array_equal(scaled.run_time, log.run_time)
    np.testing.assert_array_equal(scaled.job_id, log.job_id)


def test_scaling_keeps_the_delay_until_eligible_and_forgets_recorded_starts():
    log = with_waits(some_log())
    scaled = scale_load(log, 3.0)
    np.testing.assert_allclose(scaled.eligible - scaled.submit, 3, atol=1e-6)
    assert np.isnan(scaled.start).all()
    assert scale_load(log, 1.0) is log


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_resampled_log_has_the_span_and_whole_weeks_of_the_old_one(seed):
    log = with_waits(some_log())
    drawn = resample_weeks(log, np.random.default_rng(seed))
    assert np.all(np.diff(drawn.submit) >= 0)
    assert drawn.submit[0] >= log.submit[0]
    assert drawn.submit[-1] <= log.submit[-1] + 1e-6
    np.testing.assert_array_equal(drawn.job_id, np.arange(1, len(drawn) + 1))
    np.testing.assert_allclose(drawn.eligible - drawn.submit, 3, atol=1e-6)
    # whole weeks: the jobs of a week of the new log are those of one week of the old one
    since_old, since_new = log.submit - log.submit[0], drawn.submit - log.submit[0]
    old = {
        tuple(np.round(log.run_time[since_old // WEEK == week], 6))
        for week in range(whole_weeks(log))
    }
    for week in range(whole_weeks(log)):
        assert tuple(np.round(drawn.run_time[since_new // WEEK == week], 6)) in old


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_drawn_job_keeps_its_weekday_hour_and_recorded_wait(seed):
    log = with_waits(some_log())
    drawn = resample_weeks(log, np.random.default_rng(seed))
    waits = drawn.start - drawn.submit  # each job's old number, by construction
    source = np.round(waits).astype(int) - 1
    moved = (drawn.submit - log.submit[source]) / WEEK
    np.testing.assert_allclose(moved, np.round(moved), atol=1e-9)
    for name in ("run_time", "processors", "account", "user"):
        np.testing.assert_array_equal(getattr(drawn, name), getattr(log, name)[source])


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    digests = []
    for seed in (5, 5, 6):
        path = tmp_path / "drawn.swf"
        write_swf(path, resample_weeks(some_log(), np.random.default_rng(seed)), comments=[])
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]


def test_a_prepared_log_keeps_shares_classes_and_accounts():
    prepared = prepare_log(some_log())
    drawn = resample_prepared(prepared, np.random.default_rng(4))
    alone = resample_weeks(prepared.log, np.random.default_rng(4))
    np.testing.assert_array_equal(drawn.log.submit, alone.submit)
    np.testing.assert_array_equal(drawn.shares, prepared.shares)
    np.testing.assert_array_equal(drawn.interactive, alone.run_time < 900)
    names = [prepared.accounts[index] for index in drawn.account]
    assert names == [alone.accounts[index] for index in alone.account]


def test_what_cannot_be_resampled_or_scaled_is_refused():
    log, rng = some_log(), np.random.default_rng(1)
    short = mmn_log(rng, jobs=10)
    sparse = replace(short, submit=np.array([0.0] * 9 + [3 * WEEK]))
    empty = mmn_log(rng, jobs=0)
    with pytest.raises(ConfigurationError, match="whole weeks"):
        resample_weeks(short, rng)
    with pytest.raises(ConfigurationError, match="no job"):
        resample_weeks(sparse, np.random.default_rng(0))  # draws only empty weeks
    for call in (resample_weeks, lambda log, _: scale_load(log, 2.0)):
        with pytest.raises(ConfigurationError, match="no job"):
            call(empty, rng)
    for factor in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ConfigurationError, match="number > 0"):
            scale_load(log, factor)


def test_a_resampled_ratio_takes_the_middle_of_the_ratios():
    ratios = np.arange(1.0, 42.0)
    assert resampled_ratio(ratios, np.ones(41)) == (21, (2, 40))


def test_blocks_without_waits_are_no_division_by_zero():
    with np.errstate(all="raise"):
        ratio = resampled_ratio(np.array([0.0, 0.0, 5.0]), np.array([0.0, 10.0, 0.0]))
        equal = resampled_ratio(np.array([0.0, 4.0]), np.array([0.0, 4.0]))
    assert ratio == (0.5, (0, np.inf))
    assert equal == (1, (1, 1))
