"""Options of `slurm-rl evaluate` and what they may be."""

from __future__ import annotations

import argparse
from pathlib import Path

from slurm_rl_plugin.cli.argument_types import (
    number_above_zero,
    number_from_zero,
    whole_number,
)
from slurm_rl_plugin.cli.evaluate.goal_option import add_goal_option
from slurm_rl_plugin.cli.evaluate.protocols import add_protocol_options
from slurm_rl_plugin.cli.evaluate.reserve_option import add_reserve_option
from slurm_rl_plugin.cli.logs.arguments import add_log_options
from slurm_rl_plugin.features.estimates import ESTIMATE_KINDS
from slurm_rl_plugin.simulator.schedules.on_nodes import NODE_BACKFILLING
from slurm_rl_plugin.units import DAY

#: A batch system that looks at its queue more rarely than once a year is a slip of the hand.
_LONGEST_CYCLE = 365.0 * DAY


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the policies, the batch system that is simulated, and where results go."""
    parser.add_argument(
        "log",
        metavar="LOG",
        nargs="?",
        help="an accounting log, what `convert` made of one, or mmn:... or egee:...; behind an @ "
        "a part of it or another load; none with --from slurm",
    )
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME|MODEL",
        help="a rule, native, a shipped model or an .onnx file; repeat to compare (default: fifo "
        "and sjf)",
    )
    add_log_options(
        parser,
        config="what this configuration would do to LOG's users: its policy, classes, shares, "
        "bounds and reserve beside the recorded order, as shadow-report tells it",
    )
    parser.add_argument(
        "--backfill",
        choices=sorted(NODE_BACKFILLING),
        help="of the simulated system; slurm is as slurmctld does it (default: none; easy with "
        "--config, slurm with --cluster)",
    )
    parser.add_argument(
        "--estimates",
        choices=ESTIMATE_KINDS,
        default="requested",
        help="what run times the policies believe (default: requested)",
    )
    parser.add_argument(
        "--estimates-from", metavar="LOG", help="log that class medians come from (default: LOG)"
    )
    parser.add_argument(
        "--drop",
        type=_drop,
        default=(0, 0),
        metavar="FIRST,LAST",
        help="jobs at the begin and at the end that are not counted (default: 0,0)",
    )
    parser.add_argument(
        "--cycle",
        type=number_from_zero("number of seconds", _LONGEST_CYCLE),
        default=0.0,
        metavar="SECONDS",
        help="decide at multiples of so many seconds only (default: 0, at every event)",
    )
    parser.add_argument(
        "--reserve",
        type=whole_number(0),
        default=0,
        metavar="PROCESSORS",
        help="kept free of batch jobs (default: 0)",
    )
    add_reserve_option(parser)
    add_goal_option(parser)
    parser.add_argument("--timing", action="store_true", help="also measure jobs per second")
    parser.add_argument("--users", action="store_true", help="also a summary of each user")
    parser.add_argument(
        "--scale-load",
        type=number_above_zero("number"),
        default=1.0,
        metavar="F",
        help="divide the gaps between arrivals by F; run times stay as they are",
    )
    parser.add_argument(
        "--resample",
        type=whole_number(2),
        metavar="N",
        help="also compare on N logs made of weeks of LOG, drawn with replacement",
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=1, metavar="S", help="of what is drawn (default: 1)"
    )
    add_protocol_options(parser)
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="draw waits, fairness, queue and machine as PNG"
    )
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write each schedule as SWF and as CSV"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _drop(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST,LAST: write two whole numbers")
    return int(parts[0]), int(parts[1])
