"""The replay of `slurm-rl shadow-report`: what the model would have made of the site's own jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.assembly.candidates import candidate_of
from slurm_rl_plugin.cli.logs.arguments import NamedLog, read_named_log, read_named_logs
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.slurm_log import SECONDS, SLURM
from slurm_rl_plugin.cli.progress import COMPILES_FIRST, parts_bar
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.recorded_replay import (
    RECORDED_ORDER,
    SIMULATED,
    RecordedReplay,
    replay,
)
from slurm_rl_plugin.learning.evaluation.replay_figures import (
    GOALS,
    RESAMPLES,
    compare,
    figures_of,
    overall,
)
from slurm_rl_plugin.learning.evaluation.waits_by_width import waits_by_width
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.protection import PROTECTED
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: Behind the name of a model: the same order, and no processors kept free.
WITHOUT = "without reserve"
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


def predict(
    configuration: Configuration,
    options: argparse.Namespace,
    first: float | None,
    last: float | None,
) -> tuple[dict[str, Any], dict[str, ScheduledJobs]]:
    """The document of the replay and its schedules; a sentence where the jobs are too few.

    Args:
        configuration: of the site: model, shares, job classes, and how far its order goes.
        options: `log`, `config`, `processors` and `keep`.
        first: seconds since the epoch from which on jobs ended; None for no bound, which only a
            LOG allows.
        last: until when.

    Raises:
        AccountingLogError: the log cannot be read or holds no job of this time.
        BatchSystemError: accounting does not answer.
        ConfigurationError: options or log that do not fit.
        PolicyError: the model cannot be read.
    """
    candidates = candidates_of(configuration)
    candidate = candidates[0]
    if sys.stderr.isatty() and not compiled_before():
        print(f"slurm-rl shadow-report: {COMPILES_FIRST}", file=sys.stderr)
    with parts_bar("reading and replaying", 1 + SIMULATED + len(candidates)) as progress:
        log = _log(configuration, options, first, last)
        progress(1)
        prepared = log.prepared
        if len(prepared.log) < FEWEST_JOBS:
            few = f"{len(prepared.log)} jobs of this time ran: too few to replay, take a longer one"
            return {"unavailable": f"{few}."}, {}
        rules = configuration.classifier if configuration.has_class_rules else None
        replayed = replay(
            prepared,
            class_known_at_submission(prepared, rules),
            candidates,
            _settings(configuration, prepared),
            progress,
        )
    with parts_bar("intervals", RESAMPLES) as progress:
        rng = np.random.default_rng(1)
        compared = compare(replayed, candidate.name, RECORDED_ORDER, rng, progress)
    document = {
        "log": {**log.origin, **log.whence, "name": log.name, "sha256": log.report.checksum},
        "jobs": len(prepared.log),
        "counted_jobs": replayed.counted,
        "dropped": log.dropped,
        "processors": prepared.capacity,
        "class_rule": prepared.class_rule,
        "shares": dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True)),
        "model": candidate.name,
        "compared_with": RECORDED_ORDER,
        "policies": _policies(replayed),
        "widths": _widths(replayed),
        "reserve_price": _reserve_price(_policies(replayed), [each.name for each in candidates]),
        "figures": {name: asdict(each) for name, each in compared.items()},
        "goals": list(GOALS),
        "verdict": overall(compared),
        "not_known": list(NOT_KNOWN),
    }
    return document, replayed.schedules


def _policies(replayed: RecordedReplay) -> dict[str, dict[str, float]]:
    counted = slice(replayed.first, replayed.last)
    return {name: figures_of(jobs, counted) for name, jobs in replayed.schedules.items()}


def _widths(replayed: RecordedReplay) -> dict[str, dict[str, Any]]:
    """Policy -> width -> how many jobs it has, and how long they wait."""
    counted = slice(replayed.first, replayed.last)
    return {
        name: {width: asdict(each) for width, each in waits_by_width(jobs, counted).items()}
        for name, jobs in replayed.schedules.items()
    }


def candidates_of(configuration: Configuration) -> list[Candidate]:
    """The policy as it is configured; where it keeps processors free, itself without that behind.

    In the compiled simulator where it can be; a graph of others decision by decision.
    """
    model, off = configuration.sections.policy.model, configuration.reserve is None
    named = named_policy(model)
    if named is None or not named.is_rule:
        return _networks(model, off=off)
    if not named.reserve:
        return [Candidate(name=model)]
    protected = f"{PROTECTED}{named.protection.words}:" if named.protection else ""
    plain = Candidate(name=f"{protected}interactive-first")
    return [plain] if off else [Candidate(name=model), plain]


def _networks(model: str, *, off: bool) -> list[Candidate]:
    candidate = candidate_of(model, name=Path(model).name)
    network = candidate.network
    if not isinstance(network, QNetwork) or network.reserve_weights is None:
        return [candidate]
    without = replace(network, reserve_weights=None, reserve_bias=0.0)
    if off:
        return [replace(candidate, network=without)]
    return [candidate, Candidate(name=f"{candidate.name} {WITHOUT}", network=without)]


def _reserve_price(
    figures: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> dict[str, float] | None:
    """Mean waits with the reserve over those without, of classes that waited; None for none."""
    if len(names) == 1:
        return None
    kept, free = (figures[name] for name in names)
    waits = [f"{job_class}_mean_wait" for job_class in ("batch", "interactive")]
    return {wait: kept[wait] / free[wait] for wait in waits if free[wait] > 0}  # NaN is not


def _settings(configuration: Configuration, prepared: PreparedLog) -> SimulationSettings:
    """EASY, with the order and the limit as the daemon is configured to write them."""
    return SimulationSettings(
        capacity=prepared.capacity,
        backfilling="easy",
        influence=configuration.cycle_settings.influence,
        refresh=configuration.pace.longest,
        starvation=configuration.starvation_bound,
        class_limit=_class_limit(configuration.reserve),
    )


def _class_limit(reserve: ReserveSettings | None) -> ClassLimit | None:
    """The limit on batch jobs as the daemon would keep it."""
    if reserve is None:
        return None
    return ClassLimit(
        widest_batch_job=reserve.widest_batch_job,
        change_interval=reserve.change_interval,
        lift_after=reserve.lift_after,
        idle_after=reserve.idle_after,
        narrow_first=reserve.narrow_first,
        most=float(reserve.most),
    )


def _log(
    configuration: Configuration,
    options: argparse.Namespace,
    first: float | None,
    last: float | None,
) -> NamedLog:
    """The log that is named, cut to the time; else the cluster's own accounting of it."""
    whole = LogOptions(
        source=None if options.log else SLURM,
        since=_local(first),
        until=_local(last),
        keep=options.keep,
        sacct_timeout=SECONDS,
        processors=options.processors,
        shares=configuration.shares,
        config=options.config,
    )
    if not options.log:
        (log,) = read_named_logs([], whole)
        return log.with_starts()
    log = read_named_log(options.log, whole).with_starts()
    return replace(log, prepared=_cut(log, first, last))


def _cut(log: NamedLog, first: float | None, last: float | None) -> PreparedLog:
    """The jobs that ended in a time, as accounting gives them."""
    prepared = log.prepared
    end = prepared.log.start + prepared.log.run_time
    chosen = np.ones(len(end), dtype=np.bool_)
    if first is not None:
        chosen &= end >= first
    if last is not None:
        chosen &= end <= last
    return replace(select_prepared(prepared, np.flatnonzero(chosen)), dropped=prepared.dropped)


def _local(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds).replace(microsecond=0)
