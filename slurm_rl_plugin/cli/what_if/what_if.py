"""`slurm-rl what-if`: what a change of slurm.conf would do to the users of a log."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.argument_types.numbers import whole_number
from slurm_rl_plugin.cli.assembly.candidates import candidate_of
from slurm_rl_plugin.cli.evaluate.study.in_force import settings_in_force
from slurm_rl_plugin.cli.logs.arguments import (
    add_log_options,
    check_machine_options,
    read_logs,
    site_adapter,
)
from slurm_rl_plugin.cli.logs.cluster_option import described_cluster
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.named_log import ReadJobs, site_in_file
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.tables import print_json
from slurm_rl_plugin.cli.what_if.document import what_if_document
from slurm_rl_plugin.cli.what_if.text import print_what_if
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.plain_cluster import plain_cluster
from slurm_rl_plugin.machine_files.reader import DescribedCluster
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.what_if.blocks import Blocks
from slurm_rl_plugin.what_if.replay import COUNTED_FROM, ReplayedVariants, replay_variants
from slurm_rl_plugin.what_if.variant import AS_IT_IS, ClusterVariant, variant_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the cluster, the changes to try, and where results go."""
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="sacct, PBS or SWF log; none with --from slurm"
    )
    parser.add_argument(
        "--change",
        action="append",
        required=True,
        metavar="CHANGE",
        help="KEY=VALUE, KEY+=VALUE or KEY-=VALUE of slurm.conf; the same behind `partition NAME`, "
        "`node HOSTLIST`, `qos NAME`, `account NAME` or `user NAME`; `hook MODEL`: our order; "
        "`reserve RESOURCE=NUMBER`: kept from batch jobs; several with ; between are made "
        "together; repeat to try others",
    )
    add_log_options(parser)
    parser.add_argument(
        "--seed",
        type=whole_number(0),
        default=1,
        metavar="S",
        help="of the weeks that are drawn for intervals (default: 1)",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw each variant as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAndJobs:
    """What every question about a cluster is asked of.

    Attributes:
        jobs: of the log.
        cluster: as it is said to be.
        settings: how slurmctld and, in variants with our hook, the daemon act.
    """

    jobs: ReadJobs
    cluster: DescribedCluster
    settings: SimulationSettings

    @classmethod
    def of(cls, log: str | None, options: LogOptions) -> ClusterAndJobs:
        """Read both.

        Raises:
            AccountingLogError: the log cannot be read.
            BatchSystemError: the batch system does not answer.
            ConfigurationError: the cluster is not understood, or options do not fit.
        """
        if options.partitions:
            raise ConfigurationError(
                "--partitions are of machines without nodes: give --cluster instead."
            )
        (jobs,) = read_logs([log] if log else [], options)
        if options.cluster is None:
            cluster = plain_cluster(jobs.on(None).prepared.capacity)
        else:
            check_machine_options(options)
            cluster = described_cluster(options.cluster, site_adapter(options), os.environ)
        capacity = int(cluster.machine.capacity[0])
        if options.config is None:
            settings = SimulationSettings(capacity=capacity, backfilling=AS_SLURM)
        else:
            settings = settings_in_force(site_in_file(options.config), capacity, on_nodes=True)
        return cls(jobs=jobs, cluster=cluster, settings=settings)

    def replayed(
        self, variants: list[ClusterVariant], *, counted_from: float = COUNTED_FROM
    ) -> ReplayedVariants:
        """The jobs under the cluster as it is and under each variant, with a bar.

        Args:
            variants: what to try.
            counted_from: part of the log's time from which on jobs are counted.

        Raises:
            ConfigurationError: a machine holds none of the jobs, or too few are counted.
            SimulationError: a variant cannot be simulated.
        """
        base = ClusterVariant(name=AS_IT_IS, machine=self.cluster.machine)
        with parts_bar("replaying", 1 + len(variants)) as progress:
            return replay_variants(
                self.jobs.jobs,
                base,
                variants,
                self.jobs.placed,
                self.settings,
                progress,
                counted_from=counted_from,
            )


def main(options: argparse.Namespace) -> int:
    """Replay the log under each change and print what it does, with intervals."""
    found = ClusterAndJobs.of(options.log, LogOptions.of(options))
    variants = [variant_of(each, found.cluster, candidate_of) for each in options.change]
    _refuse_twice([each.name for each in variants])
    if options.plot is not None:
        options.plot.mkdir(parents=True, exist_ok=True)
    replayed = found.replayed(variants)
    submit = replayed.base.prepared.log.submit[replayed.base.at(replayed.counted)]
    blocks = Blocks.over(submit, np.random.default_rng(options.seed))
    document: dict[str, Any] = what_if_document(found.jobs, replayed, blocks)
    if options.plot is not None:
        from slurm_rl_plugin.cli.what_if.figure import draw_variants  # noqa: PLC0415 - matplotlib

        document["figures"] = draw_variants(options.plot, document)
    if options.json:
        print_json(document)
    else:
        print_what_if(document)
    return 0


def _refuse_twice(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"--change {name!r} is given twice: leave one out.")
