"""What the machine has beside processors, looked at now and then; most changes are of minutes."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FIELDS_WITH_REQUESTS,
    QueueRow,
    request_fields,
)
from slurm_rl_plugin.batch_systems.slurm.answers.nodes import SHOW_NODES_NOW, parse_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SlurmSettings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.nodes import MachineResources, NodeNow, machine_resources
from slurm_rl_plugin.domain.resources import CPUS, MEMORY, ResourcesNow
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.machine_files.hostlists import expand
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
        #: Fields of squeue that tell what jobs ask of nodes, on this release.
        self.request_fields: tuple[str, ...] = FIELDS_WITH_REQUESTS
        self._licences: tuple[str, ...] = ()
        self._nodes: Mapping[str, NodeNow] = {}
        #: What was seen last; None where the machine has processors alone, or nobody knows.
        self.seen: MachineResources | None = None

    def counts(self, settings: SlurmSettings) -> None:
        """Take from slurm.conf whether there is anything to look at."""
        self._counts_memory = settings.counts_memory
        self._counts_any = settings.counts_memory or settings.counts_gres
        self._licences = settings.licences
        self.request_fields = request_fields(settings.release_number)

    @property
    def asked_for(self) -> tuple[str, ...]:
        """Names of what a job may ask for: of nodes, then licences; none of processors alone."""
        return () if self.seen is None else (*self.seen.names, *self._licences)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """What squeue tells that jobs ask for and Slurm gives to any number of them."""
        return () if self._counts_memory else (MEMORY,)

    def now(
        self, rows: Iterable[QueueRow], running: RunningJobs, processors: int
    ) -> ResourcesNow | None:
        """What the machine has and what of it is free; None where it has processors alone.

        Args:
            rows: of the running jobs, with what they got.
            running: the same as columns.
            processors: usable ones.
        """
        if self.seen is None:
            return None
        return self.seen.with_running(running, processors, self._withheld(rows))

    def _withheld(self, running: Iterable[QueueRow]) -> Mapping[str, float]:
        """What nodes have beside what the jobs got that have them for themselves."""
        found: Counter[str] = Counter()
        for row in (part for each in running for part in each.components or (each,)):
            if row.asked is None or not row.asked.exclusive:
                continue
            nodes = [self._nodes.get(name) for name in _names_of(row.nodes)]
            if None in nodes:
                continue  # no look has shown one of them: then what is left there is not known
            for node in filter(None, nodes):
                found.update({name: node.usable(name) for name in node.has})
            found.subtract(dict(row.asked.amounts))
        return {name: amount for name, amount in found.items() if name != CPUS and amount > 0}

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
            nodes = parse_nodes(answer, counts_memory=self._counts_memory)
            self._nodes = {node.name: node for node in nodes}
            return machine_resources(nodes)
        except BatchSystemError as error:  # an order by processors alone is better than none
            logger.warning("resources=unknown reason=%s", error)
            return None


def _names_of(nodes: str) -> list[str]:
    try:
        return expand(nodes)
    except ValueError:
        return []
