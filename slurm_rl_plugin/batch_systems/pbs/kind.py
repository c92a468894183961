"""OpenPBS as the registry knows it; each part is imported by its first call."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import BatchSystemKind
from slurm_rl_plugin.whole_file import read_whole

DEFAULT_CONF = "/etc/pbs.conf"


def _pbs(module: str) -> Any:
    return import_module(f"slurm_rl_plugin.batch_systems.pbs.{module}")


def _commands(timeout: float, environment: Mapping[str, str] | None = None) -> Any:
    return _pbs("process").PbsCommands(timeout=timeout, environment=environment)


def read_pbs_conf(path: str) -> dict[str, str]:
    """Keys and values of pbs.conf; empty if it cannot be read."""
    try:
        lines = read_whole(Path(path)).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def _lacks(environment: Mapping[str, str]) -> str:
    """Look for `qstat` where the pbs.conf that PBS_CONF_FILE names says."""
    conf = environment.get("PBS_CONF_FILE") or DEFAULT_CONF
    installed = read_pbs_conf(conf).get("PBS_EXEC")
    is_here = installed is not None and Path(installed, "bin", "qstat").exists()
    return "" if is_here else f"no PBS_EXEC in {conf}"


def _machine(timeout: float) -> Any:
    commands = _commands(timeout)
    folder = _pbs("answers.fair_share").sched_folder(commands)
    return _pbs("answers.server").read_running_machine(commands.read_json, folder)


def _nodes(timeout: float) -> Any:
    server = _pbs("answers.server")
    return server.parse_nodes(_commands(timeout).read_json(server.VNODES_NOW))


PBS = BatchSystemKind(
    name="pbs",
    title="OpenPBS",
    adapters=("pbs",),
    limits={"max_run_res": ("queues",)},
    limit_resources=frozenset({"max_run_res"}),
    lacks=_lacks,
    lacks_configuration=_lacks,
    by_hand='qmgr -c "unset server job_sort_formula"',  # only root may
    bounds_order=False,
    build=lambda parts: _pbs("cluster").Pbs(parts),
    answers=lambda environment, timeout: _commands(timeout, environment).answers("qstat", "-B"),
    job_record=lambda job, timeout: _pbs("queue").job_record(job, timeout),
    machine=_machine,
    nodes=_nodes,
)
