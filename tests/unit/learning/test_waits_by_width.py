"""Waits by width: which job belongs where, and what is counted."""

import numpy as np

from slurm_rl_plugin.learning.evaluation.waits_by_width import WidthWaits, waits_by_width
from slurm_rl_plugin.utility.summary import ScheduledJobs


def schedule(processors, waits, capacity=16):
    jobs = len(processors)
    return ScheduledJobs(
        submit=np.arange(jobs, dtype=np.float64),
        start=np.arange(jobs) + np.array(waits, dtype=np.float64),
        run_time=np.ones(jobs),
        processors=np.array(processors),
        account=np.zeros(jobs, dtype=np.int64),
        interactive=np.zeros(jobs, dtype=np.bool_),
        shares=np.ones(1),
        capacity=capacity,
    )


def waits(jobs, mean, longest):
    return WidthWaits(jobs=jobs, mean_wait=mean, longest_wait=longest)


def test_jobs_are_sorted_by_their_part_of_the_machine():
    jobs = schedule([1, 2, 3, 7, 8, 16, 1], [1.0, 2.0, 4.0, 6.0, 10.0, 30.0, 3.0])
    assert waits_by_width(jobs, slice(0, 7)) == {
        "one processor": waits(2, 2.0, 3.0),
        "up to an eighth": waits(1, 2.0, 2.0),
        "below a half": waits(2, 5.0, 6.0),
        "half or more": waits(2, 20.0, 30.0),
    }


def test_only_counted_jobs_count_and_a_width_without_any_is_left_out():
    jobs = schedule([16, 1, 1, 16], [900.0, 1.0, 3.0, 900.0])
    assert waits_by_width(jobs, slice(1, 3)) == {"one processor": waits(2, 2.0, 3.0)}


def test_a_single_processor_is_one_even_where_it_is_the_machine():
    found = waits_by_width(schedule([1], [5.0], capacity=1), slice(0, 1))
    assert found == {"one processor": waits(1, 5.0, 5.0)}
