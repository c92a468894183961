"""The simple orders, each where it differs from the others, and the one registry of names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ClassMedian, RequestedLimit
from slurm_rl_plugin.learning.evaluation.paired import Candidate, starts_under
from slurm_rl_plugin.learning.training_load import log_window
from slurm_rl_plugin.policies.ordering_rules import PREDICTED_RULES, STATIC_RULES
from slurm_rl_plugin.policies.registry import (
    NAMED_POLICIES,
    NATIVE,
    SHIPPED_MODELS,
    PolicyKind,
    known_names,
    named_policy,
    rule_policy,
)
from slurm_rl_plugin.services.hook import check_model_file, load_policy
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import generated_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.case_files import rows
from tests.reference.loads import snapshot_of, workload_of
from tests.reference.readable_simulator import Moment

LIMITS = np.array([300.0, 900.0, 200.0, 240.0])
QUEUE = workload_of(
    [1000.0, 1010.0, 1400.0, 1150.0],
    LIMITS,
    estimate=LIMITS + 1,  # so that the snapshot shows every limit
    processors=[1, 1, 8, 2],
    interactive=[False, False, False, True],
)
SNAPSHOT = snapshot_of(QUEUE, Moment(1500.0, [0, 1, 2, 3], [], [np.nan] * 4), 8)


@rows("orders", "static", "name order")
def test_rule_orders_the_queue_as_its_name_says(name, order):
    decision = rule_policy(name).decide(SNAPSHOT)
    assert np.argsort(-decision.scores).tolist() == order
    assert decision.scores.dtype == np.float64
    assert decision.reserve is None


def test_a_rule_uses_the_estimates_it_was_given():
    medians = ClassMedian(interactive_median=5000.0, batch_median=10.0)
    policy = rule_policy("sjf")
    assert np.argmin(replace(policy, estimates=medians).decide(SNAPSHOT).scores) == 3
    assert np.argmin(policy.decide(SNAPSHOT).scores) == 1


def test_interactive_first_separates_classes_over_any_span_of_epoch_seconds():
    late = QUEUE.having(submit=np.array([0.0, 1.7e9, 1.7e9, 4e9]))
    jobs = snapshot_of(late, Moment(5e9, [0, 1, 2, 3], [], [np.nan] * 4), 8).pending.jobs
    scores = STATIC_RULES["interactive-first"](jobs, LIMITS)
    assert np.argmax(scores) == 3


def f1_starts(prepared):
    settings = SimulationSettings(capacity=prepared.capacity, backfilling="easy")
    workload = prepared.workload(RequestedLimit())
    return starts_under(Candidate(name="f1"), prepared, workload, settings)


def test_f1_counts_from_the_first_job_of_a_log_with_dates_and_so_do_its_windows():
    log = generated_log("mmn:jobs=600,processors=5,load=.95,seed=1")
    since = np.round(log.submit - log.submit[0])
    counted = prepare_log(replace(log, submit=since, eligible=since))
    dates = since + 1.7e9
    dated = prepare_log(replace(log, kind="sacct", submit=dates, eligible=dates))
    for first in (0, 300):
        here, there = (log_window(each, first, 300) for each in (counted, dated))
        assert (f1_starts(there) - 1.7e9).tolist() == pytest.approx(f1_starts(here).tolist())
    without_age = f1_starts(replace(dated, begin=0.0))
    assert not np.allclose(without_age, f1_starts(dated))


def test_f1_counts_from_where_a_log_of_its_own_clock_does():
    log = generated_log("mmn:jobs=300,processors=5,load=.95,seed=1")
    for kind in ("swf", "sbatch", "openb"):
        submit = log.submit + 566129.0  # the first job of SDSC-SP2 comes days after the begin
        assert prepare_log(replace(log, kind=kind, submit=submit, eligible=submit)).begin == 0.0


@rows("orders", "predicted", "name order")
def test_rules_by_predicted_run_times_order_as_their_names_say(name, order):
    processors, predicted = np.array([1.0, 2, 1, 9]), np.array([300.0, 400, 600, 100])
    rate = np.array([0.01, 0.002, 0.05, 0.009])
    scores = PREDICTED_RULES[name](processors, predicted, rate)
    assert np.argsort(-scores).tolist() == order


ONLY_LOGS = [each.name for each in NAMED_POLICIES.values() if each.needs_log]


def test_names_are_those_of_their_kinds() -> None:
    assert named_policy("sjf") == NAMED_POLICIES["sjf"]
    assert named_policy("wfp3").kind is PolicyKind.WAITING
    assert named_policy("reserve:12").reserve == 12
    assert named_policy("reserve:12").live().reserve == 12
    for text in (
        "lifo",
        "reserve:",
        "reserve:-1",
        "reserve:x",
        "default.onnx",
        "./default",
        "protected:sjf",
        "",
    ):
        assert named_policy(text) is None


def test_what_orders_logs_only_says_why() -> None:
    assert set(ONLY_LOGS) == {
        "f1", "sjf-predicted", "saf-predicted", "wspt-predicted", NATIVE
    }  # fmt: skip
    for name in ONLY_LOGS:
        for ask in (load_policy, check_model_file):
            with pytest.raises(ConfigurationError, match=rf"{name} orders no live queue: it"):
                ask(name)


def test_known_names_are_what_may_be_given() -> None:
    assert set(known_names(live=False)) == {*NAMED_POLICIES, "reserve:N"}
    assert set(known_names(live=True)) == {*NAMED_POLICIES, "reserve:N"} - set(ONLY_LOGS)
    assert known_names(live=True)[-len(SHIPPED_MODELS) :] == list(SHIPPED_MODELS)


def test_a_model_is_no_rule() -> None:
    with pytest.raises(ConfigurationError, match="policy default is a model and no rule"):
        NAMED_POLICIES["default"].live()


@pytest.mark.parametrize("name", ["lifo", "sjff"])
def test_a_slip_in_a_name_is_told_with_the_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"unknown policy '{name}'.* sjf, .*default"):
        check_model_file(name)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        check_model_file(str(tmp_path / name))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        check_model_file(f"{name}.onnx")
