"""Whether what jobs ask of memory and GPUs can be read, and what of it Slurm does not tell."""

from __future__ import annotations

from slurm_rl_plugin.batch_systems.port import PASS, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.nodes import SHOW_NODES_NOW, parse_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    SHOW_CONFIG,
    SlurmSettings,
    parse_settings,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.domain.nodes import machine_resources
from slurm_rl_plugin.errors import BatchSystemError

_GPU_TYPE = "gres/gpu:"


def resource_check(commands: CommandRunner) -> Check:
    """What nodes have beside processors; warns where it cannot be read or types stay unknown."""
    try:
        settings = parse_settings(commands.read(SHOW_CONFIG))
        if not (settings.counts_memory or settings.counts_gres):
            return Check(PASS, "resources", "slurm.conf counts processors alone")
        answer = commands.read(SHOW_NODES_NOW)
        machine = machine_resources(parse_nodes(answer, counts_memory=settings.counts_memory))
    except BatchSystemError as error:
        return Check(WARN, "resources", f"{error}; until then processors alone count")
    if machine is None:
        return Check(PASS, "resources", "usable nodes have processors alone")
    unknown = _types_not_told(settings, machine.names)
    if unknown:
        return Check(
            WARN,
            "resources",
            f"jobs that name no type of GPU count for none of {', '.join(unknown)}: add these to "
            "AccountingStorageTRES in slurm.conf",
        )
    amounts = zip(machine.names, machine.capacity.tolist(), strict=True)
    told = ", ".join(f"{name} {amount:g}" for name, amount in amounts if amount)
    return Check(PASS, "resources", f"of usable nodes (memory in MiB): {told}")


def _types_not_told(settings: SlurmSettings, names: tuple[str, ...]) -> list[str]:
    """Types of GPUs that Slurm does not track, where there are several to tell apart."""
    types = [name for name in names if name.startswith(_GPU_TYPE)]
    return [name for name in types if name not in settings.tracked] if len(types) > 1 else []
