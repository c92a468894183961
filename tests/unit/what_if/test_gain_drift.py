"""Evidence that a model's gain is gone, and weeks that are played again."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_rl_plugin.domain.switchback import OURS, SITE
from slurm_rl_plugin.papers.switchback.held_in_turns import alike, preferring_short
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.what_if.drift.evidence import BOUND, FEWEST, drift_finding
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK, WeeklyCosts, weekly_costs


def weeks(gains: list[float], queue: float = 10.0) -> WeeklyCosts:
    site = np.full(len(gains), queue)
    return WeeklyCosts(
        begin=WEEK * np.arange(len(gains), dtype=np.float64),
        by_site=site,
        by_ours=site * np.exp(gains),
    )


REFERENCE = weeks([-0.9 + 0.02 * place for place in range(20)])


def test_a_lost_gain_is_told_within_weeks() -> None:
    found = drift_finding(REFERENCE, weeks([-0.1] * 12))
    assert found.lost_at is not None
    assert 3 <= found.lost_at <= 8
    assert found.lately == pytest.approx(np.exp(-0.1))
    assert found.promised == pytest.approx(
        np.exp(REFERENCE.by_ours / 10.0 * 0 - 0.7).mean(), rel=0.1
    )


def test_weeks_as_they_were_give_no_evidence_for_years() -> None:
    rng = np.random.default_rng(1)
    told = 0
    for _ in range(200):
        drawn = rng.normal(-0.7, 0.4, 25 + 52)
        found = drift_finding(weeks(list(drawn[:25])), weeks(list(drawn[25:])))
        told += found.lost_at is not None
    assert told / 200 < 0.5  # one warning in two years at most


def test_weeks_without_a_queue_tell_nothing() -> None:
    found = drift_finding(REFERENCE, weeks([0.0] * 30, queue=0.5))
    assert found.lost_at is None
    assert np.isnan(found.lately)
    assert not found.evidence.any()


def test_of_too_few_weeks_nothing_is_said() -> None:
    few = weeks([-0.7] * (FEWEST - 1))
    assert drift_finding(few, weeks([0.5] * 50)).lost_at is None
    assert drift_finding(WeeklyCosts.none(), weeks([0.5] * 50)).evidence.max() < BOUND


def test_replays_of_weeks_tell_which_order_costs_less() -> None:
    days = 14
    same = alike(1, days).replayed(alike(1, days).starts(()))
    same.orders[OURS] = same.orders[SITE]
    found = weekly_costs(same, 14 * DAY, 2)
    assert found.by_site == pytest.approx(found.by_ours)
    short = preferring_short(1, days, 2.0)
    done: list[int] = []
    better = weekly_costs(
        short.replayed(short.starts(())), 14 * DAY, 2, at_once=2, progress=done.append
    )
    assert better.by_ours.sum() < better.by_site.sum()
    assert list(better.begin) == [14 * DAY, 21 * DAY]
    assert done == [2]
