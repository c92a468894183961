"""A site's own jobs under its own configuration, compared with the order that it had."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.evaluation.named_log import NamedLog
from slurm_rl_plugin.evaluation.study import (
    InForce,
    OnNodes,
    Study,
    figures_on_nodes,
    machine_entry,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.recorded_replay import (
    ALWAYS,
    GOALS,
    RECORDED_ORDER,
    SIMULATED,
    ComparedFigure,
    RecordedReplay,
    compare,
    figures_of,
    overall,
    replay,
)
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.measure.intervals import BETTER, RESAMPLES, WORSE
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.services.configured_site import written_influence
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import OTHER_ACCOUNT, PreparedLog
from slurm_rl_plugin.units import HOUR

#: Fewer jobs that ran are not replayed at all.
FEWEST_JOBS = 20
#: What a replay does not know, said with every one.
NOT_KNOWN = (
    "users who would submit other jobs if they waited less",
    "nodes, memory and GPUs: the machine is a pool of equal processors",
    "outages, reservations, QOS limits and partitions",
    "jobs that waited and never ran",
    "run times as they would have been next to other jobs",
)
#: The same on nodes, whose description lists what is not simulated.
NOT_KNOWN_ON_NODES = (NOT_KNOWN[0], "outages and reservations", *NOT_KNOWN[3:])
#: What figures of a prediction are called.
_NAMES = {
    "mean_wait": "mean wait",
    "median_wait": "median wait",
    "p95_wait": "95 % wait at most",
    "within_120s": "waited 120 s at most",
    "mean_bounded_slowdown": "mean bounded slowdown",
    "fairness": "fairness",
}
#: Behind the name of a model: the same order, and no processors kept free.
WITHOUT = "without reserve"
#: Behind the name of a rule that is replayed in any case: the same as the daemon writes it.
WRITTEN = "as written"

#: Opens a progress bar by title and parts; yields a function of how many more parts are done.
Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The configured policy compared with the recorded order, with intervals."""

    log: dict[str, Any]
    jobs: int
    counted_jobs: int
    dropped: dict[str, int]
    processors: int
    class_rule: str
    shares: dict[str, float]
    shares_from: str
    model: str
    compared_with: str
    policies: dict[str, dict[str, float]]
    #: mean waits with the reserve over those without, of classes that waited; None without a
    #: reserve
    reserve_price: dict[str, float] | None
    figures: dict[str, ComparedFigure]  #: each of the model and the site
    goals: tuple[str, ...]  #: the figures of the verdict
    verdict: str
    not_known: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """`After N jobs: ...`: each goal, and how many jobs a verdict would need."""
        goals = (f"{figure_name(name)} {_verdict(self.figures[name])}" for name in self.goals)
        return f"After {self.counted_jobs:,} jobs: {'; '.join(goals)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReplay:
    """What a replay found."""

    known: PreparedLog  #: the jobs, with the classes that the site's rules give them at submission
    #: their schedules; the configured policy is the first after those of every replay
    replayed: RecordedReplay
    prediction: Prediction
    study: Study

    @property
    def days(self) -> tuple[float, float]:
        """When the first job came and the last one ended as recorded, seconds since the epoch."""
        log = self.known.log
        return float(log.submit[0]), float((log.start + log.run_time).max())


def replay_site(
    configuration: Configuration,
    log: NamedLog,
    bar: Bar,
    *,
    others: Sequence[str] = (),
    cycle: float = 0.0,
    backfilling: str | None = None,
) -> SiteReplay | str:
    """Replay a log under a configuration; a sentence where its jobs are too few.

    Args:
        configuration: of the site: model, job classes, and how far its order goes.
        log: with recorded starts; its shares are those that count.
        others: policies to compare, each as if it were the configured one.
        cycle: seconds between decisions of the batch system.
        backfilling: of the batch system; by default EASY, on nodes as slurmctld does it.
    """
    if len(log.prepared.log) < FEWEST_JOBS:
        few = f"{len(log.prepared.log)} jobs of this time ran: too few to replay"
        return f"{few}, take a longer one."
    own = policies_in_force(configuration)
    candidates = own | {
        name: candidate_of(name) for name in others if name not in ALWAYS and name not in own
    }
    rules = configuration.classifier if configuration.has_class_rules else None
    known = class_known_at_submission(log.prepared, rules)
    settings = settings_in_force(
        configuration, known.capacity, cycle, on_nodes=known.machine is not None
    )
    settings = replace(settings, backfilling=backfilling or settings.backfilling)
    with bar("replaying", SIMULATED + len(candidates)) as progress:
        replayed = replay(known, candidates, settings, progress)
    on_nodes = None
    if known.machine is not None:
        policies = {
            name: figures_on_nodes(known, jobs, replayed.measured)
            for name, jobs in replayed.schedules.items()
        }
        on_nodes = OnNodes(machine=machine_entry(known.machine), policies=policies)
    study = replace(
        Study.of(known, replayed.schedules, replayed.measured, RECORDED_ORDER, candidates),
        model=next(iter(own)),
        settings=_in_force(settings),
        on_nodes=on_nodes,
        own_class_rules=configuration.has_class_rules,
        notices=list(_notices(configuration, known, candidates, settings)),
    )
    prediction = _prediction(log, known, replayed, list(own), bar)
    return SiteReplay(known=known, replayed=replayed, prediction=prediction, study=study)


