"""`slurm-rl evaluate`: the same jobs under several policies, side by side."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.assembly.candidates import candidate_of
from slurm_rl_plugin.cli.evaluate.continuous import continuous_entry, print_continuous
from slurm_rl_plugin.cli.evaluate.heldout import heldout_entry, print_heldout
from slurm_rl_plugin.cli.evaluate.options import add_arguments
from slurm_rl_plugin.cli.evaluate.protocols import CONTINUOUS, HELDOUT, check_protocol_options
from slurm_rl_plugin.cli.evaluate.resampled_logs import compare_on_resampled_logs
from slurm_rl_plugin.cli.evaluate.reserve_option import reserve_words
from slurm_rl_plugin.cli.evaluate.schedule_export import export_schedule, file_names
from slurm_rl_plugin.cli.evaluate.text import print_document
from slurm_rl_plugin.cli.evaluate.user_summary import summarise_users
from slurm_rl_plugin.cli.logs.arguments import NamedLog, read_named_log, read_named_logs
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.slurm_log import print_origin
from slurm_rl_plugin.cli.tables import print_json
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RunTimeEstimate
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    estimates_of,
    schedule_of,
    starts_under,
)
from slurm_rl_plugin.policies.registry import NATIVE
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise

__all__ = ["add_arguments", "main"]


def main(options: argparse.Namespace) -> int:
    """Simulate every policy on the same jobs, and print a table or JSON of their measures."""
    check_protocol_options(options)
    candidates = [candidate_of(name) for name in options.policy or ["fifo", "sjf"]]
    log = _log(options, candidates)
    if options.protocol is not None:
        return _evaluate_by_protocol(options, log, candidates)
    estimates, in_sample = _estimates(options, log)
    settings = SimulationSettings(
        capacity=log.prepared.capacity,
        backfilling=_backfilling(options),
        cycle=options.cycle,
        reserve=options.reserve,
        class_limit=options.reserve_as,
    )
    if sum(options.drop) >= len(log.prepared.log):
        raise ConfigurationError(
            f"--drop {options.drop[0]},{options.drop[1]} leaves none of the "
            f"{len(log.prepared.log)} jobs to count."
        )
    _make_folders(options)
    schedules: dict[str, ScheduledJobs] = {}
    policies: dict[str, Any] = {}
    for candidate in candidates:
        start, speed = _starts(candidate, log, estimates, settings, options.timing)
        schedule = schedules[candidate.name] = schedule_of(log.prepared, start, settings)
        entry = policies[candidate.name] = _entry(log.prepared, schedule, options)
        if options.timing:
            entry["jobs_per_second"] = speed
    document: dict[str, Any] = {"log": _log_entry(log, options, in_sample), "policies": policies}
    if options.resample is not None:
        document["resampled"] = compare_on_resampled_logs(
            candidates,
            log.prepared,
            estimates,
            settings,
            samples=options.resample,
            seed=options.seed,
            drop=options.drop,
        )
    if options.export is not None:
        document["exports"] = _exports(options, log, schedules)
    if options.plot is not None:
        document["figures"] = _plots(options.plot, schedules)
    if options.json:
        print_json(document)
    else:
        print_document(document)
    return 0


#: How each protocol measures, and what it prints for people.
_PROTOCOLS = {
    HELDOUT: (heldout_entry, print_heldout),
    CONTINUOUS: (continuous_entry, print_continuous),
}


def _evaluate_by_protocol(
    options: argparse.Namespace, log: NamedLog, candidates: list[Candidate]
) -> int:
    measure, show = _PROTOCOLS[options.protocol]
    found = measure(candidates, log.prepared, options)
    if options.json:
        entry = _log_entry(log, options, in_sample=False)
        print_json({"log": entry, "policies": found["policies"], options.protocol: found})
    else:
        show(found)
    return 0


def _backfilling(options: argparse.Namespace) -> str:
    """Of the simulated system, as given or as the protocol has it."""
    return options.backfill or ("easy" if options.protocol else "none")


def _log(options: argparse.Namespace, candidates: list[Candidate]) -> NamedLog:
    """The one log that is asked for; where it comes from is printed if it is Slurm's own."""
    (log,) = read_named_logs([options.log] if options.log else [], LogOptions.of(options))
    if any(each.name == "native" for each in candidates):
        log = log.with_starts()
    log = _scaled(log, options.scale_load, candidates)
    if not options.json:
        print_origin(log.origin, log.whence, log.prepared)
    return log


