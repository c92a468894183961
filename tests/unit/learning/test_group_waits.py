"""Waits of groups: which job belongs where, what is counted, and who loses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.learning.evaluation.group_waits import (
    GroupWaits,
    groupings_of,
    losers,
    waits_of_groups,
)
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray


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
