"""`slurm-rl evaluate`: the same jobs under several policies, side by side."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.argument_types import (
    add_goal_option,
    add_seed_option,
    at_least_one,
    goals_of,
    make_folder,
    number_from_zero,
    whole_number,
)
from slurm_rl_plugin.cli.log_arguments import (
    add_log_options,
    add_reserve_option,
    class_limit_of,
    read_named_logs,
)
from slurm_rl_plugin.cli.progress import parts_bar, progress_bar, said_if_long, say_of_compiling
from slurm_rl_plugin.cli.study_text import (
    print_continuous,
    print_evaluation,
    print_heldout,
    print_site_study,
    print_users,
    print_utility_classes,
)
from slurm_rl_plugin.cli.tables import answer
from slurm_rl_plugin.cli.this_cluster import print_origin
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions, NamedLog, configured_classifier
from slurm_rl_plugin.evaluation.protocols import continuous_study, heldout_study
from slurm_rl_plugin.evaluation.schedule_files import export_schedules
from slurm_rl_plugin.evaluation.site_replay import replay_site, settings_in_force
from slurm_rl_plugin.evaluation.study import Study, as_json, machine_entry, policy_entry
from slurm_rl_plugin.features.estimates import ESTIMATE_KINDS
from slurm_rl_plugin.learning.evaluation.continuous import ContinuousProtocol
from slurm_rl_plugin.learning.evaluation.heldout import HeldoutProtocol
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    estimates_of,
    schedule_of,
    starts_under,
)
from slurm_rl_plugin.learning.training_load import class_known_at_submission
from slurm_rl_plugin.policies.registry import NATIVE
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.class_limit import FREE, LIMIT
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM, NODE_BACKFILLING
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: Maximum of --cycle; a longer one is a typing error.
_LONGEST_CYCLE = 365.0 * DAY
#: Minimum of --windows.
FEWEST_WINDOWS = 100
HELDOUT, CONTINUOUS = "heldout", "continuous"
_PROTOCOLS = f"--protocol {HELDOUT}", f"--protocol {CONTINUOUS}"
_SITE = "--config"
#: Option that --config and --protocol exclude -> its default; then those that one of them excludes.
_NOT_TAKEN: dict[str, Any] = {
    "--estimates": "requested",
    "--drop": (0, 0),
    "--reserve": 0,
    "--reserve-as": FREE,
    "--timing": False,
}
_NOT_BY_SITE: dict[str, Any] = {"--partitions": None}
_NOT_BY_PROTOCOL: dict[str, Any] = {"--users": False, "--export": None, "--plot": None}
#: The document, a function that prints it, and a function that writes files and returns paths.
_Measured = tuple[dict[str, Any], Callable[[], None], Callable[[], dict[str, Any]]]
#: Option -> the only protocol that has it.
_OF_ONE = {"--windows": HELDOUT, "--runs": CONTINUOUS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the policies, the simulated batch system, and where results go."""
    parser.add_argument(
        "log",
        metavar="LOG",
        nargs="?",
        help="an accounting log, a file of `convert`, or a generator mmn:... or egee:...; after an "
        "@ a part of it or another load; not with --from slurm",
    )
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME|MODEL",
        help="a rule, native, a shipped model or an .onnx file; may be repeated (default: fifo and "
        "sjf)",
    )
    add_log_options(
        parser,
        config="report the effect of this configuration on LOG's users, with its policy, classes, "
        "shares, bounds and reserve, compared with the recorded order",
    )
    parser.add_argument(
        "--backfill",
        choices=sorted(NODE_BACKFILLING),
        help="how the simulated system backfills; slurm: as slurmctld (default: none; easy with "
        "--config, slurm with --cluster)",
    )
    parser.add_argument(
        "--estimates",
        choices=ESTIMATE_KINDS,
        default="requested",
        help="the run times that policies assume (default: requested)",
    )
    parser.add_argument(
        "--drop",
        type=_drop,
        default=(0, 0),
        metavar="FIRST,LAST",
        help="do not count this many jobs at the beginning and at the end (default: 0,0)",
    )
    parser.add_argument(
        "--cycle",
        type=number_from_zero(_LONGEST_CYCLE),
        default=0.0,
        metavar="SECONDS",
        help="decide only at multiples of this time (default: 0, at every event)",
    )
    parser.add_argument(
        "--reserve",
        type=whole_number(0),
        default=0,
        metavar="PROCESSORS",
        help="processors kept free of batch jobs (default: 0)",
    )
    add_reserve_option(parser)
    add_goal_option(parser)
    parser.add_argument("--timing", action="store_true", help="also measure jobs per second")
    parser.add_argument("--users", action="store_true", help="also summarise each user")
    add_seed_option(parser)
    parser.add_argument(
        "--protocol",
        choices=[HELDOUT, CONTINUOUS],
        help="heldout: choose rules on the first 60 %% of LOG, and compare policies on windows of "
        "the rest; continuous: the whole log in one run, figures of its last 40 %%",
    )
    parser.add_argument(
        "--windows",
        type=whole_number(FEWEST_WINDOWS),
        metavar="N",
        help=f"windows of each part with --protocol heldout (default: {HeldoutProtocol().windows})",
    )
    parser.add_argument(
        "--runs",
        type=at_least_one,
        metavar="N",
        help=f"runs with --protocol continuous, each without 2 %% of the jobs (default: "
        f"{ContinuousProtocol().runs})",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="draw waits of classes and of groups as PNG"
    )
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write each schedule as SWF and as CSV"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _drop(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST,LAST: give two whole numbers")
    return int(parts[0]), int(parts[1])


