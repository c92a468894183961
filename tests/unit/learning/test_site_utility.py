"""A site's utility: what is tried, and that the fit finds what is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.site_utility.model import (
    SiteHistory,
    SiteUtilitySettings,
    TriedJobs,
    export_site_utility,
    fit_site_utility,
    try_jobs,
)
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.site_utilities import published_utilities
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.sites.added_jobs import added_job_gains
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite, SiteTerms
from tests.reference.loads import random_workload

MEDIANS = ClassMedian(interactive_median=60.0, batch_median=600.0)
DEFICIT = SITE.jobs.index("share_deficit")


def history(seed: int, jobs: int = 120) -> SiteHistory:
    workload = random_workload(seed, jobs, 4, parallel=False, exact=True, accounts=2)
    terms = SiteTerms(
        name="north",
        accounts=("a", "b"),
        shares=np.array([0.5, 0.5]),
        order=QueueOrder(rule="utility-greedy"),
        settings=SimulationSettings(capacity=4),
    )
    return SiteHistory(terms, workload, np.arange(jobs))


def test_every_kind_of_job_is_tried_in_every_state() -> None:
    settings = SiteUtilitySettings(states=9, horizon=600.0)
    tried = try_jobs(history(1), MEDIANS, settings)
    assert tried.queue.shape == (36, len(SITE.queue))
    assert tried.jobs.shape == (36, len(SITE.jobs))
    assert tried.gain.shape == (36, 2)
    assert tried.jobs[:, 4].reshape(9, 4).tolist() == [[1, 1, 0, 0]] * 9
    # own utility and fairness are at most 1; anything more comes from other jobs
    assert np.isfinite(tried.gain).all()
    again = try_jobs(history(1), MEDIANS, settings)
    np.testing.assert_array_equal(tried.gain, again.gain)


def test_a_kind_that_nobody_submits_is_not_tried() -> None:
    found = history(2)
    alone = found.offered._replace(account=np.zeros(120, dtype=np.int64))
    settings = SiteUtilitySettings(states=3, horizon=600.0)
    tried = try_jobs(found._replace(offered=alone), MEDIANS, settings)
    assert len(tried.gain) == 3 * 2


def test_the_fit_finds_what_load_and_shares_are_worth() -> None:
    rng = np.random.default_rng(5)
    queue = rng.random((4000, len(SITE.queue)))
    jobs = rng.random((4000, len(SITE.jobs)))
    gain = np.column_stack([queue[:, 0], jobs[:, DEFICIT]]) + rng.normal(0, 0.3, (4000, 2))
    gain[:5] = 1e6  # odd futures, which must not decide
    network = fit_site_utility([TriedJobs(queue, jobs, gain)], SiteUtilitySettings())
    fresh_queue, fresh_jobs = rng.random((200, len(SITE.queue))), rng.random((200, len(SITE.jobs)))
    wanted = (fresh_queue[:, 0] + fresh_jobs[:, DEFICIT]) / 2
    found = [
        float(network.scores(each, job[None])[0])
        for each, job in zip(fresh_queue, fresh_jobs, strict=True)
    ]
    assert np.corrcoef(wanted, found)[0, 1] > 0.9
    assert np.mean(found) == pytest.approx(wanted.mean(), abs=0.1)


def test_a_fit_tells_good_moments_of_another_history_from_bad_ones(tmp_path: Path) -> None:
    settings = SiteUtilitySettings(states=100, horizon=1800.0, passes=40)
    tried = [try_jobs(history(seed, 200), MEDIANS, settings) for seed in range(4)]
    path = tmp_path / "north.onnx"
    export_site_utility(fit_site_utility(tried, settings), path, MEDIANS)
    policy = load_q_network(path)
    assert policy.estimates == MEDIANS
    fresh = history(9, 200)
    shown = RoutedSite(fresh.terms, fresh.offered)
    published, worth = [], []
    for job in range(200):
        shown.run_until(float(fresh.offered.submit[job]))
        if job % 4 == 0:
            utilities = published_utilities(policy, shown.snapshot(), site="north").utilities
            published.append(np.mean(list(utilities["interactive"].values())))
            quick = np.flatnonzero(fresh.offered.interactive)[:3].tolist()
            ahead = np.arange(job, 200)
            gains = added_job_gains(shown, quick, ahead, fresh.offered.submit[ahead], 1800.0)
            worth.append(np.clip(gains, -3, 3).mean())
        shown.take(job)
    order = np.argsort(published)
    assert np.array(worth)[order[25:]].mean() > np.array(worth)[order[:25]].mean() + 0.1
