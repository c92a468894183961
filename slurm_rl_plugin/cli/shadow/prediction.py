"""The jobs that `slurm-rl shadow-report` replays: of a dump, or of the cluster's accounting."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import datetime

import numpy as np

from slurm_rl_plugin.cli.evaluate.study.site_replay import SiteReplay, replay_site
from slurm_rl_plugin.cli.logs.arguments import read_named_log, read_named_logs
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.named_log import NamedLog
from slurm_rl_plugin.cli.logs.slurm_log import SECONDS, SLURM
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared


def predict(
    configuration: Configuration,
    options: argparse.Namespace,
    first: float | None,
    last: float | None,
) -> SiteReplay | str:
    """The replay of the jobs of a time; a sentence where they are too few.

    Args:
        configuration: of the site: model, shares, job classes, and how far its order goes.
        options: `log`, `config`, `processors`, `cluster` and `keep`.
        first: seconds since the epoch from which on jobs ended; None for no bound, which only a
            LOG allows.
        last: until when.

    Raises:
        AccountingLogError: the log cannot be read or holds no job of this time.
        BatchSystemError: accounting does not answer.
        ConfigurationError: options or log that do not fit.
        PolicyError: the model cannot be read.
    """
    with parts_bar("reading the jobs", 1) as progress:
        log = _log(configuration, options, first, last)
        progress(1)
    return replay_site(configuration, log)


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
        cluster=options.cluster,
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
