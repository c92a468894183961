"""Figures of one schedule, waits of groups, and days without jobs in intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.learning.evaluation.continuous import ContinuousRun, ratios_to
from slurm_rl_plugin.learning.evaluation.group_waits import (
    GroupWaits,
    groupings_of,
    losers,
    waits_of_groups,
)
from slurm_rl_plugin.learning.evaluation.schedule_waits import (
    FIGURES,
    RATIOS,
    ScheduleWaits,
    median_ratios,
    waits_of,
)
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs


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
    """Two runs with these sums of slowdowns, and so many jobs, on each day."""
    return [ContinuousRun(waits=WAITS, slowdowns=np.array([sums, jobs]))] * 2


def interval(jobs: list[int]) -> list[float] | None:
    mine, other = (runs_with([each * slowdown for each in jobs], jobs) for slowdown in (2.0, 4.0))
    ci95 = ratios_to({"mine": mine}, other, seed=1, together=1)["mine"]["ci95"]
    assert ci95 is None or isinstance(ci95, list)
    return ci95


@pytest.mark.parametrize("jobs", [[5, 0, 5, 5, 5, 0, 5], [5, 5, 5, 5, 5, 0, 0, 0, 0]])
def test_days_without_jobs_tell_nothing(jobs: list[int]) -> None:
    assert interval(jobs) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("jobs", [[5], [5, 5, 5, 5], [5, 0, 5, 0, 5, 5]])
def test_four_days_with_jobs_give_no_interval(jobs: list[int]) -> None:
    assert interval(jobs) is None


def log_of(processors: list[int], capacity: int = 16) -> PreparedLog:
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
    prepared = log_of([1, 2, 3, 7, 8, 16, 1])
    assert waits_by(prepared, "width", [1.0, 2.0, 4.0, 6.0, 10.0, 30.0, 3.0]) == {
        "one processor": waits(2, 2.0, 3.0),
        "up to an eighth": waits(1, 2.0, 2.0),
        "below a half": waits(2, 5.0, 6.0),
        "half or more": waits(2, 20.0, 30.0),
    }


def test_only_counted_jobs_count_and_a_group_without_any_is_left_out() -> None:
    found = waits_by(log_of([16, 1, 1, 16]), "width", [900.0, 1.0, 3.0, 900.0], counted=slice(1, 3))
    assert found == {"one processor": waits(2, 2.0, 3.0)}


def test_a_single_processor_is_one_even_where_it_is_the_machine() -> None:
    assert waits_by(log_of([1], capacity=1), "width", [5.0]) == {
        "one processor": waits(1, 5.0, 5.0)
    }


def test_limits_reach_up_to_their_bound_and_jobs_may_have_none() -> None:
    prepared = log_of([1] * 7)
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


def test_every_job_is_in_one_group_of_each_kind() -> None:
    prepared = prepare_log(generated_log("egee:jobs=300"))
    wait = np.arange(300.0)
    for grouping in groupings_of(prepared).values():
        found = waits_of_groups(grouping, wait, slice(0, 300))
        assert sum(each.jobs for each in found.values()) == 300
        assert max(each.longest_wait for each in found.values()) == 299.0


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
