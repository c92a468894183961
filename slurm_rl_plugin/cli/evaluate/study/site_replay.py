"""A site's own jobs under its own configuration, beside the order that it had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.evaluate.study.document import study_entry
from slurm_rl_plugin.cli.evaluate.study.in_force import (
    policies_beside,
    policies_in_force,
    settings_entry,
    settings_in_force,
)
from slurm_rl_plugin.cli.evaluate.study.nodes import figures_on_nodes, machine_entry
from slurm_rl_plugin.cli.logs.named_log import NamedLog
from slurm_rl_plugin.cli.progress import parts_bar, say_of_compiling
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.recorded_replay import (
    RECORDED_ORDER,
    SIMULATED,
    RecordedReplay,
    replay,
)
from slurm_rl_plugin.learning.evaluation.replay_figures import (
    GOALS,
    compare,
    figures_of,
    overall,
)
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_shares import OTHER_ACCOUNT
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.utility.intervals import RESAMPLES

#: Fewer jobs that ran are not replayed at all.
FEWEST_JOBS = 20
#: What a replay does not know, said with every one.
NOT_KNOWN = (
    "users who would submit other jobs if they waited less",
    "nodes, memory and GPUs: the machine is so many equal processors",
    "outages, reservations, QOS limits and partitions",
    "jobs that waited and never ran",
    "run times as they would have been beside other jobs",
)
#: The same on the nodes of a machine, which tells by itself what of it is not simulated.
NOT_KNOWN_ON_NODES = (NOT_KNOWN[0], "outages and reservations", *NOT_KNOWN[3:])


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReplay:
    """What a replay found.

    Attributes:
        known: the jobs, with the classes that the site's rules give them at submission.
        replayed: their schedules; the configured policy is the first after those of every replay.
        prediction: the configured policy beside the recorded order, with intervals; for JSON.
        study: every policy and every group; for JSON.
    """

    known: PreparedLog
    replayed: RecordedReplay
    prediction: dict[str, Any]
    study: dict[str, Any]

    @property
    def days(self) -> tuple[float, float]:
        """When the first job came and the last one ended as recorded, seconds since the epoch."""
        log = self.known.log
        return float(log.submit[0]), float((log.start + log.run_time).max())


def replay_site(
    configuration: Configuration,
    log: NamedLog,
    *,
    beside: Sequence[str] = (),
    cycle: float = 0.0,
    backfilling: str | None = None,
) -> SiteReplay | str:
    """Replay a log under a configuration; a sentence where its jobs are too few.

    Args:
        configuration: of the site: model, job classes, and how far its order goes.
        log: with recorded starts; its shares are those that count.
        beside: policies that are compared too, each as if it were the configured one.
        cycle: seconds between decisions of the batch system.
        backfilling: of the batch system; by default EASY, on nodes as slurmctld does it.

    Raises:
        ConfigurationError: the log lacks starts, or a policy is not known.
        PolicyError: a model cannot be read.
    """
    if len(log.prepared.log) < FEWEST_JOBS:
        few = f"{len(log.prepared.log)} jobs of this time ran: too few to replay"
        return f"{few}, take a longer one."
    say_of_compiling(compiled_before)
    on_nodes = log.prepared.machine is not None
    own = policies_in_force(configuration)
    model, candidates = next(iter(own)), own | policies_beside(beside, own)
    rules = configuration.classifier if configuration.has_class_rules else None
    known = class_known_at_submission(log.prepared, rules)
    settings = settings_in_force(configuration, known.capacity, cycle, on_nodes=on_nodes)
    settings = replace(settings, backfilling=backfilling or settings.backfilling)
    with parts_bar("replaying", SIMULATED + len(candidates)) as progress:
        replayed = replay(known, candidates, settings, progress)
    study = study_entry(known, replayed.schedules, replayed.measured, RECORDED_ORDER, candidates)
    study |= {
        "model": model,
        "settings": settings_entry(settings),
        **_on_nodes(known, replayed),
        "own_class_rules": configuration.has_class_rules,
        "notices": [
            *_exempt(configuration),
            *_notices(known, candidates, settings),
        ],
    }
    return SiteReplay(
        known=known,
        replayed=replayed,
        prediction=_prediction(log, known, replayed, list(own)),
        study=study,
    )


def _prediction(
    log: NamedLog, known: PreparedLog, replayed: RecordedReplay, names: Sequence[str]
) -> dict[str, Any]:
    """The configured policy beside the recorded order, and the price of its reserve."""
    with parts_bar("intervals", RESAMPLES) as progress:
        rng = np.random.default_rng(1)
        compared = compare(replayed, names[0], RECORDED_ORDER, rng, progress)
    policies = {
        name: figures_of(jobs, replayed.measured) for name, jobs in replayed.schedules.items()
    }
    return {
        "log": {**log.origin, **log.whence, "name": log.name, "sha256": log.report.checksum},
        "jobs": len(known.log),
        "counted_jobs": replayed.counted,
        "dropped": log.dropped,
        "processors": known.capacity,
        "class_rule": known.class_rule,
        "shares": dict(zip(known.accounts, known.shares.tolist(), strict=True)),
        "shares_from": known.shares_from,
        "model": names[0],
        "compared_with": RECORDED_ORDER,
        "policies": policies,
        "reserve_price": _reserve_price(policies, names),
        "figures": {name: asdict(each) for name, each in compared.items()},
        "goals": list(GOALS),
        "verdict": overall(compared),
        "not_known": list(NOT_KNOWN if known.machine is None else NOT_KNOWN_ON_NODES),
    }


def _on_nodes(known: PreparedLog, replayed: RecordedReplay) -> dict[str, Any]:
    """The `on_nodes` of a study; nothing where jobs ran on a pool of processors."""
    if known.machine is None:
        return {}
    policies = {
        name: figures_on_nodes(known, jobs, replayed.measured)
        for name, jobs in replayed.schedules.items()
    }
    return {"on_nodes": {"machine": machine_entry(known.machine), "policies": policies}}


def _reserve_price(
    figures: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> dict[str, float] | None:
    """Mean waits with the reserve over those without, of classes that waited; None for none."""
    if len(names) == 1:
        return None
    kept, free = (figures[name] for name in names)
    waits = [f"{job_class}_mean_wait" for job_class in ("batch", "interactive")]
    return {wait: kept[wait] / free[wait] for wait in waits if free[wait] > 0}  # NaN is not


def _exempt(configuration: Configuration) -> Iterator[str]:
    """Jobs that the daemon never touches have no such place in the replay."""
    rails = configuration.sections.guard_rails
    if rails.exempt_accounts or rails.exempt_partitions or rails.exempt_qos:
        yield "Exempt jobs (exempt_accounts, _partitions, _qos) are ordered like any other here."


def _notices(
    known: PreparedLog, candidates: Mapping[str, Candidate], settings: SimulationSettings
) -> Iterator[str]:
    """What makes figures another thing than they seem, a sentence each."""
    absent = sorted({*known.accounts} - {*known.log.accounts, OTHER_ACCOUNT})
    if absent:
        yield f"Accounts with a share of which the log has no job: {', '.join(absent)}."
    if without := int((known.shares[known.account] == 0.0).sum()):
        yield (
            f"{without} jobs are of accounts without a share: fairness counts their work as too "
            "much. Name their accounts in [shares]."
        )
    if (use := _recorded_use(known)) > 1.0:
        yield (
            f"The log had {use:.1f} times the {known.capacity} processors of this machine in use, "
            "on the average: it was larger, and what is simulated waits too long. Give its size."
        )
    for name, each in candidates.items():
        named = named_policy(each.name) if each.network is None else None
        kept = named is not None and bool(named.reserve) and known.machine is None
        driven = each.policy is not None or kept
        if driven and settings.has_hook:
            yield (
                f"{name} is asked at each decision: influence, age of scores and starvation bound "
                "are not simulated for it."
            )


def _recorded_use(known: PreparedLog) -> float:
    """Mean part of the machine that the recorded schedule had in use; above 1 it was another."""
    log = known.log
    span = float((log.start + log.run_time).max() - log.start.min())
    work = float((log.run_time * log.processors).sum())
    return work / (span * known.capacity) if span > 0 else 0.0
