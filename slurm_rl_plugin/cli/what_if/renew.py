"""`slurm-rl renew`: where the model's gain is lost, train another and try it against this one."""

from __future__ import annotations

import argparse
import time

from slurm_rl_plugin.cli.argument_types.numbers import whole_number
from slurm_rl_plugin.cli.assembly.configuration_arguments import (
    add_configuration_options,
    configuration_of,
)
from slurm_rl_plugin.cli.assembly.state_owner import become_state_owner
from slurm_rl_plugin.cli.daemon.service_log import log_to_standard_error
from slurm_rl_plugin.cli.tables import print_json, printable
from slurm_rl_plugin.cli.what_if.declared_experiment import MOST_DAYS, add_day_option

#: Days of the experiment of a candidate at most, and weeks that it is trained on.
_DAYS, _WEEKS = 28, 26
#: Weeks that a candidate may be trained on, ten years.
_MOST_WEEKS = 520


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What of the chain is done."""
    add_configuration_options(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="say how it stands, and do nothing")
    what.add_argument(
        "--watch", action="store_true", help="replay the weeks that are over; train nothing"
    )
    what.add_argument(
        "--now", action="store_true", help="train although no gain is known to be lost"
    )
    parser.add_argument(
        "--weeks",
        type=whole_number(10, _MOST_WEEKS),
        default=_WEEKS,
        metavar="N",
        help=f"of accounting that a candidate is trained on (default: {_WEEKS})",
    )
    parser.add_argument(
        "--days",
        type=whole_number(2, MOST_DAYS),
        default=_DAYS,
        metavar="N",
        help=f"of its experiment, at most (default: {_DAYS})",
    )
    parser.add_argument(
        "--steps", type=whole_number(1), metavar="N", help="generations of the training"
    )
    add_day_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("-v", "--verbose", action="store_true", help="log debugging lines too")


def main(options: argparse.Namespace) -> int:
    """Do the next step; 1 where a person has to look."""
    from slurm_rl_plugin.cli.what_if.experiment_start import (  # noqa: PLC0415 - the simulator
        checked_day,
    )
    from slurm_rl_plugin.cli.what_if.renewal import Renewal  # noqa: PLC0415 - as above

    log_to_standard_error(verbose=options.verbose)
    checked_day(options.day)  # before a candidate is trained for it
    configuration = configuration_of(options)
    become_state_owner(configuration)
    renewal = Renewal(configuration=configuration, options=options)
    step = renewal.step(time.time())  # noqa: TID251 - the composition root hands out the clock
    if options.json:
        print_json({"step": step.name, "sentence": step.sentence, **step.facts})
    else:
        print(printable(step.sentence))
    return 1 if step.needs_person else 0
