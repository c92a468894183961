"""Whether OpenPBS is on this host, and whether it answers.

Torque has a `qstat` too, but no pbs.conf that names PBS_EXEC.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slurm_rl_plugin.batch_systems.command_process import answers
from slurm_rl_plugin.batch_systems.kind import Presence
from slurm_rl_plugin.batch_systems.pbs.process import DEFAULT_CONF, PbsCommands, read_pbs_conf


def pbs_presence(environment: Mapping[str, str]) -> Presence:
    """By the pbs.conf that PBS_CONF_FILE names."""
    conf = environment.get("PBS_CONF_FILE") or DEFAULT_CONF
    installed = read_pbs_conf(conf).get("PBS_EXEC")
    is_here = installed is not None and Path(installed, "bin", "qstat").exists()
    lacks = f"no PBS_EXEC in {conf}"
    return Presence(
        is_here=is_here,
        sign=conf,
        lacks=lacks,
        is_configured=is_here,
        lacks_configuration=lacks,
    )


def pbs_answers(environment: Mapping[str, str], seconds: float) -> bool:
    """Whether pbs_server does."""
    commands = PbsCommands(environment=environment, timeout=seconds, on_call=None)
    return answers(commands, ("qstat", "-B"))
