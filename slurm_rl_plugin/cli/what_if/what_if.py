"""`slurm-rl what-if`: what a change of slurm.conf would do to the users of a log."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.cli.argument_types import make_folder, whole_number
from slurm_rl_plugin.cli.evaluate.goal_option import goal_of
from slurm_rl_plugin.cli.evaluate.study.in_force import settings_in_force
from slurm_rl_plugin.cli.logs.arguments import (
    add_log_options,
    check_machine_options,
    read_logs,
    site_adapter,
)
from slurm_rl_plugin.cli.logs.cluster_option import LIVE, described_cluster
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.named_log import ReadJobs, configured_classifier, site_in_file
from slurm_rl_plugin.cli.progress import parts_bar, said_if_long, say_of_compiling
from slurm_rl_plugin.cli.tables import print_json
from slurm_rl_plugin.cli.train.kept_progress import told_if_interrupted
from slurm_rl_plugin.cli.what_if.document import what_if_document
from slurm_rl_plugin.cli.what_if.text import print_what_if
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.checkpoint import check_checkpoint, forget_checkpoint
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.machine_files.reader import DescribedCluster, plain_cluster
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.schedules.on_nodes import AS_SLURM
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_shares import (
    OF_CLUSTER,
    PAST_WORK,
    accounts_with_jobs,
    shares_at,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import BoolArray
from slurm_rl_plugin.what_if.replay import ReplayedPair, replay_variants
from slurm_rl_plugin.what_if.variant import AS_IT_IS, ClusterVariant, variant_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the cluster, the changes to try, and where results go."""
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="an accounting log; none with --from slurm"
    )
    parser.add_argument(
        "--change",
        action="append",
        required=True,
        metavar="CHANGE",
        help="KEY=VALUE, KEY+=VALUE or KEY-=VALUE of slurm.conf; the same behind `partition NAME`, "
        "`node HOSTLIST`, `qos NAME`, `account NAME` or `user NAME`; `hook MODEL`: our order; "
        "`goal NAME=VALUE` behind it: of [goals]; `reserve RESOURCE=NUMBER`: kept from batch jobs; "
        "several with ; between are made together; repeat to try others",
    )
    add_log_options(parser)
    parser.add_argument(
        "--seed",
        type=whole_number(0),
        default=1,
        metavar="S",
        help="of the weeks that are drawn for intervals (default: 1)",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="keeps what is simulated, so that an interrupted run goes on",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw each variant as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAndJobs:
    """What every question about a cluster is asked of.

    Attributes:
        read: the log.
        jobs: of it, in the order in which they came.
        cluster: as it is said to be.
        settings: how slurmctld and, in variants with our hook, the daemon act.
        shares: of accounts, where neither options nor the cluster tell them.
        notes: what is to be known of the cluster, each one sentence.
    """

    read: ReadJobs
    jobs: JobLog
    cluster: DescribedCluster
    settings: SimulationSettings
    shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, log: str | None, options: LogOptions, known: float = 1.0) -> ClusterAndJobs:
        """Read both.

        Args:
            log: LOG; None with --from slurm.
            options: of the log.
            known: part of the log's time whose work tells shares that nobody else does.

        Raises:
            AccountingLogError: the log cannot be read.
            BatchSystemError: the batch system does not answer.
            ConfigurationError: the cluster is not understood, or options do not fit.
        """
        if options.partitions:
            raise ConfigurationError(
                "--partitions are of machines without nodes: give --cluster instead."
            )
        (read,) = read_logs([log] if log else [], options)
        jobs, notes = read.jobs, tuple[str, ...]()
        named = options.cluster or (LIVE if options.source else None)
        if named is None:
            cluster, jobs, notes = _plain(read)
        else:
            check_machine_options(options)
            cluster = described_cluster(named, site_adapter(options), os.environ)
        capacity = int(cluster.machine.capacity[0])
        settings = SimulationSettings(capacity=capacity, backfilling=AS_SLURM)
        if options.config is not None:
            settings = settings_in_force(site_in_file(options.config), capacity, on_nodes=True)
        found = cls(read=read, jobs=jobs, cluster=cluster, settings=settings, notes=notes)
        early = jobs.select(_within(jobs, known))
        with said_if_long("placing the jobs on the cluster"):
            prepared = read.placed(early, cluster.machine, read.shares_on(cluster.machine))
        shares = dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True))
        return replace(found, shares=shares)

    def placed(self, jobs: JobLog, machine: Machine) -> PreparedLog:
        """Jobs on a machine, with classes that are known at submission and the same shares always.

        Shares are those that options give, else of the machine's accounts, else of the work that
        the log's accounts did on the cluster as it is.

        Raises:
            ConfigurationError: the machine holds none of them.
        """
        given = self.read.shares_on(machine)
        known = given or shares_at(machine, accounts_with_jobs(jobs))
        prepared = self.read.placed(jobs, machine, known or self.shares)
        if given is None:
            prepared = replace(prepared, shares_from=OF_CLUSTER if known else PAST_WORK)
        return class_known_at_submission(prepared, configured_classifier(self.read.options.config))

    def replayed(
        self,
        variants: list[ClusterVariant],
        *,
        counted_from: float | None = None,
        checkpoint: Path | None = None,
    ) -> list[ReplayedPair]:
        """The jobs under the cluster as it is and under each variant, with a bar.

        Args:
            variants: what to try.
            counted_from: see `replay_variants`.
            checkpoint: keeps what is simulated.

        Raises:
            ConfigurationError: a machine holds none of the jobs, or too few are counted.
            SimulationError: a variant cannot be simulated.
        """
        base = ClusterVariant(name=AS_IT_IS, machine=self.cluster.machine)
        say_of_compiling(compiled_before)
        with parts_bar("replaying", 1 + len(variants)) as progress:
            return replay_variants(
                self.jobs,
                base,
                variants,
                self.placed,
                self.settings,
                progress,
                counted_from=counted_from,
                checkpoint=checkpoint,
            )


