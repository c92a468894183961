"""`slurm-rl check`: whether the daemon could do its work here, one line a check with the mend."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from slurm_rl_plugin.cli.queue_look import look_at_queue
from slurm_rl_plugin.cli.site_checks import FAIL, SiteCheck, files_of, model_of, scheduler_of, site
from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.configuration import DEFAULT_PATH, Configuration, read_configuration
from slurm_rl_plugin.errors import BatchSystemError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"default {DEFAULT_PATH}")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Check and print; 1 where a check fails."""
    checks = checks_of(read_configuration(options.config or DEFAULT_PATH))
    failed = sum(check.result == FAIL for check in checks)
    if options.json:
        print_json({"failed": failed, "checks": [asdict(check) for check in checks]})
    else:
        rows = [[check.result, check.name, check.what] for check in checks]
        print_table(["RESULT", "CHECK", "WHAT"], rows)
    return 1 if failed else 0


def checks_of(configuration: Configuration) -> list[SiteCheck]:
    """Every check; where Slurm does not answer those on it are one failure."""
    checks = [*files_of(configuration)]
    try:
        look = look_at_queue(configuration)
        system = look.cycle.batch_system
        facts, load = system.facts(), system.load()
    except BatchSystemError as error:
        return [SiteCheck(FAIL, "batch system", str(error)), *checks, *model_of(configuration)]
    found = site(configuration, facts, load, look.cycle)
    return [*found, *scheduler_of(configuration, look), *checks, *model_of(configuration, look)]
