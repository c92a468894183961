"""`slurm-rl check`: whether the daemon could do its work here, one line a check with the mend.

Root becomes the daemon's account: what root may read and write says nothing of the daemon.

"""

from __future__ import annotations

import argparse
import time

from slurm_rl_plugin.batch_systems.port import FAIL, Check
from slurm_rl_plugin.cli.argument_types import at_least_one
from slurm_rl_plugin.cli.site_options import (
    add_configuration_options,
    become_state_owner,
    configuration_of,
)
from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.services.checks import (
    FEWEST_JOBS,
    adapter,
    exemptions_of,
    model_of,
    own_checks,
    reserve_of,
    scheduler_of,
    site,
)
from slurm_rl_plugin.services.hook import check_model_file
from slurm_rl_plugin.services.queue_reading import look_at_queue
from slurm_rl_plugin.services.service_checks import (
    files_of,
    metrics_of,
    offer_checks,
    outstanding_of,
)

_now = time.time  # noqa: TID251 - the composition root hands out the clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which configuration is checked, and on how many jobs a decision is timed."""
    add_configuration_options(parser)
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        metavar="N",
        help=f"time a decision on so many jobs (default: those that wait, {FEWEST_JOBS} at least)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Check and print; 1 where a check fails."""
    configuration = configuration_of(options)
    offers = list(offer_checks(configuration, _now()))  # its token is closed to the daemon
    become_state_owner(configuration)
    check_model_file(configuration.sections.policy.model)
    checks = checks_of(configuration, offers, options.jobs)
    failed = sum(check.result == FAIL for check in checks)
    if options.json:
        print_json({"failed": failed, "checks": [check._asdict() for check in checks]})
    else:
        rows = [[check.result, check.name, check.what] for check in checks]
        print_table(["RESULT", "CHECK", "WHAT"], rows)
    return 1 if failed else 0


def checks_of(
    configuration: Configuration, offers: list[Check], jobs: int | None = None
) -> list[Check]:
    """Every check; where the batch system does not answer those on it are one failure."""
    checks = [
        *files_of(configuration, _now()),
        outstanding_of(configuration),
        *metrics_of(configuration),
        *offers,
    ]
    try:
        look = look_at_queue(configuration)
        system = look.cycle.batch_system
        facts, load = system.facts(), system.load()
        own = [*own_checks(configuration, look), *exemptions_of(configuration, look)]
    except BatchSystemError as error:
        failed = Check(FAIL, "batch system", str(error))
        return [failed, adapter(configuration), *checks, *model_of(configuration)]
    found = site(configuration, facts, load, look.cycle)
    return [
        *found,
        *scheduler_of(configuration, look),
        *reserve_of(configuration, look),
        *own,
        *checks,
        *model_of(configuration, look, jobs),
    ]
