"""Times into which PBS lets no job run by its walltime, but would by its soft_walltime.

pbs_sched tests reservations by the walltime, dedicated time and prime time by the soft_walltime.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob
from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import SchedConfig, read_sched_config

#: Seconds before the last moment at which a job could start without running into dedicated time:
#: so long may a daemon be away, or its time zone another, and take the estimate away all the same.
AHEAD = 86400.0
_SPAN = re.compile(r"\s*(\d+/\d+/\d+)\s+(\d+:\d+)\s+(\d+/\d+/\d+)\s+(\d+:\d+)")
_CENTURY = 2000
_DEDICATED, _PRIME, _NON_PRIME = "dedicated_prefix", "primetime_prefix", "nonprimetime_prefix"
_PREFIXES = {_DEDICATED: "ded", _PRIME: "p_", _NON_PRIME: "np_"}


@dataclass(frozen=True, slots=True)
class ClosedTimes:
    """What the files of the scheduler close for jobs, or why that cannot be told.

    Attributes:
        config: None where it cannot be read.
        dedicated: begins and ends of dedicated times, seconds since the epoch.
        fault: why one of the files cannot be read, one sentence; None where both can.
    """

    config: SchedConfig | None
    dedicated: Sequence[tuple[float, float]] = ()
    fault: str | None = None

    def obstacle(self, job: PbsJob, now: float) -> str | None:
        """Why a waiting job must keep to its walltime, one sentence; None where it need not.

        Args:
            job: has a walltime.
            now: seconds since the epoch.
        """
        if self.fault is not None or self.config is None:
            return self.fault
        last = now + job.time_limit + AHEAD
        if any(end > now and begin < last for begin, end in self.dedicated):
            return "it could run into dedicated time, which PBS tests by soft_walltime"
        if job.queue.startswith(self._prefix(_DEDICATED)):
            return "its queue is for dedicated time, whose end PBS tests by soft_walltime"
        if self.config.ever("backfill_prime") and not self._is_exempt(job.queue):
            return "backfill_prime is on, and PBS tests the end of prime time by soft_walltime"
        return None

    def _is_exempt(self, queue: str) -> bool:
        bound = tuple(self._prefix(name) for name in (_PRIME, _NON_PRIME))
        config = self.config
        return (
            config is not None
            and config.always("prime_exempt_anytime_queues")
            and not queue.startswith(bound)
        )

    def _prefix(self, name: str) -> str:
        return (self.config.text(name) if self.config else "") or _PREFIXES[name]


def read_closed_times(folder: Path) -> ClosedTimes:
    """Read sched_config and dedicated_time in the folder `sched_priv`."""
    path = folder / "sched_config"
    try:
        config = read_sched_config(path)
    except OSError as error:
        return ClosedTimes(None, fault=_unreadable(path, error))
    path = folder / "dedicated_time"
    try:
        return ClosedTimes(config, parse_dedicated(path.read_text(errors="replace")))
    except FileNotFoundError:
        return ClosedTimes(config)
    except OSError as error:
        return ClosedTimes(config, fault=_unreadable(path, error))
    except ValueError as error:
        what = f"{path}, {error}: write MM/DD/YYYY HH:MM MM/DD/YYYY HH:MM"
        return ClosedTimes(config, fault=what)


def parse_dedicated(words: str) -> list[tuple[float, float]]:
    """Begin and end of each line, local time of this host made seconds since the epoch.

    Raises:
        ValueError: a line holds no two times.
    """
    spans: list[tuple[float, float]] = []
    for number, line in enumerate(words.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _SPAN.match(line)
        if found is None:
            raise ValueError(f"line {number}: no begin and end of dedicated time")
        try:
            spans.append((_clock(found[1], found[2]), _clock(found[3], found[4])))
        except (ValueError, OverflowError):
            raise ValueError(f"line {number}: no such date") from None
    return spans


def _clock(day: str, hour: str) -> float:
    month, date, year = (int(part) for part in day.split("/"))
    year += _CENTURY if year < 100 else 0  # two digits
    return time.mktime(time.strptime(f"{year}-{month}-{date} {hour}", "%Y-%m-%d %H:%M"))


def _unreadable(path: Path, error: OSError) -> str:
    return (
        f"{path} cannot be read ({error.strerror}): make it readable for the user of this daemon, "
        "on the server's host"
    )
