"""Fair share in a replay against the domain's factors of usage that is summed up job by job."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurm_rl_plugin.domain.machine import PriorityWeights
from slurm_rl_plugin.domain.share_tree import Association, ShareTree
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, run_up_to
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority, calculate, fair_share
from slurm_rl_plugin.units import FloatArray
from tests.reference.loads import random_workload
from tests.reference.slurm_priority import fair_share_factors, with_those_below

PERIOD, RESET, LAST = 50.0, 2050.0, 4000.0
ACCOUNTS = (
    Association("a", parent="root", share=30),
    Association("b", parent="root", share=70),
    Association("sub", parent="a", share=2),
    Association("parents", parent="b", share=None),
)
TREE = ShareTree.of(
    [*ACCOUNTS, *(Association(each.account, user) for each in ACCOUNTS for user in "uv")]
)
USERS = np.flatnonzero(TREE.is_user)


def charged(
    workload: Workload, start: FloatArray, until: float, half_life: float, counts_ends: bool
) -> FloatArray:
    """What each job was charged by then, decayed, shape [n]."""
    begin = np.where(np.isnan(start), np.inf, start)
    end = begin + workload.run_time
    if not counts_ends:
        ended = end < until
        end = np.where(ended, np.maximum(np.floor(end / PERIOD) * PERIOD, begin), end)
    begin, end = np.minimum(begin, until), np.minimum(end, until)
    if math.isinf(half_life):
        return (end - begin) * workload.billed
    rate = math.log(2.0) / half_life
    kept = np.exp(-rate * (until - end)) - np.exp(-rate * (until - begin))
    return np.asarray(kept / rate * workload.billed)


@pytest.mark.parametrize("classic", [False, True], ids=["fair tree", "classic"])
@pytest.mark.parametrize("counts_ends", [True, False], ids=["ends", "no ends"])
@pytest.mark.parametrize("half_life", [math.inf, 700.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_factors_are_those_of_the_usage_at_the_last_calculation(
    seed: int, half_life: float, counts_ends: bool, classic: bool
) -> None:
    workload = random_workload(seed, jobs=120, parallel=True)
    workload = workload.having(submit=workload.submit * LAST / workload.submit[-1])
    association = np.random.default_rng(seed).choice(USERS, len(workload.submit))
    site = SitePriority(
        points=np.zeros(0),
        age=10.0,
        highest_age=LAST,
        fairshare=1e4,
        period=PERIOD,
        fair=fair_share(
            TREE,
            association,
            classic=classic,
            dampening=3.0,
            half_life=half_life,
            counts_ends=counts_ends,
            resets=np.array([RESET - 40.0]),
        ),
    )
    settings = SimulationSettings(capacity=20, backfilling="easy")
    queue = settings.ordered_queue(workload, QueueOrder(site=site))
    cluster = settings.empty_cluster(workload)
    flags = frozenset({"NO_FAIR_TREE"} if classic else ())
    weights, ranks = PriorityWeights(flags=flags, dampening=3.0), set()
    for until in (400.0, 1010.0, 1990.0, 2600.0, LAST):
        run_up_to(cluster, queue, until)
        at = calculate(cluster, queue.network)
        assert at == math.floor(until / PERIOD) * PERIOD
        own = charged(workload, cluster.start, at, half_life, counts_ends)
        if at > RESET:
            before = charged(workload, cluster.start, RESET, half_life, counts_ends)
            own -= before * 0.5 ** ((at - RESET) / half_life)
        usage = np.bincount(association, own, len(TREE))
        factors = fair_share_factors(weights, TREE, with_those_below(TREE, usage))
        np.testing.assert_allclose(queue.network.fair.factors, factors, rtol=1e-9, atol=1e-12)
        ranks.add(tuple(factors))
    assert len(ranks) > 3
