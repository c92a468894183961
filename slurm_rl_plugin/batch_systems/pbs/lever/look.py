"""Has pbs_sched look at its queue, which no change of ours makes it do (seen on 23.06)."""

from __future__ import annotations

import logging

from slurm_rl_plugin.batch_systems.pbs.answers.server import QSTAT_SERVER, parse_server
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.errors import BatchSystemError

logger = logging.getLogger(__name__)


def look_now(commands: PbsCommands, after: str) -> None:
    """Set scheduling on once more, where it is on; it looks when a job comes or ends otherwise.

    Where that fails nothing is raised: pbs_sched looks at the next event.

    Args:
        commands: of PBS.
        after: what was changed, for the log.
    """
    try:
        if parse_server(commands.read_json(QSTAT_SERVER)).scheduling:
            commands.read(["qmgr", "-c", "set server scheduling = True"])
    except BatchSystemError as error:
        logger.warning("%s look=none reason=%s", after, error)
