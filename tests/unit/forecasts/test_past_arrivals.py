"""Who may come is drawn from what came before, at the same hour of the week."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.replays.replayed_site import WEEK, PastArrivals
from slurm_rl_plugin.units import DAY, HOUR

#: A job each hour for ten weeks, and one more at every noon.
SUBMIT = np.sort(
    np.concatenate([np.arange(0.0, 10 * WEEK, HOUR), np.arange(12.5 * HOUR, 10 * WEEK, DAY)])
)


@pytest.mark.parametrize("span", [DAY, WEEK, 2 * WEEK])
def test_jobs_of_the_past_come_at_their_hour(span: float) -> None:
    now = 8 * WEEK + 1000.0
    jobs, submit = PastArrivals(submit=SUBMIT).drawn(now, span, np.random.default_rng(1))
    assert len(jobs) == np.searchsorted(SUBMIT, now) - np.searchsorted(SUBMIT, now - span)
    assert (np.diff(submit) >= 0.0).all()
    assert submit[0] > now
    assert submit[-1] <= now + span
    assert (SUBMIT[jobs] <= now).all(), "nobody knows who comes later"
    np.testing.assert_allclose((submit - SUBMIT[jobs]) % WEEK, 0.0)


def test_the_last_six_weeks_are_drawn() -> None:
    arrivals, now = PastArrivals(submit=SUBMIT), 9 * WEEK
    back = set()
    for seed in range(60):
        jobs, submit = arrivals.drawn(now, DAY, np.random.default_rng(seed))
        back.add(round((submit[0] - SUBMIT[jobs[0]]) / WEEK))
    assert back == {1, 2, 3, 4, 5, 6}


def test_in_the_first_week_days_are_drawn_at_their_hour() -> None:
    arrivals, now, back = PastArrivals(submit=SUBMIT), 4.5 * DAY, set()
    for seed in range(40):
        jobs, submit = arrivals.drawn(now, 1.5 * DAY, np.random.default_rng(seed))
        assert (SUBMIT[jobs] <= now).all()
        assert (np.diff(submit) >= 0.0).all()
        np.testing.assert_allclose((submit - SUBMIT[jobs]) % DAY, 0.0)
        back.add(round((submit[0] - SUBMIT[jobs[0]]) / DAY))
    assert back == {1, 2, 3, 4}


def test_on_the_first_day_nobody_is_known_to_come() -> None:
    jobs, submit = PastArrivals(submit=SUBMIT).drawn(0.9 * DAY, DAY, np.random.default_rng(1))
    assert len(jobs) == len(submit) == 0
