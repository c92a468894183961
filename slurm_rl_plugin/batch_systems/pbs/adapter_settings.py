"""Settings of the adapter for PBS: what the assembly gives it of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.domain.job_class import IsInteractive


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsAdapterSettings:
    """What the adapter for PBS is told of the cluster and of the machine that it runs on.

    Attributes:
        shares: account -> share, scaled to sum 1; None asks `pbsfs`.
        interactive: tells whether a job is of the interactive class.
        clock: seconds since the epoch.
        timeout: seconds that any call may take.
        environment: variables of the calls, PATH and PBS_CONF_FILE among them; None takes this
            process's own.
        on_call: told each call's name and the seconds it took.
        heartbeat: the file that `beat` touches; None for none.
        history_days: the first snapshot reports the runs of so many days as ended, from the
            accounting files of this host; 0 asks for none.
        batch_queues: execution queues whose jobs are batch work, which `limit_batch` limits.
        limits_file: keeps the site's own limits of those queues while ours stand; None keeps none.
        limit_queues: whose limits may be taken back; see `pbs.batch_limit.PbsBatchLimit`.
    """

    shares: Mapping[str, float] | None
    interactive: IsInteractive
    clock: Callable[[], float]
    timeout: float = 10.0
    environment: Mapping[str, str] | None = None
    on_call: Callable[[str, float], None] | None = None
    heartbeat: Path | None = None
    history_days: float = 0.0
    batch_queues: tuple[str, ...] = ()
    limits_file: Path | None = None
    limit_queues: frozenset[str] | None = None

    def commands(self) -> PbsCommands:
        """What runs PBS's commands with these variables, this time-out and this listener."""
        return PbsCommands(environment=self.environment, timeout=self.timeout, on_call=self.on_call)


def heartbeat_file(state_file: Path) -> Path:
    """Where PBS's dead-man hook looks for our sign of life, beside the state file."""
    return state_file.with_name("heartbeat")