def main(options: argparse.Namespace) -> int:
    """Measure the policies on the same jobs, and print their figures."""
    by = _SITE if options.config is not None else ""
    by = by if options.protocol is None else f"--protocol {options.protocol}"
    _check(options, by)
    make_folder("--plot", options.plot)
    make_folder("--export", options.export)
    candidates: list[Candidate] = []
    if by != _SITE:
        with said_if_long("loading the policies"):
            candidates = [candidate_of(name) for name in options.policy or ["fifo", "sjf"]]
    log = _read(options, candidates, by)
    document, show, files = _MEASURES[by](options, log, candidates)
    try:
        document |= files()
    finally:  # a full disk must not lose the figures
        answer(options, document, show)
    return 0


def _check(options: argparse.Namespace, by: str) -> None:
    """Refuse options that exclude each other.

    Args:
        by: the option that sets how policies are measured; "" for side by side.
    """
    heldout = options.protocol == HELDOUT
    on_nodes = options.cluster is not None and not heldout
    refused = {
        f"{option} needs --protocol {protocol}: give both.": options.protocol != protocol
        and getattr(options, option[2:]) is not None
        for option, protocol in _OF_ONE.items()
    }
    refused |= {
        f"--backfill {AS_SLURM} needs nodes: give --cluster, or another --backfill.": (
            options.backfill == AS_SLURM and options.cluster is None
        ),
        "--goal excludes --protocol heldout, whose windows begin on an empty machine: give "
        "--protocol continuous.": options.goal and heldout,
        "--goal excludes --config, whose [goals] apply: leave one out.": options.goal
        and by == _SITE,
    }
    taken = _NOT_TAKEN | (_NOT_BY_SITE if by == _SITE else _NOT_BY_PROTOCOL) if by else {}
    given = {
        option: getattr(options, option[2:].replace("-", "_")) != default
        for option, default in taken.items()
    }
    given["--backfill"] = by and not on_nodes and options.backfill not in (None, "easy")
    refused |= {
        f"{option} excludes {by}, which sets jobs, EASY backfilling and requested times itself: "
        f"leave out {option}.": is_given
        for option, is_given in given.items()
    }
    refused[
        f"policy native excludes {by}: its starts were recorded among other jobs. Leave it out."
    ] = options.protocol is not None and NATIVE in (options.policy or ())
    for sentence, is_refused in refused.items():
        if is_refused:
            raise ConfigurationError(sentence)


