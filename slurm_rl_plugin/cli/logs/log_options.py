"""How LOG arguments are read: the options that every verb with a LOG has, typed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Self

#: Who told the machine's size where nobody did: it is the most that was in use at once.
PEAK = "peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What `add_log_options` lets a user give.

    Attributes:
        source: "slurm" for the cluster's own accounting; None for LOG arguments.
        since, until: local times between which jobs of accounting ended; None where not given.
        keep: file for what accounting gave.
        sacct_timeout: seconds that one question to accounting may take.
        processors: size of the machine; None takes the log's or the cluster's.
        partitions: processors of each partition, where they share none.
        shares: share of each account, sum 1; None asks the configuration, the cluster or the log.
        account_of: file with the account of each user, which goes before the log's.
        whole_nodes_of: processors of a node where jobs get whole nodes.
        kill_at_limit: end jobs at their requested time.
        config: file whose rules of job classes and shares are taken.
        cluster: slurm.conf, the folder that holds it, or "live": the jobs run on its nodes.
    """

    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    keep: Path | None = None
    sacct_timeout: float
    processors: int | None = None
    partitions: Mapping[str, int] | None = None
    shares: Mapping[str, float] | None = None
    account_of: Path | None = None
    whole_nodes_of: int = 1
    kill_at_limit: bool = False
    config: Path | None = None
    cluster: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Those of a command line."""
        return cls(**{each.name: getattr(options, each.name) for each in fields(cls)})
