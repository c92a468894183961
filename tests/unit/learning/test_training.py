"""From prepared logs to a model with its manifest; loads are cut by time and named in full."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning import load_windows
from slurm_rl_plugin.learning.evaluation.paired import (
    Candidate,
    estimates_of,
    evaluate,
    starts_under,
)
from slurm_rl_plugin.learning.load_windows import split_stretches
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.learning.policy_search import (
    SITE_ORDER,
    PolicySearchSettings,
    unsearched_network,
)
from slurm_rl_plugin.learning.training import TrainingPlan, loads_of, parts_too_small, train_model
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY

LOG = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=400))
PLAN = TrainingPlan(
    logs=[LOG],
    sources=[{"log": "mmn", "sha256": "", "jobs": 400, "processors": 5}],
    estimates=["class-median"],
    backfilling="none",
    runs=1,
    algorithm="policy-search",
    settings=PolicySearchSettings(hidden=2, generations=2, population=4),
    command="slurm-rl train mmn",
)


def test_training_writes_model_manifest_and_card_that_agree(tmp_path):
    path = tmp_path / "site.onnx"
    trained, manifest = train_model(PLAN, path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["site.json", "site.md", "site.onnx"]
    assert json.loads((tmp_path / "site.json").read_text()) == json.loads(json.dumps(manifest))
    assert manifest["sha256"] == file_checksum(path)
    assert manifest["schema"]["digest"] == SITE.digest
    assert manifest["sha256"] in (tmp_path / "site.md").read_text()
    assert manifest["validation"][-1]["objective"] == trained.validation_objective
    assert "the validation part (160 jobs) are too small" in manifest["too_small"]
    assert manifest["too_small"] in (tmp_path / "site.md").read_text()
    model = load_q_network(path)
    assert model.card.sha256 == manifest["sha256"]
    assert model.card.reward_weights == manifest["reward_weights"]
    known = np.arange(400) < 240  # the first 60 % train
    run_time = LOG.log.run_time[known & LOG.interactive]
    assert model.estimates.interactive_median == np.median(run_time)
    np.testing.assert_allclose(import_network(path).linear, trained.network.linear, rtol=1e-6)


def test_goals_are_in_force_while_a_model_is_trained_for_them(tmp_path):
    settings = replace(SITE_ORDER, generations=1, population=4)
    found = unsearched_network(settings)
    weight = np.where(np.array(SITE.jobs) == SITE.history_jobs[0], 2.0, 1.0)
    doubled = replace(found, linear=found.linear * weight)

    def begins_at(start: QNetwork, goals: Goals | None) -> float:
        plan = replace(PLAN, settings=settings, start=start, goals=goals)
        trained, _ = train_model(plan, tmp_path / "site.onnx")
        return trained.curve[0][2]

    twice = begins_at(found, Goals(shares=0.0, short_jobs=2.0))
    assert twice == begins_at(doubled, None) != begins_at(found, None)


class Interrupted(Exception):
    """Stands for a power cut."""


@pytest.mark.parametrize(
    "change",
    [
        {"runs": 2},
        {"backfilling": "easy"},
        {"estimates": ["oracle"]},
        {"sources": [{**PLAN.sources[0], "sha256": "12"}]},
        {"logs": [replace(LOG, shares=LOG.shares[::-1].copy())]},
    ],
    ids=["runs", "backfilling", "estimates", "file", "shares"],
)
def test_a_checkpoint_of_other_loads_is_not_taken_up(tmp_path, change):
    def stop(_generation, _best):
        raise Interrupted

    path = tmp_path / "site.onnx"
    for plan in (PLAN, replace(PLAN, **change)):
        with pytest.raises(Interrupted):
            train_model(plan, path, progress=stop)
        checkpoint = path.with_name("site.onnx.checkpoint")
        key, *generations = checkpoint.read_text().splitlines()
        # had it been taken up, the first generation would stand from before
        checkpoint.write_text(key + "\n" + "[1, 2, 3, 4]\n")
        assert generations != ["[1, 2, 3, 4]"]


def test_the_past_trains_in_one_run_and_what_came_after_chooses():
    log = prepare_log(mmn_log(np.random.default_rng(1), jobs=1000))
    training, validation = split_stretches(log, 1, np.random.default_rng(1))
    assert [each.log.job_id.tolist() for each in training] == [list(range(1, 601))]
    assert [each.log.job_id.tolist() for each in validation] == [list(range(601, 1001))]
    loads = loads_of(replace(PLAN, logs=[log]))
    assert [each.drop for each in loads.training + loads.validation] == [(60, 0), (40, 0)]


def test_of_a_long_log_the_jobs_next_to_the_border_are_taken(monkeypatch):
    monkeypatch.setattr(load_windows, "MOST_JOBS", 100)
    log = prepare_log(mmn_log(np.random.default_rng(1), jobs=1000))
    training, validation = split_stretches(log, 1, np.random.default_rng(1))
    assert training[0].log.job_id.tolist() == list(range(501, 601))
    assert validation[0].log.job_id.tolist() == list(range(601, 701))


def test_each_of_several_runs_is_without_other_jobs_and_the_seed_says_which():
    log = prepare_log(mmn_log(np.random.default_rng(1), jobs=1000))

    def drawn(seed):
        training, _ = split_stretches(log, 2, np.random.default_rng(seed))
        return [each.log.job_id.tolist() for each in training]

    assert [len(each) for each in drawn(1)] == [588, 588]  # without 12 of 600
    assert drawn(1)[0] != drawn(1)[1]
    assert drawn(1) == drawn(1) != drawn(2)


def test_a_log_of_one_job_cannot_be_split():
    log = prepare_log(mmn_log(np.random.default_rng(1), jobs=1))
    with pytest.raises(ConfigurationError, match=r"too few jobs to train and validate on \(1\)"):
        split_stretches(log, 1, np.random.default_rng(1))


def test_native_gives_back_the_recorded_starts():
    start = LOG.log.submit + 7
    recorded = replace(LOG, log=replace(LOG.log, start=start))
    how = SimulationSettings(capacity=5)
    native = starts_under(Candidate(name="native"), recorded, recorded.workload(None), how)
    assert native.tolist() == start.tolist()
    assert evaluate(Candidate(name="native"), recorded, None, how)["mean_wait"] == pytest.approx(7)


def test_sjf_with_class_medians_is_interactive_first():
    how = SimulationSettings(capacity=5)
    medians = estimates_of("class-median", LOG)
    first = evaluate(Candidate(name="sjf"), LOG, medians, how)
    assert first == evaluate(Candidate(name="interactive-first"), LOG, None, how)
    assert first != evaluate(Candidate(name="sjf"), LOG, None, how)


def recorded(jobs: int, days: float) -> PreparedLog:
    """A log of a site: it tells when its jobs started."""
    prepared = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=jobs))
    submit = np.linspace(0.0, days * DAY, jobs)
    log = replace(prepared.log, submit=submit, eligible=submit, start=submit)
    return replace(prepared, log=log)


def test_ten_minutes_of_165_jobs_are_too_small() -> None:
    told = parts_too_small([recorded(165, 10 / 1440)], heldout=False)
    assert told is not None
    assert told.startswith("the training part (99 jobs in 6 minutes) and the validation part (66")
    assert "about 6,250 jobs of 13 days in all" in told


@pytest.mark.parametrize(
    ("jobs", "days", "heldout", "small"),
    [
        (6300, 14, False, []),
        (6300, 14, True, ["validation"]),
        (17000, 35, True, []),
        (6300, 10, False, ["validation"]),
        (100_000, 3, False, ["training", "validation"]),
        (3000, 365, False, ["training", "validation"]),
    ],
)
def test_both_jobs_and_days_are_needed(
    jobs: int, days: float, heldout: bool, small: list[str]
) -> None:
    told = parts_too_small([recorded(jobs, days)], heldout=heldout) or ""
    assert [name for name in ("training", "validation") if f"the {name} part" in told] == small


def test_the_parts_of_several_logs_count_together() -> None:
    assert parts_too_small([recorded(3200, 7), recorded(3200, 7)], heldout=False) is None


def test_a_generated_log_is_counted_in_jobs() -> None:
    log = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=6300))
    assert parts_too_small([log], heldout=False) is None
