"""Statistics of past runs for the queue: the whole queue at once equals each job alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.history.past_runs import (
    ForetoldRuns,
    PastRuns,
    history_columns,
    known_past,
)
from slurm_rl_plugin.features.history.run_history import (
    LARGE_REQUEST,
    PARTS,
    nominal_shares,
)
from slurm_rl_plugin.features.site import SITE
from tests.reference.readable_past_runs import predicted_features, run_time_at
from tests.unit.features.run_tables import USERS, Run, request_of, snapshot_of, told_by

NAN = math.nan
FIRST = len(SITE.static_jobs) + len(SITE.dynamic_jobs)


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


def of_one_job(run, history, pending, running):
    """The features of one job, from plain rows."""

    def alike(runs):
        same = (run.user, run.processors, str(run.time_limit))
        return sum((each.user, each.processors, str(each.time_limit)) == same for each in runs)

    request = request_of(run)
    alone = history.speak_for(request) and not alike(running)
    waiting = math.log(min(alike(pending), 8)) if alone else 0.0
    return [*predicted_features(history, request), waiting]


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
    history = told_by([*ended, *running], 20_000.0)
    # whatever is estimated: to a prediction every job without a limit asks for the same
    features = site_job_features(snapshot, estimate, past)[:, FIRST:]
    large = [
        history.speak_for(request_of(run))
        for run in pending
        if run.processors * run.asked >= LARGE_REQUEST
    ]
    assert set(large) == ({False, True} if seed >= 5 else set())
    expected = [of_one_job(run, history, pending, running) for run in pending]
    np.testing.assert_allclose(features, expected, rtol=1e-6, atol=1e-6)

    told = known_past(snapshot, snapshot.pending.jobs, past).quantiles(nominal_shares())
    for run, quantiles in zip(pending, told.tolist(), strict=True):
        hazards = history.hazards(request_of(run))
        there = [min(run_time_at(hazards, share), run.asked) for share in PARTS]
        assert quantiles == pytest.approx(there, rel=1e-9)


def alike_of(snapshot):
    """The feature of similar jobs, of each pending job."""
    told = history_columns(snapshot, PastRuns())
    return told[:, SITE.history_jobs.index("log_alike_none_running")].tolist()


def test_an_array_is_as_many_jobs_as_its_waiting_tasks():
    one = Run(1, 0, 2, 600.0, 0.0)
    array, tasks = (snapshot_of(5.0, pending=[one] * rows) for rows in (1, 5))
    array = replace(array, pending=replace(array.pending, tasks=np.array([5])))
    held = replace(tasks, pending=replace(tasks.pending, held=np.arange(5) > 0))
    assert alike_of(array) == alike_of(tasks)[:1] == pytest.approx([math.log(5)])
    assert alike_of(held)[0] == 0.0  # alone of its template: none else could start
    queues = [
        site_queue_features(each, np.full(len(each.pending), 600.0), np.empty(0), np.zeros(3))
        for each in (array, tasks, held, snapshot_of(5.0, pending=[one]))
    ]
    np.testing.assert_allclose(queues[0], queues[1], rtol=1e-6)
    np.testing.assert_allclose(queues[2], queues[3], rtol=1e-6)


DAY = 86_400.0


def predictions(waiting, past=None):
    """How many predictions a queue needs."""
    snapshot = snapshot_of(DAY, pending=waiting)
    return len(known_past(snapshot, snapshot.pending.jobs, past or PastRuns()).time_limit)


def test_jobs_of_a_user_and_class_with_the_same_limit_are_predicted_once():
    waiting = [
        Run(n, user, wide, 600.0, 0.0) for n in range(50) for user in (0, 1) for wide in (4, 7)
    ]
    assert predictions(waiting) == 2
    assert predictions([*waiting, Run(100, 0, 8, 600.0, 0.0)]) == 3  # another class
    assert predictions([*waiting, Run(100, 0, 4, 601.0, 0.0)]) == 3  # another limit of the class


def test_a_template_that_has_run_is_predicted_apart():
    ran = Run(1, 0, 5, 600.0, 0.0, 30.0)
    past = PastRuns().after(snapshot_of(DAY, ended=[ran]))
    waiting = [Run(n, 0, wide, 600.0, 0.0) for n, wide in enumerate((4, 5, 6, 7, 5))]
    assert predictions(waiting, past) == 2
    other, same = history_columns(snapshot_of(DAY, pending=waiting[:2]), past)[:, 0]
    assert same < other


FIRST_OF_RUNS = Run(1, 0, 4, 3600.0, start=100.0)


def test_memory_keeps_every_bit_and_what_is_behind():
    started = ForetoldRuns().after(snapshot_of(100.0, running=[FIRST_OF_RUNS]), PastRuns())
    known = replace(started, asked=np.array([0.11, 0.25, 0.5, 0.75, 0.9]))
    back, behind = ForetoldRuns.from_memory(np.concatenate([known.to_memory(), [7.0, 8.0]]))
    np.testing.assert_array_equal(back.lines, known.lines)
    np.testing.assert_array_equal(back.asked, known.asked)
    assert behind.tolist() == [7.0, 8.0]
    for place, value in ((0, 2.0), (1, -1.0), (1, 0.5), (1, 9.0)):
        wrong = known.to_memory()
        wrong[place] = value
        nothing, behind = ForetoldRuns.from_memory(wrong)
        assert (len(nothing.lines), behind) == (0, None)
        assert nothing.asked.tolist() == [*PARTS]
