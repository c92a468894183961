"""A LOG as it was read, and the same ready to be simulated on some machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.tables import printable
from slurm_rl_plugin.configuration import Configuration, read_configuration
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.simulator.workloads.log_shares import (
    OF_CLUSTER,
    PAST_WORK,
    SHARES_WORDS,
    SSHARE,
    accounts_with_jobs,
    accounts_with_shares,
    shares_at,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.simulator.workloads.started_jobs import jobs_with_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLog:
    """A log, where it came from and what its reader dropped.

    Attributes:
        name: file name without its folder, or the generator's words.
        prepared: ready to be simulated.
        report: of the reader; a generated log drops nothing.
        origin: what else a manifest tells of a log that came from no file; empty for others.
        whence: of such a log, who told its processors and its shares.
    """

    name: str
    prepared: PreparedLog
    report: ReadReport
    origin: Mapping[str, Any] = field(default_factory=dict)
    whence: Mapping[str, str] = field(default_factory=dict)

    @property
    def dropped(self) -> dict[str, int]:
        """Reason -> jobs left out by the reader or because they do not fit the machine."""
        return {**self.report.dropped, **self.prepared.dropped}

    def with_starts(self) -> NamedLog:
        """The same without the few jobs whose start is not recorded, where starts are replayed."""
        return replace(self, prepared=jobs_with_starts(self.prepared))

    @property
    def is_recorded(self) -> bool:
        """Whether the jobs ran at a site, and were not drawn."""
        return bool(self.report.checksum or self.origin)

    @property
    def shares_sentence(self) -> str:
        """Say what gives the accounts their shares."""
        return SHARES_WORDS[self.whence.get("shares_from", self.prepared.shares_from)]

    @property
    def words(self) -> str:
        """What names the log on a command line, but for its folder."""
        if not self.origin:
            return self.name
        return "--from {source} --since {since} --until {until}".format(**self.origin)

    @property
    def source(self) -> dict[str, Any]:
        """For manifests: the name and the checksum of what was read."""
        return {
            "log": self.name,
            "sha256": self.report.checksum,
            "jobs": len(self.prepared.log),
            "processors": self.prepared.capacity,
            "class_rule": self.prepared.class_rule,
            **self.origin,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJobs:
    """The jobs of a LOG as they were read, before they are put on any machine.

    Attributes:
        name: as of a `NamedLog`.
        jobs: all that the reader kept.
        report: of the reader.
        options: how they become a workload.
        shares: of accounts; None where the log or the machine tells them.
        capacity: processors, where the log is simulated on a pool of them; None for its own.
        billing: of the site, where no machine tells it.
        origin, whence: as of a `NamedLog`.
    """

    name: str
    jobs: JobLog
    report: ReadReport
    options: LogOptions
    shares: Mapping[str, float] | None
    capacity: int | None
    billing: Billing | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    whence: Mapping[str, str] = field(default_factory=dict)

    def on(self, machine: Machine | None) -> NamedLog:
        """The same on the nodes of a machine; None for a pool of processors.

        Raises:
            ConfigurationError: the machine holds none of them, or options do not fit.
        """
        prepared = self.placed(self.jobs, machine, self.shares_on(machine))
        of_accounts = machine is not None and machine.associations and not machine.entity
        if machine is not None and of_accounts and prepared.shares_from == PAST_WORK:
            used, known = accounts_with_jobs(self.jobs), accounts_with_shares(machine)
            lacking = [name for name in used if name.lower() not in known]
            names = ", ".join(printable(name) or "''" for name in lacking) or "all of the log"
            print(
                f"slurm-rl: {self.name}: the cluster gives these accounts no shares: {names}; its "
                "shares are not used.",
                file=sys.stderr,
            )
        return NamedLog(
            name=self.name,
            prepared=prepared,
            report=self.report,
            origin=self.origin,
            whence={**self.whence, **self._shares_from(prepared)},
        )

    def shares_on(self, machine: Machine | None) -> Mapping[str, float] | None:
        """Shares to prepare the log with: those of a machine go before sshare's, as they change."""
        by_sshare = self.whence.get("shares_from") == SSHARE
        if by_sshare and machine and shares_at(machine, accounts_with_jobs(self.jobs)):
            return None
        return self.shares

    def _shares_from(self, prepared: PreparedLog) -> dict[str, str]:
        own = prepared.shares_from == OF_CLUSTER
        return {"shares_from": OF_CLUSTER} if own and "shares_from" in self.whence else {}

    def placed(
        self, jobs: JobLog, machine: Machine | None, shares: Mapping[str, float] | None
    ) -> PreparedLog:
        """Some jobs of this log, or other ones like them, on a machine; raises as `on` does.

        Args:
            jobs: as they were read, or as they would be.
            machine: whose nodes they run on; None for a pool of processors.
            shares: of accounts; None where the jobs' work tells them.
        """
        return prepare_log(
            jobs,
            capacity=self.capacity,
            shares=shares,
            classifier=configured_classifier(self.options.config),
            whole_nodes_of=self.options.whole_nodes_of,
            kill_at_limit=self.options.kill_at_limit,
            partitions=self.options.partitions,
            machine=machine,
            billing=self.billing,
        )


def site_in_file(config: Path) -> Configuration:
    """What --config says of a site; from the file alone, so that a command gives the same again.

    Raises:
        ConfigurationError: lists every fault.
    """
    return read_configuration(config)


def configured_classifier(config: Path | None) -> JobClassifier | None:
    """The job-class rules of --config; None where it is not given or names none."""
    if config is None:
        return None
    configuration = site_in_file(config)
    return configuration.classifier if configuration.has_class_rules else None
