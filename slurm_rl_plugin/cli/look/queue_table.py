"""The fields of `slurm-rl queue`: what each is called and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slurm_rl_plugin.accounting.resource_amounts import resources_text
from slurm_rl_plugin.cli.tables import slurm_duration, slurm_size, slurm_time
from slurm_rl_plugin.domain.resources import GPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.hook.order.considered_jobs import ConsideredJobs

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


def fields(text: str) -> tuple[str, ...]:
    """Names of fields from a list with commas, in any case.

    Raises:
        argparse.ArgumentTypeError: one is unknown.
    """
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
    """What each job asks for, by resource, without what it asks none of; [] where nobody told."""
    if requests is None:
        return []
    return [
        {name: amount for name, amount in zip(requests.names, row, strict=True) if amount}
        for row in requests.total.tolist()
    ]


def default_fields(rows: Sequence[Row]) -> tuple[str, ...]:
    """What is printed where nobody says: resources only where some job asks for them."""
    told = (name for name in RESOURCE_FIELDS if any(row[name] for row in rows))
    return (*DEFAULT_FIELDS, *told)


def cells(row: Mapping[str, Any], chosen: Sequence[str]) -> list[Any]:
    """The chosen fields of a row as they are printed."""
    values = []
    for name in chosen:
        form, value = FIELDS[name], row[name]
        values.append(value if form is None or value is None else form(value))
    return values