def _scaled(log: NamedLog, factor: float, candidates: list[Candidate]) -> NamedLog:
    """The log at another load; its class medians and shares are those of the same jobs."""
    if factor != 1.0 and any(each.name == NATIVE for each in candidates):
        raise ConfigurationError(
            "policy native has no starts at another load: leave out native or --scale-load."
        )
    prepared = log.prepared
    return replace(log, prepared=replace(prepared, log=scale_load(prepared.log, factor)))


def _make_folders(options: argparse.Namespace) -> None:
    """Make the folders for results before the work, so that no result is lost."""
    for option, folder in (("--plot", options.plot), ("--export", options.export)):
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{option} {folder}: the folder cannot be made ({error.strerror})."
            ) from None


def _estimates(options: argparse.Namespace, log: NamedLog) -> tuple[RunTimeEstimate | None, bool]:
    """The estimate, and whether it was made from the evaluated log itself."""
    training = log
    if options.estimates_from is not None:
        training = read_named_log(options.estimates_from, LogOptions.of(options))
    in_sample = options.estimates == "class-median" and options.estimates_from is None
    return estimates_of(options.estimates, training.prepared), in_sample


def _starts(
    candidate: Candidate,
    log: NamedLog,
    estimates: RunTimeEstimate | None,
    settings: SimulationSettings,
    timing: bool,
) -> tuple[FloatArray, float | None]:
    workload = log.prepared.workload(estimates)
    start = starts_under(candidate, log.prepared, workload, settings)
    if not timing:
        return start, None
    begin = time.perf_counter()  # the run above has compiled everything
    starts_under(candidate, log.prepared, workload, settings)
    return start, len(start) / (time.perf_counter() - begin)


def _entry(
    prepared: PreparedLog, schedule: ScheduledJobs, options: argparse.Namespace
) -> dict[str, Any]:
    """One policy's figures; where jobs were not eligible at once also the wait since submission."""
    entry = summarise(schedule, drop=options.drop, accounts=prepared.accounts)
    if prepared.eligible_after is not None:
        first, last = options.drop
        since_submit = schedule.wait + prepared.eligible_after
        entry["mean_wait_since_submit"] = float(
            since_submit[first : len(since_submit) - last].mean()
        )
    if options.users:
        entry["users"] = summarise_users(prepared.log, schedule, options.drop)
    return entry


def _log_entry(log: NamedLog, options: argparse.Namespace, in_sample: bool) -> dict[str, Any]:
    prepared, later = log.prepared, log.prepared.eligible_after
    return {
        **log.origin,
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
        "backfill": _backfilling(options),
        "drop": list(options.drop),
        "scale_load": options.scale_load,
        **_limit_entry(options.reserve_as),
        "eligible_later": 0 if later is None else int((later > 0).sum()),
    }


def _limit_entry(limit: ClassLimit | None) -> dict[str, Any]:
    return {} if limit is None else {"reserve_as": "limit", "class_limit": asdict(limit)}


def _plots(folder: Path, schedules: Mapping[str, ScheduledJobs]) -> list[str]:
    from slurm_rl_plugin.cli.evaluate.schedule_figures import draw_schedules  # noqa: PLC0415 - matplotlib is heavy

    return [str(path) for path in draw_schedules(folder, schedules)]


def _exports(
    options: argparse.Namespace, log: NamedLog, schedules: Mapping[str, ScheduledJobs]
) -> list[str]:
    """Two files for each policy; the header of the SWF file says where it comes from."""
    source = f"log {log.name}, sha256 {log.report.checksum or 'none: generated'}"
    system = (
        f"--backfill {_backfilling(options)} --estimates {options.estimates} "
        f"--cycle {options.cycle:g} --reserve {options.reserve} --scale-load {options.scale_load:g}"
    )
    system = " ".join([system, *reserve_words(options.reserve_as)])
    note = "Waits are simulated; the log's own notices apply to its jobs"
    if log.prepared.eligible_after is not None:
        note += "; a submit is the time at which the job was eligible"
    paths: list[Path] = []
    for (policy, schedule), name in zip(
        schedules.items(), file_names(list(schedules)), strict=True
    ):
        comments = [f"slurm-rl evaluate --policy {policy} {system}", source]
        comments.append(note)
        paths += export_schedule(options.export, name, log.prepared, schedule, comments)
    return [str(path) for path in paths]
