"""How a queue is ordered, by scores of each decision or by a rank, and one decision on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN, WAITING_RULES, reads_users
from slurm_rl_plugin.simulator.kernel.class_limit import (
    order_by_rail,
    rail_orders,
    reserve_in_force,
    score_by_rail,
)
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import (
    chosen_by_type,
    compiled,
    compiled_borrowing,
    compiled_inline,
)
from slurm_rl_plugin.simulator.kernel.dispatch import (
    anything_fits,
    best_first,
    dispatch_by_score,
    dispatch_in_order,
)
from slurm_rl_plugin.simulator.scoring.echo_state import (
    CompiledEchoState,
    score_pending_from_memory,
)
from slurm_rl_plugin.simulator.scoring.hook_effects import as_written, writes_now
from slurm_rl_plugin.simulator.scoring.network import score_pending
from slurm_rl_plugin.simulator.scoring.rules import (
    FixedScores,
    RuleScores,
    score_pending_by_rule,
    take_fixed_scores,
)
from slurm_rl_plugin.simulator.scoring.site_priority import (
    SitePriority,
    example_priority,
    score_by_site,
)
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """How a queue is ordered: by one of scores, network and rule; by `site` without them."""

    scores: FloatArray | None = None  #: of a static order, shape [n]
    network: QNetwork | EchoStateNetwork | None = None  #: scores the queue at each decision
    rule: str | None = None  #: one of WAITING_RULES, the same; SITES_OWN is `site`
    #: The priority that the site's own settings give, to which a bounded order adds; None for
    #: Slurm's documented example.
    site: SitePriority | None = None

    @property
    def is_sites_own(self) -> bool:
        """Whether the site's own priority orders the queue."""
        named = self.rule is not None and self.rule != SITES_OWN
        return not named and self.scores is None and self.network is None

    @property
    def site_or_example(self) -> SitePriority:
        """The site's own priority."""
        return example_priority() if self.site is None else self.site

    @property
    def reads_users(self) -> str | None:
        """What of the order needs to know each job's user; None where nothing does."""
        if self.rule is not None and reads_users(WAITING_RULES[self.rule]):
            return f"the rule {self.rule}"
        if isinstance(self.network, QNetwork) and self.network.looks_at_past:
            return "a network that looks at past runs"
        return None

    def of_jobs(self, jobs: IntArray) -> QueueOrder:
        """The same for some of the jobs; a job may come twice."""
        scores = None if self.scores is None else self.scores[jobs]
        site = None if self.site is None else self.site.of_jobs(jobs)
        return replace(self, scores=scores, site=site)


class OrderedQueue(NamedTuple):
    """How decisions are made, and the space that they need."""

    #: Scores the queue: a CompiledNetwork, a CompiledEchoState, RuleScores, FixedScores or
    #: SitePriority; the loop is compiled for each.
    network: Any
    backfilling: int  #: code of BACKFILLING
    cycle: float  #: seconds between decisions; 0 decides at every event
    reserve: int  #: processors kept free of batch work
    effects: Any  #: of the hook: HookEffects, or NoEffects, for which the loop is compiled without
    scores: FloatArray  #: space for a score of every job
    jobs: IntArray  #: space for their numbers


class StaticQueue(NamedTuple):
    """How decisions are made in the order of `Cluster.rank`, in which `pending` is kept."""

    backfilling: int  #: code of BACKFILLING
    cycle: float  #: seconds between decisions; 0 decides at every event
    reserve: int  #: processors kept free of batch work


def _score_by_echo_state(cluster: Cluster, queue: OrderedQueue) -> int:
    remembers = writes_now(cluster, queue.effects)
    score_pending_from_memory(cluster, queue.network, remembers, queue.scores, queue.jobs)
    return 0


def _score_by_rule(cluster: Cluster, queue: OrderedQueue) -> int:
    score_pending_by_rule(cluster, queue.network.rule, queue.scores, queue.jobs)
    return 0


def _take_fixed(cluster: Cluster, queue: OrderedQueue) -> int:
    return take_fixed_scores(cluster, queue.network, queue.scores, queue.jobs)


def _score_by_site(cluster: Cluster, queue: OrderedQueue) -> int:
    return score_by_site(cluster, queue.network, queue.scores, queue.jobs)


@chosen_by_type(
    "queue.network",
    {
        CompiledEchoState: _score_by_echo_state,
        RuleScores: _score_by_rule,
        FixedScores: _take_fixed,
        SitePriority: _score_by_site,
    },
)
def _score_pending(cluster: Cluster, queue: OrderedQueue) -> int:
    return score_pending(cluster, queue.network, queue.scores, queue.jobs)


@compiled_inline
def score_queue(cluster: Cluster, queue: OrderedQueue) -> int:
    """Fill `queue.scores` and `queue.jobs` as they stand now; the processors to keep free."""
    scores, jobs = queue.scores, queue.jobs
    reserve = max(queue.reserve, _score_pending(cluster, queue))
    reserve = reserve_in_force(cluster, reserve)
    # each call but those that borrow counts every array that it is given
    if rail_orders(cluster):
        score_by_rail(cluster, scores, jobs)
    as_written(cluster, queue.effects, scores, jobs)
    return reserve


@compiled
def decide_scored(cluster: Cluster, queue: OrderedQueue) -> None:
    """One decision by scores made now."""
    if cluster.state[0].idle == 0 or not anything_fits(cluster):
        return
    cluster.state[0].decisions += 1
    reserve = score_queue(cluster, queue)
    scores, jobs = queue.scores, queue.jobs
    dispatch_by_score(cluster, scores, jobs, queue.backfilling, reserve)


@compiled_borrowing
def decide_static(cluster: Cluster, queue: StaticQueue) -> None:
    """One decision of a static order."""
    state = cluster.state[0]
    if state.limited > 0.0 and not anything_fits(cluster):
        return  # the limit is left as it is, as under scores made now
    if state.pending == 0 or state.idle == 0:
        return
    state.decisions += 1
    reserve = reserve_in_force(cluster, queue.reserve)
    order, count = cluster.pending, state.pending
    if rail_orders(cluster):
        order_by_rail(cluster, order, count, cluster.ordered)
        order = cluster.ordered
    dispatch_in_order(cluster, order, count, queue.backfilling, reserve)


def rank_of(scores: FloatArray, tier: IntArray) -> IntArray:
    """Place of each job in the order of tier, then score, then submission; shape [n]."""
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.lexsort((np.arange(len(scores)), -scores, -tier))] = np.arange(len(scores))
    return rank


def rank_of_tiers(tier: IntArray) -> IntArray:
    """Ranks of jobs without scores: the highest tier first, then by submission; shape [n].

    Before the jobs of each tier is room for the ranks of as many scored jobs.
    """
    jobs = len(tier)
    return (tier.max(initial=0) - tier) * 2 * jobs + jobs + np.arange(jobs)


@compiled
def rank_anew(cluster: Cluster, queue: OrderedQueue) -> int:
    """Rank the pending jobs by scores of now, and order them; the processors to keep free.

    Later jobs go behind them in their tier. The rank is that of `rank_of_tiers` or an earlier call.
    """
    count, jobs = cluster.state[0].pending, len(cluster.rank)
    if count == 0:
        return queue.reserve
    cluster.pending[:count] = np.sort(cluster.pending[:count])  # as scores are made
    reserve = score_queue(cluster, queue)
    order = queue.jobs[best_first(queue.scores, count)]
    cluster.rank[order] = cluster.rank[order] // (2 * jobs) * (2 * jobs) + np.arange(count)
    cluster.pending[:count] = order[best_first(-cluster.rank[order], count)]
    return reserve
