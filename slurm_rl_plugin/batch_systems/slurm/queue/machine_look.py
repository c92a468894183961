"""What the machine has beside processors, looked at now and then; most changes are of minutes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from slurm_rl_plugin.batch_systems.slurm.answers.nodes import SHOW_NODES_NOW, parse_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SlurmSettings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.nodes import MachineResources, machine_resources
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.units import MINUTE

logger = logging.getLogger(__name__)

#: Seconds between two looks.
PACE = MINUTE


class MachineLook:
    """Asks `sinfo` for memory and generic resources of nodes, where slurm.conf counts any.

    Args:
        commands: runs Slurm's commands.
        clock: seconds since the epoch.
    """

    def __init__(self, commands: CommandRunner, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._counts_memory = self._counts_any = False
        self._next = -math.inf
        #: What was seen last; None where the machine has processors alone, or nobody knows.
        self.seen: MachineResources | None = None

    def counts(self, settings: SlurmSettings) -> None:
        """Take from slurm.conf whether there is anything to look at."""
        self._counts_memory = settings.counts_memory
        self._counts_any = settings.counts_memory or settings.counts_gres

    def look(self) -> None:
        """Look again where it is time; a fault is told in the log, and then nothing is known."""
        now = self._clock()
        if not self._counts_any:
            self.seen = None
        elif not self._next - PACE <= now < self._next:
            self._next = now + PACE
            self.seen = self._read()

    def _read(self) -> MachineResources | None:
        try:
            answer = self._commands.read(SHOW_NODES_NOW)
            return machine_resources(parse_nodes(answer, counts_memory=self._counts_memory))
        except BatchSystemError as error:  # an order by processors alone is better than none
            logger.warning("resources=unknown reason=%s", error)
            return None
