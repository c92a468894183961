"""How the queue of a site is ordered in replays: as the daemon orders it, or as the site does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN, WAITING_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import IntArray

#: The order of a site at an instant.
SiteOrder = Callable[[SiteAt], OrderOf]


def learned_order(network: QNetwork) -> SiteOrder:
    """The order of a network."""

    def of_site(site: SiteAt) -> OrderOf:
        priority = _own_priority(site)

        def of_jobs(workload: Workload, jobs: IntArray) -> QueueOrder:
            del workload
            return QueueOrder(network=network, site=priority).of_jobs(jobs)

        return of_jobs

    return of_site


def rule_order(name: str) -> SiteOrder:
    """The order of a rule; of one that orders no live queue, first come, first served."""
    static = STATIC_RULES.get(name)

    def of_site(site: SiteAt) -> OrderOf:
        table, priority = site.prepared.jobs(), _own_priority(site)

        def of_jobs(workload: Workload, jobs: IntArray) -> QueueOrder:
            own = QueueOrder(site=priority).of_jobs(jobs)
            if name in WAITING_RULES:
                return replace(own, rule=name)
            if static is None or name == "fifo":
                return replace(own, scores=-workload.submit)
            return replace(own, scores=static(table.select(jobs), workload.estimate))

        return of_jobs

    return of_site


def own_order(site: SiteAt) -> OrderOf:
    """What the site's own settings give: multifactor priority with its weights, where known."""
    return rule_order(SITES_OWN)(site)


def _own_priority(site: SiteAt) -> SitePriority | None:
    if site.prepared.machine is None:
        return None
    return site_priority(site.prepared, site.prepared.machine)
