"""What a head node publishes of its site, against the network itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.site import JOB_CLASSES
from slurm_rl_plugin.errors import ModelSchemaMismatch, ScoreInvalid
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.learning.site_utility import export_site_utility
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.site_utilities import published_utilities, utility_of
from tests.functional.small_network import small_network
from tests.unit.hook.queues import pending_jobs, snapshot_of

MEDIANS = ClassMedian(interactive_median=60.0, batch_median=3600.0)


def two_accounts() -> QueueSnapshot:
    one = snapshot_of(pending_jobs([1, 1, 1]))
    return replace(
        one,
        accounts=("physics", "biology"),
        shares=np.array([0.7, 0.3]),
        usage=np.array([0.2, 0.8]),
    )


def test_utilities_are_the_networks_scores_for_jobs_that_come_now(tmp_path: Path) -> None:
    network = small_network()
    path = tmp_path / "site.onnx"
    export_site_utility(network, path, MEDIANS)
    policy, snapshot = load_q_network(path), two_accounts()
    published = published_utilities(policy, snapshot, site="north", valid_for=60.0)
    assert (published.site, published.time, published.valid_for) == ("north", snapshot.now, 60.0)
    assert published.model == policy.card.sha256
    assert tuple(published.utilities) == JOB_CLASSES
    # the same by hand: a queue of which the newcomer is the last, scored by the plain arrays
    queue = policy._ready(snapshot, None)[0]["queue"].astype(np.float64)
    for job_class, estimate in (("interactive", 60.0), ("batch", 3600.0)):
        for account in (0, 1):
            jobs = np.zeros((1, len(SITE.jobs)))
            # one processor; it asks for no time: the estimate; it has not waited
            jobs[0, SITE.jobs.index("log_time_limit")] = np.log(estimate)
            jobs[0, SITE.jobs.index("interactive")] = job_class == "interactive"
            doublings = np.log2(snapshot.usage[account] / snapshot.shares[account])
            jobs[0, SITE.jobs.index("share_doublings")] = doublings
            gain = network.scores(queue, jobs)[0]
            found = published.of(job_class, snapshot.accounts[account])
            assert found == pytest.approx(1 / (1 + np.exp(-gain)), abs=2e-5)


def test_a_model_that_only_orders_jobs_publishes_nothing(tmp_path: Path) -> None:
    export_network(small_network(), tmp_path / "order.onnx", {"estimates": "requested"})
    policy = load_q_network(tmp_path / "order.onnx")
    with pytest.raises(ModelSchemaMismatch, match="orders jobs"):
        published_utilities(policy, two_accounts(), site="north")


def test_a_broken_model_publishes_nothing(tmp_path: Path) -> None:
    network = replace(small_network(), output_bias=float("nan"))
    export_site_utility(network, tmp_path / "site.onnx", MEDIANS)
    policy = load_q_network(tmp_path / "site.onnx")
    with pytest.raises(ScoreInvalid, match="no numbers"):
        published_utilities(policy, two_accounts(), site="north")


def test_the_scale_keeps_order_and_bounds() -> None:
    gain = np.array([-1e6, -3.0, -0.1, 0.0, 0.1, 3.0, 1e6])
    found = utility_of(gain)
    assert found[3] == 0.5
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) > 0).all()
