"""A LOG as it was read, and the same ready to be simulated on some machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.simulator.workloads.log_workload import (
    OF_CLUSTER,
    PAST_WORK,
    SHARES_WORDS,
    SSHARE,
    PreparedLog,
    accounts_with_jobs,
    accounts_with_shares,
    jobs_with_starts,
    prepare_log,
    shares_at,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How LOG arguments are read."""

    source: str | None = None  #: "slurm" for the cluster's own accounting; None for LOG arguments
    #: since, until: local times between which jobs of accounting ended; None where not given
    since: datetime | None = None
    until: datetime | None = None
    keep: Path | None = None
    sacct_timeout: float  #: seconds that one question to accounting may take
    processors: int | None = None  #: size of the machine; None takes the log's or the cluster's
    #: processors of each partition, where they share none
    partitions: Mapping[str, int] | None = None
    #: share of each account, sum 1; None asks the configuration, the cluster or the log
    shares: Mapping[str, float] | None = None
    #: file with the account of each user, which goes before the log's
    account_of: Path | None = None
    whole_nodes_of: int = 1  #: processors of a node where jobs get whole nodes
    kill_at_limit: bool = False
    config: Path | None = None  #: file whose rules of job classes and shares are taken
    #: slurm.conf, the folder that holds it, or "live": the jobs run on its nodes
    cluster: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Those of a command line."""
        return cls(**{each.name: getattr(options, each.name) for each in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLog:
    """A log, where it came from and what its reader dropped."""

    name: str  #: file name without its folder, or the generator's words
    prepared: PreparedLog
    report: ReadReport  #: of the reader; a generated log drops nothing
    #: further entries of a manifest for a log that came from no file; empty for others
    origin: Mapping[str, Any] = field(default_factory=dict)
    #: of such a log, the source of its processors and its shares
    whence: Mapping[str, str] = field(default_factory=dict)
    notice: str = ""  #: what users should know of its shares; "" for nothing

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
    """The jobs of a LOG as they were read, before they are put on any machine."""

    name: str  #: as of a `NamedLog`
    jobs: JobLog
    report: ReadReport  #: as of a `NamedLog`
    options: LogOptions  #: how they become a workload
    shares: Mapping[str, float] | None  #: of accounts; None if the log or the machine has them
    #: processors, where the log is simulated on a pool of them; None for its own
    capacity: int | None
    billing: Billing | None = None  #: of the site, without a machine that has it
    origin: Mapping[str, Any] = field(default_factory=dict)  #: as of a `NamedLog`
    whence: Mapping[str, str] = field(default_factory=dict)  #: as of a `NamedLog`

    def on(self, machine: Machine | None) -> NamedLog:
        """The same on the nodes of a machine; None for a pool of processors."""
        prepared, notice = self.placed(self.jobs, machine, self.shares_on(machine)), ""
        of_accounts = machine is not None and machine.associations and not machine.entity
        if machine is not None and of_accounts and prepared.shares_from == PAST_WORK:
            used, known = accounts_with_jobs(self.jobs), accounts_with_shares(machine)
            lacking = [name for name in used if name.lower() not in known]
            names = ", ".join(name or "''" for name in lacking) or "all of the log"
            notice = (
                f"{self.name}: the cluster gives these accounts no shares: {names}; its shares are "
                "not used."
            )
        whence = dict(self.whence)
        if prepared.shares_from == OF_CLUSTER and "shares_from" in whence:
            whence["shares_from"] = OF_CLUSTER
        return NamedLog(
            name=self.name,
            prepared=prepared,
            report=self.report,
            origin=self.origin,
            whence=whence,
            notice=notice,
        )

    def shares_on(self, machine: Machine | None) -> Mapping[str, float] | None:
        """Shares to prepare the log with: those of a machine go before sshare's, as they change."""
        by_sshare = self.whence.get("shares_from") == SSHARE
        if by_sshare and machine and shares_at(machine, accounts_with_jobs(self.jobs)):
            return None
        return self.shares

    def placed(
        self, jobs: JobLog, machine: Machine | None, shares: Mapping[str, float] | None
    ) -> PreparedLog:
        """Some jobs of this log, or other ones like them, on a machine."""
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


def configured_classifier(config: Path | None) -> JobClassifier | None:
    """The job-class rules of --config; None where it is not given or names none.

    The file alone counts, so that a command gives the same again.
    """
    if config is None:
        return None
    configuration = read_configuration(config)
    return configuration.classifier if configuration.has_class_rules else None
