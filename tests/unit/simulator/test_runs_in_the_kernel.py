"""What the compiled loop knows of past runs, and when; the same along a log's own schedule."""

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    HISTORY,
    LAST,
    SPENT,
)
from slurm_rl_plugin.learning.training_load import log_windows
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    fold_run,
    nothing_past,
    past_speaks,
)
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import (
    RecordedPast,
    hazards_at_submission,
    quantiles_at_start,
    recent_runs,
    windows_with_past,
)
from tests.reference.loads import log_of, requests_of, users_workload
from tests.reference.readable_past_runs import quantiles_at_starts, rows_at

TWO_HOURS = BOUNDS.index(7200.0)
#: Four jobs of three users; the last two are of one template.
USER, TEMPLATE = np.array([2, 0, 1, 1]), np.array([3, 0, 1, 1])


def test_what_a_user_has_spent_speaks_for_a_large_request_until_a_long_run():
    limit = np.array([86_400.0, 86_399.0, 60.0, 60.0])
    past = nothing_past(USER, TEMPLATE, limit, np.array([64, 64, 8, 8]))
    assert not past_speaks(past, 2, 3)  # 1536 core-hours of a user who never ran
    assert past_speaks(past, 0, 0)  # a second less
    fold_run(past, 2, 3, ENDED_EVENT, 7199.0)
    past.users[2, SPENT] *= 12.0  # twelve such runs: 12 * 7199 * 64 is less than 86400 * 64
    assert not past_speaks(past, 2, 3)
    fold_run(past, 2, 1, ENDED_EVENT, 96.0)  # 12 s on 64 processors, as 96 s on 8
    assert past_speaks(past, 2, 3)
    assert not past_speaks(past, 1, 3)  # another user's
    fold_run(past, 2, 3, TWO_HOURS - 1, np.nan)
    assert past_speaks(past, 2, 3)
    fold_run(past, 2, 3, TWO_HOURS, np.nan)
    assert past.users[2, SPENT] == 0.0
    assert not past_speaks(past, 2, 3)
    fold_run(past, 2, 3, ENDED_EVENT, 7200.0)
    assert past.users[2, SPENT] == 0.0


def hand_log(*jobs, users):
    """Jobs of (user, submit, start, run time, time limit), one processor each."""
    user, submit, start, run_time, limit = (np.array(each) for each in zip(*jobs, strict=True))
    workload = users_workload(1, jobs=len(jobs), parallel=False).having(
        submit=submit.astype(float),
        run_time=run_time.astype(float),
        account=np.zeros(len(jobs), dtype=np.int64),
    )
    workload = replace(workload, shares=np.ones(1))
    log = log_of(workload, time_limit=limit.astype(float))
    return prepare_log(
        replace(log, start=start.astype(float), user=user, users=tuple("abcdef"[:users]))
    )


def test_recent_runs_by_hand():
    told = recent_runs(
        hand_log(
            (0, 0, 0, 100, 600),
            (0, 10, 50, 1000, 600),
            (1, 60, 60, 20, 300),
            (0, 70, 100, 30, 600),
            (1, 80, 130, 5000, 300),
            (0, 130, 1050, 40, 900),
            users=2,
        )
    )
    # no run has ended at 0, 10, 60 and 70; at 80 one run of 20 s of user 1 has just ended,
    # at 130 the last of user 0 took 100 s and 30 s
    assert told.predicted.tolist() == [600, 600, 300, 600, 20, 65]
    assert told.rate.tolist() == pytest.approx(
        [1 / 600, 1 / 600, 1 / 300, 1 / 600, 1 / 20, 1 / 100 + 0.1 * (1 / 30 - 1 / 100)]
    )


def test_recent_runs_never_exceed_the_request_and_never_fall_below_a_second():
    log = hand_log((0, 0, 0, 500, 600), (0, 500, 500, 0.2, 50), (0, 501, 501, 0.2, 50), users=1)
    assert recent_runs(log).predicted.tolist() == [600, 50, 50]
    quick = hand_log(*((0, t, t, 0.25, 50) for t in range(3)), users=1)
    assert recent_runs(quick).predicted.tolist() == [50, 1, 1]


def test_a_job_without_recorded_start_counts_from_its_submission():
    started = hand_log((0, 0, 0, 100, 600), (0, 100, 100, 9, 600), users=1)
    unknown = hand_log((0, 0, np.nan, 100, 600), (0, 100, np.nan, 9, 600), users=1)
    assert hazards_at_submission(unknown).tolist() == hazards_at_submission(started).tolist()
    assert quantiles_at_start(unknown).tolist() == quantiles_at_start(started).tolist()
    assert recent_runs(unknown).predicted.tolist() == [600, 100]


@pytest.mark.parametrize(("submit", "known"), [(100.0, False), (100.5, True)])
def test_a_window_knows_what_happened_strictly_before_its_first_submission(submit, known):
    log = hand_log((0, 0, 0, 100, 600), (0, submit, submit, 9, 600), users=1)
    (window,) = windows_with_past(log, [1], 1)
    assert (window.past.users[0, LAST] == 100.0) == known
    assert window.past.users[0].any()  # it has outlived a minute at 60


