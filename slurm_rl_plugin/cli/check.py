"""`slurm-rl check`: check that the daemon can run here; one line a check, with a fix.

Root becomes the daemon's account, because the daemon may read and write less than root.
"""

from __future__ import annotations

import argparse
import time

from slurm_rl_plugin.batch_systems.port import FAIL
from slurm_rl_plugin.cli.argument_types import at_least_one
from slurm_rl_plugin.cli.site_options import (
    add_configuration_options,
    become_state_owner,
    configuration_of,
)
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.services.checks import FEWEST_JOBS, checks_of, offer_checks
from slurm_rl_plugin.services.hook import check_model_file

_now = time.time  # noqa: TID251 - the composition root hands out the clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration, and the number of jobs of the timed decision."""
    add_configuration_options(parser)
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        metavar="N",
        help=f"time a decision on N jobs (default: the pending jobs, at least {FEWEST_JOBS})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Check and print; 1 if a check fails."""
    configuration = configuration_of(options)
    offers = list(offer_checks(configuration, _now()))  # the daemon cannot read its token
    become_state_owner(configuration)
    check_model_file(configuration.sections.policy.model)
    checks = checks_of(configuration, offers, _now(), options.jobs)
    failed = sum(check.result == FAIL for check in checks)
    rows = [[check.result, check.name, check.what] for check in checks]
    document = {"failed": failed, "checks": [check._asdict() for check in checks]}
    header = ["RESULT", "CHECK", "WHAT"]
    answer(options, document, lambda: print_table(header, rows, of_words=True))
    return 1 if failed else 0
