"""From a log to a workload: shares, classes, estimates, bills, and what is left out."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.domain.utility_class import BUILT_IN, SIGMA_ROW, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, schedule_of, starts_under
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import (
    NO_START,
    PreparedLog,
    billed_in_log,
    billed_on_machine,
    check_shares,
    jobs_with_starts,
    prepare_log,
    select_prepared,
)
from slurm_rl_plugin.utility.time_utility import job_rows
from tests.reference.loads import log_of, workload_of
from tests.unit.machine_files.written_files import machine_of_lines


def small_log(run_time, processors, account, **more):
    count = len(run_time)
    run_time = np.array(run_time, dtype=float)
    workload = workload_of(
        np.arange(float(count)),
        run_time,
        processors=np.array(processors),
        account=np.array(account),
        shares=np.full(max(account) + 1, 1 / (max(account) + 1)),
    )
    return log_of(workload, **more)


def test_default_shares_keep_the_four_accounts_of_most_work_and_sum_up_the_rest():
    # work 10, 60, 20, 40, 30, 40 by accounts a0 ... a5
    log = small_log([10, 30, 20, 40, 30, 40], [1, 2, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5])
    prepared = prepare_log(log)
    assert prepared.accounts == ("a1", "a3", "a5", "a4", "_other")
    assert prepared.shares.tolist() == pytest.approx([0.3, 0.2, 0.2, 0.15, 0.15])
    assert prepared.account.tolist() == [4, 0, 4, 1, 3, 2]


def test_shares_that_round_above_one_leave_nothing_to_the_others():
    # four accounts did all the work; in doubles their fractions sum to 1 + 2.2e-16
    works = itertools.combinations(range(40, 1, -1), 4)
    work = next(each for each in works if sum(one / sum(each) for one in each) > 1.0)
    # the fifth account's only job is too wide for the machine
    log = small_log([*work, 5], [1, 1, 1, 1, 99], [0, 1, 2, 3, 4])
    prepared = prepare_log(log)
    assert prepared.accounts[4] == "_other"
    assert prepared.shares[4] == 0.0


def test_given_shares_are_kept_and_unnamed_accounts_share_nothing():
    prepared = prepare_log(
        small_log([10, 30, 5], [1, 1, 1], [0, 1, 2]), shares={"a1": 0.6, "a0": 0.3, "away": 0.1}
    )
    assert prepared.accounts == ("a1", "a0", "away", "_other")
    assert prepared.shares.tolist() == pytest.approx([0.6, 0.3, 0.1, 0.0])
    assert prepared.account.tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    "shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 0.5, "b": 0.50001}, {}, {"a": np.nan}]
)
def test_shares_that_do_not_sum_to_one_or_are_negative_are_refused(shares):
    with pytest.raises(ConfigurationError, match="together 1"):
        check_shares(shares)


def test_jobs_wider_than_the_machine_are_left_out_and_counted():
    prepared = prepare_log(small_log([10, 20, 30], [4, 5, 9], [0, 0, 0]), capacity=4)
    assert prepared.dropped == {"wider than the machine": 2}
    assert prepared.log.job_id.tolist() == [1]
    assert prepared.capacity == 4


@pytest.mark.parametrize(("available", "capacity"), [(None, None), (0, None), (12, -1)])
def test_an_unknown_machine_size_is_asked_for(available, capacity):
    with pytest.raises(ConfigurationError, match="--processors"):
        prepare_log(small_log([10], [1], [0], available=available), capacity=capacity)


def test_other_logs_are_classed_by_rules_and_not_by_what_they_ran():
    limits = np.array([900.0, 4000.0, np.nan])
    log = small_log([5000, 5, 5], [1, 1, 1], [0, 0, 0], kind="sacct", time_limit=limits)
    prepared = prepare_log(log)
    assert prepared.interactive.tolist() == [True, False, False]
    assert "time_limit_at_most=900" in prepared.class_rule


def test_the_requested_estimate_is_the_run_time_where_none_was_requested():
    limits = np.array([50.0, np.nan, 0.0, 5.0])
    prepared = prepare_log(small_log([10, 20, 30, 40], [1] * 4, [0] * 4, time_limit=limits))
    workload = prepared.workload(RequestedLimit())
    assert workload.estimate.tolist() == [50, 20, 30, 5]
    assert workload.time_limit.tolist() == [50, 20, 30, 5]
    assert workload.run_time.tolist() == [10, 20, 30, 40]


def _parallel_log() -> JobLog:
    log = mmn_log(np.random.default_rng(1), processors=8, jobs=6)
    return replace(
        log,
        processors=np.array([1, 4, 5, 8, 7, 2]),
        run_time=np.full(6, 1000.0),
        time_limit=np.array([500.0, 2000.0, np.nan, 1000.0, 999.0, 1000.5]),
    )


def test_whole_nodes_round_jobs_up_and_drop_what_no_longer_fits():
    prepared = prepare_log(_parallel_log(), capacity=8, whole_nodes_of=4)
    assert prepared.log.processors.tolist() == [4, 4, 8, 8, 8, 4]
    narrow = prepare_log(_parallel_log(), capacity=7, whole_nodes_of=4)
    assert narrow.log.processors.tolist() == [4, 4, 4]
    assert narrow.dropped == {"wider than the machine": 3}


def test_jobs_end_at_their_limit_only_where_asked():
    killed = prepare_log(_parallel_log(), capacity=8, kill_at_limit=True)
    assert killed.log.run_time.tolist() == [500.0, 1000.0, 1000.0, 1000.0, 999.0, 1000.0]
    assert set(prepare_log(_parallel_log(), capacity=8).log.run_time) == {1000.0}


def test_the_class_of_a_killed_job_is_that_of_its_recorded_run_time():
    log = replace(_parallel_log(), time_limit=np.full(6, 500.0))
    assert not prepare_log(log, capacity=8, kill_at_limit=True).interactive.any()


def test_what_users_chose_counts_in_a_log_as_on_the_cluster():
    due = UtilityClass(form="deadline", hours=1.0, interactive=True, users=True)
    classifier = JobClassifier((), {**BUILT_IN, "due": due})
    lines = (
        "sbatch --comment=slurm-rl:class=due run.sh",
        "sbatch --comment slurm-rl:deadline=1970-01-01T00:30+00:00 run.sh",
        "sbatch --comment=slurm-rl:class=interactive run.sh",
        "sbatch run.sh slurm-rl:class=due",
    )
    log = small_log([5, 5, 5, 5], [1] * 4, [0] * 4, kind="sacct")
    log = replace(log, submit_line=lines)
    prepared = prepare_log(log, classifier=classifier)
    assert prepared.interactive.tolist() == [True, True, False, False]
    rows = job_rows(prepared.interactive, prepared.utilities)
    assert rows[:2, SIGMA_ROW] == pytest.approx([3600.0, 1800.0 - log.submit[1]])


def recorded(without: int, jobs: int = 100) -> PreparedLog:
    prepared = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=jobs))
    start = prepared.log.submit.copy()
    start[10 : 10 + without] = np.nan
    log = replace(prepared.log, start=start)
    return replace(prepared, log=log, dropped={"wider than the machine": 2})


@pytest.mark.parametrize("without", [1, 5])
def test_few_jobs_without_a_start_are_counted(without: int) -> None:
    found = jobs_with_starts(recorded(without))
    assert len(found.log) == 100 - without
    assert not np.isnan(found.log.start).any()
    assert found.dropped == {"wider than the machine": 2, NO_START: without}
    assert found.capacity == 5


@pytest.mark.parametrize("without", [0, 6, 90])
def test_a_log_with_all_starts_or_with_many_missing_stays(without: int) -> None:
    prepared = recorded(without)
    assert jobs_with_starts(prepared) is prepared


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


SUBMIT = np.array([0.0, 10.0, 20.0, 30.0])


def log_with(eligible):
    log = mmn_log(np.random.default_rng(1), processors=1, jobs=4)
    return replace(
        log,
        submit=SUBMIT,
        eligible=np.array(eligible),
        start=np.array([0.0, 500.0, 100.0, 200.0]),
        run_time=np.full(4, 100.0),
    )


#: Job 2 has a begin time of 450 s.
LATER = log_with([0.0, 450.0, 20.0, 30.0])


def test_jobs_arrive_in_the_order_in_which_they_became_eligible():
    prepared = prepare_log(LATER)
    assert prepared.log.job_id.tolist() == [LATER.job_id[i] for i in (0, 2, 3, 1)]
    assert prepared.log.submit.tolist() == [0.0, 20.0, 30.0, 450.0]
    assert prepared.workload(None).submit.tolist() == [0.0, 20.0, 30.0, 450.0]
    assert prepared.eligible_after.tolist() == [0.0, 0.0, 0.0, 440.0]
    assert prepared.past.user.tolist() == prepared.log.user.tolist()


def test_recorded_waits_count_from_then_on():
    prepared = prepare_log(LATER)
    settings = SimulationSettings(capacity=1)
    start = starts_under(Candidate(name="native"), prepared, prepared.workload(None), settings)
    assert schedule_of(prepared, start, settings).wait.tolist() == [0.0, 80.0, 170.0, 50.0]


LINES = (
    "GresTypes=gpu",
    "NodeName=n[1-4] CPUs=8 RealMemory=16384",
    "NodeName=g[1-2] CPUs=16 RealMemory=32768 Gres=gpu:a100:4",
    "PartitionName=batch Nodes=n[1-4] Default=YES DefMemPerCPU=1024",
    "PartitionName=gpu Nodes=g[1-2] TRESBillingWeights=CPU=0.5,Mem=0.25G,GRES/gpu=2.0,"
    "License/matlab=10",
    "PartitionName=whole Nodes=g[1-2] OverSubscribe=EXCLUSIVE "
    "TRESBillingWeights=CPU=0.5,Mem=0.25G,GRES/gpu=2.0",
)
NAMES = ("cpus", "memory", "gpus", "gres/gpu:a100", "license/matlab")
#: Of a job in each partition, and one that asks for no memory.
TOTAL = np.array(
    [
        [4.0, 8192.0, 0.0, 0.0, 0.0],
        [4.0, 8192.0, 2.0, 2.0, 1.0],
        [4.0, 8192.0, 1.0, 1.0, 0.0],
        [2.0, 0.0, 0.0, 0.0, 0.0],
    ]
)


def log() -> JobLog:
    found = small_log([100, 100, 100, 100], [4, 4, 4, 2], [0, 1, 0, 0])
    return replace(
        found,
        partitions=("batch", "gpu", "whole", "elsewhere"),
        partition=np.array([0, 1, 2, 0]),
        requests=ResourceRequests.of_totals(TOTAL, names=NAMES, nodes=np.array([1, 1, 2, 0])),
    )


def machine(folder: Path, *more: str, **files: str) -> Machine:
    return machine_of_lines(folder, *LINES, *more, **files)


def test_each_partition_bills_by_its_own_weights(tmp_path: Path) -> None:
    billed = billed_on_machine(log(), machine(tmp_path))
    assert billed is not None
    # whole nodes: all CPUs and GPUs of two, the memory that was asked for
    assert billed.tolist() == [4, 2 + 2 + 4 + 10, 16 + 2 + 16, 2]


def test_without_weights_processors_count_as_ever(tmp_path: Path) -> None:
    lines = [line.split(" TRESBillingWeights")[0] for line in LINES]
    plain = machine_of_lines(tmp_path, *lines)
    assert billed_on_machine(log(), plain) is None
    prepared = prepare_log(log(), machine=plain)
    assert prepared.charged is prepared.log.processors
    assert prepared.workload(None).billed.tolist() == prepared.log.processors.tolist()


def test_shares_of_a_log_are_fractions_of_what_was_billed(tmp_path: Path) -> None:
    prepared = prepare_log(log(), machine=machine(tmp_path))
    assert dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True)) == pytest.approx(
        {"a0": 40 / 58, "a1": 18 / 58}
    )
    assert prepared.workload(None).billed.tolist() == [4, 18, 34, 2]
    window = select_prepared(prepared, np.array([1, 3]))
    assert window.charged.tolist() == [18, 2]


def test_a_log_alone_is_billed_by_what_it_tells() -> None:
    weights = {"cpus": 0.5, "gpus": 2.0}
    assert billed_in_log(log(), Billing(weights={"gpu": {}})) is None
    billed = billed_in_log(log(), Billing(weights={"gpu": weights, "whole": weights}))
    assert billed is not None
    assert billed.tolist() == [4, 6, 4, 2]
