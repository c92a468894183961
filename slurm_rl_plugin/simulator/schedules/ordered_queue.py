"""A queue that is scored at each decision: how, bundled, and the loop that runs it up to a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN, WAITING_RULES, reads_users
from slurm_rl_plugin.simulator.kernel.class_limit import (
    rail_orders,
    reserve_in_force,
    score_by_rail,
)
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, decision_time, next_event
from slurm_rl_plugin.simulator.kernel.compilation import chosen_by_type, compiled, compiled_inline
from slurm_rl_plugin.simulator.kernel.dispatch import anything_fits, best_first, dispatch_by_score
from slurm_rl_plugin.simulator.kernel.workload import Workload
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
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray


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
        """The same for some of the jobs, of which some may come twice."""
        scores = None if self.scores is None else self.scores[jobs]
        site = None if self.site is None else self.site.of_jobs(jobs)
        return replace(self, scores=scores, site=site)


class OrderedQueue(NamedTuple):
    """How decisions are made, and the space that they need."""

    #: Scores the queue: a CompiledNetwork, a CompiledEchoState, RuleScores, FixedScores or
    #: SitePriority, for each of which the loop is compiled.
    network: Any
    backfilling: int  #: code of BACKFILLING
    cycle: float  #: seconds between decisions; 0 decides at every event
    reserve: int  #: processors kept free of batch work
    effects: Any  #: of the hook: HookEffects, or NoEffects, for which the loop is compiled without
    scores: FloatArray  #: space for a score of every job
    jobs: IntArray  #: space for their numbers

    def copy(self) -> OrderedQueue:
        """The same with a memory of its own: whatever it scores next changes no other queue.

        Only of a rule or a network, as a routed site has it.
        """
        return self._replace(
            network=self.network.copy(),
            effects=self.effects.copy(),
        )


def _score_by_echo_state(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> int:
    remembers = writes_now(cluster, queue.effects)
    score_pending_from_memory(workload, cluster, queue.network, remembers, queue.scores, queue.jobs)
    return 0


def _score_by_rule(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> int:
    score_pending_by_rule(workload, cluster, queue.network.rule, queue.scores, queue.jobs)
    return 0


def _take_fixed(_: Workload, cluster: Cluster, queue: OrderedQueue) -> int:
    return take_fixed_scores(cluster, queue.network, queue.scores, queue.jobs)


def _score_by_site(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> int:
    return score_by_site(workload, cluster, queue.network, queue.scores, queue.jobs)


@chosen_by_type(
    "queue.network",
    {
        CompiledEchoState: _score_by_echo_state,
        RuleScores: _score_by_rule,
        FixedScores: _take_fixed,
        SitePriority: _score_by_site,
    },
)
def _score_pending(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> int:
    """Score every pending job now; the processors that a network holds."""
    return score_pending(workload, cluster, queue.network, queue.scores, queue.jobs)


@compiled_inline
def score_queue(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> int:
    """Fill `queue.scores` and `queue.jobs` as they stand now; the processors to keep free."""
    scores, jobs = queue.scores, queue.jobs
    reserve = max(queue.reserve, _score_pending(workload, cluster, queue))
    reserve = reserve_in_force(workload.jobs, cluster, reserve)
    # each call but those that borrow counts every array that it is given
    if rail_orders(cluster):
        score_by_rail(workload.jobs, cluster, scores, jobs)
    as_written(workload, cluster, queue.effects, scores, jobs)
    return reserve


@compiled
def decide_scored(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> None:
    """One decision by scores made now."""
    if cluster.state[0].idle == 0 or not anything_fits(workload.jobs, cluster):
        return
    cluster.state[0].decisions += 1
    reserve = score_queue(workload, cluster, queue)
    scores, jobs = queue.scores, queue.jobs
    dispatch_by_score(workload.jobs, cluster, scores, jobs, queue.backfilling, reserve)


@compiled
def run_until(workload: Workload, cluster: Cluster, queue: OrderedQueue, until: float) -> None:
    """Let everything up to `until` happen, and every decision; the clock stops there.

    Args:
        queue: how decisions are made; what its network remembers is changed in place.
        until: seconds; inf, as it must be with a cycle, runs until nothing happens by itself.
    """
    no_rank = np.empty(0, dtype=np.int64)
    while True:
        event = next_event(workload.jobs, cluster)
        if np.isinf(event) or event > until:
            break
        advance(workload.jobs, cluster, decision_time(event, queue.cycle), no_rank)
        decide_scored(workload, cluster, queue)
    if not np.isinf(until) and until > cluster.state[0].now:
        advance(workload.jobs, cluster, until, no_rank)


#: An order is kept for so many seconds at least.
_AT_LEAST = MINUTE
#: Seconds that a run of exact scores goes on before it is looked at who has started, and how much
#: longer each time.
_FIRST_STRETCH, _LONGER = 600.0, 1.2


class RunUnderWay(Protocol):
    """A simulation that can be stopped."""

    @property
    def workload(self) -> Workload:
        """The jobs."""

    @property
    def cluster(self) -> Cluster:
        """As it stands."""

    def run_until(self, until: float, cycle: float = 0.0) -> None:
        """Let everything up to `until` happen; decisions are `cycle` seconds apart at least."""

    def order_anew(self) -> None:
        """Score the queue where its order is kept; else nothing."""


def rank_of_tiers(tier: IntArray) -> IntArray:
    """Ranks of jobs that nobody has scored yet: by tier, then by submission; shape [n].

    Below the unscored jobs of each tier there is place for as many scored ones.

    Args:
        tier: of each job, of which a higher one goes first, shape [n].
    """
    jobs = len(tier)
    return (tier.max(initial=0) - tier) * 2 * jobs + jobs + np.arange(jobs)


@compiled
def rank_anew(workload: Workload, cluster: Cluster, queue: OrderedQueue, rank: IntArray) -> int:
    """Rank the pending jobs by scores of now, and order them; the processors to keep free.

    Who comes later goes behind them in his tier.

    Args:
        rank: as `rank_of_tiers` gave it, and what this made of it; shape [n].
    """
    count, jobs = cluster.state[0].pending, len(rank)
    if count == 0:
        return queue.reserve
    cluster.pending[:count] = np.sort(cluster.pending[:count])  # as scores are made
    reserve = score_queue(workload, cluster, queue)
    order = best_first(queue.scores, count)
    for place in range(count):
        order[place] = queue.jobs[order[place]]
    for place in range(count):
        job = order[place]
        rank[job] = rank[job] // (2 * jobs) * (2 * jobs) + place
    for place in range(1, count):
        if rank[order[place]] < rank[order[place - 1]]:
            order = order[best_first(-rank[order], count)]
            break
    cluster.pending[:count] = order
    return reserve


def run_until_started(run: RunUnderWay, awaited: IntArray, until: float, kept: float) -> None:
    """Let everything happen until all awaited jobs have started, and little more.

    Args:
        awaited: jobs, shape [m].
        until: seconds; what has not started by then has NaN as its start.
        kept: the part of the time since the run was resumed for which an order is kept, and in
            which one decision is made, though no later than that part of a run; 0 where decisions
            are made at each event, by scores of then unless the order never changes.
    """
    began = time = float(run.cluster.state[0].now)
    stretch = _FIRST_STRETCH
    longest = kept * _mean_run(run.workload)
    while time < until and np.isnan(run.cluster.start[awaited]).any():
        cycle = min(kept * (time - began), longest)
        if kept > 0.0:
            run.order_anew()
            stretch = max(kept * (time - began), _AT_LEAST)
        time = min(time + stretch, until)
        run.run_until(time, cycle)
        stretch *= _LONGER


def _mean_run(workload: Workload) -> float:
    """Seconds, of each processor: a wide job counts as many."""
    size = workload.size
    return float(size @ workload.run_time / max(size.sum(), 1.0))
