"""From prepared logs to a model with its manifest; seeds and steps kept."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning import policy_search as search
from slurm_rl_plugin.learning import side_by_side as here
from slurm_rl_plugin.learning import training_load
from slurm_rl_plugin.learning.checkpoint import Checkpoint, forget_checkpoint, steps_kept
from slurm_rl_plugin.learning.manifest import file_checksum
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.learning.policy_search import (
    SITE_ORDER,
    PolicySearchSettings,
    unsearched_network,
)
from slurm_rl_plugin.learning.side_by_side import processors_here, side_by_side
from slurm_rl_plugin.learning.training import (
    TrainingPlan,
    _load_key,
    loads_of,
    parts_too_small,
    train_model,
)
from slurm_rl_plugin.learning.training_load import log_window, split_stretches
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import DAY
from tests.fakes.ctrl_c import ctrl_c_is_heard
from tests.fakes.power_cut import Interrupted, stop_at
from tests.reference.test_weighed_jobs import load as node_load

LOG = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=400))
ONE = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=300))
SOURCE = {"log": "site.swf", "sha256": "1", "jobs": 300, "processors": 5}
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


PLAN_STEPS = replace(
    PLAN,
    logs=[ONE],
    sources=[SOURCE],
    estimates=["requested"],
    settings=replace(PLAN.settings, hidden=1),
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


def test_the_past_trains_in_one_run_and_what_came_after_chooses(monkeypatch):
    log = prepare_log(mmn_log(np.random.default_rng(1), jobs=1000))
    training, validation = split_stretches(log, 1, np.random.default_rng(1))
    assert [each.log.job_id.tolist() for each in training] == [list(range(1, 601))]
    assert [each.log.job_id.tolist() for each in validation] == [list(range(601, 1001))]
    loads = loads_of(replace(PLAN, logs=[log]))
    assert [each.drop for each in loads.training + loads.validation] == [(60, 0), (40, 0)]

    def drawn(seed):  # each of several runs is without other jobs
        training, _ = split_stretches(log, 2, np.random.default_rng(seed))
        return [each.log.job_id.tolist() for each in training]

    assert [len(each) for each in drawn(1)] == [588, 588]  # without 12 of 600
    assert drawn(1)[0] != drawn(1)[1]
    assert drawn(1) == drawn(1) != drawn(2)
    monkeypatch.setattr(training_load, "MOST_JOBS", 100)  # of a long log those next to the border
    training, validation = split_stretches(log, 1, np.random.default_rng(1))
    assert training[0].log.job_id.tolist() == list(range(501, 601))
    assert validation[0].log.job_id.tolist() == list(range(601, 701))
    with pytest.raises(ConfigurationError, match=r"too few jobs to train and validate on \(1\)"):
        split_stretches(log_window(log, 0, 1), 1, np.random.default_rng(1))


def recorded(jobs: int, days: float) -> PreparedLog:
    """A log of a site, with recorded starts."""
    prepared = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=jobs))
    submit = np.linspace(0.0, days * DAY, jobs)
    log = replace(prepared.log, submit=submit, eligible=submit, start=submit)
    return replace(prepared, log=log)


@pytest.mark.parametrize(
    ("jobs", "days", "heldout", "small"),
    [
        (6300, 14, False, []),
        (6300, 14, True, ["validation"]),
        (17000, 35, True, []),
        (6300, 10, False, ["validation"]),
        (100_000, 3, False, ["training", "validation"]),
        (3000, 365, False, ["training", "validation"]),
        (165, 10 / 1440, False, ["training", "validation"]),
    ],
)
def test_both_jobs_and_days_are_needed(
    jobs: int, days: float, heldout: bool, small: list[str]
) -> None:
    told = parts_too_small([recorded(jobs, days)], heldout=heldout) or ""
    assert [name for name in ("training", "validation") if f"the {name} part" in told] == small
    if jobs == 165:
        assert told.startswith("the training part (99 jobs in 6 minutes) and the validation part")
        assert "about 6,250 jobs of 13 days in all" in told


def test_parts_of_several_logs_count_together_and_generated_ones_in_jobs() -> None:
    assert parts_too_small([recorded(3200, 7), recorded(3200, 7)], heldout=False) is None
    log = prepare_log(mmn_log(np.random.default_rng(1), processors=5, jobs=6300))
    assert parts_too_small([log], heldout=False) is None


def test_a_checkpoint_is_taken_up_by_nothing_that_shapes_its_loads_otherwise():
    log, start = node_load(1), unsearched_network(PLAN_STEPS.settings)
    requests = log.log.requests
    asked = [
        replace(requests, total=requests.total * 2.0),
        replace(requests, exclusive=~requests.exclusive),
    ]
    kind, *others = log.machine.kinds
    machine = replace(log.machine, kinds=(replace(kind, features=frozenset({"ib"})), *others))
    logs = [
        log,
        *(replace(log, log=replace(log.log, requests=each)) for each in asked),
        replace(log, machine=machine),
        replace(log, billed=np.ones(len(log.log))),
        replace(log, log=replace(log.log, start=log.log.submit + 1.0)),  # what of runs was known
    ]
    changes = [
        *({"logs": [each]} for each in logs),
        {},
        {"runs": 2},
        {"backfilling": "easy"},
        {"estimates": ["oracle"]},
        {"sources": [{**SOURCE, "sha256": "12"}]},
        {"logs": [replace(ONE, shares=ONE.shares[::-1].copy())]},
        {"logs": [replace(ONE, log=replace(ONE.log, run_time=ONE.log.run_time / 2))]},
        {"settings": replace(PLAN_STEPS.settings, seed=2)},
        {"start": start},
        {"start": replace(start, bias=start.bias + 1.0)},
    ]
    keys = [_load_key(replace(PLAN_STEPS, **each)) for each in changes]
    assert len({*keys}) == len(keys)
    assert _load_key(replace(PLAN_STEPS, logs=[node_load(1)])) == keys[0]
    assert _load_key(replace(PLAN_STEPS, start=replace(start))) == keys[-2]


@pytest.mark.parametrize("harm", [None, "newline", "cut", "of another training"])
def test_steps_of_a_finished_training_are_not_done_again(tmp_path, monkeypatch, harm):
    """What they were is in the checkpoint of each training until all outputs are written."""
    several, endings = replace(PLAN_STEPS, seeds=2), (".onnx", ".json", ".md")
    for name in "ab":
        (tmp_path / name).mkdir()
    train_model(several, tmp_path / "a" / "site.onnx")
    expected = [(tmp_path / "a" / f"site{ending}").read_bytes() for ending in endings]
    folder = tmp_path / "b"
    with pytest.raises(Interrupted):
        train_model(several, folder / "site.onnx", progress=stop_at(3))  # of the second seed
    first, second = sorted(folder.iterdir())
    assert (steps_kept(first), steps_kept(second)) == (2, 1)
    if harm in ("newline", "cut"):
        first.write_bytes(first.read_bytes()[: -1 if harm == "newline" else -9])
    elif harm is not None:
        first.write_bytes(first.read_bytes().replace(b'"seed": 1', b'"seed": 9'))
    searched, side_by_side = [], search.side_by_side

    def counted(task, items):
        searched.append(len(items))
        return side_by_side(task, items)

    monkeypatch.setattr(search, "side_by_side", counted)
    train_model(several, folder / "site.onnx")
    assert len(searched) == {None: 1, "newline": 2, "cut": 2}.get(harm, 3)
    assert [(folder / f"site{ending}").read_bytes() for ending in endings] == expected
    assert len(list(folder.iterdir())) == 3


def test_a_worker_thought_lost_does_not_write_into_the_checkpoint_of_the_next(tmp_path):
    path = tmp_path / "kept"
    first = Checkpoint(path, {"a": 1})
    first.add(1)
    second = Checkpoint(path, {"a": 1})
    first.add(2)
    second.add(2)
    first.add(3)
    assert Checkpoint(path, {"a": 1}).steps == [1, 2]
    assert steps_kept(path) == 2
    second.close()
    forget_checkpoint(path)
    assert steps_kept(path) == 0
    for content in (b"", b"\n", b"\x00\xff\n", b'{"settings"', b"[]\n[1, 2]\n"):
        path.write_bytes(content)
        assert Checkpoint(path, {"a": 1}).steps == []


def test_threads_are_no_more_than_the_processors_of_the_job(monkeypatch):
    allowed = len(os.sched_getaffinity(0))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert processors_here() == allowed
    for given, expected in {"1": 1, "4096": allowed, "": allowed, "0": allowed}.items():
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", given)
        assert processors_here() == expected


def test_after_an_interruption_nothing_more_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "processors_here", lambda: 1)
    begun: list[int] = []

    def slowly(item: int) -> int:
        begun.append(item)
        if len(begun) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return item

    with ctrl_c_is_heard(), pytest.raises(KeyboardInterrupt):
        side_by_side(slowly, range(8))
    assert len(begun) <= 2


def test_a_fault_ends_all_after_what_is_done_was_told() -> None:
    told: list[int] = []

    def refuse(item: int) -> int:
        if item == 1:
            raise ConfigurationError("no.")
        return item

    with pytest.raises(ConfigurationError, match="no"):
        side_by_side(refuse, range(2), finished=lambda place, _: told.append(place))
    assert told == [0]
