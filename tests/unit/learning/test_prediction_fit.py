"""A fitted prediction finds what was planted, and its figures are those made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    RunTimePrediction,
)
from slurm_rl_plugin.learning import prediction_fit
from slurm_rl_plugin.learning.prediction_fit import fit_prediction, prediction_quality
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import known_at_start

#: What users' jobs run for: at once, minutes, half a day.
LENGTHS = np.array([15.0, 400.0, 40000.0])


def log_with(run_time, user=None, time_limit=None, gap=1.0):
    """Jobs that start when submitted, `gap` seconds apart; all ask for the same by default."""
    count = len(run_time)
    log = mmn_log(np.random.default_rng(1), processors=5, jobs=count)
    user = np.zeros(count, dtype=np.int64) if user is None else user
    return prepare_log(
        replace(
            log,
            submit=np.arange(count) * gap,
            run_time=np.array(run_time, dtype=float),
            time_limit=np.full(count, 50000.0) if time_limit is None else time_limit,
            user=user,
            users=tuple(map(str, range(int(user.max()) + 1))),
        )
    )


def planted(seed, jobs=600):
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 3, jobs)
    run_time = LENGTHS[user] * rng.uniform(0.5, 1.5, jobs)
    return log_with(run_time, user, gap=600.0), user


def probabilities(prediction, prepared):
    return 1.0 / (1.0 + np.exp(-(known_at_start(prepared) @ prediction.weights.T)[:, :-1]))


def rng():
    return np.random.default_rng(1)


def test_a_user_whose_jobs_are_always_short_gets_a_high_probability():
    training, _ = planted(1)
    prediction = fit_prediction([training], [600], rng())
    other, user = planted(2)
    later = np.arange(600) >= 200  # all users are known by then
    said = probabilities(prediction, other)
    for number, shorter in enumerate([(1, 1, 1), (0, 1, 1), (0, 0, 0)]):
        mine = said[later & (user == number)]
        np.testing.assert_array_equal(mine > 0.9, np.tile(shorter, (len(mine), 1)) == 1)
        np.testing.assert_array_equal(mine < 0.1, np.tile(shorter, (len(mine), 1)) == 0)
    quality = prediction_quality(prediction, other, 200, 600)
    assert quality.auc == pytest.approx((1.0, 1.0, 1.0))
    assert max(quality.log_loss_ratio) < 0.1
    assert quality.log_error < 0.25 < quality.log_error_requested
    assert quality.jobs == 400


def test_a_prediction_that_is_not_fitted_follows_the_templates_own_runs():
    other, user = planted(2)
    said = probabilities(RunTimePrediction.untrained(), other)[200:]
    assert (said[user[200:] == 0] > 0.9).all()
    assert (said[user[200:] == 2] < 0.15).all()
    quality = prediction_quality(RunTimePrediction.untrained(), other, 200, 600)
    assert min(quality.auc) > 0.99


@pytest.mark.parametrize(
    ("run_time", "intercepts"),
    [
        ([5.0, 20.0, 59.9], [6.0, 6.0, 6.0]),
        ([60.0, 200.0, 899.0], [-6.0, 6.0, 6.0]),
        ([7200.0, 9000.0, 8000.0], [-6.0, -6.0, -6.0]),
    ],
)
def test_where_all_runs_are_of_one_side_there_is_nothing_to_tell_apart(run_time, intercepts):
    prepared = log_with(run_time * 5, gap=1e5)
    prediction = fit_prediction([prepared], [15], rng())
    assert prediction.weights[:-1, 0].tolist() == intercepts
    assert not prediction.weights[:-1, 1:].any()
    quality = prediction_quality(prediction, prepared, 0, 15)
    assert quality.auc == quality.log_loss_ratio == (None, None, None)


def test_quality_by_hand():
    limit = np.array([9.0, 99.0, 999.0, 9999.0])  # lg(1 + limit) = 1, 2, 3, 4
    prepared = log_with([20.0, 50.0, 99.0, 30.0], time_limit=limit)
    weights = np.zeros((PREDICTED, KNOWN_FACTS))
    weights[0, :2] = 2.0, -6.0  # logits 1, 0, -1, -2 of a run below a minute
    weights[-1, 0] = 1.5
    quality = prediction_quality(RunTimePrediction(weights=weights), prepared, 0, 4)
    # three runs are below a minute; the longer one got more than one of them
    assert quality.auc == (pytest.approx(2 / 3), None, None)
    said = 1 / (1 + np.exp(-np.array([1.0, 0, -1, -2])))
    loss = -np.log([said[0], said[1], 1 - said[2], said[3]]).mean()
    chance = -(3 * np.log(0.75) + np.log(0.25)) / 4
    assert quality.log_loss_ratio == (pytest.approx(loss / chance), None, None)
    actual = np.log10([21.0, 51.0, 100.0, 31.0])
    assert quality.log_error == pytest.approx(np.abs(1.5 - actual).mean())
    assert quality.log_error_requested == pytest.approx(np.abs([1, 2, 3, 4] - actual).mean())
    part = prediction_quality(RunTimePrediction(weights=weights), prepared, 1, 3)
    assert part.jobs == 2
    assert part.auc[0] == 1.0
    assert part.log_error == pytest.approx(np.abs(1.5 - actual[1:3]).mean())


def test_what_came_after_the_first_jobs_has_no_say():
    whole, _ = planted(1)
    run_time = whole.log.run_time.copy()
    run_time[300:] = run_time[300:][::-1] * 7
    other = replace(whole, log=replace(whole.log, run_time=run_time))
    first = fit_prediction([whole], [300], rng()).weights
    assert fit_prediction([other], [300], rng()).weights.tolist() == first.tolist()
    assert fit_prediction([other], [301], rng()).weights.tolist() != first.tolist()


def test_a_long_log_does_not_outvote_a_short_one(monkeypatch):
    """Of the long log, whose jobs are all long, no more are drawn than of the short one."""
    monkeypatch.setattr(prediction_fit, "MOST_JOBS", 40)
    long, short = log_with([5000.0] * 400, gap=1e4), log_with([5.0] * 40, gap=1e4)
    even = fit_prediction([long, short], [400, 40], rng()).weights
    assert fit_prediction([long, short], [400, 40], rng()).weights.tolist() == even.tolist()
    one_log = log_with([5000.0, 5.0] * 200, gap=1e4)
    assert fit_prediction([one_log], [400], rng()).weights.tolist() != even.tolist()
    # before anything is known of their user, a job is as likely short as long
    said = probabilities(RunTimePrediction(weights=even), short)[0]
    assert 0.4 < said[0] == pytest.approx(said[1], abs=0.01)
    monkeypatch.setattr(prediction_fit, "MOST_JOBS", 10_000)
    voted = fit_prediction([long, short], [400, 40], rng())
    assert probabilities(voted, short)[0, 0] < said[0]


def test_the_run_time_of_a_job_that_asked_for_no_time_does_not_tell_the_answer():
    """Elsewhere it stands for the request; here nothing is known, so nothing can be told."""
    random = np.random.default_rng(3)
    run_time = 10.0 ** random.uniform(0.5, 4.5, 4000)
    nobody = log_with(run_time, time_limit=np.full(4000, np.nan), gap=3e4)
    prediction = fit_prediction([nobody], [2000], rng())
    quality = prediction_quality(prediction, nobody, 2000, 4000)
    assert quality.auc == pytest.approx((0.5, 0.5, 0.5), abs=0.05)
    assert quality.log_error_requested is None
    assert quality.jobs == 2000


@pytest.mark.parametrize(("logs", "jobs"), [([], []), ([log_with([5.0])], [0])])
def test_a_fit_without_a_job_is_refused(logs, jobs):
    with pytest.raises(ConfigurationError, match="at least one job"):
        fit_prediction(logs, jobs, rng())