def settings_in_force(
    configuration: Configuration, capacity: int, cycle: float = 0.0, *, on_nodes: bool = False
) -> SimulationSettings:
    """EASY, with the order and the limit as the daemon is configured to write them."""
    reserve, limit = configuration.reserve, None
    if reserve is not None:
        shared = {each.name: getattr(reserve, each.name) for each in fields(ClassLimit)}
        limit = ClassLimit(**{**shared, "most": float(reserve.most)})
    return SimulationSettings(
        capacity=capacity,
        backfilling=AS_SLURM if on_nodes else "easy",
        cycle=cycle,
        influence=written_influence(configuration),
        site_points=configuration.cycle_settings.site_points,
        refresh=configuration.pace.longest,
        starvation=configuration.starvation_bound,
        class_limit=limit,
        goals=configuration.goals,
    )


def _in_force(settings: SimulationSettings) -> InForce:
    limit, starved = settings.class_limit, settings.starvation / HOUR
    return InForce(
        backfilling=settings.backfilling,
        influence_hours=settings.influence if math.isfinite(settings.influence) else None,
        refresh_seconds=settings.refresh if math.isfinite(settings.refresh) else None,
        starvation_hours=starved if math.isfinite(starved) else None,
        reserve_most=None if limit is None else limit.most,
    )


def policies_in_force(configuration: Configuration) -> dict[str, Candidate]:
    """What reports call it -> the configured policy, and itself without its reserve.

    In the compiled simulator where it can be; a graph of others decision by decision.
    """
    reserve, model = configuration.reserve, configuration.sections.policy.model
    candidate = candidate_of(model, name=Path(model).name)
    named, network = named_policy(model), candidate.network
    name = f"{candidate.name} {WRITTEN}" if candidate.name in ALWAYS else candidate.name
    without, plain = f"{candidate.name} {WITHOUT}", candidate
    if named is not None and named.reserve:
        without, plain = "interactive-first", Candidate(name="interactive-first")
    elif isinstance(network, QNetwork) and network.reserve_weights is not None:
        plain = replace(candidate, network=replace(network, reserve_weights=None, reserve_bias=0.0))
    elif reserve is not None:
        candidate = replace(candidate, reserve=reserve.most)
    if plain is candidate or reserve is None:
        return {without if named is not None and named.reserve else name: plain}
    return {name: candidate, without: plain}


def _prediction(
    log: NamedLog, known: PreparedLog, replayed: RecordedReplay, names: Sequence[str], bar: Bar
) -> Prediction:
    with bar("intervals", RESAMPLES) as progress:
        rng = np.random.default_rng(1)
        compared = compare(replayed, names[0], RECORDED_ORDER, rng, progress)
    policies = {
        name: figures_of(jobs, replayed.measured) for name, jobs in replayed.schedules.items()
    }
    price = None
    if len(names) > 1:
        kept, free = (policies[name] for name in names)
        waits = ("batch_mean_wait", "interactive_mean_wait")
        price = {wait: kept[wait] / free[wait] for wait in waits if free[wait] > 0}  # NaN is not
    return Prediction(
        log={**log.origin, **log.whence, "name": log.name, "sha256": log.report.checksum},
        jobs=len(known.log),
        counted_jobs=replayed.counted,
        dropped=log.dropped,
        processors=known.capacity,
        class_rule=known.class_rule,
        shares=dict(zip(known.accounts, known.shares.tolist(), strict=True)),
        shares_from=known.shares_from,
        model=names[0],
        compared_with=RECORDED_ORDER,
        policies=policies,
        reserve_price=price,
        figures=compared,
        goals=GOALS,
        verdict=overall(compared),
        not_known=NOT_KNOWN if known.machine is None else NOT_KNOWN_ON_NODES,
    )


def _notices(
    configuration: Configuration,
    known: PreparedLog,
    candidates: Mapping[str, Candidate],
    settings: SimulationSettings,
) -> Iterator[str]:
    """What makes figures another thing than they seem, a sentence each."""
    rails = configuration.sections.guard_rails
    if rails.exempt_accounts or rails.exempt_partitions or rails.exempt_qos:
        yield "Exempt jobs (exempt_accounts, _partitions, _qos) are ordered like any other here."
    absent = sorted({*known.accounts} - {*known.log.accounts, OTHER_ACCOUNT})
    if absent:
        yield f"Accounts with a share and without a job in the log: {', '.join(absent)}."
    if without := int((known.shares[known.account] == 0.0).sum()):
        yield (
            f"{without} jobs are of accounts without a share: fairness counts their work as too "
            "much. Name their accounts in [shares]."
        )
    log = known.log
    span = float((log.start + log.run_time).max() - log.start.min())
    work = float((log.run_time * log.processors).sum())
    if span > 0 and (use := work / (span * known.capacity)) > 1.0:
        yield (
            f"The log had {use:.1f} times the {known.capacity} processors of this machine in use, "
            "on the average: it was larger, and what is simulated waits too long. Give its size."
        )
    for name, each in candidates.items():
        named = named_policy(each.name) if each.network is None else None
        kept = named is not None and bool(named.reserve) and known.machine is None
        if (each.policy is not None or kept) and settings.has_hook:
            yield (
                f"{name} is asked at each decision: influence, age of scores and starvation bound "
                "are not simulated for it."
            )


def _verdict(figure: ComparedFigure) -> str:
    """The word, the size of the difference, also over the site's figure, and jobs needed."""
    words = figure.verdict
    if figure.verdict in (BETTER, WORSE):
        difference, site = abs(figure.difference), abs(figure.site)
        words += f" by {difference:.3g}"
        words += f" ({100.0 * difference / site:.2g} %)" if site else ""
    if needed := figure.jobs_needed:
        unit = int(10.0 ** max(len(str(needed)) - 2, 0))  # two digits are as precise as it is
        words += f" - about {-(-needed // unit) * unit:,} jobs needed"
    return words


def figure_name(key: str) -> str:
    """`interactive: mean wait` of `interactive_mean_wait`."""
    job_class, _, figure = key.partition("_")
    return _NAMES.get(key) or f"{job_class}: {_NAMES[figure]}"
