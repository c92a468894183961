"""A live site whose blocks are played again: jobs that have not ended, and what they cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.forecasts.live.site_at import SiteAt, site_now
from slurm_rl_plugin.forecasts.live.sources import own_order, rule_order
from slurm_rl_plugin.units import DAY, HOUR
from slurm_rl_plugin.what_if.switchback.block_costs import ReplayedCluster, costs, live_cluster
from tests.unit.forecasts.foretelling import busy_look, replay_source
from tests.unit.forecasts.live_site import LiveSite, last_days, live_site


@pytest.fixture(scope="module")
def site() -> LiveSite:
    return live_site()


@pytest.fixture(scope="module")
def looked(site: LiveSite) -> tuple[SiteAt, ReplayedCluster]:
    """The site at a look, and its cluster."""
    now = busy_look(site, last_days(site, 2.0, HOUR))
    snapshot = site.queue(now, now - HOUR)
    waits = np.ones(len(snapshot.pending), dtype=np.bool_)
    at = site_now(site.history(now), snapshot, waits, 7.0 * DAY).site
    return at, live_cluster(at, replay_source(), own_order, own_order)


def true_run_times(site: LiveSite, at: SiteAt, jobs: np.ndarray) -> np.ndarray:
    """What is to come, by who submitted when."""
    log = at.prepared.log
    whose = {(s, p): run for s, p, run in zip(
        site.log.submit.tolist(), site.log.processors.tolist(), site.log.run_time.tolist(),
        strict=True,
    )}  # fmt: skip
    asked = zip(log.submit[jobs].tolist(), log.processors[jobs].tolist(), strict=True)
    return np.array([whose[each] for each in asked])


def test_who_has_not_ended_runs_as_long_as_is_foretold(
    site: LiveSite, looked: tuple[SiteAt, ReplayedCluster]
) -> None:
    at, cluster = looked
    jobs = np.concatenate([at.running, at.pending])
    foretold, limit = cluster.times.jobs.run_time[jobs], cluster.times.jobs.time_limit[jobs]
    truth = true_run_times(site, at, jobs)

    def off(run_time: np.ndarray) -> float:
        return float(np.abs(np.log(run_time / truth)).mean())

    assert len(jobs) >= 8
    assert off(foretold) < 0.5 * off(limit)
    assert (foretold <= limit + 1.0).all()
    ran = at.now - cluster.times.start[at.running]
    assert (cluster.times.jobs.run_time[at.running] > ran).all()
    over = np.setdiff1d(np.arange(len(at.prepared.log)), jobs)
    np.testing.assert_array_equal(cluster.times.jobs.run_time[over], at.prepared.log.run_time[over])


def test_with_next_to_no_influence_the_queue_keeps_the_sites_own_order(
    looked: tuple[SiteAt, ReplayedCluster],
) -> None:
    at, _ = looked
    own, ours = (replace(replay_source(), order=each) for each in (own_order, rule_order("sjf")))
    bounded, everything = (replace(each, influence=0.01) for each in (ours, own))
    assert not np.array_equal(ours.ranks(at), own.ranks(at))
    np.testing.assert_array_equal(bounded.ranks(at), own.ranks(at))
    np.testing.assert_array_equal(everything.ranks(at), own.ranks(at))


def test_what_waiting_jobs_cost_is_near_what_it_turns_out_to_be(
    site: LiveSite, looked: tuple[SiteAt, ReplayedCluster]
) -> None:
    at, cluster = looked
    told = costs(cluster.times, at.now - HOUR, at.now)[0]
    jobs = np.concatenate([at.running, at.pending])
    known = cluster.times.jobs.run_time.copy()
    known[jobs] = true_run_times(site, at, jobs)
    by_limit = cluster.times.jobs.run_time.copy()
    by_limit[jobs] = cluster.times.jobs.time_limit[jobs]

    def cost(run_time: np.ndarray) -> float:
        times = type(cluster.times)(
            jobs=cluster.times.jobs._replace(run_time=run_time),
            start=cluster.times.start,
            capacity=cluster.times.capacity,
        )
        return float(costs(times, at.now - HOUR, at.now)[0])

    truth = cost(known)
    assert abs(np.log(told / truth)) < 0.5 * abs(np.log(cost(by_limit) / truth))
