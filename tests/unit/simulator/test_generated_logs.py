"""Logs drawn by the definitions or out of another log, and ratios over them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.generators import (
    egee_log,
    generated_log,
    mmn_log,
)
from slurm_rl_plugin.simulator.workloads.resampling import (
    WEEK,
    resample_weeks,
    resampled_ratio,
    scale_load,
    whole_weeks,
)

JOBS = 200_000


def within_sampling_error(sample, mean, deviations=4.0):
    """Mean of independent draws: 4 standard errors fail one seed in 16,000, and the seed is set."""
    error = np.std(sample) / math.sqrt(len(sample))
    return abs(np.mean(sample) - mean) < deviations * error


@pytest.mark.parametrize("p", [0.2, 0.4, 0.5])
def test_mmn_run_times_and_arrivals_have_the_rates_of_the_2008_table(p):
    log = mmn_log(np.random.default_rng(1), interactive=p, jobs=JOBS)
    mu = -math.log(1 - p) / 900
    assert within_sampling_error(log.run_time, 1 / mu)
    assert within_sampling_error(np.diff(log.submit), 1 / (0.99 * 50 * mu))
    assert within_sampling_error((log.run_time < 900).astype(float), p)
    # exponential: the standard deviation is the mean; its relative error is about sqrt(2/n)
    for sample in (log.run_time, np.diff(log.submit)):
        assert np.std(sample) == pytest.approx(np.mean(sample), rel=4 * math.sqrt(2 / JOBS))


def test_egee_run_times_have_the_moments_of_the_definitions():
    log = egee_log(np.random.default_rng(2), jobs=JOBS)
    short = log.run_time < 900
    # 0.4 % of the lognormal batch run times lie below 900 s too, a mean of about 700 s among them
    assert 105 < log.run_time[short].mean() < 116
    assert log.run_time.min() >= 1
    long = log.run_time[~short]
    # leaving those out lifts mean and median by less than 0.5 %; the standard error of the mean is
    # 0.5 % (a lognormal of deviation 1.63 means, 104,000 jobs), of the median 0.4 %; 4 of them
    assert long.mean() == pytest.approx(35_000, rel=0.025)
    assert np.median(long) == pytest.approx(18_300, rel=0.021)


def test_egee_has_the_class_mix_load_and_shares_of_the_definitions():
    log = egee_log(np.random.default_rng(2), jobs=JOBS)

    # a burst is drawn as a whole: of 14,000 bursts of geometric size the error of a fraction f is
    # sqrt(2 f (1 - f) / 14,000); 4 of them
    def error(fraction):
        return 4 * math.sqrt(2 * fraction * (1 - fraction) * 14 / JOBS)

    short = log.run_time < 900
    assert short.mean() == pytest.approx(0.48 + 0.52 * 0.004, abs=error(0.48))
    for account, share in enumerate((0.53, 0.19, 0.10, 0.18)):
        assert (log.account == account).mean() == pytest.approx(share, abs=error(share))
    offered = log.run_time.sum() / (81 * np.ptp(log.submit))
    # work of a burst deviates by 1.7 means, a gap by 1: together 1.7 % over 14,000 bursts; 4 of it
    assert offered == pytest.approx(0.44, rel=0.068)


def test_egee_bursts_hold_14_jobs_of_one_account_and_class_on_average():
    # arrivals so sparse that no two bursts meet: a gap of more than 1,000 s parts them
    log = egee_log(np.random.default_rng(3), jobs=40_000, load=0.001)
    part = np.cumsum(np.concatenate(([0], np.diff(log.submit) > 1000)))
    bursts = part[-1] + 1
    # geometric: deviation about the mean, 0.26 for 2,857 bursts; 4 of it, and some bursts that meet
    assert len(log) / bursts == pytest.approx(14, abs=1.2)
    mixed = [len(set(log.account[part == burst])) > 1 for burst in range(200)]
    assert np.mean(mixed) < 0.03


@pytest.mark.parametrize(("name", "jobs", "processors"), [("mmn", 6000, 50), ("egee", 9500, 81)])
def test_defaults_are_the_experiments_of_2008_and_2011(name, jobs, processors):
    log = generated_log(name)
    assert (len(log), log.processors_available) == (jobs, processors)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("mmn:jobs=0", "jobs"),
        ("mmn:jobs=-5", "jobs"),
        ("egee:jobs=0", "jobs"),
        ("egee:processors=0", "processors"),
        ("mmn:processors=2.5", "processors"),
        ("mmn:seed=-1", "seed"),
        ("mmn:load=nan", "load"),
        ("mmn:load=inf", "load"),
        ("mmn:load=0", "load"),
        ("mmn:interactive=nan", "interactive"),
        ("egee:interactive=-.1", "interactive"),
        ("mmn:interactive=1", "cannot be generated"),
        ("mmn:interactive=0", "cannot be generated"),
        ("egee:burst=inf", "burst"),
        ("egee:burst=.5", "burst"),
        ("mmn:burst=3", "burst"),
        ("mmn:colour=red", "colour"),
        ("mmn:load", "load"),
        ("lublin:jobs=3", "lublin"),
        ("lublin", "lublin"),
    ],
)
def test_a_wrong_specification_is_refused_in_words_that_name_the_fault(text, word):
    with pytest.raises(ConfigurationError, match=word) as fault:
        generated_log(text)
    assert text in str(fault.value)


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
    log = with_waits(some_log(seed, jobs=200))
    scaled = scale_load(log, factor)
    assert offered_load(scaled) == pytest.approx(factor * offered_load(log), rel=1e-6)
    assert np.all(np.diff(scaled.submit) >= 0)
    assert scaled.submit[0] == log.submit[0]
    np.testing.assert_array_equal(scaled.run_time, log.run_time)
    np.testing.assert_array_equal(scaled.job_id, log.job_id)
    np.testing.assert_allclose(scaled.eligible - scaled.submit, 3, atol=1e-4)
    assert np.isnan(scaled.start).all() == (factor != 1.0)


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
    waits = drawn.start - drawn.submit  # each job's old number, by construction
    source = np.round(waits).astype(int) - 1
    moved = (drawn.submit - log.submit[source]) / WEEK  # whole weeks: weekday and hour stay
    np.testing.assert_allclose(moved, np.round(moved), atol=1e-9)
    for name in ("run_time", "processors", "account", "user"):
        np.testing.assert_array_equal(getattr(drawn, name), getattr(log, name)[source])


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
