"""`--cluster`: the machine on whose nodes jobs are simulated, of a file or of this host."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from slurm_rl_plugin.batch_systems.kind import BatchSystemKind
from slurm_rl_plugin.batch_systems.registry import choose_batch_system
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.reader import (
    DescribedCluster,
    is_node_list,
    read_cluster,
    read_machine,
)

#: In place of a file: what the batch system of this host says of its nodes.
LIVE = "live"
#: Seconds that each of its commands may take.
_SECONDS = 60.0


def add_cluster_option(parser: argparse.ArgumentParser) -> None:
    """Add --cluster."""
    parser.add_argument(
        "--cluster",
        metavar=f"SLURM.CONF|{LIVE}",
        help="the jobs run on the nodes that this slurm.conf describes, with gres.conf and "
        "sacctmgr's output beside it, or openb's list of nodes; "
        f"{LIVE}: on those of this host's batch system, by its commands",
    )


def named_machine(cluster: str, adapter: str, environment: Mapping[str, str]) -> Machine:
    """The machine that --cluster names.

    Args:
        cluster: path of slurm.conf, of its folder or of a list of nodes; LIVE for the batch system
            that is here.
        adapter: of that, as configured; AUTO where nobody has.
        environment: tells what is here.

    Raises:
        ConfigurationError: its files are not understood, or no batch system is here.
        BatchSystemError: it does not answer.
    """
    if cluster != LIVE:
        return read_machine(Path(cluster))
    kind = _kind_here(adapter, environment)
    if kind.machine is None:
        raise ConfigurationError(f"--cluster {LIVE}: {kind.title} tells of no nodes here.")
    return kind.machine(_SECONDS)


def described_cluster(
    cluster: str, adapter: str, environment: Mapping[str, str]
) -> DescribedCluster:
    """What is said of the cluster that --cluster names, so that changes can be tried on it.

    Args:
        cluster: path of slurm.conf or of its folder; LIVE for the batch system that is here.
        adapter: of that, as configured; AUTO where nobody has.
        environment: tells what is here.

    Raises:
        ConfigurationError: it is described by something else than a slurm.conf, its files are not
            understood, or no batch system is here.
        BatchSystemError: it does not answer.
    """
    if cluster == LIVE:
        kind = _kind_here(adapter, environment)
        if kind.cluster is None:
            raise ConfigurationError(
                f"--cluster {LIVE}: changes are those of a slurm.conf, and {kind.title} has none."
            )
        return kind.cluster(_SECONDS)
    if is_node_list(Path(cluster)):
        raise ConfigurationError(
            f"--cluster {cluster}: a list of nodes says nothing that could be changed: give a "
            "slurm.conf."
        )
    return read_cluster(Path(cluster))


def _kind_here(adapter: str, environment: Mapping[str, str]) -> BatchSystemKind:
    kind = choose_batch_system(adapter, environment).kind
    here = kind.presence(environment)
    if not here.is_here:
        problem = f"no {kind.title} is here ({here.lacks})"
        raise ConfigurationError(f"--cluster {LIVE}: {problem}: give the path of a slurm.conf.")
    return kind
