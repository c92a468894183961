"""The cluster's own accounting as a log to train on, with its size and its shares."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.batch_systems.kind import LogDump
from slurm_rl_plugin.batch_systems.slurm.accounting.dump import (
    month_stretches,
    read_accounting_dump,
)
from slurm_rl_plugin.batch_systems.slurm.answers.fields import parse_all_processors
from slurm_rl_plugin.batch_systems.slurm.answers.machine import read_billing
from slurm_rl_plugin.batch_systems.slurm.answers.shares import parse_shares
from slurm_rl_plugin.batch_systems.slurm.cluster import SINFO, SSHARE
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.errors import AccountingLogError, ConfigurationError


class SlurmAccounting:
    """sacct as a log to train on; sinfo and sshare tell what a log needs beside jobs.

    Args:
        timeout: seconds that a call may take.
    """

    def __init__(self, timeout: float) -> None:
        self._commands = CommandRunner(environment=None, timeout=timeout, on_call=None)

    def check(self) -> None:
        """Refuse a host without `sacct`.

        Raises:
            ConfigurationError: it is not on the PATH.
        """
        if shutil.which("sacct") is None:
            raise ConfigurationError(
                "--from slurm needs sacct, which is not on the PATH: install Slurm's client "
                "commands, or run this where they are."
            )

    def queries(self, since: datetime, until: datetime) -> int:
        """How many calls of `sacct` a dump takes: one a month."""
        return len(month_stretches(since, until))

    def dump(
        self, since: datetime, until: datetime, progress: Callable[[int, float], None]
    ) -> LogDump:
        """Ask `sacct` month by month; raises as `OwnAccounting.dump` says."""
        stretches = month_stretches(since, until)
        return read_accounting_dump(self._commands, SACCT_FIELDS, stretches, progress)

    def read(self, dump: LogDump, when: str) -> tuple[JobLog, ReadReport]:
        """The jobs of a dump that ran; polars is needed.

        Raises:
            AccountingLogError: no job ran, or an answer that is no dump.
        """
        if not dump.lines:
            raise AccountingLogError("sacct", f"no job ended {when}; give an earlier --since")
        content = dump.text.encode()
        # comes with an extra, which a head node that only keeps the dump does without
        from slurm_rl_plugin.accounting.sacct.reader import SacctReader  # noqa: PLC0415

        log, report = SacctReader().parse(LogFile(Path("sacct"), content, ""))
        if not len(log):
            problem = f"none of the {report.read} jobs that ended {when} ever ran"
            raise AccountingLogError("sacct", f"{problem}; give an earlier --since")
        return log, report

    def processors(self) -> int:
        """All processors by `sinfo`, those of nodes that are down as well."""
        return parse_all_processors(self._commands.read(SINFO))

    def shares(self, accounts: Sequence[str]) -> dict[str, float] | None:
        """Shares of these accounts by `sshare`, sum 1; what one leaves falls to others."""
        tree = parse_shares(self._commands.read(SSHARE))
        found = {name: tree.shares[name] for name in accounts if tree.shares.get(name, 0.0) > 0}
        whole = sum(found.values())
        return {name: share / whole for name, share in found.items()} or None

    def billing(self) -> Billing:
        """TRESBillingWeights by `scontrol`, and UsageFactor of each QOS by `sacctmgr`."""
        return read_billing(self._commands.read)
