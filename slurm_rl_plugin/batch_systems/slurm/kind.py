"""Slurm as the registry knows it; each part is imported by its first call."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import BatchSystemKind

#: Where Slurm's configuration is looked for, unless SLURM_CONF names it.
SLURM_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)


def _slurm(module: str) -> Any:
    return import_module(f"slurm_rl_plugin.batch_systems.slurm.{module}")


def _commands(timeout: float, environment: Mapping[str, str] | None = None) -> Any:
    return _slurm("process").CommandRunner(timeout=timeout, environment=environment)


def _lacks(environment: Mapping[str, str]) -> str:
    found = shutil.which("scontrol", path=environment.get("PATH"))
    return "no scontrol" if found is None else ""


def _lacks_configuration(environment: Mapping[str, str]) -> str:
    """Look for slurm.conf, which a configless host lacks too."""
    named = environment.get("SLURM_CONF")
    places = (named,) if named else SLURM_CONFS
    return "" if any(Path(place).exists() for place in places) else "no slurm.conf"


#: Suspended and stopped jobs too, since they may be requeued. PD does not find flagged jobs.
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
    lacks=_lacks,
    lacks_configuration=_lacks_configuration,
    by_hand=_BY_HAND,
    build=lambda parts: _slurm("adapter").slurm_batch_system(parts),
    answers=lambda environment, timeout: _commands(timeout, environment).answers(
        "scontrol", "ping"
    ),
    job_record=lambda job, timeout: _slurm("cluster").job_record(job, timeout),
    offers=lambda timeout, account: _slurm("offers").SlurmOffers(_commands(timeout), account),
    accounting=lambda timeout: _slurm("own_accounting").SlurmAccounting(timeout),
    submission=lambda environment, timeout: _slurm("offers").user_submission(environment, timeout),
    machine=lambda timeout: (
        _slurm("answers.machine").read_running_cluster(_commands(timeout).read).machine
    ),
    cluster=lambda timeout: _slurm("answers.machine").read_running_cluster(_commands(timeout).read),
    nodes=lambda timeout: _slurm("answers.machine").read_nodes(_commands(timeout).read),
    licences=lambda timeout: _slurm("answers.machine").read_free_licences(_commands(timeout).read),
)
