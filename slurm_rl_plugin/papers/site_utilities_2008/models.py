"""The utility models of the three sites: fitted on the sites' own simulated histories."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.site_utility import (
    SiteHistory,
    SiteUtilitySettings,
    TriedJobs,
    export_site_utility,
    fit_site_utility,
    try_jobs,
)
from slurm_rl_plugin.papers.site_utilities_2008.sites import (
    LEAST_LOADED,
    SITE_UTILITIES,
    SITES,
    TRAINING_SEGMENTS,
    GridLoad,
    draw_load,
    routed_by,
    site_terms,
)
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, load_q_network
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite, route_jobs

#: First seed of the loads to learn on; the shown ones begin at 0.
TRAINING_SEED = 1000
#: Part of the jobs that are sent anywhere while histories are collected.
_EXPLORED = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteUtilitySize:
    """How much is simulated.

    Attributes:
        jobs: routed in each load.
        loads: to learn on, in each iteration.
        iterations: the sites are first fitted on what least loaded sends them, then on what the
            broker sends that goes by the last fit.
    """

    jobs: int = 2000
    loads: int = 4
    iterations: int = 2
    settings: SiteUtilitySettings = field(default_factory=SiteUtilitySettings)

    @property
    def steps(self) -> int:
        """Simulated loads while learning, for a progress bar."""
        return self.iterations * self.loads


FULL_SIZE = SiteUtilitySize()
#: To see that it runs.
QUICK_SIZE = SiteUtilitySize(
    jobs=60, loads=1, iterations=1, settings=SiteUtilitySettings(states=5, passes=3)
)


def fitted_models(
    log: JobLog,
    order: QueueOrder,
    order_name: str,
    size: SiteUtilitySize,
    store: ResultStore,
    after_load: Callable[[], None],
) -> dict[str, QNetworkPolicy]:
    """The model of each site by its name: from its file in the store, or fitted now.

    Args:
        order_name: tells this order from others in the names of files.
        after_load: told after each simulated load.
    """
    sites = [asdict(site) for site in SITES]
    key = (order_name, asdict(size), sites, list(TRAINING_SEGMENTS))
    stems = {
        site.name: stem_of(f"site-utility-{site.name}", *key, module=__name__) for site in SITES
    }
    paths = {name: store.folder / f"{stem}.onnx" for name, stem in stems.items()}
    if all(path.exists() for path in paths.values()):
        for _ in range(size.steps):
            after_load()
        return {name: load_q_network(path) for name, path in paths.items()}
    loads = [
        draw_load(log, TRAINING_SEGMENTS, size.jobs, (TRAINING_SEED, number))
        for number in range(size.loads * size.iterations)
    ]
    medians = ClassMedian.of(
        np.concatenate([load.offered.run_time for load in loads]),
        np.concatenate([load.offered.interactive for load in loads]),
    )
    beside = {name: path.with_suffix(".fitting") for name, path in paths.items()}
    models: dict[str, QNetworkPolicy] = {}
    tried: list[list[TriedJobs]] = [[] for _ in SITES]
    for number, load in enumerate(loads):
        histories = _explored(load, order, models, number)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            each = pool.map(lambda one: try_jobs(one, medians, size.settings), histories)
            for place, found in enumerate(each):
                tried[place].append(found)
        after_load()
        if (number + 1) % size.loads == 0:
            models = _exported(tried, medians, size.settings, beside)
    for name, path in paths.items():  # a model under its own name has seen all iterations
        beside[name].replace(path)
    return {name: load_q_network(path) for name, path in paths.items()}


def _explored(
    load: GridLoad, order: QueueOrder, models: Mapping[str, QNetworkPolicy], number: int
) -> list[SiteHistory]:
    """What comes to each site where a part of the jobs is sent anywhere."""
    rng = np.random.default_rng([TRAINING_SEED, number, 1])
    sites = [RoutedSite(site_terms(site, order), load.offered) for site in SITES]
    ranked = routed_by(SITE_UTILITIES if models else LEAST_LOADED, sites, models, rng)

    def route(job: int) -> int:
        return int(rng.integers(len(sites))) if rng.random() < _EXPLORED else ranked(job)

    where, _ = route_jobs(sites, load.offered, load.home, route)
    return [
        SiteHistory(site.terms, load.offered, np.flatnonzero(where == place))
        for place, site in enumerate(sites)
    ]


def _exported(
    tried: Sequence[Sequence[TriedJobs]],
    medians: ClassMedian,
    settings: SiteUtilitySettings,
    paths: Mapping[str, Path],
) -> dict[str, QNetworkPolicy]:
    for each, path in zip(tried, paths.values(), strict=True):
        export_site_utility(fit_site_utility(each, settings), path, medians)
    return {name: load_q_network(path) for name, path in paths.items()}
