"""Settings of the adapters for Slurm: what the assembly gives them of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_rl_plugin.batch_systems.slurm.batch_limit.limit import LimitNames, LimitSettings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.job_class import IsInteractive


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAdapterSettings:
    """What an adapter for Slurm is told of the cluster and of the machine that it runs on.

    Attributes:
        shares: account -> share, scaled to sum 1; None takes RawShares from `sshare`.
        interactive: tells whether a job is of the interactive class.
        clock: seconds since the epoch.
        timeout: seconds that any call may take.
        environment: of the calls; see `CommandRunner`.
        on_call: told each call's name and the seconds it took.
        writes_per_call: changes sent at once, with a time-out to match.
        history_days: the first snapshot reports the runs of so many days as ended, from
            accounting; 0 asks for none.
        host: name of this machine; "" is none of the controllers'.
        nice_file: keeps the users' nice values where Nice is the lever; None keeps none.
        limit: what carries a limit on batch jobs; None limits nothing.
        limits_file: keeps the site's own limit while ours stands; None limits nothing.
        limit_names: of every limit that may be taken back; see `SlurmBatchLimit`.
        class_defaults: the table for job_submit.lua, which checks look at; None for none.
    """

    shares: Mapping[str, float] | None
    interactive: IsInteractive
    clock: Callable[[], float]
    timeout: float = 10.0
    environment: Mapping[str, str] | None = None
    on_call: Callable[[str, float], None] | None = None
    writes_per_call: int = 500
    history_days: float = 30.0
    host: str = ""
    nice_file: Path | None = None
    limit: LimitSettings | None = None
    limits_file: Path | None = None
    limit_names: frozenset[LimitNames] | None = None
    class_defaults: Path | None = None

    def commands(self) -> CommandRunner:
        """What runs Slurm's commands with these variables, this time-out and this listener."""
        return CommandRunner(
            environment=self.environment, timeout=self.timeout, on_call=self.on_call
        )
