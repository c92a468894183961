"""Every rule that changes while jobs wait scores in the compiled loop as on a live queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.registry import NAMED_POLICIES, PolicyKind
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, empty_cluster
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring import rules
from slurm_rl_plugin.simulator.scoring.rules import current_usage, rule_code, score_pending_by_rule
from slurm_rl_plugin.simulator.scoring.site_priority import example_priority, score_by_site
from tests.reference.loads import snapshot_of, workload_of
from tests.reference.readable_simulator import Moment

RULES = {each.name for each in NAMED_POLICIES.values() if each.kind is PolicyKind.WAITING}
#: The site's own priority is compiled as such.
WAITING = RULES - {SITES_OWN}
LIMIT = np.array([300.0, 7200.0, 90.0, 900.0])
LOAD = workload_of(
    [0.0, 10.0, 400.0, 450.0],
    LIMIT,
    estimate=LIMIT + 1.0,
    processors=[1, 4, 2, 1],
    account=[0, 1, 0, 2],
    interactive=[True, False, True, False],
    shares=[0.5, 0.3, 0.2],
)
AT = 500.0


def waiting_cluster(workload: Workload = LOAD) -> Cluster:
    """All four jobs wait on 8 processors; two accounts have used some."""
    cluster = empty_cluster(workload, 8)
    cluster.accounts.usage[:] = [30.0, 70.0, 0.0]
    advance(cluster, AT)
    assert cluster.state[0].now == AT
    return cluster


def compiled_scores(code: int | None) -> list[float]:
    """Of a rule, or of the site's own priority."""
    scores, jobs = np.empty(5), np.empty(5, dtype=np.int64)
    workload = LOAD.having(estimate=LIMIT)
    if code is None:
        own = example_priority().before(workload)
        score_by_site(waiting_cluster(workload), own, scores, jobs)
    else:
        score_pending_by_rule(waiting_cluster(workload), code, scores, jobs)
    return scores[np.argsort(jobs[:4])].tolist()


def test_the_loop_has_a_code_of_its_own_for_every_waiting_rule() -> None:
    assert rules._CODES.keys() == WAITING
    assert len({rule_code(name) for name in WAITING}) == len(WAITING)
    with pytest.raises(SimulationError, match="compiles no rule 'lifo'"):
        rule_code("lifo")


# who has least in use is seen where jobs run: test_weighed_jobs
@pytest.mark.parametrize("name", sorted(RULES - {"drf"}))
def test_the_loop_scores_as_the_rule_does(name: str) -> None:
    snapshot = snapshot_of(LOAD, Moment(AT, [0, 1, 2, 3], [], [np.nan] * 4), 8)
    usage = current_usage(waiting_cluster())
    policy = NAMED_POLICIES[name].live()
    live = policy.decide(replace(snapshot, usage=usage)).scores
    assert len(set(live.tolist())) == 4
    code = None if name == SITES_OWN else rule_code(name)
    assert compiled_scores(code) == pytest.approx(live.tolist(), rel=1e-12)
