"""`slurm-rl evaluate --config`: what a site's configuration would do to the jobs of a log."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from slurm_rl_plugin.cli.evaluate.entries import (
    backfilling,
    draw_study,
    exports,
    log_entry,
    policy_entry,
)
from slurm_rl_plugin.cli.evaluate.study.site_replay import replay_site
from slurm_rl_plugin.cli.logs.named_log import NamedLog, site_in_file
from slurm_rl_plugin.errors import ConfigurationError


def site_document(options: argparse.Namespace, log: NamedLog) -> dict[str, Any]:
    """The document of the study that `shadow-report` makes, and what else options ask for.

    Args:
        options: `config`, `policy`, `cycle`, and `export`, `plot` and `users`.
        log: with recorded starts.

    Raises:
        ConfigurationError: the configuration or the log cannot be used.
        PolicyError: a model cannot be read.
    """
    configuration = site_in_file(options.config)
    found = replay_site(
        configuration,
        log,
        beside=options.policy or (),
        cycle=options.cycle,
        backfilling=backfilling(options),
    )
    if isinstance(found, str):
        raise ConfigurationError(f"{log.name}: {found}")
    log = replace(log, prepared=found.known)
    schedules, jobs = found.replayed.schedules, len(found.known.log)
    drop = (found.replayed.first, jobs - found.replayed.last)
    document: dict[str, Any] = {
        "log": log_entry(log, options, drop),
        "policies": {
            name: policy_entry(found.known, each, drop, users=options.users)
            for name, each in schedules.items()
        },
        "prediction": found.prediction,
        "study": found.study,
    }
    if options.export is not None:
        on = f" --cluster {options.cluster}" if options.cluster else ""
        system = f"--config {options.config.name} --cycle {options.cycle:g}{on}"
        document["exports"] = exports(options, log, schedules, system)
    if options.plot is not None:
        document["figures"] = draw_study(options.plot, schedules, found.study)
    return document
