"""What is believed of a run time before the job ran."""

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit

INTERACTIVE = np.array([True, True, False, False, False])
RUN = np.array([10.0, 30.0, 1000.0, 5000.0, 2000.0])


def test_class_median_is_the_median_run_time_of_the_jobs_class():
    estimate = ClassMedian.of(RUN, INTERACTIVE)
    assert (estimate.interactive_median, estimate.batch_median) == (20.0, 2000.0)
    limits = np.full(3, 7.0)
    assert estimate.estimate(limits, np.array([True, False, True])).tolist() == [20, 2000, 20]


@pytest.mark.parametrize("everybody", [True, False])
def test_a_class_without_jobs_takes_the_median_of_all(everybody):
    estimate = ClassMedian.of(RUN, np.full(5, everybody))
    assert estimate.interactive_median == estimate.batch_median == 1000.0


def test_medians_of_no_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="at least one job"):
        ClassMedian.of(np.empty(0), np.empty(0, dtype=bool))


def test_requested_limit_is_the_limit_and_an_hour_where_none_is_known():
    limits = np.array([60.0, np.nan, 0.0, -1.0, np.inf, 7200.0])
    estimate = RequestedLimit().estimate(limits, np.zeros(6, dtype=bool))
    assert estimate.tolist() == [60.0, 3600.0, 3600.0, 3600.0, 3600.0, 7200.0]
