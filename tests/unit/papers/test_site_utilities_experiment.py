"""The experiment's load, its brokers and its verdicts, on a log made up for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.papers.site_utilities_2008.experiment import (
    BASELINES,
    COLUMNS,
    EARLIEST_START,
    GRID_LOAD,
    LEAST_LOADED,
    QUICK_SIZE,
    RANDOM,
    SHARE_DEFICIT,
    SHOWN_SEGMENTS,
    SITES,
    GridLoad,
    draw_load,
    fitted_models,
    grid_figures,
    routed_by,
    site_terms,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.sites.routed_sites import NOWHERE, RoutedSite, route_jobs
from tests.functional.small_site import lpc_like_log

ORDER = QueueOrder(rule="utility-greedy")


@pytest.fixture(scope="module")
def log() -> JobLog:
    return lpc_like_log()


@pytest.fixture(scope="module")
def load(log: JobLog) -> GridLoad:
    return draw_load(log, SHOWN_SEGMENTS, 150, (1,))


def test_streams_have_the_wanted_loads(load: GridLoad) -> None:
    jobs = load.offered
    assert (np.diff(jobs.submit) >= 0).all()
    assert (load.home == NOWHERE).sum() == 150
    span = jobs.submit[-1]
    capacity = sum(site.capacity for site in SITES)
    longest = jobs.run_time.max()
    for place, site in enumerate(SITES):
        work = jobs.run_time[load.home == place].sum()
        wanted = site.local_load * site.capacity * span
        assert abs(work - wanted) <= longest  # whole jobs
    assert jobs.run_time.sum() == pytest.approx(GRID_LOAD * capacity * span, abs=4 * longest)


@pytest.mark.parametrize("contender", [*BASELINES, SHARE_DEFICIT])
def test_each_broker_sends_jobs_where_it_says(load: GridLoad, contender: str) -> None:
    sites = [RoutedSite(site_terms(site, ORDER), load.offered) for site in SITES]
    ranked = routed_by(contender, sites, {}, np.random.default_rng(1))

    def route(job: int) -> int:
        chosen = ranked(job)
        account = load.offered.account[job]
        usage = [site.snapshot().usage[account] for site in sites]
        index = {
            EARLIEST_START: [-site.expected_start(job) for site in sites],
            LEAST_LOADED: [-site.load for site in sites],
            SHARE_DEFICIT: [s.terms.shares[account] - u for s, u in zip(sites, usage, strict=True)],
            RANDOM: [0.0, 0.0, 0.0],
        }[contender]
        assert index[chosen] == max(index)
        return chosen

    where, start = route_jobs(sites, load.offered, load.home, route)
    assert len(set(where[load.home == NOWHERE].tolist())) > 1
    figures = grid_figures(load, where, start)
    assert set(figures) == set(COLUMNS)
    assert figures["J"] == pytest.approx((figures["U"] + figures["F"]) / 2)
    assert 0 < figures["F"] < 1
    assert 0 < figures["U"] <= 1


class Interrupted(Exception):
    """Ctrl-C."""


def test_models_of_an_earlier_iteration_are_not_taken_for_the_last(
    log: JobLog, tmp_path: Path
) -> None:
    size, loads = replace(QUICK_SIZE, iterations=2), 0

    def interrupt(_: int) -> None:
        nonlocal loads
        loads += 1
        if loads == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        fitted_models(log, ORDER, "greedy", size, ResultStore(tmp_path / "a", interrupt))
    checksums = [
        [each.card.sha256 for each in found.values()]
        for found in (
            fitted_models(log, ORDER, "greedy", size, ResultStore(tmp_path / name))
            for name in ("a", "b", "b")
        )
    ]
    assert checksums[0] == checksums[1] == checksums[2]
    assert {each.suffix for each in (tmp_path / "a").iterdir()} == {".onnx"}
