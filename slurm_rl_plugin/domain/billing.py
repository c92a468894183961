"""What a site bills its jobs for each second: TRESBillingWeights, times UsageFactor of the QOS.

Slurm's usage, and with it fair-share, counts these instead of processors (`calc_job_billable_tres`
and `assoc_mgr_tres_weighted` in its source). It rounds nothing there; the `billing` that it prints
of a job is the whole part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.units import FloatArray, IntArray

#: Of PriorityFlags: of what is tied to a node the dearest counts; from 25.05 on gres is added.
DEAREST, DEAREST_AND_GRES = "MAX_TRES", "MAX_TRES_GRES"
#: What weights and limits call the nodes of a job, and the job itself.
NODES, JOBS = "nodes", "jobs"
_GRES = "gres/"
#: Bills are kept to this part of a unit, so that starts and ends cancel to the bit in float64.
_GRAIN = 2.0**-24


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """How a site bills."""

    #: Of each partition, weights by resource, memory by MiB; without any it bills the CPUs got.
    weights: Mapping[str, Mapping[str, float]]
    flags: frozenset[str] = frozenset()  #: words of PriorityFlags
    #: UsageFactor of each QOS by its name; 1 of a QOS that is not named.
    factors: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts_cpus(self) -> bool:
        """Whether each job is billed the CPUs that it got, and nothing else."""
        return not any(self.weights.values()) and set(self.factors.values()) <= {1.0}


def billed_each_second(
    billing: Billing,
    partitions: Sequence[str],
    partition: IntArray,
    processors: IntArray,
    requests: ResourceRequests | None,
    qos: Sequence[str],
) -> FloatArray:
    """Billing units of each job for a second of its run, shape [n]."""
    cpus = processors.astype(np.float64)

    def amounts(resource: str) -> FloatArray:
        if resource == CPUS:
            return cpus
        if resource == JOBS:
            return np.ones_like(cpus)
        if requests is None:
            return np.ones_like(cpus) if resource == NODES else np.zeros_like(cpus)
        if resource == NODES:
            return np.maximum(requests.nodes, 1).astype(np.float64)
        return requests.of(resource)

    billed = cpus.copy()
    for place, name in enumerate(partitions):
        weights, mine = billing.weights.get(name, {}), partition == place
        if weights and mine.any():
            billed[mine] = _added_up(weights, billing.flags, amounts)[mine]
    if billing.factors:
        billed *= np.array([billing.factors.get(name, 1.0) for name in qos])
    kept: FloatArray = np.round(billed / _GRAIN) * _GRAIN
    return kept


def _added_up(
    weights: Mapping[str, float], flags: frozenset[str], amounts: Callable[[str], FloatArray]
) -> FloatArray:
    """The sum, or the dearest of what is tied to nodes and the sum of the rest; shape [n]."""
    whole = np.zeros_like(amounts(CPUS))
    dearest = np.zeros_like(whole)
    for resource, weight in weights.items():
        cost = weight * amounts(resource)
        is_gres = resource == GPUS or resource.startswith(_GRES)
        tied = resource in (CPUS, MEMORY, NODES) or (is_gres and DEAREST_AND_GRES not in flags)
        if tied and flags & {DEAREST, DEAREST_AND_GRES}:
            dearest = np.maximum(dearest, cost)
        else:
            whole = whole + cost
    return whole + dearest
