"""What accounting tells of a site, for its forecasts: read at first, and again each hour."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.kind import BatchSystemKind
from slurm_rl_plugin.configuration import Configuration
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError, SlurmRLError
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    jobs_with_starts,
    prepare_log,
)
from slurm_rl_plugin.units import HOUR, MINUTE

logger = logging.getLogger(__name__)

#: Seconds after which accounting is asked again.
_READ_EVERY = HOUR
#: The same while it has told of no run: it may have been down, or the site be new.
_UNTIL_KNOWN = MINUTE
#: Seconds that a query of one month, and one of the machine, may take.
_SECONDS, _SECONDS_OF_MACHINE = 600.0, 60.0


@dataclass(slots=True, kw_only=True)
class OwnHistory:
    """The accounting of a site."""

    configuration: Configuration
    kind: BatchSystemKind
    _known: PreparedLog | None = None
    _read: float = float("-inf")

    def known(self, processors: int) -> PreparedLog | None:
        """The last weeks' runs; None while accounting tells of none.

        What cannot be read again stays as it was.
        """
        every = _UNTIL_KNOWN if self._known is None else _READ_EVERY
        if time.monotonic() - self._read >= every:
            self._read = time.monotonic()
            try:
                self._known = self.read(processors)
            except SlurmRLError as error:
                logger.warning("history=unread reason=%s", error)
        return self._known

    def read(self, processors: int) -> PreparedLog:
        """The last weeks' runs as accounting tells them now."""
        machine = self._machine()
        log = self._log()
        prepared = prepare_log(
            log,
            capacity=max(processors, int(log.processors.max(initial=1))),
            classifier=self.configuration.classifier,
            machine=machine,
        )
        logger.info("history=read jobs=%d", len(prepared.log))
        return jobs_with_starts(prepared)

    def _log(self) -> JobLog:
        path = self.configuration.sections.forecast.log
        if path:
            return read_log(Path(path))[0]
        if self.kind.accounting is None:
            raise ConfigurationError(
                f"{self.kind.title} is not asked for its accounting: give [forecast] log."
            )
        accounting = self.kind.accounting(_SECONDS)
        accounting.check()
        until = datetime.now().replace(microsecond=0)  # Slurm's commands take local time
        days = float(self.configuration.sections.forecast.history_days)
        dump = accounting.dump(until - timedelta(days=days), until, lambda *_: None)
        return accounting.read(dump, f"of the last {days:g} days")[0]

    def _machine(self) -> Machine | None:
        """The nodes, where the batch system tells them, in words that are understood."""
        if self.kind.machine is None or not self.kind.presence(os.environ).is_here:
            return None
        try:
            return self.kind.machine(_SECONDS_OF_MACHINE)
        except (BatchSystemError, ConfigurationError) as error:
            logger.warning("machine=unread: processors alone are counted reason=%s", error)
            return None
