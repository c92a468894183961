"""History columns of a whole queue are those of each job looked at alone, and zero unless asked."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.history.columns import history_columns
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_history import LARGE_REQUEST, UNKNOWN
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    RunTimePrediction,
    alike_features,
    fill_known_facts,
    history_features,
)
from slurm_rl_plugin.features.site import SITE
from tests.unit.features.run_tables import USERS, ReadableHistory, Run, snapshot_of

NAN = math.nan
FIRST = len(SITE.static_jobs) + len(SITE.dynamic_jobs)


def random_prediction(seed=1):
    rng = np.random.default_rng(seed)
    return RunTimePrediction(weights=rng.normal(0, 0.7, (PREDICTED, KNOWN_FACTS)))


def some_runs(rng, count, first=0, widest=3):
    return [
        Run(
            first + number,
            int(rng.integers(len(USERS))),
            int(rng.integers(1, widest + 1)),
            float(rng.choice([600.0, 3600.0, 86400.0, NAN])),
            float(rng.integers(0, 10_000)),
        )
        for number in range(count)
    ]


def of_one_job(run, limit, history, pending, running, prediction):
    """The features of one job, by the plain functions on plain numbers."""

    def alike(runs):
        same = (run.user, run.processors, str(run.time_limit))
        return sum((each.user, each.processors, str(each.time_limit)) == same for each in runs)

    name = USERS[run.user]
    asked = -1.0 if math.isnan(run.time_limit) else run.time_limit
    user, template = history.users.get(name), history.templates.get((name, run.processors, asked))
    of_user = history.site if user is None else user
    facts = np.zeros(KNOWN_FACTS)
    speaks = history.speaks_for(run, limit)
    known = float(template is not None)
    of_template = of_user if template is None else template
    fill_known_facts(
        facts,
        limit,
        run.processors,
        of_user,
        of_template,
        float(user is not None),
        known,
    )
    predicted = prediction.weights @ facts
    if not speaks:
        predicted, known = [-6.9, -6.9, -6.9, math.log10(1.0 + limit)], 0.0
    features = history_features(*predicted, limit, known)
    told = alike_features(alike(pending), alike(running)) if speaks else (0.0, 0.0)
    return [*features, *told]


#: Ended runs in each queue, the longest of them and the widest job. In the last ones requests of
#: 86400 s on 64 processors and more are large.
ENDED_RUNS = [0, 1, 8, 200, 200, 200, 200]
LONGEST = [9999, 9999, 9999, 9999, 9999, 7000, 7250]
WIDEST = [3, 3, 3, 3, 3, 160, 160]


@pytest.mark.parametrize("seed", range(len(ENDED_RUNS)))
def test_the_whole_queue_at_once_is_each_job_alone(seed):
    rng = np.random.default_rng(seed)
    ended = [
        replace(r, end=r.start + int(rng.integers(1, LONGEST[seed])))
        for r in some_runs(rng, ENDED_RUNS[seed], widest=WIDEST[seed])
        if r.user != 3 or seed in (4, 6)  # in the other queues dan is new
    ]
    running = some_runs(rng, 30, 1000, WIDEST[seed])
    if seed >= 5:  # most of them have not yet outlived two hours
        running = [replace(run, start=run.start + 1e4) for run in running[:3]]
    pending = some_runs(rng, 300, 2000, WIDEST[seed])
    estimate = rng.choice([60.0, 7200.0], len(pending))
    snapshot = snapshot_of(20_000.0, running=running, ended=ended, pending=pending)
    past = PastRuns().after(snapshot)
    history = ReadableHistory.of([*ended, *running], 20_000.0)
    prediction = random_prediction(seed)
    features = site_job_features(snapshot, estimate, past, prediction)[:, FIRST:]
    # whatever is estimated: to a prediction a job without a limit asks for the same as others
    limits = [3600.0 if math.isnan(run.time_limit) else run.time_limit for run in pending]
    large = [
        history.speaks_for(run, limit)
        for run, limit in zip(pending, limits, strict=True)
        if run.processors * limit >= LARGE_REQUEST
    ]
    assert set(large) == ({False, True} if seed >= 5 else set())
    expected = [
        of_one_job(run, limit, history, pending, running, prediction)
        for run, limit in zip(pending, limits, strict=True)
    ]
    np.testing.assert_allclose(features, expected, rtol=1e-6, atol=1e-6)


def test_nothing_is_known_of_the_first_job():
    snapshot = snapshot_of(0.0, pending=[Run(1, 0, 2, 600.0, 0.0)])
    prediction = RunTimePrediction.untrained()
    row = history_columns(snapshot, np.array([600.0]), PastRuns(), prediction)[0]
    named = dict(zip(SITE.history_jobs, row.tolist(), strict=True))
    assert named["template_known"] == 0.0
    assert named["log_predicted_run_time"] == pytest.approx(UNKNOWN[6] / 6)
    # the means of the untrained prediction are those of the row, but for never being certain
    assert named["probability_very_short"] == pytest.approx(0.11 / 1.02, rel=1e-6)
    assert named["probability_short"] == pytest.approx(0.41 / 1.02, rel=1e-6)
    assert named["log_pending_alike"] == named["log_pending_alike_none_running"] == 0.0


def test_jobs_alike_are_counted_by_template():
    same, other = Run(1, 0, 2, 600.0, 0.0), Run(2, 0, 2, 601.0, 0.0)
    snapshot = snapshot_of(5.0, pending=[same, other, same, same], running=[other])
    limit = snapshot.pending.jobs.time_limit
    told = history_columns(snapshot, limit, PastRuns(), random_prediction())
    alike = told[:, SITE.history_jobs.index("log_pending_alike") :]
    three = math.log10(3) / 3
    np.testing.assert_allclose(
        alike, [[three, three], [0.0, 0.0], [three, three], [three, three]], rtol=1e-6
    )


def test_an_array_is_as_many_jobs_as_its_waiting_tasks():
    one = Run(1, 0, 2, 600.0, 0.0)
    array, tasks = (snapshot_of(5.0, pending=[one] * rows) for rows in (1, 1000))
    array = replace(array, pending=replace(array.pending, tasks=np.array([1000])))
    held = replace(tasks, pending=replace(tasks.pending, held=np.arange(1000) > 0))
    prediction = random_prediction()
    first = [
        site_job_features(each, np.full(len(each.pending), 600.0), PastRuns(), prediction)[0]
        for each in (array, tasks, held)
    ]
    np.testing.assert_array_equal(first[0], first[1])
    assert first[2][-2:].tolist() == [0.0, 0.0]  # alone of its template: none else could start
    queues = [
        site_queue_features(each, np.full(len(each.pending), 600.0), np.empty(0), np.zeros(3))
        for each in (array, tasks, held, snapshot_of(5.0, pending=[one]))
    ]
    np.testing.assert_allclose(queues[0], queues[1], rtol=1e-6)
    np.testing.assert_allclose(queues[2], queues[3], rtol=1e-6)


def test_without_a_prediction_history_is_zero():
    snapshot = snapshot_of(5.0, pending=[Run(1, 0, 2, 600.0, 0.0)] * 3)
    features = site_job_features(snapshot, np.full(3, 600.0))
    assert not features[:, FIRST:].any()
    assert features[:, :FIRST].any()


def test_an_empty_queue_has_no_rows():
    told = history_columns(snapshot_of(5.0), np.empty(0), PastRuns(), random_prediction())
    assert told.shape == (0, len(SITE.history_jobs))


def test_history_stays_small_whatever_runs_have_told():
    ended = [Run(n, 0, 1, 600.0, 0.0, end) for n, end in enumerate([0.0, 1e-3, 1.0, 1e7, 1e9])]
    snapshot = snapshot_of(2e9, ended=ended * 40, pending=[Run(9, 0, 1, 600.0, 0.0)])
    past = PastRuns().after(snapshot)
    told = history_columns(snapshot, np.array([600.0]), past, RunTimePrediction.untrained())
    assert np.isfinite(told).all()
    assert np.abs(told).max() < 3
