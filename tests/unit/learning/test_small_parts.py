"""Logs that are too short are named with what is needed; long ones are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.learning.training import parts_too_small
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY


def recorded(jobs: int, days: float) -> PreparedLog:
    """A log of a site: it tells when its jobs started."""
    prepared = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=jobs))
    submit = np.linspace(0.0, days * DAY, jobs)
    log = replace(prepared.log, submit=submit, eligible=submit, start=submit)
    return replace(prepared, log=log)


def test_ten_minutes_of_165_jobs_are_too_small() -> None:
    told = parts_too_small([recorded(165, 10 / 1440)], heldout=False)
    assert told is not None
    assert told.startswith("the training part (99 jobs in 6 minutes) and the validation part (66")
    assert "about 6,250 jobs of 13 days in all" in told


@pytest.mark.parametrize(
    ("jobs", "days", "heldout", "small"),
    [
        (6300, 14, False, []),
        (6300, 14, True, ["validation"]),
        (17000, 35, True, []),
        (6300, 10, False, ["validation"]),
        (100_000, 3, False, ["training", "validation"]),
        (3000, 365, False, ["training", "validation"]),
    ],
)
def test_both_jobs_and_days_are_needed(
    jobs: int, days: float, heldout: bool, small: list[str]
) -> None:
    told = parts_too_small([recorded(jobs, days)], heldout=heldout) or ""
    assert [name for name in ("training", "validation") if f"the {name} part" in told] == small


def test_the_parts_of_several_logs_count_together() -> None:
    assert parts_too_small([recorded(3200, 7), recorded(3200, 7)], heldout=False) is None


def test_a_generated_log_is_counted_in_jobs() -> None:
    log = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=6300))
    assert parts_too_small([log], heldout=False) is None
