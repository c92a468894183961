"""The part of a log that settings are chosen on: a log too short for it is refused at once."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.what_if.tuning.search import past_of


def test_a_log_whose_rest_cannot_judge_is_refused_before_the_search() -> None:
    short = prepare_log(generated_log("mmn:jobs=50,seed=1"))
    with pytest.raises(ConfigurationError, match=r"30 came in the first 60 % .* and 18 count of"):
        past_of(short)


def test_a_log_of_one_job_is_not_said_to_have_none() -> None:
    one = prepare_log(generated_log("mmn:jobs=50,seed=1").select(np.arange(1)))
    with pytest.raises(ConfigurationError, match="too few jobs to tune on: 0 came"):
        past_of(one)


def test_the_past_of_a_longer_log_is_its_first_part() -> None:
    assert len(past_of(prepare_log(generated_log("mmn:jobs=60,seed=1"))).log) == 36
