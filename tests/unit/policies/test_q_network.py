"""Networks: digests, inputs from waits and goals, and the publications of a site."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain import Memory, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.domain.site import JOB_CLASSES
from slurm_rl_plugin.errors import ModelSchemaMismatch, ScoreInvalid
from slurm_rl_plugin.features.estimates import ClassMedian
from slurm_rl_plugin.features.history.run_history import ARRIVAL_MEMORY
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning.onnx_file import export_network
from slurm_rl_plugin.learning.site_utility import export_site_utility
from slurm_rl_plugin.policies.q_network import (
    ModelCard,
    QNetworkPolicy,
    feature_effects,
    load_q_network,
)
from slurm_rl_plugin.policies.registry import rule_policy
from slurm_rl_plugin.policies.site_utilities import published_utilities
from tests.case_files import known, rows
from tests.functional.small_site import small_network
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of


def test_one_number_or_word_makes_another_digest() -> None:
    network = small_network()
    assert small_network().digest == network.digest
    assert len(network.digest) == 16
    holds = replace(network, reserve_weights=np.zeros_like(network.queue_mean))
    all_of_them = [network, holds, replace(holds, activation="sigmoid")]
    for each in fields(holds)[1:]:
        changed = np.array(getattr(holds, each.name))
        if changed.dtype == np.float64:
            changed.ravel()[-1] += 1e-9
            value = changed if changed.shape else float(changed)
            all_of_them.append(replace(holds, **{each.name: value}))
    assert len({each.digest for each in all_of_them}) == len(all_of_them) > 12


def test_a_network_looks_at_the_past_where_a_weight_of_history_counts() -> None:
    network = small_network()
    assert not network.looks_at_past
    for name in ("linear", "job_weights"):
        weights = getattr(network, name).copy()
        weights[-1] = 1e-9
        assert replace(network, **{name: weights}).looks_at_past
        weights[-1], weights[-len(SITE.history_jobs) - 1] = 0.0, 1.0  # the last one of no history
        assert not replace(network, **{name: weights}).looks_at_past


PATH = Path("model.onnx")
DEEP = "[" * 200_000
HUGE = "1" + "0" * 400
NO_WEIGHTS = ["", "[", "[1]", "null", '"x"', '{"wait": "much"}', '{"wait": null}', DEEP]


@pytest.mark.parametrize("text", [*NO_WEIGHTS, f'{{"wait": {HUGE}}}'])
def test_weights_that_are_no_numbers_are_as_good_as_none(text: str) -> None:
    card = ModelCard(path=PATH, sha256="", metadata={"reward_weights": text})
    assert card.reward_weights == {}


def test_weights_are_read() -> None:
    told = json.dumps({"wait": 1, "fairness": 0.5})
    card = ModelCard(path=PATH, sha256="", metadata={"reward_weights": told})
    assert card.reward_weights == {"wait": 1.0, "fairness": 0.5}
    assert ModelCard(path=PATH, sha256="").reward_weights == {}


@pytest.mark.parametrize("hidden_counts", [0.0, 1.0])
def test_effects_are_differences_of_scores(tmp_path: Path, hidden_counts: float) -> None:
    network = small_network()
    network.output[:] *= hidden_counts
    export_network(network, tmp_path / "model.onnx", {"estimates": "requested"})
    policy = load_q_network(tmp_path / "model.onnx")
    pending = pending_jobs([1, 1, 1])
    pending.jobs.time_limit[:] = [60.0, 3600.0, 86400.0]
    pending.jobs.interactive[0] = True
    snapshot = snapshot_of(pending)
    effects = {each.name: each for each in feature_effects(policy, snapshot, None, 2)}
    assert effects["interactive"].effect == 0.0  # the median already
    limit = effects["log_time_limit"]
    assert limit.value == pytest.approx(np.log(86_400))
    assert limit.median == pytest.approx(np.log(3600))
    column = policy.schema.jobs.index("log_time_limit")
    alone = network.linear[column] * (limit.value - limit.median) / network.job_scale[column]
    if hidden_counts:
        assert limit.effect != pytest.approx(alone, rel=1e-3)
    else:
        assert limit.effect == pytest.approx(alone, rel=1e-3)
    sizes = [abs(each.effect) for each in feature_effects(policy, snapshot, None, 2)]
    assert sizes == sorted(sizes, reverse=True)


HOUR, DAY = 3600.0, 86_400.0
NOW = 1e8


@pytest.fixture
def policy(tmp_path: Path) -> QNetworkPolicy:
    export_network(small_network(), tmp_path / "model.onnx", {})
    return load_q_network(tmp_path / "model.onnx")


def waiting(*hours: float, now: float = NOW, **columns: np.ndarray) -> QueueSnapshot:
    """A queue of jobs with these waits in hours."""
    came = now - HOUR * np.array(hours)
    jobs = job_table(len(hours), submit=came, eligible=came)
    return snapshot_of(replace(PendingJobs.untouched(jobs), **columns), now)


def told(policy: QNetworkPolicy, name: str, snapshot: QueueSnapshot, memory: Memory | None = None):
    """One feature of the pending jobs."""
    return policy.job_features(snapshot, memory)[:, policy.schema.jobs.index(name)].tolist()


@rows("longest_wait", "cases", "steps")
def test_the_longest_wait_is_remembered(
    policy: QNetworkPolicy, steps: list[dict[str, Any]]
) -> None:
    memory: Memory | None = None
    names = ("wait_counts", "held", "own_doing", "accrued")
    for step in steps:
        known(step, *names, "hours", "longest", "at", "forget", "features")
        columns = {name: np.array(step[name]) for name in names if name in step}
        snapshot = waiting(*step["hours"], now=NOW + HOUR * step.get("at", 0.0), **columns)
        if memory is not None and step.get("forget"):
            memory = memory[:-1]
        for name, factors in step.get("features", {}).items():
            assert told(policy, name, snapshot, memory) == pytest.approx(np.log(factors), abs=1e-6)
        memory = policy.decide(snapshot, memory).memory
        assert memory[ARRIVAL_MEMORY] == pytest.approx(step["longest"] * HOUR)


@pytest.mark.parametrize("name", ["fifo", "multifactor"])
def test_rules_count_a_lifted_wait_more(name: str) -> None:
    rule = rule_policy(name)
    assert np.argmax(rule.decide(waiting(4.0, 7.0)).scores) == 1
    lifted = waiting(4.0, 7.0, wait_counts=np.array([2.0, 1.0]))
    assert np.argmax(rule.decide(lifted).scores) == 0


def of_accounts(*shares: float) -> QueueSnapshot:
    """A job of the first account, which has used twice its share, and one of the second."""
    snapshot = waiting(1.0, 1.0)
    jobs = replace(snapshot.pending.jobs, account=np.array([0, 1]))
    usage = 2 * shares[0]
    return replace(
        snapshot,
        pending=PendingJobs.untouched(jobs),
        accounts=("physics", "biology"),
        shares=np.array(shares),
        usage=np.array([usage, 1 - usage]),
    )


def test_shares_count_as_the_site_says(policy: QNetworkPolicy) -> None:
    unequal, equal = of_accounts(0.25, 0.75), of_accounts(0.3, 0.3)
    none = replace(policy, goals=Goals(shares=0.0))
    assert told(none, "share_points", unequal) == [0.0, 0.0]
    two = replace(policy, goals=Goals(shares=2.0))
    assert told(two, "share_points", unequal)[0] == pytest.approx(2.0)
    assert told(two, "share_points", equal)[0] == pytest.approx(2.0)


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
    # the same by hand: the new job is the last of the queue, scored by the plain arrays
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
