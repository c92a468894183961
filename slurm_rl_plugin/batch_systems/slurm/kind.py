"""Slurm as the registry knows it; each part is imported when it is made."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_rl_plugin.batch_systems.kind import AdapterParts, BatchSystemKind, Presence

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.kind import (
        JobRecord,
        JobSubmission,
        OfferingSite,
        OwnAccounting,
    )
    from slurm_rl_plugin.batch_systems.port import BatchSystem
    from slurm_rl_plugin.domain.machine import Machine
    from slurm_rl_plugin.domain.nodes import NodeNow
    from slurm_rl_plugin.machine_files.reader import DescribedCluster

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
    from slurm_rl_plugin.batch_systems.command_process import answers
    from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

    commands = CommandRunner(environment=environment, timeout=seconds)
    return answers(commands, ("scontrol", "ping"))


def _build(parts: AdapterParts) -> BatchSystem:
    from slurm_rl_plugin.batch_systems.slurm.adapter import slurm_batch_system

    return slurm_batch_system(parts)


def _job_record(job: int, timeout: float) -> JobRecord:
    from slurm_rl_plugin.batch_systems.slurm.job_record import job_record

    return job_record(job, timeout)


def _offers(timeout: float, account: str) -> OfferingSite:
    from slurm_rl_plugin.batch_systems.slurm.offers import SlurmOffers
    from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

    return SlurmOffers(CommandRunner(timeout=timeout), account)


def _accounting(timeout: float) -> OwnAccounting:
    from slurm_rl_plugin.batch_systems.slurm.own_accounting import SlurmAccounting

    return SlurmAccounting(timeout)


def _submission(environment: Mapping[str, str], timeout: float) -> JobSubmission:
    from slurm_rl_plugin.batch_systems.slurm.offers import user_submission

    return user_submission(environment, timeout)


def _machine(timeout: float) -> Machine:
    return _cluster(timeout).machine


def _cluster(timeout: float) -> DescribedCluster:
    from slurm_rl_plugin.batch_systems.slurm.answers.machine import read_running_cluster
    from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

    commands = CommandRunner(timeout=timeout)
    return read_running_cluster(commands.read)


def _nodes(timeout: float) -> Sequence[NodeNow]:
    from slurm_rl_plugin.batch_systems.slurm.answers.machine import SHOW_NODES_NOW, parse_nodes
    from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

    commands = CommandRunner(timeout=timeout)
    return parse_nodes(commands.read(SHOW_NODES_NOW), counts_memory=True)


def _licences(timeout: float) -> Mapping[str, float]:
    from slurm_rl_plugin.batch_systems.slurm.answers.machine import (
        SHOW_LICENCES,
        parse_free_licences,
    )
    from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner

    commands = CommandRunner(timeout=timeout)
    return parse_free_licences(commands.read(SHOW_LICENCES))


#: Suspended and stopped jobs too: they may be requeued. The flags of waiting ones are no PD.
_BY_HAND = (
    "squeue --local -h -t PD,R,S,RD,RH,SE,ST -o %A | sort -u"
    " | sed 's/.*/update jobid=& sitefactor=0/' | scontrol"
)
SLURM = BatchSystemKind(
    name="slurm",
    title="Slurm",
    adapters=("slurm_commands", "slurm"),
    limits={"qos": ("qos",), "licenses": ("license", "reservation")},
    limit_resources=frozenset({"qos"}),
    job_record=_job_record,
    build=_build,
    presence=slurm_presence,
    answers=slurm_answers,
    by_hand=_BY_HAND,
    offers=_offers,
    accounting=_accounting,
    submission=_submission,
    machine=_machine,
    cluster=_cluster,
    nodes=_nodes,
    licences=_licences,
)
