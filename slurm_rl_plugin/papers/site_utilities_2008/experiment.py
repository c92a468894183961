"""Site utilities (2008, section II.C): a matchmaker ranks three sites by their published utilities.

Each site has users who submit to it alone; a fourth stream of jobs is routed. The four streams are
windows of four segments of LPC-EGEE, stretched to one span and to the wanted loads. The utility
models of the sites are fitted on the sites' own simulated histories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.site import PublishedUtilities
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.learning.site_utility import (
    SiteHistory,
    SiteUtilitySettings,
    TriedJobs,
    export_site_utility,
    fit_site_utility,
    try_jobs,
)
from slurm_rl_plugin.papers.study.claims import Declared, Row, row
from slurm_rl_plugin.papers.study.figures import finished, interval_panels, panels
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.papers.study.trials import (
    SEGMENT_DROP,
    SEGMENT_JOBS,
    columns_of,
    read_lpc,
    segment_of,
)
from slurm_rl_plugin.policies.q_network import QNetworkPolicy, load_q_network
from slurm_rl_plugin.policies.site_utilities import published_utilities
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.sites.routed_sites import NOWHERE, RoutedSite, SiteTerms, route_jobs
from slurm_rl_plugin.units import (
    DAY,
    INTERACTIVE_WAIT_GOAL,
    MINUTE,
    SHORT_JOB_RUN_TIME,
    FloatArray,
    IntArray,
)
from slurm_rl_plugin.utility.summary import JobMeasures, ScheduledJobs

ACCOUNTS = ("vo0", "vo1", "vo2", "vo3")
#: Part of the sessions of each account.
ACCOUNT_MIX = (0.4, 0.3, 0.2, 0.1)
#: Segments to learn on and to measure; earlier ones are nearly idle or have one user.
TRAINING_SEGMENTS = (7, 9, 11, 13, 15, 17, 19, 21)
SHOWN_SEGMENTS = (8, 10, 12, 14, 16, 18, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSite:
    """A site of the experiment."""

    name: str
    capacity: int  #: processors
    shares: tuple[float, ...]  #: of ACCOUNTS; over all processors of the grid they make ACCOUNT_MIX
    local_load: float  #: work of its own users over its processors' time


SITES = (
    GridSite(name="north", capacity=16, shares=(0.6, 0.2, 0.1, 0.1), local_load=0.5),
    GridSite(name="east", capacity=12, shares=(0.2, 0.5, 0.2, 0.1), local_load=0.3),
    GridSite(name="south", capacity=8, shares=(0.3, 0.2, 0.4, 0.1), local_load=0.1),
)
#: Work of all jobs over all processors' time.
GRID_LOAD = 0.75


def site_terms(site: GridSite, order: QueueOrder) -> SiteTerms:
    """The terms of a site for the simulator."""
    return SiteTerms(
        name=site.name,
        accounts=ACCOUNTS,
        shares=np.array(site.shares),
        order=order,
        settings=SimulationSettings(capacity=site.capacity, half_life=math.inf),
    )


class GridLoad(NamedTuple):
    """The jobs of one seed."""

    offered: Workload  #: all of them in order of submission; its shares belong to no site
    home: IntArray  #: place of the site of the job's user, NOWHERE for a job to route, shape [n]


def draw_load(log: JobLog, segments: Sequence[int], jobs: int, seed: Sequence[int]) -> GridLoad:
    """Draw the four streams."""
    rng = np.random.default_rng(list(seed))
    drawn = rng.choice(np.array(segments), 1 + len(SITES), replace=False)
    capacity = sum(site.capacity for site in SITES)
    local = sum(site.capacity * site.local_load for site in SITES)
    streams = [_window(segment_of(log, int(drawn[0])), rng, jobs=jobs)]
    span = float(streams[0].run_time.sum()) / (GRID_LOAD * capacity - local)
    for site, number in zip(SITES, drawn[1:], strict=True):
        work = site.local_load * site.capacity * span
        streams.append(_window(segment_of(log, int(number)), rng, work=work))
    stretched = [
        each._replace(submit=each.submit * (span / max(float(each.submit[-1]), 1.0)))
        for each in streams
    ]
    submit, run_time, account = (np.concatenate(each) for each in zip(*stretched, strict=True))
    order = np.argsort(submit, kind="stable")
    run_time = run_time[order]
    offered = Workload.of(
        submit=submit[order],
        run_time=run_time,
        estimate=run_time,
        time_limit=run_time,
        processors=np.ones(len(order), dtype=np.int64),
        account=account[order],
        interactive=run_time < SHORT_JOB_RUN_TIME,
        shares=np.array(ACCOUNT_MIX),
    )
    home = np.repeat([NOWHERE, *range(len(SITES))], [len(each.submit) for each in streams])
    return GridLoad(offered=offered, home=home[order].astype(np.int64))


class _Stream(NamedTuple):
    """Jobs of one window, shape [n]; `submit` in seconds from its beginning."""

    submit: FloatArray
    run_time: FloatArray
    account: IntArray


def _window(
    segment: JobLog, rng: np.random.Generator, *, jobs: int = 0, work: float = 0.0
) -> _Stream:
    """Consecutive jobs from a random place, wrapping around, by number or by work."""
    first = int(rng.integers(SEGMENT_JOBS))
    order = (first + np.arange(SEGMENT_JOBS)) % SEGMENT_JOBS
    if not jobs:
        done = np.cumsum(segment.run_time[order])
        jobs = max(int(np.searchsorted(done, work)), 1)
    chosen = order[:jobs]
    submit = segment.submit[chosen] - segment.submit[first]
    # the segment's first jobs follow its last ones
    span = segment.submit[-1] - segment.submit[0]
    submit = np.where(chosen < first, submit + span, submit)
    sessions = segment.user[chosen] * 100_000 + (submit // DAY).astype(np.int64)
    each, session = np.unique(sessions, return_inverse=True)
    account = rng.choice(len(ACCOUNTS), len(each), p=ACCOUNT_MIX)[session]
    return _Stream(submit, segment.run_time[chosen], account.astype(np.int64))


RANDOM, LEAST_LOADED, EARLIEST_START = "random", "least loaded", "earliest start"
SITE_UTILITIES = "site utilities"
#: With rare publications, and by the shares alone.
SELDOM, SHARE_DEFICIT = "site utilities, every 30 min", "share deficit alone"
BASELINES = (RANDOM, LEAST_LOADED, EARLIEST_START)
CONTENDERS = (*BASELINES, SITE_UTILITIES, SELDOM, SHARE_DEFICIT)
#: Seconds between two publications of a site.
_PERIODS = {SITE_UTILITIES: MINUTE, SELDOM: 30 * MINUTE}


def _publications(
    models: Mapping[str, QNetworkPolicy], period: float
) -> Callable[[RoutedSite], PublishedUtilities]:
    """Publications of the sites by their models, renewed after `period` seconds."""
    found: dict[str, PublishedUtilities] = {}

    def last(site: RoutedSite) -> PublishedUtilities:
        name, before = site.terms.name, found.get(site.terms.name)
        if before is None or site.now - before.time >= period:
            found[name] = published_utilities(
                models[name], site.snapshot(), site=name, valid_for=2 * period
            )
        return found[name]

    return last


def routed_by(
    contender: str,
    sites: Sequence[RoutedSite],
    models: Mapping[str, QNetworkPolicy],
    rng: np.random.Generator,
) -> Callable[[int], int]:
    """The route of one of CONTENDERS for `route_jobs`.

    Ties go to the less loaded site.
    """
    places = {site.terms.name: place for place, site in enumerate(sites)}
    published = _publications(models, _PERIODS.get(contender, math.inf))

    def share_deficit(site: RoutedSite, job: int) -> float:
        account = site.offered.account[job]
        return float(site.terms.shares[account] - current_usage(site.cluster)[account])

    def utility(site: RoutedSite, job: int) -> float:
        quick = site.offered.interactive[job]
        account = site.terms.accounts[site.offered.account[job]]
        found = published(site).of("interactive" if quick else "batch", account)
        assert found is not None, "a model publishes a utility of every account"
        return found

    index: dict[str, Callable[[RoutedSite, int], float]] = {
        RANDOM: lambda *_: float(rng.random()),
        LEAST_LOADED: lambda site, _: -site.load,
        EARLIEST_START: lambda site, job: -site.expected_start(job),
        SHARE_DEFICIT: share_deficit,
        **dict.fromkeys(_PERIODS, utility),
    }

    def route(job: int) -> int:
        fits = [site for site in sorted(sites, key=lambda each: each.load) if site.fits(job)]
        return places[max(fits, key=lambda site: index[contender](site, job)).terms.name]

    return route


#: First seed of the loads to learn on; the measured ones begin at 0.
TRAINING_SEED = 1000
#: Part of the jobs that are routed at random while histories are collected.
_EXPLORED = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteUtilitySize:
    """Sizes of the simulations."""

    jobs: int = 2000  #: routed in each load
    loads: int = 4  #: to learn on, in each iteration
    #: The first fit uses jobs routed to the least loaded site, later ones those of the last fit.
    iterations: int = 2
    settings: SiteUtilitySettings = field(default_factory=SiteUtilitySettings)


FULL_SIZE = SiteUtilitySize()
#: For a smoke test.
QUICK_SIZE = SiteUtilitySize(
    jobs=60, loads=1, iterations=1, settings=SiteUtilitySettings(states=5, passes=3)
)


def fitted_models(
    log: JobLog,
    order: QueueOrder,
    order_name: str,
    size: SiteUtilitySize,
    store: ResultStore,
) -> dict[str, QNetworkPolicy]:
    """The model of each site by name: from the store, or fitted now."""
    key = (order_name, size, SITES, TRAINING_SEGMENTS)
    stems = {
        site.name: stem_of(f"site-utility-{site.name}", *key, module=__name__) for site in SITES
    }
    paths = {name: store.folder / f"{stem}.onnx" for name, stem in stems.items()}
    if all(path.exists() for path in paths.values()):
        store.add(size.iterations * size.loads)
        return {name: load_q_network(path) for name, path in paths.items()}
    loads = [
        draw_load(log, TRAINING_SEGMENTS, size.jobs, (TRAINING_SEED, number))
        for number in range(size.loads * size.iterations)
    ]
    medians = ClassMedian.of(
        np.concatenate([load.offered.run_time for load in loads]),
        np.concatenate([load.offered.interactive for load in loads]),
    )
    temporary = {name: path.with_suffix(".fitting") for name, path in paths.items()}
    models: dict[str, QNetworkPolicy] = {}
    tried: list[list[TriedJobs]] = [[] for _ in SITES]
    for number, load in enumerate(loads):
        histories = _explored(load, order, models, number)
        found = side_by_side(lambda each: try_jobs(each, medians, size.settings), histories)
        for site, each in zip(tried, found, strict=True):
            site.append(each)
        store.add(1)
        if (number + 1) % size.loads == 0:
            for jobs, path in zip(tried, temporary.values(), strict=True):
                export_site_utility(fit_site_utility(jobs, size.settings), path, medians)
            models = {name: load_q_network(path) for name, path in temporary.items()}
    for name, path in paths.items():  # the file gets its name after all iterations
        temporary[name].replace(path)
    return {name: load_q_network(path) for name, path in paths.items()}


def _explored(
    load: GridLoad, order: QueueOrder, models: Mapping[str, QNetworkPolicy], number: int
) -> list[SiteHistory]:
    """The jobs of each site where a part of the jobs is routed at random."""
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


#: Figures of each seed; J, U and F are means over all counted jobs of all sites.
COLUMNS = ("J", "U", "F", "mean wait", "interactive within 120 s")
_GROUP = "three sites"
DECLARED = Declared(__package__)


def _seed(
    log: JobLog, order: QueueOrder, models: Mapping[str, QNetworkPolicy], jobs: int, seed: int
) -> dict[str, tuple[dict[str, float], list[float]]]:
    """Contender -> its figures on one load, and the part of the routed jobs of each site."""
    load = draw_load(log, SHOWN_SEGMENTS, jobs, (seed,))

    def run(contender: str) -> tuple[dict[str, float], list[float]]:
        sites = [RoutedSite(site_terms(site, order), load.offered) for site in SITES]
        route = routed_by(contender, sites, models, np.random.default_rng([seed, 1]))
        where, start = route_jobs(sites, load.offered, load.home, route)
        sent = np.bincount(where[load.home == NOWHERE], minlength=len(sites))
        return grid_figures(load, where, start), (sent / sent.sum()).tolist()

    return dict(zip(CONTENDERS, side_by_side(run, CONTENDERS), strict=True))


def grid_figures(load: GridLoad, where: IntArray, start: FloatArray) -> dict[str, float]:
    """COLUMNS of all sites together.

    A job's fairness is that of its site at its start, by the site's own shares. The first and last
    jobs of the whole grid are not counted (SEGMENT_DROP, at most a tenth).
    """
    jobs, count = load.offered, len(start)
    useful, fair = np.empty(count), np.empty(count)
    for place, site in enumerate(SITES):
        mine = np.flatnonzero(where == place)
        measures = JobMeasures.of(
            ScheduledJobs(
                submit=jobs.submit[mine],
                start=start[mine],
                run_time=jobs.run_time[mine],
                processors=jobs.processors[mine],
                account=jobs.account[mine],
                interactive=jobs.interactive[mine],
                shares=np.array(site.shares),
                capacity=site.capacity,
            ),
        )
        useful[mine], fair[mine] = measures.time_utility, measures.fairness
    drop = [min(each, count // 10) for each in SEGMENT_DROP]
    counted = slice(drop[0], count - drop[1])
    wait = (start - jobs.submit)[counted]
    quick = wait[jobs.interactive[counted]] <= INTERACTIVE_WAIT_GOAL
    utility, fairness = float(useful[counted].mean()), float(fair[counted].mean())
    return {
        "J": (utility + fairness) / 2,
        "U": utility,
        "F": fairness,
        "mean wait": float(wait.mean()),
        "interactive within 120 s": float(quick.mean()) if len(quick) else float("nan"),
    }


def rows_of(figures: Mapping[str, Mapping[str, FloatArray]]) -> Iterator[Row]:
    """Paired differences of J against each baseline, then the figures of each contender."""
    means = {name: float(figures[name]["J"].mean()) for name in BASELINES}
    for baseline in BASELINES:
        gain = figures[SITE_UTILITIES]["J"] - figures[baseline]["J"]
        yield row(_GROUP, SITE_UTILITIES, f"J less that of {baseline}", gain, baselines=means)
    for contender, columns in figures.items():
        for column in COLUMNS:
            yield row(_GROUP, contender, column, columns[column])


#: The local scheduler of every site: the network of the 2008 paper.
_LOCAL = "reactive-grids"


def _draw_routes(routed: Mapping[str, FloatArray]) -> Any:
    names = list(routed)[::-1]
    figure, [axis] = panels(["part of the routed jobs"], (6, 3.6))
    left = np.zeros(len(names))
    for number, site in enumerate(SITES):
        part = np.array([routed[name][:, number].mean() for name in names])
        label = f"{site.name}: {site.capacity} processors"
        axis.barh(names, part, left=left, label=label)
        left += part
    return finished(figure, [axis], "fraction", "")


def run(asked: Asked) -> Outcome:
    """Fit the sites' models on some segments, then route jobs of other segments."""
    traces, seeds = asked.logs, asked.number_of_seeds()
    local = asked.shipped(_LOCAL)
    network, log = import_network(local), read_lpc(traces)
    order, size = QueueOrder(network=network), QUICK_SIZE if asked.quick else FULL_SIZE
    found: list[dict[str, tuple[dict[str, float], Sequence[float]]]] = []
    with asked.bar("fitting and routing", size.iterations * size.loads + seeds) as add:
        store = ResultStore(asked.models, add)
        models = fitted_models(log, order, network.digest, size, store)
        checksums = {name: policy.card.sha256 for name, policy in models.items()}
        columns = (log.submit, log.run_time, log.user)
        key = (columns, network.digest, size.jobs, checksums)
        for seed in range(seeds):
            stem = f"{stem_of('site-utilities', *key, module=__name__)}-{seed}"
            measure_seed = partial(_seed, log, order, models, size.jobs, seed)
            found.append(store.figures(stem, measure_seed))
            add(1)
    figures = {name: columns_of([each[name][0] for each in found]) for name in CONTENDERS}
    routed = {name: np.array([each[name][1] for each in found]) for name in CONTENDERS}
    facts = {"local_scheduler": file_checksum(local), "models": checksums}
    claims = DECLARED.claims(rows_of(figures))
    gains, shown = claims[: len(BASELINES)], claims[len(BASELINES) :]
    across = "paired difference, 95 % interval"
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        facts=facts,
        drawings={
            "site-utilities-gain.png": partial(
                interval_panels, gains, across, at=0.0, label="column"
            ),
            "site-utilities-brokers.png": partial(
                interval_panels, shown, "mean, 95 % interval", panel="column"
            ),
            "site-utilities-routes.png": partial(_draw_routes, routed),
        },
        manifest={"seeds": seeds, **facts},
    )
