"""`slurm-rl what-if`: predict what a change of slurm.conf does to the users of a log."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.argument_types import add_seed_option, goal_of, make_folder
from slurm_rl_plugin.cli.log_arguments import (
    add_log_options,
    check_machine_options,
    read_logs,
    site_adapter,
)
from slurm_rl_plugin.cli.progress import parts_bar, resumable, said_if_long, say_of_compiling
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.cli.this_cluster import LIVE, described_cluster
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions
from slurm_rl_plugin.evaluation.site_replay import settings_in_force
from slurm_rl_plugin.evaluation.study import ACCOUNTS, shown_groups
from slurm_rl_plugin.evaluation.what_if_study import (
    ClusterAndJobs,
    VariantStudy,
    WhatIfStudy,
    without_nodes,
)
from slurm_rl_plugin.learning.checkpoint import check_checkpoint, forget_checkpoint
from slurm_rl_plugin.readable import printable, span_text
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.run import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import SHARES_WORDS
from slurm_rl_plugin.what_if.effects import Effect
from slurm_rl_plugin.what_if.variant import variant_of

_NAMES = {
    "mean_wait": "mean wait",
    "median_wait": "median wait",
    "p90_wait": "90th percentile",
    "p99_wait": "99th percentile",
    "longest_wait": "longest wait",
    "within_120s": "start within 120 s (%)",
    "bounded_slowdown": "bounded slowdown",
    "misdelivered": "misdelivered service (%)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the cluster, the changes to try, and where results go."""
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="an accounting log; not with --from slurm"
    )
    parser.add_argument(
        "--change",
        action="append",
        required=True,
        metavar="CHANGE",
        help="KEY=VALUE, KEY+=VALUE or KEY-=VALUE of slurm.conf, or of `partition NAME`, `node "
        "HOSTLIST`, `qos NAME`, `account NAME` or `user NAME` before it; `hook MODEL`: our order, "
        "with `goal NAME=VALUE` of [goals]; `reserve RESOURCE=NUMBER`: kept free of batch jobs. "
        "Separate changes made together by ; repeat the option to try others",
    )
    add_log_options(parser)
    add_seed_option(parser)
    add_result_options(parser, "run")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw each variant as PNG")
    parser.epilog = (
        "Example: slurm-rl what-if site.parquet --cluster /etc/slurm/slurm.conf --change "
        "PriorityWeightAge=2000 --change 'partition batch MaxTime=1-00:00:00'"
    )