def _plain(read: ReadJobs) -> tuple[DescribedCluster, JobLog, tuple[str, ...]]:
    """A cluster of processors for jobs that ask for nothing else, and what to say of it.

    Raises:
        ConfigurationError: the jobs ask for nodes, memory or GPUs, which such a cluster lacks; of
            memory in SWF nobody knows how much there was.
    """
    asked = None if read.jobs.kind == "swf" else read.jobs.requests
    if asked is not None and (asked.total[:, 1:].any() or (asked.nodes > 1).any()):
        raise ConfigurationError(
            f"{read.name}: its jobs ask for nodes, memory or GPUs: give --cluster slurm.conf, or "
            f"--cluster {LIVE} on a host of the cluster."
        )
    processors = read.on(None).prepared.capacity
    everything = np.zeros(len(read.jobs), dtype=np.int64)
    jobs = replace(read.jobs, partitions=("",), partition=everything)
    note = (
        f"No --cluster is given: {processors} nodes of one CPU in one partition, with the weights "
        "of the rule multifactor."
    )
    return plain_cluster(processors), jobs, (note,)


def _within(jobs: JobLog, part: float) -> BoolArray:
    """Which jobs came within the first part of the log's time, shape [n]."""
    if len(jobs) == 0:
        return np.zeros(0, dtype=np.bool_)
    first, last = float(jobs.submit.min()), float(jobs.submit.max())
    return np.asarray(jobs.submit <= first + part * (last - first), dtype=np.bool_)


def main(options: argparse.Namespace) -> int:
    """Replay the log under each change and print what it does, with intervals."""
    check_checkpoint(options.checkpoint)
    with told_if_interrupted(options.checkpoint):
        found = ClusterAndJobs.of(options.log, LogOptions.of(options))
        variants = [
            variant_of(each, found.cluster, candidate_of, goal_of) for each in options.change
        ]
        _refuse_twice([each.name for each in variants])
        make_folder("--plot", options.plot)
        pairs = found.replayed(variants, checkpoint=options.checkpoint)
    with said_if_long("comparing"):
        document: dict[str, Any] = what_if_document(found.read, pairs, options.seed)
    document["notes"] = list(found.notes)
    if options.plot is not None:
        from slurm_rl_plugin.cli.what_if.figure import draw_variants  # noqa: PLC0415 - matplotlib

        document["figures"] = draw_variants(options.plot, document)
    forget_checkpoint(options.checkpoint)
    if options.json:
        print_json(document)
        return 0
    print_what_if(document)
    return 0


def _refuse_twice(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"--change {name!r} is given twice: leave one out.")