def random_log(seed, jobs=60):
    """A log with starts of its own, ties included."""
    workload = users_workload(seed, jobs=jobs, parallel=True)
    rng = np.random.default_rng(seed)
    asked = np.where(workload.time_limit == workload.estimate, np.nan, workload.time_limit)
    log = log_of(workload, time_limit=asked)
    start = workload.submit + rng.choice([0.0, 0.0, 60.0, 5000.0], jobs)
    return prepare_log(replace(log, start=start, user=workload.past.user, users=("a", "b", "c")))


def same_rows(past, rows, prepared, jobs, requests):
    """The rows of a window are those of the jobs' users and templates, found in plain Python."""
    site = np.zeros_like(past.site)
    for (long, wide), row in rows.site.items():
        site[14 * long + wide] = row.numbers()
    np.testing.assert_allclose(past.site, site, rtol=1e-12)
    whole = prepared.past
    owns = [request.own for request in requests]
    for numbers, here, table, there in (
        (whole.user[jobs].tolist(), past.user, past.users, rows.users),
        (owns, past.own[past.template], past.templates, rows.templates),
    ):
        assert len(table) == len(set(numbers))
        for number, place in zip(numbers, here.tolist(), strict=True):
            expected = np.zeros(HISTORY)
            if number in there:
                expected[:] = there[number].numbers()
            if table is past.templates:
                assert not expected[-4:].any()
            np.testing.assert_allclose(table[place], expected, rtol=1e-12)
    for job, request in zip(range(len(jobs)), requests, strict=True):
        expected = np.zeros(HISTORY)
        if request.within in rows.limits:
            expected[:] = rows.limits[request.within].numbers()
        found = past.limits[past.within[past.template[job]]]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_windows_know_what_a_replay_from_scratch_tells(seed):
    prepared = random_log(seed)
    log = prepared.log
    requests = requests_of(prepared.workload(None))
    firsts = [21, 0, 3, 45, 4, 20]  # a later window must not inform an earlier one
    for first, window in zip(firsts, log_windows(prepared, firsts, 15), strict=True):
        jobs = np.arange(first, first + 15)
        until = float(np.nextafter(log.submit[first], -np.inf))
        rows = rows_at(requests, log.start.tolist(), log.run_time.tolist(), until)
        same_rows(window.past, rows, prepared, jobs, [requests[job] for job in jobs])
        (alone,) = windows_with_past(prepared, [first], 15)
        for one, other in zip(alone.past, window.past, strict=True):
            assert one.tolist() == other.tolist()
    assert not prepared.past.users.any()  # the log itself is left alone


@pytest.mark.parametrize("seed", [4, 5])
def test_hazards_at_submissions_are_those_of_a_replay_from_scratch(seed):
    prepared = random_log(seed)
    log = prepared.log
    requests = requests_of(prepared.workload(None))
    found = hazards_at_submission(prepared)
    for job, submit in enumerate(log.submit.tolist()):
        rows = rows_at(requests, log.start.tolist(), log.run_time.tolist(), submit)
        assert found[job].tolist() == pytest.approx(rows.hazards(requests[job]), rel=1e-12)


@pytest.mark.parametrize("seed", [4, 5])
def test_quantiles_at_starts_are_those_of_a_replay_from_scratch(seed):
    prepared = random_log(seed, jobs=300)
    log = prepared.log
    requests = requests_of(prepared.workload(None))
    expected = quantiles_at_starts(requests, log.start.tolist(), log.run_time.tolist())
    np.testing.assert_allclose(quantiles_at_start(prepared), expected, rtol=1e-9)


def test_a_past_that_is_gone_through_in_steps_knows_the_same_and_tells_of_now():
    prepared = random_log(6)
    until = float(prepared.log.submit[40])
    steps, whole = (RecordedPast(prepared, quantiles=True) for _ in range(2))
    for time in (0.0, until / 2, until / 3, until):  # a step back adds nothing twice
        steps.run(time)
    whole.run(until)
    for one, other in zip(steps.past, whole.past, strict=True):
        assert one.tolist() == other.tolist()
    np.testing.assert_array_equal(steps.at_start, whole.at_start)
    assert np.isnan(whole.at_start[prepared.log.start >= until]).all()
    jobs = np.array([59, 41])
    now = whole.quantiles_now(jobs)
    np.testing.assert_array_equal(steps.quantiles_now(jobs), now)
    assert (np.diff(now) > 0).all()
    assert now[0].tolist() != now[1].tolist()


def test_a_log_has_no_window_beyond_its_end():
    with pytest.raises(ConfigurationError, match="has no window"):
        log_windows(random_log(1), [0, 50], 15)
    (empty,) = log_windows(random_log(1), [60], 0)
    assert len(empty.log) == len(empty.past.users) == 0
