"""Held-out training looks at the first 60 % of a log only, and never leaves a site worse off."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from slurm_rl_plugin.learning import training
from slurm_rl_plugin.learning.evaluation.heldout import HEURISTICS, HeldoutProtocol
from slurm_rl_plugin.learning.heldout_training import (
    RuleComparison,
    best_reserve,
    compare_with_rules,
    heldout_entry,
    heldout_loads,
    searched_jobs,
    shipped_rule,
)
from slurm_rl_plugin.learning.policy_search import RULE_WEIGHTS, PolicySearchSettings, rule_network
from slurm_rl_plugin.learning.training import TrainingPlan
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.utility.reward import RewardWeights

SMALL = HeldoutProtocol(windows=3, warm_up=50, counted=100, further=50)
JOBS = 2000


def prepared(jobs=JOBS, longer_from=None):
    """A crowded machine; run times from one job on may be made longer."""
    log = generated_log(f"mmn:jobs={jobs},processors=10,load=.95,seed=2")
    run_time = log.run_time.copy()
    if longer_from is not None:
        run_time[longer_from:] *= 3
    limit = 600.0 * np.ceil(log.run_time / 600)
    return prepare_log(replace(log, run_time=run_time, time_limit=limit, processors_available=10))


def loads(log):
    return heldout_loads([log], training=SMALL, validation=SMALL)


def test_three_quarters_of_the_first_part_train_and_the_rest_of_it_chooses():
    log = prepared()
    found = loads(log)
    assert searched_jobs(log) == int(0.45 * JOBS)
    submit = log.log.submit
    last = max(load.workload.submit[-1] for load in found.training)
    assert last <= submit[searched_jobs(log) - 1]
    first = min(load.workload.submit[0] for load in found.validation)
    assert first >= submit[searched_jobs(log)]
    assert max(load.workload.submit[-1] for load in found.validation) <= submit[int(0.6 * JOBS) - 1]
    assert all(load.drop == (50, 50) for load in found.training + found.validation)


def test_nothing_behind_the_first_part_changes_what_training_sees():
    here, there = loads(prepared()), loads(prepared(longer_from=int(0.6 * JOBS)))
    for one, other in zip(
        here.training + here.validation, there.training + there.validation, strict=True
    ):
        np.testing.assert_array_equal(one.workload.run_time, other.workload.run_time)
        for told, same in zip(one.workload.past, other.workload.past, strict=True):
            np.testing.assert_array_equal(told, same)
        assert one.saf_slowdown == other.saf_slowdown


def test_policies_see_classes_made_of_requests():
    found = loads(prepared())
    for load in found.training:
        asked = load.workload.time_limit <= 900
        np.testing.assert_array_equal(load.workload.interactive, asked)


def test_a_network_is_compared_on_windows_that_chose_and_with_every_rule():
    found = compare_with_rules(rule_network("sjf"), prepared(), validation=SMALL)
    assert set(found.slowdown) == set(HEURISTICS)
    assert found.best_heuristic == min(found.slowdown, key=found.slowdown.__getitem__)
    again = compare_with_rules(rule_network("fifo"), prepared(), validation=SMALL)
    assert again.best_heuristic == found.best_heuristic
    assert again.ratio > found.ratio
    assert set(found.ratio_to) == set(RULE_WEIGHTS)
    assert found.ratio_to["sjf"] == pytest.approx(1.0)
    assert found.ratio_to["fifo"] < 1.0 < again.ratio_to["sjf"]


def compared(ratio, ratio_to=1.0, **slowdown):
    return RuleComparison(
        best_heuristic="saf",
        slowdown=dict.fromkeys(RULE_WEIGHTS, 9.0) | slowdown,
        ratio=ratio,
        ratio_to=dict.fromkeys(RULE_WEIGHTS, ratio_to),
    )


def test_a_network_that_wins_on_all_logs_together_is_shipped():
    assert shipped_rule([compared(0.7), compared(1.2)]) is None
    assert shipped_rule([]) is None


def test_otherwise_the_best_rule_that_is_a_network_is_shipped():
    found = [compared(0.9, sjf=2.0, saf=8.0), compared(1.3, sjf=8.5, saf=3.0)]
    assert shipped_rule(found) == "sjf"
    assert shipped_rule([compared(1.0)]) is not None
    assert shipped_rule([compared(1.001, ratio_to=0.06)]) is None  # the best rule is no network
    assert heldout_entry({"log": found[0]}, "sjf")["shipped"] == "sjf"
    assert heldout_entry({"log": found[0]}, None)["shipped"] == "network"


def test_a_rule_that_is_shipped_has_its_own_objective_in_the_manifest(tmp_path, monkeypatch):
    lost = compared(1.3, fifo=2.0)
    monkeypatch.setattr(training, "compare_with_rules", lambda *_: lost)
    monkeypatch.setattr(
        training, "heldout_loads", partial(heldout_loads, training=SMALL, validation=SMALL)
    )
    plan = TrainingPlan(
        logs=[prepared()],
        sources=[{"log": "drawn", "sha256": "", "jobs": JOBS, "processors": 10}],
        estimates=["requested"],
        backfilling="easy",
        runs=1,
        algorithm="policy-search",
        settings=PolicySearchSettings(hidden=1, generations=1, population=4),
        command="slurm-rl train drawn --protocol heldout",
        heldout=True,
    )
    _, manifest = training.train_model(plan, tmp_path / "site.onnx")
    told = {row["policy"]: row["objective"] for row in manifest["validation"]}
    assert manifest["heldout"]["shipped"] == "fifo"
    assert told["this model"] == pytest.approx(told["fifo"])
    assert manifest["seeds"]["1"] != pytest.approx(told["fifo"])  # the network that lost
    card = (tmp_path / "site.md").read_text()
    (line,) = (line for line in card.splitlines() if "this model" in line and "|" in line)
    assert f"{told['fifo']:.4f}" in line


def test_the_reserve_is_the_one_with_the_best_objective():
    found = loads(prepared())
    weights = RewardWeights(tail=0.0, slowdown=10.0)
    network = rule_network("sjf")
    values = {}
    for part in (0.0, 0.2, 0.9):
        values[part] = best_reserve(network, found.training, [part], weights)
    assert values == {part: part for part in values}
    everything = best_reserve(network, found.training, [0.9, 0.0], weights)
    assert everything == 0.0  # one processor of ten left to batch work is no good order
