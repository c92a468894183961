"""The file that remembers plan estimates of ours, what heads were promised, and the longest wait.

It is there while an estimate of ours may stand, and written before one is. Of jobs that have left
the queue with one another file beside it tells, once the first is gone.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.kept_record import UNREADABLE
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, may_exist, read_whole, write_whole

logger = logging.getLogger(__name__)
_VERSION = 1
#: Subjobs of OpenPBS have numbers of their own above its 999999999999, up to what 64 bits hold.
_LARGEST_JOB = 2**63 - 1
_MOST_SECONDS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """What the file holds.

    Attributes:
        jobs: number of each job that may carry an estimate of ours -> the seconds that it may have.
        promises: number of each job that was head and waits -> when it was to start, seconds since
            the epoch.
        longest: longest wait that the site has known lately, seconds.
        time: of the last look, seconds since the epoch; -inf before the first.
    """

    jobs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    promises: Mapping[int, float] = field(default_factory=dict)
    longest: float = 0.0
    time: float = -math.inf


@dataclass(frozen=True, slots=True)
class PlanFile:
    """Reads and writes it; `path` lies beside the state file."""

    path: Path

    @property
    def stands(self) -> bool:
        """Whether an estimate of ours may stand."""
        return may_exist(self.path)

    @property
    def of_others(self) -> PlanFile:
        """The file of those who may come back with an estimate of ours, where none waits."""
        return PlanFile(self.path.with_name(self.path.name + "-others"))

    def read_all(self) -> PlanMemory | None:
        """What both files hold; None where one of them cannot be trusted."""
        known, others = self.read(), self.of_others.read()
        if known is None or others is None:
            return None
        later = max(known, others, key=lambda each: each.time)
        return replace(later, jobs={**others.jobs, **known.jobs}, promises=known.promises)

    def read(self) -> PlanMemory | None:
        """What it holds; nothing where it is not there, None where it cannot be trusted."""
        try:
            found: dict[str, Any] = json.loads(read_whole(self.path))
            if found["version"] != _VERSION:
                raise ValueError(f"version {found['version']}")
            return PlanMemory(
                jobs={
                    _job(job): tuple(_seconds(each) for each in told)
                    for job, told in found["jobs"].items()
                },
                promises={_job(job): _finite(told) for job, told in found["promises"].items()},
                longest=max(_finite(found["longest"]), 0.0),
                time=-math.inf if found["time"] == -math.inf else _finite(found["time"]),
            )
        except FileNotFoundError:
            return PlanMemory()
        except UNREADABLE as error:
            logger.warning("plan_estimates=unreadable path=%s error=%s", self.path, error)
            return None

    def write(self, known: PlanMemory) -> None:
        """Replace the file: written beside, synced, renamed.

        Raises:
            ConfigurationError: the folder is missing or not writable.
        """
        content = {
            "version": _VERSION,
            "jobs": dict(known.jobs),
            "promises": dict(known.promises),
            "longest": known.longest,
            "time": known.time,
        }
        try:
            write_whole(self.path, json.dumps(content), mode=PRIVATE)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be written ({error.strerror}): make its folder writable for "
                "this user."
            ) from None

    def remove(self) -> None:
        """No estimate of ours stands.

        Raises:
            OSError: the file cannot be removed.
        """
        self.path.unlink(missing_ok=True)


def _job(found: str) -> int:
    number = int(found)
    if not 1 <= number <= _LARGEST_JOB:
        raise ValueError(f"{number} is no job's number")
    return number


def _finite(found: Any) -> float:
    """A time or a span of time: one that is no number would bound nothing.

    Raises:
        ValueError: it is none.
        OverflowError: no float holds it.
    """
    number = float(found)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no time")
    return number


def _seconds(found: object) -> int:
    number = int(str(found))
    if not 0 <= number < _MOST_SECONDS:
        raise ValueError(f"{number} are no seconds of an estimate")
    return number
