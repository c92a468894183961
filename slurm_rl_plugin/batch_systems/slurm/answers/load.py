"""How busy slurmctld is, and how much has happened to its queue: from `sdiag`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.process import not_understood

SDIAG = ("sdiag",)
#: Of the 256 threads that slurmctld serves calls with; beyond, callers wait and time out.
BUSY_THREADS = 180
#: Messages to nodes that wait for their turn.
BUSY_AGENTS = 500
#: What happened to jobs since slurmctld counts; any of them changes the queue.
EVENTS = ("submitted", "started", "completed", "canceled", "failed")
_NUMBER = re.compile(r"^\s*(?P<name>[A-Za-z][A-Za-z ]*):\s+(?P<value>\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLoad:
    """How busy slurmctld is, and what has happened so far, as `sdiag` tells it.

    Attributes:
        threads: calls that it serves now.
        agents: messages to nodes that wait.
        database: messages to slurmdbd that wait.
        events: how often each of EVENTS has happened; counted anew from time to time.
    """

    threads: int
    agents: int
    database: int
    events: tuple[int, ...]

    @property
    def submitted(self) -> int:
        """Jobs that have come; an array is one."""
        return self.events[EVENTS.index("submitted")]

    @property
    def struggles(self) -> str | None:
        """Why we should wait, or None."""
        if self.threads > BUSY_THREADS:
            return f"slurmctld serves {self.threads} calls at once"
        if self.agents > BUSY_AGENTS:
            return f"{self.agents} messages to nodes wait"
        return None


def parse_load(text: str) -> SlurmLoad:
    """Read the answer of SDIAG.

    Raises:
        BatchSystemError: a number that we need is missing.
    """
    found: dict[str, int] = {}
    for match in _NUMBER.finditer(text):
        found.setdefault(match["name"], int(match["value"]))
    try:
        return SlurmLoad(
            threads=found["Server thread count"],
            agents=found["Agent queue size"],
            database=found["DBD Agent queue size"],
            events=tuple(found[f"Jobs {event}"] for event in EVENTS),
        )
    except KeyError as error:
        raise not_understood("sdiag", f"no line {error.args[0]!r}") from error
