"""OpenPBS as the registry knows it; each part is imported when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slurm_rl_plugin.batch_systems.kind import AdapterParts, BatchSystemKind, Presence

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.kind import JobRecord
    from slurm_rl_plugin.batch_systems.port import BatchSystem
    from slurm_rl_plugin.domain.machine import Machine
    from slurm_rl_plugin.domain.nodes import NodeNow


def _build(parts: AdapterParts) -> BatchSystem:
    from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs  # noqa: PLC0415

    return Pbs(parts)


def _presence(environment: Mapping[str, str]) -> Presence:
    from slurm_rl_plugin.batch_systems.pbs.presence import pbs_presence  # noqa: PLC0415

    return pbs_presence(environment)


def _answers(environment: Mapping[str, str], seconds: float) -> bool:
    from slurm_rl_plugin.batch_systems.pbs.presence import pbs_answers  # noqa: PLC0415

    return pbs_answers(environment, seconds)


def _job_record(job: int, timeout: float) -> JobRecord:
    from slurm_rl_plugin.batch_systems.pbs.job_record import job_record  # noqa: PLC0415

    return job_record(job, timeout)


def _users_words(job: int, timeout: float) -> str:
    from slurm_rl_plugin.batch_systems.pbs.job_record import users_words  # noqa: PLC0415

    return users_words(job, timeout)


def _machine(timeout: float) -> Machine:
    from slurm_rl_plugin.batch_systems.pbs.answers.machine import (  # noqa: PLC0415
        read_running_machine,
    )
    from slurm_rl_plugin.batch_systems.pbs.answers.sched_config import (  # noqa: PLC0415
        sched_folder,
    )
    from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands  # noqa: PLC0415

    commands = PbsCommands(environment=None, timeout=timeout, on_call=None)
    return read_running_machine(commands.read_json, sched_folder(commands))


def _nodes(timeout: float) -> Sequence[NodeNow]:
    from slurm_rl_plugin.batch_systems.pbs.answers.nodes import (  # noqa: PLC0415
        VNODES_NOW,
        parse_nodes,
    )
    from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands  # noqa: PLC0415

    commands = PbsCommands(environment=None, timeout=timeout, on_call=None)
    return parse_nodes(commands.read_json(VNODES_NOW))


PBS = BatchSystemKind(
    name="pbs",
    title="OpenPBS",
    adapters=("pbs",),
    limits={"max_run_res": ("queues",)},
    limit_resources=frozenset({"max_run_res"}),
    job_record=_job_record,
    build=_build,
    presence=_presence,
    answers=_answers,
    by_hand='qmgr -c "unset server job_sort_formula"',  # root's alone
    machine=_machine,
    nodes=_nodes,
    users_words=_users_words,
    bounds_order=False,
)
