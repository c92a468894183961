"""OpenPBS as the registry knows it; each part is imported when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_rl_plugin.batch_systems.kind import AdapterParts, BatchSystemKind, Presence

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.kind import JobRecord
    from slurm_rl_plugin.batch_systems.port import BatchSystem
    from slurm_rl_plugin.domain.machine import Machine
    from slurm_rl_plugin.domain.nodes import NodeNow


def pbs_presence(environment: Mapping[str, str]) -> Presence:
    """By the pbs.conf that PBS_CONF_FILE names."""
    from slurm_rl_plugin.batch_systems.pbs.process import DEFAULT_CONF, read_pbs_conf

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
    from slurm_rl_plugin.batch_systems.command_process import answers
    from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands

    commands = PbsCommands(environment=environment, timeout=seconds)
    return answers(commands, ("qstat", "-B"))


def _build(parts: AdapterParts) -> BatchSystem:
    from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs

    return Pbs(parts)


def _job_record(job: int, timeout: float) -> JobRecord:
    from slurm_rl_plugin.batch_systems.pbs.job_record import job_record

    return job_record(job, timeout)


def _machine(timeout: float) -> Machine:
    from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import sched_folder
    from slurm_rl_plugin.batch_systems.pbs.answers.machine import read_running_machine
    from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands

    commands = PbsCommands(timeout=timeout)
    return read_running_machine(commands.read_json, sched_folder(commands))


def _nodes(timeout: float) -> Sequence[NodeNow]:
    from slurm_rl_plugin.batch_systems.pbs.answers.machine import VNODES_NOW, parse_nodes
    from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands

    commands = PbsCommands(timeout=timeout)
    return parse_nodes(commands.read_json(VNODES_NOW))


PBS = BatchSystemKind(
    name="pbs",
    title="OpenPBS",
    adapters=("pbs",),
    limits={"max_run_res": ("queues",)},
    limit_resources=frozenset({"max_run_res"}),
    job_record=_job_record,
    build=_build,
    presence=pbs_presence,
    answers=pbs_answers,
    by_hand='qmgr -c "unset server job_sort_formula"',  # root's alone
    machine=_machine,
    nodes=_nodes,
    bounds_order=False,
)
