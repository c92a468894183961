"""Parts of the document of `slurm-rl evaluate`: the log, each policy, what was written beside."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.evaluate.schedule_export import export_schedule, file_names
from slurm_rl_plugin.cli.evaluate.study.nodes import figures_on_nodes, machine_entry
from slurm_rl_plugin.cli.evaluate.user_summary import summarise_users
from slurm_rl_plugin.cli.logs.named_log import NamedLog
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise


def policy_entry(
    prepared: PreparedLog, schedule: ScheduledJobs, drop: tuple[int, int], *, users: bool
) -> dict[str, Any]:
    """One policy's figures; where jobs were not eligible at once also the wait since submission.

    Args:
        prepared: the jobs.
        schedule: the same with the starts that the policy gave them.
        drop: how many first and last ones are not counted.
        users: also a summary of each user.
    """
    entry = summarise(schedule, drop=drop, accounts=prepared.accounts)
    if prepared.eligible_after is not None:
        first, last = drop
        since_submit = schedule.wait + prepared.eligible_after
        entry["mean_wait_since_submit"] = float(
            since_submit[first : len(since_submit) - last].mean()
        )
    measured = slice(drop[0], len(schedule.submit) - drop[1])
    entry.update(figures_on_nodes(prepared, schedule, measured))
    if users:
        entry["users"] = summarise_users(prepared.log, schedule, drop)
    return entry


def log_entry(
    log: NamedLog, options: argparse.Namespace, drop: tuple[int, int], *, in_sample: bool = False
) -> dict[str, Any]:
    """The `log`: what was read, and the batch system that it ran on.

    Args:
        log: the log.
        options: of the command line.
        drop: how many first and last jobs are not counted.
        in_sample: estimates come from the log itself.
    """
    prepared, later = log.prepared, log.prepared.eligible_after
    return {
        **log.origin,
        "shares_from": prepared.shares_from,
        **log.whence,
        "name": log.name,
        "sha256": log.report.checksum,
        "jobs": log.report.read,
        "ran": len(prepared.log),
        "dropped": log.dropped,
        "noticed": log.report.noticed,
        **({"other_records": log.report.other_records} if log.report.other_records else {}),
        **({"malformed": list(log.report.malformed)} if log.report.malformed else {}),
        "processors": prepared.capacity,
        "shares": dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True)),
        "class_rule": prepared.class_rule,
        "estimates": options.estimates,
        "in_sample": in_sample,
        "backfill": backfilling(options),
        "drop": list(drop),
        "scale_load": options.scale_load,
        **_limit_entry(options.reserve_as),
        **({} if prepared.machine is None else {"machine": machine_entry(prepared.machine)}),
        "eligible_later": 0 if later is None else int((later > 0).sum()),
    }


def _limit_entry(limit: ClassLimit | None) -> dict[str, Any]:
    return {} if limit is None else {"reserve_as": "limit", "class_limit": limit.entry()}


def backfilling(options: argparse.Namespace) -> str:
    """Of the simulated system, as given or as the protocol or the site's study has it."""
    if options.backfill is None and options.cluster is not None:
        return AS_SLURM
    return options.backfill or ("easy" if options.protocol or options.config else "none")


def exports(
    options: argparse.Namespace, log: NamedLog, schedules: Mapping[str, ScheduledJobs], system: str
) -> list[str]:
    """Two files for each policy; the header of the SWF file says where it comes from.

    Args:
        options: with the folder, `export`.
        log: whose jobs they are.
        schedules: policy -> its schedule.
        system: options that give the same batch system.
    """
    source = f"log {log.name}, sha256 {log.report.checksum or 'none: generated'}"
    note = "Waits are simulated; the log's own notices apply to its jobs"
    if log.prepared.eligible_after is not None:
        note += "; a submit is the time at which the job was eligible"
    paths: list[Path] = []
    for (policy, schedule), name in zip(
        schedules.items(), file_names(list(schedules)), strict=True
    ):
        comments = [f"slurm-rl evaluate --policy {policy} {system}", source, note]
        paths += export_schedule(options.export, name, log.prepared, schedule, comments)
    return [str(path) for path in paths]


def draw_study(
    folder: Path, schedules: Mapping[str, ScheduledJobs], study: Mapping[str, Any]
) -> list[str]:
    """Draw every picture into a folder; the paths.

    Args:
        folder: made where it does not exist.
        schedules: policy -> the same jobs under it.
        study: as JSON has it.
    """
    from slurm_rl_plugin.cli.evaluate.schedule_figures import draw_schedules  # noqa: PLC0415 - matplotlib is heavy
    from slurm_rl_plugin.cli.evaluate.study.figure import draw_groups  # noqa: PLC0415 - matplotlib is heavy

    paths = draw_schedules(folder, schedules)
    paths.append(draw_groups(folder / "groups.png", study))
    return [str(path) for path in paths]
