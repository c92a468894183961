"""What jobs ask of nodes beside processors, and what of it the machine has and has free."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from slurm_rl_plugin.accounting.slurm.resources import parse_tres, requested
from slurm_rl_plugin.batch_systems.slurm.accounting.past_runs import PastRun
from slurm_rl_plugin.batch_systems.slurm.answers.fields import COMPONENTS, QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.nodes import NodeNow, usable_processors
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SlurmSettings
from slurm_rl_plugin.domain.resources import (
    BASIC_RESOURCES,
    CPUS,
    GPUS,
    MEMORY,
    ResourceRequests,
    ResourcesNow,
)
from slurm_rl_plugin.units import FloatArray

#: What Slurm tracks by another name than it has here.
_TRACKED_AS = {GPUS: "gres/gpu"}


def counted_resources(settings: SlurmSettings, nodes: Sequence[NodeNow]) -> tuple[str, ...] | None:
    """Names of the resources that slurmctld gives to jobs; None where it gives processors alone.

    A generic resource that AccountingStorageTRES does not hold is not seen in any job, so it is
    none. Of GPUs the plain kind is told for every typed one.

    Args:
        settings: of slurm.conf.
        nodes: of the cluster.
    """
    gres = {name for node in nodes for name in node.gres if _is_seen(name, settings)}
    if not gres and not settings.shares_memory:
        return None
    return (*BASIC_RESOURCES, *sorted(gres - set(BASIC_RESOURCES)))


def _is_seen(name: str, settings: SlurmSettings) -> bool:
    return name != CPUS and _TRACKED_AS.get(name, name) in settings.tracked


def requests_of(
    rows: Sequence[QueueRow] | Sequence[PastRun], names: tuple[str, ...]
) -> ResourceRequests:
    """What jobs ask for, by the TRES that they show.

    Args:
        rows: n jobs.
        names: of the resources that count; see `counted_resources`.
    """
    texts: dict[str, int] = {}
    place = [texts.setdefault(row.tres, len(texts)) for row in rows]
    asked = np.array([_amounts(text, names) for text in texts]).reshape(-1, len(names) + 1)
    each = asked[np.array(place, dtype=np.int64)]
    total = each[:, 1:].copy()
    total[:, 0] = [row.processors for row in rows]
    return ResourceRequests.of_totals(total, names=names, nodes=each[:, 0].astype(np.int64))


@lru_cache(maxsize=20_000)  # jobs of one kind ask alike, and show it in each look
def _amounts(tres: str, names: tuple[str, ...]) -> FloatArray:
    """Nodes, then the amount of each resource."""
    together = np.zeros(len(names) + 1)
    for part in tres.split(COMPONENTS):
        found = parse_tres(part)
        amounts = requested(found)
        together += [found.get("node", 0.0), *(amounts.get(name, 0.0) for name in names)]
    return together


def resources_now(
    settings: SlurmSettings,
    nodes: Sequence[NodeNow],
    names: tuple[str, ...],
    running: ResourceRequests | None,
) -> ResourcesNow:
    """What the usable nodes have together, and what of it running jobs leave free.

    Of a node of which a part is still used while it drains, that part counts.

    Args:
        settings: of slurm.conf.
        nodes: of the cluster.
        names: of the resources that count.
        running: what the running jobs got.
    """
    has = dict.fromkeys(names, 0.0) | {CPUS: float(usable_processors(nodes))}
    for name in names:
        if _is_seen(name, settings):
            has[name] = sum(node.usable * node.gres.get(name, 0.0) for node in nodes)
    if settings.shares_memory:
        has[MEMORY] = sum(node.usable * node.memory for node in nodes)
    capacity = np.array([has[name] for name in names], dtype=np.float64)
    taken = 0.0 if running is None else running.total.sum(axis=0)
    return ResourcesNow(names=names, capacity=capacity, free=np.maximum(capacity - taken, 0.0))
