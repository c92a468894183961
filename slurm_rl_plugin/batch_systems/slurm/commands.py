"""Slurm by its own commands: `squeue`, `sprio`, `sshare`, `sinfo` to read, `scontrol` to write."""

from __future__ import annotations

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCluster
from slurm_rl_plugin.batch_systems.slurm.process import commands_of
from slurm_rl_plugin.batch_systems.slurm.queue.machine_look import MachineLook
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue
from slurm_rl_plugin.batch_systems.slurm.writes import Scontrol


class SlurmCommands(SlurmCluster):
    """A Slurm cluster reached by commands alone; what it does stands at `SlurmCluster`."""

    name = "slurm_commands"

    def __init__(self, given: AdapterParts) -> None:
        commands = commands_of(given)
        machine = MachineLook(commands, given.clock)
        super().__init__(given, commands, Squeue(commands, machine), Scontrol(commands), machine)
