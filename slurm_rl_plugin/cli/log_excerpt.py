"""LOG@jobs=FIRST:LAST,load=L,processors=N: a part of a log, busier, or on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.log_workload import select_jobs
from slurm_rl_plugin.simulator.resampling import scale_load


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExcerpt:
    """What a LOG argument asks of its log.

    Attributes:
        log: the argument without the excerpt.
        first, last: jobs taken, counted from 0 in order of submission, `last` not included; None
            for all.
        load: mean fraction of the processors that the jobs ask for; None as recorded.
        processors: size of the machine; None as elsewhere given.
    """

    log: str
    first: int | None = None
    last: int | None = None
    load: float | None = None
    processors: int | None = None

    @classmethod
    def of(cls, argument: str) -> LogExcerpt:
        """Read a LOG argument.

        Raises:
            ConfigurationError: an unknown setting, or a value that it cannot have.
        """
        log, sign, words = argument.rpartition("@")
        if not sign or "=" not in words:
            return cls(log=argument)
        found: dict[str, int | float] = {}
        for part in words.split(","):
            key, _, text = part.partition("=")
            if key == "jobs":
                first, _, last = text.partition(":")
                found["first"] = _number(argument, key, first, int, 0)
                found["last"] = _number(argument, key, last, int, int(found["first"]) + 1)
            elif key == "load":
                found[key] = _number(argument, key, text, float, 1e-6)
            elif key == "processors":
                found[key] = _number(argument, key, text, int, 1)
            else:
                raise ConfigurationError(
                    f"{argument!r}: unknown setting {key!r} behind the @; give jobs=FIRST:LAST, "
                    "load or processors."
                )
        return cls(log=log, **found)  # type: ignore[arg-type]

    def cut(self, log: JobLog) -> JobLog:
        """The jobs asked for.

        Raises:
            ConfigurationError: the log has fewer.
        """
        if self.last is None:
            return log
        if self.last > len(log):
            raise ConfigurationError(
                f"{self.log} holds {len(log)} jobs that ran: jobs={self.first}:{self.last} goes "
                "beyond."
            )
        return select_jobs(log, np.arange(self.first or 0, self.last))

    def scaled(self, log: JobLog, processors: int) -> JobLog:
        """The same jobs arriving so that they ask for `load` of the processors on average."""
        if self.load is None:
            return log
        span = float(log.submit[-1] - log.submit[0])
        asked = float((log.run_time * log.processors).sum()) / (processors * max(span, 1.0))
        return scale_load(log, self.load / asked)


def _number(
    argument: str, key: str, text: str, kind: Callable[[str], int | float], least: float
) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not least <= value < float("inf"):
        raise ConfigurationError(
            f"{argument!r}: {key} has {text!r}, which is no number of at least {least:g}."
        )
    return value
