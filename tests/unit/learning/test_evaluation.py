"""Figures of schedules: waits of groups, a replay and its record, predicted run times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log, log10
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun, ratios_to
from slurm_rl_plugin.learning.evaluation.group_waits import (
    GroupWaits,
    groupings_of,
    losers,
    waits_of_groups,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.evaluation.recorded_replay import (
    GOALS,
    RECORDED,
    RECORDED_ORDER,
    compare,
    overall,
    replay,
)
from slurm_rl_plugin.learning.evaluation.run_time_scores import run_time_scores
from slurm_rl_plugin.learning.evaluation.schedule_waits import (
    FIGURES,
    RATIOS,
    ScheduleWaits,
    median_ratios,
    waits_of,
)
from slurm_rl_plugin.measure.intervals import BETTER, NO_DIFFERENCE
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs
from tests.reference.loads import log_of, random_workload


def schedule(waits: list[float], processors: list[int]) -> ScheduledJobs:
    """Jobs of 100 s, but for the last one of 1000 s; one each day."""
    jobs = len(waits)
    submit = 86400.0 * np.arange(jobs)
    return ScheduledJobs(
        submit=submit,
        start=submit + np.array(waits),
        run_time=np.array([100.0] * (jobs - 1) + [1000.0]),
        processors=np.array(processors),
        account=np.zeros(jobs, dtype=np.int64),
        interactive=np.zeros(jobs, dtype=np.bool_),
        shares=np.ones(1),
        capacity=16,
    )


def test_each_figure_is_of_the_counted_jobs() -> None:
    jobs = schedule([9999.0, 0.0, 100.0, 500.0, 1000.0], [1, 1, 1, 8, 1])
    found = waits_of(jobs, slice(1, 5))
    assert found.mean_wait == 400.0
    assert found.longest_wait == 1000.0
    assert found.wide_wait == 500.0  # of the one job that is wide
    assert found.p999_wait == pytest.approx(998.5)
    assert found.bounded_slowdown == (1.0 + 2.0 + 6.0 + 2.0) / 4
    assert found.short_within_120s == 2 / 3  # the job of 1000 s is not short
    assert found.fairness == 1.0
    chosen = np.array([False, True, True, True, True])
    assert waits_of(jobs, chosen) == found


def test_ratios_are_medians_of_pairs_and_none_where_nobody_waits() -> None:
    one = waits_of(schedule([0.0, 100.0, 400.0], [1, 1, 1]), slice(0, 3))
    twice = replace(one, mean_wait=2 * one.mean_wait)
    four = replace(one, mean_wait=4 * one.mean_wait)
    found = median_ratios([twice, one, four], [one, one, one])
    assert found == {**dict.fromkeys(RATIOS, 1.0), "mean_wait": 2.0}
    nobody = replace(one, mean_wait=0.0)
    assert median_ratios([one], [nobody])["mean_wait"] is None


WAITS = ScheduleWaits(**dict.fromkeys(FIGURES, 2.0))


def runs_with(sums: list[float], jobs: list[int]) -> list[ContinuousRun]:
    """Two runs with these sums of slowdowns and numbers of jobs on each day."""
    return [ContinuousRun(waits=WAITS, slowdowns=np.array([sums, jobs]))] * 2


def interval(jobs: list[int]) -> list[float] | None:
    mine, other = (runs_with([each * slowdown for each in jobs], jobs) for slowdown in (2.0, 4.0))
    ci95 = ratios_to({"mine": mine}, other, seed=1, together=1)["mine"]["ci95"]
    assert ci95 is None or isinstance(ci95, list)
    return ci95


def test_days_without_jobs_tell_nothing_and_four_with_jobs_give_no_interval() -> None:
    assert interval([5, 0, 5, 5, 5, 0, 5]) == pytest.approx([0.5, 0.5])
    assert interval([5, 0, 5, 0, 5, 5]) is None


def log_of_widths(processors: list[int], capacity: int = 16) -> PreparedLog:
    """Jobs of these widths on a machine of that many processors."""
    log = generated_log(f"mmn:jobs={len(processors)},processors=1")
    log = replace(log, processors=np.array(processors))
    return prepare_log(log, capacity=capacity)


def waits_by(prepared: PreparedLog, by: str, waits: list[float], **counted: slice) -> object:
    everything = slice(0, len(waits))
    wait: FloatArray = np.array(waits)
    return waits_of_groups(groupings_of(prepared)[by], wait, counted.get("counted", everything))


def waits(jobs: int, mean: float, longest: float) -> GroupWaits:
    return GroupWaits(jobs=jobs, mean_wait=mean, longest_wait=longest)


def test_jobs_are_sorted_by_their_part_of_the_machine() -> None:
    prepared = log_of_widths([1, 2, 3, 7, 8, 16, 1])
    found = [1.0, 2.0, 4.0, 6.0, 10.0, 30.0, 3.0]
    assert waits_by(prepared, "width", found, counted=slice(1, 2)) == {
        "up to an eighth": waits(1, 2.0, 2.0)
    }
    one = log_of_widths([1], capacity=1)  # one processor, though it is the machine
    assert waits_by(one, "width", [5.0]) == {"one processor": waits(1, 5.0, 5.0)}
    assert waits_by(prepared, "width", found) == {
        "one processor": waits(2, 2.0, 3.0),
        "up to an eighth": waits(1, 2.0, 2.0),
        "below a half": waits(2, 5.0, 6.0),
        "half or more": waits(2, 20.0, 30.0),
    }


def test_limits_reach_up_to_their_bound_and_jobs_may_have_none() -> None:
    prepared = log_of_widths([1] * 7)
    limit = np.array([900.0, 901.0, 4 * HOUR, DAY, 2 * DAY, np.inf, -1.0])
    prepared = replace(prepared, log=replace(prepared.log, time_limit=limit))
    assert waits_by(prepared, "limit", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]) == {
        "up to 15 min": waits(1, 1.0, 1.0),
        "up to 1 h": waits(1, 2.0, 2.0),
        "up to 4 h": waits(1, 3.0, 3.0),
        "up to 24 h": waits(1, 4.0, 4.0),
        "above 24 h": waits(1, 5.0, 5.0),
        "no limit": waits(2, 7.0, 8.0),
    }


def test_who_loses_by_a_minute_in_the_mean_or_at_the_longest() -> None:
    before = {"account": {"a": waits(3, 10.0, 20.0), "b": waits(4, 50.0, 90.0)}}
    before["class"] = {"batch": waits(7, 30.0, 90.0)}
    after = {"account": {"a": waits(3, 10.0, 20.0 + MINUTE), "b": waits(4, 40.0, 80.0)}}
    after["class"] = {"batch": waits(7, 40.0 + HOUR, 90.0)}
    found = losers(before, after)
    assert [(each.by, each.group, each.jobs) for each in found] == [
        ("class", "batch", 7),
        ("account", "a", 3),
    ]
    assert found[0].mean_growth == HOUR + 10.0
    assert losers(before, before) == []


def test_many_jobs_tell_which_order_is_better() -> None:
    prepared = prepare_log(generated_log("mmn:jobs=20000,processors=8"))
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    start = starts_under(Candidate(name="fifo"), prepared, prepared.workload(None), settings)
    prepared = replace(prepared, log=replace(prepared.log, start=start))
    one = replay(prepared, {"sjf": Candidate(name="sjf")}, settings, lambda _: None)
    recorded, order = one.schedules[RECORDED].wait, one.schedules[RECORDED_ORDER].wait
    assert order.mean() == pytest.approx(recorded.mean(), rel=0.05)
    assert (one.first, one.last) == (2000, 19_000)
    # days of traffic pass quickly here: what counts is how many blocks there are
    schedules = {
        name: replace(jobs, submit=jobs.submit * 40, start=jobs.submit * 40 + jobs.wait)
        for name, jobs in one.schedules.items()
    }
    one = replace(one, schedules=schedules)
    found, same = (
        compare(one, name, RECORDED_ORDER, np.random.default_rng(1), lambda _: None)
        for name in ("sjf", RECORDED_ORDER)
    )
    slowdown = found["mean_bounded_slowdown"]
    assert slowdown.verdict == BETTER
    assert slowdown.ci95 is not None
    assert slowdown.ci95[0] < slowdown.difference < slowdown.ci95[1] < 0
    assert found["interactive_within_120s"].verdict == BETTER
    assert overall(found) == BETTER
    assert {same[name].verdict for name in GOALS} == {NO_DIFFERENCE}


#: Part of the runs that outlive each bound (10, 30, 60 s ...) where nothing is known.
OUTLIVES = 0.88


def log_with(*jobs: tuple[int, float, float, float]) -> PreparedLog:
    """Jobs of (user, submission and start, run time, time limit), one processor each."""
    user, submit, run_time, limit = (np.array(each) for each in zip(*jobs, strict=True))
    workload = random_workload(1, len(jobs), parallel=False, accounts=1)
    log = log_of(workload, time_limit=limit.astype(float))
    log = replace(log, submit=submit.astype(float), start=submit.astype(float))
    return prepare_log(replace(log, run_time=run_time.astype(float), user=user, users=("a", "b")))


def scores_of_first(run_time: float, limit: float) -> Mapping[str, Any]:
    """Of an unknown job."""
    return run_time_scores(log_with((0, 0, run_time, limit)), 0, 1)


@pytest.mark.parametrize(
    ("run_time", "probability"),
    [
        (20.0, 0.88 * 0.12),  # ends between 10 and 30 s
        (9.0, 0.12),
        (10.0, 0.88 * 0.12),
        (70.0, 0.88**3 * 0.12),  # ends between 60 s and its limit
        (99.0, 0.88**4),  # ended by its limit
    ],
)
def test_the_log_score_is_that_of_the_interval_in_which_the_run_ended(
    run_time: float, probability: float
) -> None:
    assert scores_of_first(run_time, 100.0)["log_score"] == pytest.approx(-log(probability))


def test_the_crps_adds_up_squares_over_the_logarithm_of_seconds() -> None:
    """Up to the limit of 100 s; the run of 20 s has ended from the second interval on."""
    shorter = [1 - OUTLIVES**place for place in (1, 2, 3, 4)]  # before 10, 30, 60 and 100 s
    widths = [log10(10 / 5), log10(30 / 10), log10(60 / 30), log10(100 / 60)]
    ended = [0, 1, 1, 1]
    squares = [(part - done) ** 2 for part, done in zip(shorter, ended, strict=True)]
    assert scores_of_first(20.0, 100.0)["crps"] == pytest.approx(np.dot(squares, widths))
    # a run that goes on to its limit has ended in none of them
    assert scores_of_first(100.0, 100.0)["crps"] == pytest.approx(
        np.dot(np.square(shorter), widths)
    )


def test_errors_are_those_of_the_length_that_counts_and_of_the_request() -> None:
    found = scores_of_first(9.0, 30.0)
    # 12 % end before 10 s, at 6 s; 10.56 % before 30 s, evenly in the logarithm; the others run on
    middle, rest = 0.88 * 0.12, 0.88**2
    mean = 0.12 * 6 + middle * (30 - 10) / log(3) + rest * 30
    inverse = 0.12 / 10 + middle * (1 / 10 - 1 / 30) / log(3) + rest / 30
    length = (mean / inverse) ** 0.5
    assert found["log_error"] == pytest.approx(log10(length / 9))
    assert found["log_error_requested"] == pytest.approx(log10(30 / 9))