def _read(options: argparse.Namespace, candidates: list[Candidate], by: str) -> NamedLog:
    (log,) = read_named_logs([options.log] if options.log else [], LogOptions.of(options))
    if by == _SITE or any(each.name == NATIVE for each in candidates):
        log = log.with_starts()
    if not options.json:
        print_origin(log.origin, log.whence, log.prepared)
    return log


def _side_by_side(
    options: argparse.Namespace, log: NamedLog, candidates: list[Candidate]
) -> _Measured:
    estimates = estimates_of(options.estimates, log.prepared)
    if options.estimates != "requested":  # they replace a model's own estimates
        candidates = [
            each if each.estimates is None else replace(each, estimates=None, policy=None)
            for each in candidates
        ]
    settings = SimulationSettings(
        capacity=log.prepared.capacity,
        backfilling=_backfilling(options),
        cycle=options.cycle,
        reserve=options.reserve,
        class_limit=class_limit_of(options),
        goals=goals_of(options),
    )
    (first, last), jobs = options.drop, len(log.prepared.log)
    if first + last >= jobs:
        raise ConfigurationError(f"--drop {first},{last} leaves no job of the {jobs} to count.")
    schedules: dict[str, ScheduledJobs] = {}
    policies: dict[str, dict[str, Any]] = {}
    say_of_compiling(compiled_before)
    workload = log.prepared.workload(estimates)
    with parts_bar("simulating", len(candidates)) as progress:
        for each in candidates:
            start = starts_under(each, log.prepared, workload, settings)
            schedule = schedules[each.name] = schedule_of(log.prepared, start, settings)
            entry = policies[each.name] = policy_entry(
                log.prepared, schedule, options.drop, users=options.users
            )
            if options.timing:
                begin = time.perf_counter()  # everything is compiled by now
                starts_under(each, log.prepared, workload, settings)
                entry["jobs_per_second"] = len(start) / (time.perf_counter() - begin)
            progress(1)
    with said_if_long("comparing"):
        base, counted = candidates[0].name, slice(first, jobs - last)
        study = Study.of(log.prepared, schedules, counted, base, judged=schedules)
    document = {
        "log": _log_entry(options, log, options.drop),
        "policies": policies,
        "study": as_json(study),
    }
    system = (
        f"--backfill {_backfilling(options)} --estimates {options.estimates} "
        f"--cycle {options.cycle:g} --reserve {options.reserve}"
    )
    system += f" --reserve-as {LIMIT}" if options.reserve_as == LIMIT else ""
    show = partial(print_evaluation, document["log"], policies, study)
    return document, show, partial(_files, options, log, schedules, study, system)


def _by_site(options: argparse.Namespace, log: NamedLog, _: list[Candidate]) -> _Measured:
    configuration = read_configuration(options.config)
    say_of_compiling(compiled_before)
    found = replay_site(
        configuration,
        log,
        parts_bar,
        others=options.policy or (),
        cycle=options.cycle,
        backfilling=_backfilling(options),
    )
    if isinstance(found, str):
        raise ConfigurationError(f"{log.name}: {found}")
    log = replace(log, prepared=found.known)
    schedules, jobs = found.replayed.schedules, len(found.known.log)
    drop = (found.replayed.first, jobs - found.replayed.last)
    policies = {
        name: policy_entry(found.known, each, drop, users=options.users)
        for name, each in schedules.items()
    }
    document = {
        "log": _log_entry(options, log, drop),
        "policies": policies,
        "prediction": as_json(found.prediction),
        "study": as_json(found.study),
    }
    system = f"--config {options.config.name} --cycle {options.cycle:g}"

    def show() -> None:
        print_site_study(found.prediction, found.study)
        print_utility_classes(policies)
        print_users(policies)

    return document, show, partial(_files, options, log, schedules, found.study, system)


