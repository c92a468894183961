"""`slurm-rl evaluate`: the same jobs under several policies, side by side."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

from slurm_rl_plugin.cli.argument_types import make_folder
from slurm_rl_plugin.cli.evaluate.continuous import continuous_entry, print_continuous
from slurm_rl_plugin.cli.evaluate.entries import (
    backfilling,
    draw_study,
    exports,
    log_entry,
    policy_entry,
)
from slurm_rl_plugin.cli.evaluate.goal_option import goals_of
from slurm_rl_plugin.cli.evaluate.heldout import heldout_entry, print_heldout
from slurm_rl_plugin.cli.evaluate.options import add_arguments
from slurm_rl_plugin.cli.evaluate.protocols import CONTINUOUS, HELDOUT, check_protocol_options
from slurm_rl_plugin.cli.evaluate.resampled_logs import compare_on_resampled_logs
from slurm_rl_plugin.cli.evaluate.reserve_option import reserve_words
from slurm_rl_plugin.cli.evaluate.site import site_document
from slurm_rl_plugin.cli.evaluate.study.document import study_entry
from slurm_rl_plugin.cli.evaluate.study.text import print_site_study
from slurm_rl_plugin.cli.evaluate.text import print_document, print_utility_classes
from slurm_rl_plugin.cli.evaluate.user_summary import print_users
from slurm_rl_plugin.cli.logs.arguments import read_named_log, read_named_logs
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.named_log import NamedLog
from slurm_rl_plugin.cli.logs.slurm_log import print_origin
from slurm_rl_plugin.cli.progress import parts_bar, said_if_long, say_of_compiling
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
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.resampling import scale_load
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.summary import ScheduledJobs

__all__ = ["add_arguments", "main"]


def main(options: argparse.Namespace) -> int:
    """Simulate every policy on the same jobs, and print a table or JSON of their measures."""
    check_protocol_options(options)
    if options.config is not None and options.protocol is None:
        return _evaluate_site(options)
    with said_if_long("loading the policies"):
        candidates = [candidate_of(name) for name in options.policy or ["fifo", "sjf"]]
    log = _log(options, candidates)
    if options.protocol is not None:
        return _evaluate_by_protocol(options, log, candidates)
    return _evaluate_side_by_side(options, log, candidates)


def _evaluate_side_by_side(
    options: argparse.Namespace, log: NamedLog, candidates: list[Candidate]
) -> int:
    """Every candidate in one run through the whole log, and how they differ."""
    estimates, in_sample = _estimates(options, log)
    if options.estimates != "requested":  # the user asked for others than a model's own
        candidates = [
            each if each.estimates is None else replace(each, estimates=None, policy=None)
            for each in candidates
        ]
    settings = SimulationSettings(
        capacity=log.prepared.capacity,
        backfilling=backfilling(options),
        cycle=options.cycle,
        reserve=options.reserve,
        class_limit=options.reserve_as,
        goals=goals_of(options),
    )
    counted = _counted(options, log)
    _make_folders(options)
    schedules, policies = _simulated(options, log, candidates, estimates, settings)
    with said_if_long("comparing"):
        base = candidates[0].name
        study = study_entry(log.prepared, schedules, counted, base=base, judged=schedules)
    document: dict[str, Any] = {
        "log": log_entry(log, options, options.drop, in_sample=in_sample),
        "policies": policies,
        "study": study,
    }
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
    _give(options, log, schedules, document)
    return 0


def _counted(options: argparse.Namespace, log: NamedLog) -> slice:
    """The jobs that --drop leaves to count.

    Raises:
        ConfigurationError: it leaves none.
    """
    first, last = options.drop
    jobs = len(log.prepared.log)
    if first + last >= jobs:
        raise ConfigurationError(f"--drop {first},{last} leaves none of the {jobs} jobs to count.")
    return slice(first, jobs - last)


def _simulated(
    options: argparse.Namespace,
    log: NamedLog,
    candidates: list[Candidate],
    estimates: RunTimeEstimate | None,
    settings: SimulationSettings,
) -> tuple[dict[str, ScheduledJobs], dict[str, Any]]:
    """The schedule of each candidate, and what is said of it."""
    schedules: dict[str, ScheduledJobs] = {}
    policies: dict[str, Any] = {}
    say_of_compiling(compiled_before)
    with parts_bar("simulating", len(candidates)) as progress:
        for candidate in candidates:
            start, speed = _starts(candidate, log, estimates, settings, options.timing)
            schedule = schedules[candidate.name] = schedule_of(log.prepared, start, settings)
            entry = policies[candidate.name] = policy_entry(
                log.prepared, schedule, options.drop, users=options.users
            )
            if options.timing:
                entry["jobs_per_second"] = speed
            progress(1)
    return schedules, policies


def _give(
    options: argparse.Namespace,
    log: NamedLog,
    schedules: dict[str, ScheduledJobs],
    document: dict[str, Any],
) -> None:
    """Write the files that are asked for, and print."""
    try:
        if options.export is not None:
            document["exports"] = exports(options, log, schedules, _system(options))
        if options.plot is not None:
            document["figures"] = draw_study(options.plot, schedules, document["study"])
    finally:  # a disc that is full costs no figure
        (print_json if options.json else print_document)(document)


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
        entry = log_entry(log, options, options.drop)
        print_json({"log": entry, "policies": found["policies"], options.protocol: found})
    else:
        print(log.shares_sentence)
        show(found)
    return 0


def _evaluate_site(options: argparse.Namespace) -> int:
    """What the configuration of --config would do to the jobs of the log."""
    _make_folders(options)
    (log,) = read_named_logs([options.log] if options.log else [], LogOptions.of(options))
    document = site_document(options, log.with_starts())
    if options.json:
        print_json(document)
        return 0
    print_origin(log.origin, log.whence, log.prepared)
    print_site_study(document["prediction"], document["study"])
    print_utility_classes(document["policies"])
    if options.users:
        print_users(document["policies"])
    return 0


def _system(options: argparse.Namespace) -> str:
    """Options of the batch system that is simulated."""
    words = (
        f"--backfill {backfilling(options)} --estimates {options.estimates} "
        f"--cycle {options.cycle:g} --reserve {options.reserve} --scale-load {options.scale_load:g}"
    )
    on = [f"--cluster {options.cluster}"] if options.cluster else []
    return " ".join([words, *reserve_words(options.reserve_as), *on])


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
    make_folder("--plot", options.plot)
    make_folder("--export", options.export)


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
