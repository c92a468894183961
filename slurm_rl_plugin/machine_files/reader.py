"""A machine from slurm.conf and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.machine_files.conf_lines import read_pairs
from slurm_rl_plugin.machine_files.database.enforced import enforced
from slurm_rl_plugin.machine_files.database.entries import DatabaseEntry
from slurm_rl_plugin.machine_files.database.reader import database_of, files_beside, read_files
from slurm_rl_plugin.machine_files.gres import Counts, read_gres_conf
from slurm_rl_plugin.machine_files.kinds import kinds_of, resources_of
from slurm_rl_plugin.machine_files.node_list import is_node_list, machine_of_node_list
from slurm_rl_plugin.machine_files.nodes import check_size, nodes_of
from slurm_rl_plugin.machine_files.not_modelled import not_modelled
from slurm_rl_plugin.machine_files.partitions import partitions_of, unserved, without_partition
from slurm_rl_plugin.machine_files.scheduling import (
    backfill_of,
    licences_of,
    name_of,
    refused_parameters,
    sharing_of,
    weights_of_priorities,
)
from slurm_rl_plugin.machine_files.statements import Statements, collect

SLURM_CONF, GRES_CONF = "slurm.conf", "gres.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCluster:
    """Everything that is said of a cluster, before a machine is made of it.

    Attributes:
        said: by slurm.conf, or by a running Slurm.
        gres_conf: generic resources by node.
        entries: of the accounting database.
    """

    said: Statements
    gres_conf: Mapping[str, Counts] = field(default_factory=dict)
    entries: Sequence[DatabaseEntry] = ()

    @property
    def machine(self) -> Machine:
        """The machine that all of this makes.

        Raises:
            ConfigurationError: a value is not understood, or what belongs together does not fit.
        """
        return machine_of(self.said, self.gres_conf, self.entries)


def read_machine(path: Path) -> Machine:
    """The machine that a slurm.conf describes, with gres.conf and files of sacctmgr beside it.

    Args:
        path: of slurm.conf, of the folder that holds one, or of openb's list of nodes.

    Raises:
        ConfigurationError: a file cannot be read or is not understood; says where.
    """
    return machine_of_node_list(path) if is_node_list(path) else read_cluster(path).machine


def read_cluster(path: Path) -> DescribedCluster:
    """What slurm.conf, gres.conf and files of sacctmgr say of a cluster.

    Args:
        path: of slurm.conf, or of the folder that holds one.

    Raises:
        ConfigurationError: a file cannot be read or is not understood; says where.
    """
    conf = path / SLURM_CONF if path.is_dir() else path
    notes: list[str] = []
    said = collect(read_pairs(conf, notes))
    beside = conf.parent / GRES_CONF
    cluster = name_of(said.settings)
    gres_conf = read_gres_conf(beside, notes, cluster) if beside.is_file() else {}
    return DescribedCluster(
        said=replace(said, notes=notes),
        gres_conf=gres_conf,
        entries=read_files(files_beside(conf.parent, cluster), cluster),
    )


def machine_of(
    said: Statements, gres_conf: Mapping[str, Counts], entries: Sequence[DatabaseEntry]
) -> Machine:
    """Put together a machine of what slurm.conf, or a running Slurm, says.

    Raises:
        ConfigurationError: a value is not understood, or what belongs together does not fit.
    """
    settings = said.settings
    nodes, away, of_nodes = nodes_of(said, gres_conf)
    partitions, of_partitions = partitions_of(said, nodes, away)
    left_out = [*said.notes, *of_nodes, *of_partitions]
    left_out += [*refused_parameters(settings), *not_modelled(settings)]
    if idle := unserved(nodes, partitions):
        left_out.append(without_partition(idle))
    serving = {name: node for name, node in nodes.items() if name not in set(idle)}
    check_size(serving.values())
    resources = resources_of(serving.values())
    kinds, served = kinds_of(serving, partitions, resources)
    sharing = sharing_of(settings)
    database = enforced(database_of(entries), settings, served)
    return Machine(
        name=name_of(settings),
        resources=resources,
        kinds=kinds,
        partitions=served,
        qos=database.qos,
        accounts=database.accounts,
        users=database.users,
        parent_of=database.parent_of,
        account_of=database.account_of,
        associations=database.associations,
        licences=licences_of(settings),
        counts_memory=sharing.counts_memory,
        whole_nodes=sharing.whole_nodes,
        backfill=backfill_of(settings),
        weights=weights_of_priorities(settings),
        left_out=tuple(dict.fromkeys([*left_out, *database.left_out])),
    )
