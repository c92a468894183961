"""`slurm-rl queue`: the pending jobs in the order that a cycle would decide now."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slurm_rl_plugin.accounting.port import resources_text
from slurm_rl_plugin.cli.argument_types import at_least_one, job_numbers, names
from slurm_rl_plugin.cli.site_options import add_configuration_options, configuration_of
from slurm_rl_plugin.cli.tables import (
    print_json,
    print_parsable,
    print_table,
    slurm_duration,
    slurm_size,
    slurm_time,
)
from slurm_rl_plugin.domain.resources import GPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.hook.order.queue_plan import ConsideredJobs
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.services.forecast_client import forecast_starts
from slurm_rl_plugin.services.queue_reading import (
    QueueLook,
    experiment_sentence,
    limit_sentence,
    look_at_queue,
)

Row = dict[str, Any]
#: Printed unless --format says otherwise.
DEFAULT_FIELDS = (
    *("rank", "jobid", "user", "account", "partition", "class", "untouched", "wait", "score"),
    *("native", "factor", "total", "siterank", "nowrank"),
)
#: Printed behind these where any pending job asks for some of it.
RESOURCE_FIELDS = ("gpus", "memory")
#: Every field that --format can name; how a value is printed where not as it is.
FIELDS: dict[str, Callable[[Any], Any] | None] = {
    **dict.fromkeys(DEFAULT_FIELDS, None),
    "newfactor": None,
    "newtotal": None,
    "nice": None,
    "tier": None,
    "processors": None,
    "gpus": lambda gpus: f"{gpus:g}",
    "memory": slurm_size,
    "resources": resources_text,
    "wait": slurm_duration,
    "accrued": slurm_duration,
    "passedover": None,
    "timelimit": slurm_duration,
    "submit": slurm_time,
    "eligible": slurm_time,
    "start": slurm_time,
}
#: The field that the forecast service is asked for.
START = "start"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which pending jobs are listed, with which columns, in the manner of `squeue`."""
    add_configuration_options(parser)
    parser.add_argument("-p", "--partition", type=names, metavar="LIST", help="partitions")
    parser.add_argument("-A", "--account", type=names, metavar="LIST", help="accounts")
    parser.add_argument("-u", "--user", type=names, metavar="LIST", help="users")
    parser.add_argument("-j", "--jobs", type=job_numbers, metavar="LIST", help="jobs and arrays")
    parser.add_argument(
        *("-o", "--format"),
        type=fields,
        metavar="FIELDS",
        help=f"columns, out of {','.join(FIELDS)}; rank, siterank and nowrank are places in our "
        "order, by the site's own priority and by the present one; native, factor and total are "
        "the site's own priority, what we add, and both; untouched says why we add nothing",
    )
    parser.add_argument("-n", "--noheader", action="store_true", help="print no header")
    parser.add_argument("--limit", type=at_least_one, metavar="N", help="only the first N jobs")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--parsable2", action="store_true", help="separate fields by |")
    form.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Decide an order for the queue without writing it, and print the jobs asked for."""
    configuration = configuration_of(options)
    look = look_at_queue(configuration)
    reason = look.considered.plan.fallback_reason
    if reason is not None:
        sys.stderr.write(f"slurm-rl queue: the policy is not used: {reason}\n")
    if experiment := experiment_sentence(configuration):
        sys.stderr.write(f"slurm-rl queue: {printable(experiment)}\n")
    limit = look.considered.plan.limit
    if limit.amounts is not None:
        sys.stderr.write(f"slurm-rl queue: {limit_sentence(limit)}\n")
    all_rows = queue_rows(look.considered)
    starts = forecast_starts(configuration) if START in (options.format or ()) else {}
    rows = [{**row, START: starts.get(row["jobid"])} for row in all_rows if _wanted(row, options)][
        : options.limit
    ]
    chosen = options.format or default_fields(all_rows)
    header = [name.upper() for name in chosen]
    lines = [cells(row, chosen) for row in rows]
    if options.json:
        print_json(_document(look, rows))
    elif options.parsable2:
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


def fields(text: str) -> tuple[str, ...]:
    """Names of fields from a list with commas, in any case."""
    chosen = tuple(each.strip().lower() for each in text.split(","))
    unknown = [each for each in chosen if each not in FIELDS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"field {unknown[0]!r} is unknown, give some of {','.join(FIELDS)}"
        )
    return chosen


def queue_rows(considered: ConsideredJobs) -> list[Row]:
    """All fields of each pending job, in the decided order; seconds and points as numbers."""
    snapshot = considered.plan.snapshot
    pending = snapshot.pending
    jobs, after = pending.jobs, considered.plan.priority_after
    asked = resource_amounts(jobs.requests)
    rows = []
    for place in considered.in_order:
        native, factor = int(pending.native_priority[place]), int(pending.factor[place])
        untouched, user = considered.untouched[place], int(jobs.user[place])
        score = float(considered.plan.decision.scores[place])
        rows.append(
            {
                "rank": int(considered.rank[place]) or None,
                "jobid": int(jobs.job_id[place]),
                "user": snapshot.users[user] if 0 <= user < len(snapshot.users) else None,
                "account": snapshot.accounts[jobs.account[place]],
                "partition": snapshot.partitions[jobs.partition[place]],
                "class": "interactive" if jobs.interactive[place] else "batch",
                "untouched": untouched or None,
                "wait": float(considered.wait[place]),
                "accrued": float(considered.accrued[place]),
                "passedover": bool(considered.passed_over[place]),
                "score": None if untouched else score,
                "native": native,
                "factor": factor,
                "total": native + factor,
                "siterank": int(considered.site_rank[place]) or None,
                "nowrank": int(considered.current_rank[place]) or None,
                "newfactor": int(after[place]) - native,
                "newtotal": int(after[place]),
                "nice": int(pending.nice[place]),
                "tier": None if pending.tier is None else int(pending.tier[place]),
                "processors": int(jobs.processors[place]),
                "gpus": asked[place].get(GPUS, 0.0) if asked else None,
                "memory": asked[place].get(MEMORY, 0.0) if asked else None,
                "resources": asked[place] if asked else None,
                "timelimit": float(jobs.time_limit[place]),
                "submit": float(jobs.submit[place]),
                "eligible": float(jobs.eligible[place]),
            }
        )
    return rows


def resource_amounts(requests: ResourceRequests | None) -> list[dict[str, float]]:
    """Amount of each resource that each job asks for; [] if the batch system shows none."""
    if requests is None:
        return []
    return [
        {name: amount for name, amount in zip(requests.names, row, strict=True) if amount}
        for row in requests.total.tolist()
    ]


def default_fields(rows: Sequence[Row]) -> tuple[str, ...]:
    """The fields printed by default: a resource only if some job asks for it."""
    asked = (name for name in RESOURCE_FIELDS if any(row[name] for row in rows))
    return (*DEFAULT_FIELDS, *asked)


def cells(row: Mapping[str, Any], chosen: Sequence[str]) -> list[Any]:
    """The chosen fields of a row as they are printed."""
    values = []
    for name in chosen:
        form, value = FIELDS[name], row[name]
        values.append(value if form is None or value is None else form(value))
    return values