def add_result_options(parser: argparse.ArgumentParser, work: str) -> None:
    """Add --checkpoint and --json."""
    kept = f"file from which an interrupted {work} continues"
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help=kept)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Replay the log under each change and print the effects, with intervals."""
    check_checkpoint(options.checkpoint)
    with resumable(options.checkpoint):
        found = cluster_and_jobs(options.log, LogOptions.of(options))
        variants = [
            variant_of(each, found.cluster, candidate_of, goal_of) for each in options.change
        ]
        names = [each.name for each in variants]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"--change {name!r} is given twice: leave one out.")
        make_folder("--plot", options.plot)
        say_of_compiling(compiled_before)
        pairs = found.replayed(variants, parts_bar, checkpoint=options.checkpoint)
    with said_if_long("comparing"):
        study = WhatIfStudy.of(found, pairs, options.seed)
    if options.plot is not None:
        from slurm_rl_plugin.evaluation.figures import draw_variants  # noqa: PLC0415 - matplotlib

        study = replace(study, figures=draw_variants(options.plot, study.variants))
    forget_checkpoint(options.checkpoint)
    return answer(options, study.as_json(), lambda: _print(study))


def cluster_and_jobs(log: str | None, options: LogOptions, known: float = 1.0) -> ClusterAndJobs:
    """Read a log and its cluster."""
    if options.partitions:
        raise ConfigurationError(
            "--partitions describes machines without nodes: give --cluster instead."
        )
    (read,) = read_logs([log] if log else [], options)
    jobs, notes = read.jobs, tuple[str, ...]()
    named = options.cluster or (LIVE if options.source else None)
    if named is None:
        cluster, jobs, note = without_nodes(read)
        notes = (note,)
    else:
        check_machine_options(options)
        cluster = described_cluster(named, site_adapter(options), os.environ)
    capacity = int(cluster.machine.capacity[0])
    settings = SimulationSettings(capacity=capacity, backfilling=AS_SLURM)
    if options.config is not None:
        site = read_configuration(options.config)
        settings = settings_in_force(site, capacity, on_nodes=True)
    found = ClusterAndJobs(read=read, jobs=jobs, cluster=cluster, settings=settings, notes=notes)
    with said_if_long("placing the jobs on the cluster"):
        return found.with_shares(known)


def _print(study: WhatIfStudy) -> None:
    log = study.log
    print(
        f"{log['jobs']} jobs of {log['name']} on {study.cluster['nodes']} nodes, as slurmctld "
        f"schedules; {log['counted_jobs']} counted, without both ends."
    )
    print_basis(study)
    for name, variant in study.variants.items():
        print(f"\n{printable(f'=== {name}')}")
        _print_variant(variant)


def print_basis(study: WhatIfStudy) -> None:
    """What is known of jobs and cluster, and what the intervals are drawn from."""
    for reason, count in study.log["dropped"].items():
        print(printable(f"Left out: {count} {reason}"))
    print("\n".join([SHARES_WORDS[study.log["shares_from"]], *study.notes]))
    print(f"\n{study.known.sentence}")
    if study.known.cells:
        rows = [
            [
                f"{cell.by}: {cell.group}",
                cell.jobs,
                *map(span_text, (cell.recorded, cell.simulated)),
                "" if cell.is_close else "off",
            ]
            for cell in study.known.cells
        ]
        print_table(["MEAN WAIT OF", "JOBS", "RECORDED", "SIMULATED", ""], rows)
        print()
    for sentence in study.cluster["not_simulated"]:
        print(printable(f"Not simulated: {sentence}"))
    print(f"Unknown: {'; '.join(study.not_known)}.")
    print(intervals_words(study.intervals))


def intervals_words(drawn: Mapping[str, Any]) -> str:
    """What the intervals are drawn from, or why there are none; a sentence."""
    unit = drawn["unit"] if drawn["stretches"] > 1 else drawn["unit"].removesuffix("s")
    over = f"{drawn['stretches']} {unit}"
    if drawn["draws"]:
        return f"Intervals (95 %): {over}, resampled."
    return f"Only {over}: too few for intervals, so verdicts are inconclusive."


def _print_variant(variant: VariantStudy) -> None:
    for sentence in variant.sentences:
        print(printable(sentence))
    rows = [[_NAMES[key], *_cells(key, each)] for key, each in variant.figures.items()]
    print_table(["ALL JOBS", "NOW", "THEN", "DIFFERENCE", "(95 %)", "VERDICT"], rows)
    for resource, each in variant.resources.items():
        parts = ["-" if part is None else f"{100 * part:.1f} %" for part in each["utilization"]]
        print(f"{resource} in use: {parts[0]} now, {parts[1]} then.")
    accounts = sorted(variant.service.accounts.items(), key=lambda each: -each[1].share)
    rows = [[name, each.share, *each.ratio] for name, each in accounts[:ACCOUNTS]]
    print_table(["SERVICE OVER ENTITLEMENT", "SHARE", "NOW", "THEN"], rows)
    rows = [
        [
            f"{by}: {name}",
            groups[name].jobs,
            *_cells("mean_wait", groups[name].figures["mean_wait"]),
        ]
        for by, groups in variant.groups.items()
        for name in shown_groups(by, groups)
    ]
    header = ["MEAN WAIT BY", "JOBS", "NOW", "THEN", "DIFFERENCE", "(95 %)", "VERDICT"]
    print_table(header, rows)
    if variant.inconclusive:
        print(f"Inconclusive: {variant.inconclusive}.")


def _cells(key: str, effect: Effect) -> list[Any]:
    values = [_shown(key, each) for each in (effect.before, effect.after, effect.difference)]
    ends = [_shown(key, each) for each in effect.ci95 or ()]
    interval = " to ".join(each if isinstance(each, str) else f"{each:.3g}" for each in ends)
    return [*values, interval or None, effect.verdict]


def _shown(key: str, value: float) -> str | float:
    if key.endswith("_wait"):
        return span_text(value)
    return 100.0 * value if key in ("within_120s", "misdelivered") else value
