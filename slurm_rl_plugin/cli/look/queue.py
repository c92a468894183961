"""`slurm-rl queue`: the pending jobs in the order that a cycle would decide now."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from slurm_rl_plugin.cli.argument_types.numbers import at_least_one
from slurm_rl_plugin.cli.assembly.configuration_arguments import (
    add_configuration_options,
    configuration_of,
)
from slurm_rl_plugin.cli.look.foretold_starts import foretold_starts
from slurm_rl_plugin.cli.look.job_arguments import job_numbers, names
from slurm_rl_plugin.cli.look.limit_text import limit_sentence
from slurm_rl_plugin.cli.look.queue_look import QueueLook, experiment_sentence, look_at_queue
from slurm_rl_plugin.cli.look.queue_table import (
    FIELDS,
    START,
    Row,
    cells,
    default_fields,
    fields,
    queue_rows,
)
from slurm_rl_plugin.cli.tables import print_json, print_parsable, print_table, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which pending jobs are listed, with which columns, in the manner of `squeue`."""
    add_configuration_options(parser)
    parser.add_argument("-p", "--partition", type=names, metavar="LIST", help="only in these")
    parser.add_argument("-A", "--account", type=names, metavar="LIST", help="only of these")
    parser.add_argument("-u", "--user", type=names, metavar="LIST", help="only of these")
    parser.add_argument(
        "-j", "--jobs", type=job_numbers, metavar="LIST", help="only these jobs and arrays"
    )
    parser.add_argument(
        *("-o", "--format"),
        type=fields,
        metavar="FIELDS",
        help=f"the columns, some of {','.join(FIELDS)}",
    )
    parser.add_argument("-n", "--noheader", action="store_true", help="print no header")
    parser.add_argument("--limit", type=at_least_one, metavar="N", help="print the first N jobs")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--parsable2", action="store_true", help="a bar between fields")
    form.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Decide an order for the queue without writing it, and print the jobs asked for."""
    configuration = configuration_of(options)
    look = look_at_queue(configuration)
    reason = look.considered.plan.fallback_reason
    if reason is not None:
        sys.stderr.write(f"slurm-rl queue: the policy is not used: {reason}\n")
    experiment = experiment_sentence(configuration)
    if experiment:
        sys.stderr.write(f"slurm-rl queue: {printable(experiment)}\n")
    limit = look.considered.plan.limit
    if limit.amounts is not None:
        sys.stderr.write(f"slurm-rl queue: {limit_sentence(limit)}\n")
    all_rows = queue_rows(look.considered)
    starts = foretold_starts(configuration) if START in (options.format or ()) else {}
    rows = [{**row, START: starts.get(row["jobid"])} for row in all_rows if _wanted(row, options)][
        : options.limit
    ]
    if options.json:
        print_json(_document(look, rows))
        return 0
    chosen = options.format or default_fields(all_rows)
    header = [name.upper() for name in chosen]
    lines = [cells(row, chosen) for row in rows]
    if options.parsable2:
        print_parsable(None if options.noheader else header, lines)
    else:
        print_table(header, lines, with_header=not options.noheader)
    return 0


def _wanted(row: Row, options: argparse.Namespace) -> bool:
    asked = (
        (options.partition, row["partition"]),
        (options.account, row["account"]),
        (options.user, row["user"]),
        (options.jobs, row["jobid"]),
    )
    return all(wanted is None or value in wanted for wanted, value in asked)


def _document(look: QueueLook, rows: list[Row]) -> dict[str, Any]:
    plan = look.considered.plan
    return {
        "time": plan.snapshot.now,
        "policy": look.cycle.policy.name,
        "model": look.cycle.model_sha256 or None,
        "fallback": plan.fallback_reason,
        "reserve": plan.decision.reserve or 0,
        "batch_limit": {
            "processors": plan.limit.processors,
            "resources": plan.limit.others,
            "reason": plan.limit.reason,
        },
        "pending": len(plan.snapshot.pending),
        "ranked": look.considered.ranked,
        "jobs": rows,
    }