def _by_heldout(
    options: argparse.Namespace, log: NamedLog, candidates: list[Candidate]
) -> _Measured:
    windows = options.windows or HeldoutProtocol().windows
    protocol = HeldoutProtocol(cycle=options.cycle, windows=windows)
    known = class_known_at_submission(log.prepared, configured_classifier(options.config))
    found = heldout_study(candidates, log.prepared, known, protocol, options.seed, progress_bar)
    return _of_protocol(options, log, as_json(found), partial(print_heldout, found))


def _by_continuous(
    options: argparse.Namespace, log: NamedLog, candidates: list[Candidate]
) -> _Measured:
    protocol = ContinuousProtocol(
        runs=options.runs or ContinuousProtocol().runs,
        seed=options.seed,
        by_days=log.prepared.machine is not None,
    )
    known = class_known_at_submission(log.prepared, configured_classifier(options.config))
    settings = SimulationSettings(capacity=known.capacity, cycle=options.cycle)
    if options.config is not None:
        site = read_configuration(options.config)
        settings = settings_in_force(site, known.capacity, options.cycle)
    goals = goals_of(options, settings.goals)
    settings = replace(settings, backfilling=_backfilling(options), goals=goals)
    found = continuous_study(candidates, known, settings, protocol, progress_bar)
    return _of_protocol(options, log, as_json(found), partial(print_continuous, found))


def _of_protocol(
    options: argparse.Namespace, log: NamedLog, found: dict[str, Any], show: Callable[[], None]
) -> _Measured:
    entry = _log_entry(options, log, options.drop)
    document = {"log": entry, "policies": found["policies"], options.protocol: found}

    def show_with_shares() -> None:
        print(log.shares_sentence)
        show()

    return document, show_with_shares, dict


#: Option that sets how policies are measured -> the function; "" side by side.
_MEASURES: dict[str, Callable[[argparse.Namespace, NamedLog, list[Candidate]], _Measured]] = {
    "": _side_by_side,
    _SITE: _by_site,
    _PROTOCOLS[0]: _by_heldout,
    _PROTOCOLS[1]: _by_continuous,
}


def _files(
    options: argparse.Namespace,
    log: NamedLog,
    schedules: Mapping[str, ScheduledJobs],
    study: Study,
    system: str,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if options.export is not None:
        on = f" --cluster {options.cluster}" if options.cluster else ""
        found["exports"] = export_schedules(options.export, log, schedules, f"{system}{on}")
    if options.plot is not None:
        from slurm_rl_plugin.evaluation.figures import draw_groups, draw_schedules  # noqa: PLC0415 - matplotlib

        groups = options.plot / "groups.png"
        found["figures"] = [draw_schedules(options.plot, schedules), draw_groups(groups, study)]
    return found


def _backfilling(options: argparse.Namespace) -> str:
    if options.backfill is None and options.cluster is not None:
        return AS_SLURM
    return options.backfill or ("easy" if options.protocol or options.config else "none")


def _log_entry(options: argparse.Namespace, log: NamedLog, drop: tuple[int, int]) -> dict[str, Any]:
    """The entry `log`: what was read, the simulated batch system, and what is not counted."""
    prepared, report, limit = log.prepared, log.report, class_limit_of(options)
    later = prepared.eligible_after
    return {
        **log.origin,
        "shares_from": prepared.shares_from,
        **log.whence,
        "name": log.name,
        "sha256": report.checksum,
        "jobs": report.read,
        "ran": len(prepared.log),
        "dropped": log.dropped,
        "noticed": report.noticed,
        **({"other_records": report.other_records} if report.other_records else {}),
        **({"malformed": list(report.malformed)} if report.malformed else {}),
        "processors": prepared.capacity,
        "shares": dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True)),
        "class_rule": prepared.class_rule,
        "estimates": options.estimates,
        "in_sample": options.estimates == "class-median",
        "backfill": _backfilling(options),
        "drop": list(drop),
        "scale_load": 1.0,  # the load of LOG@load=L is part of the name
        **({} if limit is None else {"reserve_as": LIMIT, "class_limit": limit.entry()}),
        **({} if prepared.machine is None else {"machine": machine_entry(prepared.machine)}),
        "eligible_later": 0 if later is None else int((later > 0).sum()),
    }
