"""Shares and decayed usage from `pbsfs`, where the site has a fairshare tree."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.units import FloatArray

logger = logging.getLogger(__name__)

_NODE = re.compile(
    r"(?P<name>\S+)\s*:\s*Grp:\s*-?\d+\s*cgrp:\s*-?\d+\s*Shares:\s*-?\d+\s*"
    r"Usage:\s*(?P<usage>\d+)\s*Perc:\s*(?P<percent>[\d.]+)%",
    re.ASCII,
)
_NOBODY = ("TREEROOT", "unknown")


@dataclass(frozen=True, slots=True)
class FairshareNode:
    """A user, group or account of the tree: its part of the machine, and what it has used."""

    share: float
    usage: float


class Fairshare:
    """Asks `pbsfs`; a site without a tree, or without the right to read it, has no shares."""

    def __init__(self, commands: PbsCommands) -> None:
        self._commands = commands
        self._told = False

    def read(self) -> dict[str, FairshareNode]:
        """Each entity of the tree; empty where there is no help."""
        try:
            return parse_tree(self._commands.read(["pbsfs"]))
        except BatchSystemError as error:
            if not self._told:
                logger.info("fairshare=unknown shares=equal reason=%s", error)
                self._told = True
            return {}


def parse_tree(words: str) -> dict[str, FairshareNode]:
    """The entities of a tree as `pbsfs` prints it; lines of another form are passed over."""
    found = (_NODE.match(line.strip()) for line in words.splitlines())
    return {
        node["name"]: FairshareNode(float(node["percent"]) / 100.0, float(node["usage"]))
        for node in found
        if node is not None and node["name"] not in _NOBODY
    }


def shares_of(
    accounts: Sequence[str],
    given: Mapping[str, float] | None,
    tree: Mapping[str, FairshareNode],
) -> FloatArray:
    """Share of each account, sum 1: as configured, else as in the tree, else all the same."""
    told = given if given is not None else {name: node.share for name, node in tree.items()}
    column = np.array([told.get(name, 0.0) for name in accounts], dtype=np.float64)
    return _to_sum_one(column if column.any() else np.ones(len(accounts), dtype=np.float64))


def usage_of(
    accounts: Sequence[str],
    tree: Mapping[str, FairshareNode],
    running: Sequence[PbsJob],
    now: float,
) -> FloatArray:
    """Usage of each account, sum 1 or all 0: as in the tree, else what its running jobs had."""
    column = np.array([tree[n].usage if n in tree else 0.0 for n in accounts], dtype=np.float64)
    if not column.any():
        place = {name: number for number, name in enumerate(accounts)}
        for job in running:
            used = 0.0 if math.isnan(job.start) else max(now - job.start, 0.0) * job.processors
            column[place[job.account]] += used
    return _to_sum_one(column)


def _to_sum_one(column: FloatArray) -> FloatArray:
    whole = column.sum()
    return column / whole if whole > 0 else column
