"""The longest wait that a site has known lately, from which a job counts as overdue."""

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.simulator.kernel.cluster import (
    PENDING,
    advance,
    empty_cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.scoring.compiled_network import compile_network
from slurm_rl_plugin.simulator.scoring.network import score_pending
from tests.reference.loads import random_workload
from tests.reference.test_network_against_readable_simulator import probe

MONTH = 30 * 86_400.0
NO_RANK = np.empty(0, dtype=np.int64)
#: The first job waits two hours and starts; the others come a month later.
SUBMIT = np.array([0.0, MONTH + 7200.0 - 2700.0, MONTH + 7200.0 - 1000.0])


def load(submit):
    return random_workload(1, len(submit), parallel=False)._replace(submit=np.array(submit))


def overdue(workload, cluster, network):
    """Job -> how far it is overdue now."""
    count = int(cluster.counts[PENDING])
    scores, jobs = np.empty(count), np.empty(count, dtype=np.int64)
    score_pending(workload, cluster, network, scores, jobs)
    return dict(zip(jobs.tolist(), scores.tolist(), strict=True))


def compiled(workload, **goals):
    network = probe(job_feature=SITE.jobs.index("overdue"))
    return compile_network(network, workload, Goals(**goals))


@pytest.mark.parametrize("counts", [1.0, 2.5, 0.0])
def test_half_of_it_is_forgotten_in_30_days_and_half_of_the_rest_is_late(counts):
    workload = load(SUBMIT)
    network, cluster = compiled(workload, longest_wait=counts), empty_cluster(workload, 1)
    advance(workload, cluster, 7200.0, NO_RANK)
    assert overdue(workload, cluster, network) == {0: pytest.approx(counts * np.log(2.0))}
    start_job(workload, cluster, 0)
    forget_started(cluster)
    advance(workload, cluster, MONTH + 7200.0, NO_RANK)
    # 7200 s are 3600 s now: who has waited for 1800 s is late
    late = pytest.approx(counts * np.log(2700.0 / 1800.0))
    assert overdue(workload, cluster, network) == {1: late, 2: 0.0}


def test_nobody_is_late_before_a_minute():
    workload = load([0.0, 35.0])
    network, cluster = compiled(workload), empty_cluster(workload, 1)
    advance(workload, cluster, 90.0, NO_RANK)
    assert overdue(workload, cluster, network) == {0: pytest.approx(np.log(90.0 / 60.0)), 1: 0.0}


def test_a_copy_remembers_waits_of_its_own():
    workload = load(SUBMIT)
    network, cluster = compiled(workload), empty_cluster(workload, 1)
    advance(workload, cluster, 7200.0, NO_RANK)
    copy = network.copy()
    overdue(workload, cluster, copy)
    assert copy.longest.tolist() == [7200.0, 7200.0]
    assert network.longest.tolist() == [0.0, -np.inf]
