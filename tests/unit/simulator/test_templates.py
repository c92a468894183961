"""Whose the jobs of a log are, and what a choice of them keeps."""

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.simulator.workloads.log_workload import (
    RecentRuns,
    prepare_log,
    select_prepared,
)
from tests.unit.simulator.test_log_workload import small_log


def test_a_template_is_a_users_jobs_of_the_same_processors_and_time_limit():
    #        the same twice, another user, another width, another limit, no limit twice, the same
    user = np.array([4, 4, 7, 4, 4, 4, 4, 4])
    processors = [1, 1, 1, 2, 1, 1, 1, 1]
    limit = np.array([60.0, 60, 60, 60, 90, np.nan, np.nan, 60])
    log = small_log([5, 6, 7, 8, 9, 10, 11, 12], processors, [0] * 8, time_limit=limit)
    log = replace(log, user=user, users=tuple("abcdefgh"))
    past = prepare_log(log).past
    assert past.user.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    groups = [np.flatnonzero(past.template == each).tolist() for each in np.unique(past.template)]
    assert sorted(groups) == [[0, 1, 7], [2], [3], [4], [5, 6]]
    assert sorted(set(past.template.tolist())) == [0, 1, 2, 3, 4]
    assert (len(past.users), len(past.templates)) == (2, 5)
    of_each = [past.processors[past.template].tolist(), past.asked[past.template].tolist()]
    assert of_each == [[1, 1, 1, 2, 1, 1, 1, 1], [60, 60, 60, 60, 90, 172_800, 172_800, 60]]
    assert not past.users.any()
    assert not past.templates.any()


def test_templates_go_by_the_processors_that_jobs_occupy():
    log = small_log([5, 6, 7], [1, 3, 5], [0] * 3, time_limit=np.full(3, 60.0))
    past = prepare_log(log, whole_nodes_of=4).past
    assert past.template.tolist() == [0, 0, 1]
    assert past.processors.tolist() == [4, 8]


def test_a_window_knows_its_own_users_only():
    log = replace(small_log([5, 6, 7], [1, 1, 1], [0] * 3), user=np.array([2, 0, 1]))
    prepared = prepare_log(replace(log, users=("a", "b", "c")))
    window = select_prepared(prepared, np.array([0, 2]))
    assert window.past.user.tolist() == [1, 0]
    assert len(window.past.users) == len(window.past.templates) == 2
    assert window.workload(None).past is window.past


def test_the_request_is_the_run_time_where_none_was_made():
    limits = np.array([50.0, np.nan, 0.0, np.inf])
    prepared = prepare_log(small_log([10, 20, 30, 40], [1] * 4, [0] * 4, time_limit=limits))
    assert prepared.requested.tolist() == [50, 20, 30, 40]


def test_chosen_jobs_keep_what_was_told_when_they_were_submitted():
    prepared = prepare_log(small_log([10, 20, 30], [1, 1, 1], [0] * 3))
    told = RecentRuns(predicted=np.array([1.0, 2, 3]), rate=np.array([4.0, 5, 6]))
    chosen = select_prepared(replace(prepared, recent_runs=told), np.array([2, 0])).recent_runs
    assert (chosen.predicted.tolist(), chosen.rate.tolist()) == ([3, 1], [6, 4])
    assert select_prepared(prepared, np.array([0])).recent_runs is None
