"""How the queue of a site is ordered in replays: as the daemon orders it, or as the site does."""

from __future__ import annotations

from collections.abc import Callable

from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.replays.replayed_site import OrderOf
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import IntArray

#: The order of a site at an instant.
SiteOrder = Callable[[SiteAt], OrderOf]


def learned_order(network: QNetwork) -> SiteOrder:
    """The order of a network, which says itself whom it protects."""

    def of_site(site: SiteAt) -> OrderOf:
        del site

        def of_jobs(workload: Workload, jobs: IntArray) -> QueueOrder:
            del workload, jobs
            return QueueOrder(network=network)

        return of_jobs

    return of_site


def rule_order(name: str) -> SiteOrder:
    """The order of a rule; of one that orders no live queue, first come, first served."""
    static = STATIC_RULES.get(name)

    def of_site(site: SiteAt) -> OrderOf:
        table = site.prepared.jobs()

        def of_jobs(workload: Workload, jobs: IntArray) -> QueueOrder:
            if name in WAITING_RULES:
                return QueueOrder(rule=name)
            if static is None or name == "fifo":
                return QueueOrder(scores=-workload.submit)
            return QueueOrder(scores=static(table.select(jobs), workload.estimate))

        return of_jobs

    return of_site


def own_order(site: SiteAt) -> OrderOf:
    """What the site's own settings give: multifactor priority with its weights, where known."""
    if site.prepared.machine is None:
        return rule_order("multifactor")(site)
    priority = site_priority(site.prepared.log, site.prepared.machine)

    def of_jobs(workload: Workload, jobs: IntArray) -> QueueOrder:
        del workload
        return QueueOrder(site=priority).of_jobs(jobs)

    return of_jobs
