"""Whether Slurm is on this host, and whether it answers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_rl_plugin.batch_systems.command_process import answers
from slurm_rl_plugin.batch_systems.kind import Presence
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

#: Where Slurm's configuration is looked for, unless SLURM_CONF names it.
SLURM_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)


def slurm_presence(environment: Mapping[str, str]) -> Presence:
    """By `scontrol` on the PATH, and by slurm.conf, which a configless host has not."""
    named = environment.get("SLURM_CONF")
    places = (named,) if named else SLURM_CONFS
    return Presence(
        is_here=shutil.which("scontrol", path=environment.get("PATH")) is not None,
        sign="scontrol",
        lacks="no scontrol",
        is_configured=any(Path(place).exists() for place in places),
        lacks_configuration="no slurm.conf",
    )


def slurm_answers(environment: Mapping[str, str], seconds: float) -> bool:
    """Whether slurmctld does."""
    commands = CommandRunner(environment=environment, timeout=seconds, on_call=None)
    return answers(commands, ("scontrol", "ping"))
