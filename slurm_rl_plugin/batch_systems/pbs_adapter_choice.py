"""Whether the batch system here is OpenPBS, where nobody has configured it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_rl_plugin.batch_systems.pbs_process import DEFAULT_CONF, read_pbs_conf

AUTO, PBS = "auto", "pbs"


def is_pbs(wanted: str, environment: Mapping[str, str]) -> bool:
    """Whether the PBS adapter is taken: it is configured, or there is PBS and no Slurm.

    Torque has a `qstat` too, but no pbs.conf that names PBS_EXEC.

    Args:
        wanted: the configured adapter.
        environment: PATH and PBS_CONF_FILE.
    """
    if wanted != AUTO:
        return wanted == PBS
    path = environment.get("PATH")
    if shutil.which("scontrol", path=path) is not None:
        return False
    installed = read_pbs_conf(environment.get("PBS_CONF_FILE") or DEFAULT_CONF).get("PBS_EXEC")
    return installed is not None and Path(installed, "bin", "qstat").exists()
