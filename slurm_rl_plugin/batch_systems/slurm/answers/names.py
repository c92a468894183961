"""The names that jobs of a running Slurm can have: accounts, partitions, QOS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from slurm_rl_plugin.batch_systems.port import SiteNames
from slurm_rl_plugin.batch_systems.slurm.answers.machine import SHOW_PARTITIONS
from slurm_rl_plugin.batch_systems.slurm.answers.shares import parse_shares
from slurm_rl_plugin.errors import BatchSystemError

SHOW_QOS_NAMES = (
    *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "qos"),
    "format=Name",
)
_PARTITION = re.compile(r"^PartitionName=(\S+)", re.MULTILINE)


def read_site_names(read: Callable[[Sequence[str]], str], sshare: Sequence[str]) -> SiteNames:
    """Ask for all names; those that nobody tells are None.

    Args:
        read: runs a command and gives its output.
        sshare: words of the command that tells shares.
    """
    return SiteNames(
        accounts=_names(read, sshare, lambda text: parse_shares(text).shares),
        partitions=_names(read, SHOW_PARTITIONS, _PARTITION.findall),
        qos=_names(read, SHOW_QOS_NAMES, str.split),
    )


def _names(
    read: Callable[[Sequence[str]], str],
    command: Sequence[str],
    names_in: Callable[[str], Iterable[str]],
) -> frozenset[str] | None:
    """The names in an answer; none at all is no answer: there is no accounting, for example."""
    try:
        found = names_in(read(command))
    except BatchSystemError:
        return None
    return frozenset(found) or None
