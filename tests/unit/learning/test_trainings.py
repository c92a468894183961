"""Seeds and folds: finished steps are kept, checkpoints are taken for those of nothing else."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.learning import policy_search as search
from slurm_rl_plugin.learning.checkpoint import Checkpoint, forget_checkpoint, steps_kept
from slurm_rl_plugin.learning.policy_search import PolicySearchSettings
from slurm_rl_plugin.learning.sarsa import SarsaSettings
from slurm_rl_plugin.learning.side_by_side import processors_here
from slurm_rl_plugin.learning.site_utility import SiteUtilitySettings
from slurm_rl_plugin.learning.training import TrainingPlan, _load_key, train_model
from slurm_rl_plugin.learning.training_load import mean_objective
from slurm_rl_plugin.policies.network import fixed_scaler, network_from_parameters, parameter_count
from slurm_rl_plugin.simulator.workloads.generators import mmn_log
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from tests.reference.test_weighed_jobs import load as node_load

LOGS = [prepare_log(mmn_log(np.random.default_rng(n), processors=5, jobs=300)) for n in (1, 2)]
SOURCES = [{"log": f"mmn{n}", "sha256": "", "jobs": 300, "processors": 5} for n in (1, 2)]
PLAN = TrainingPlan(
    logs=LOGS[:1],
    sources=SOURCES[:1],
    estimates=["requested"],
    backfilling="none",
    runs=1,
    algorithm="policy-search",
    settings=PolicySearchSettings(hidden=1, generations=2, population=4),
    command="slurm-rl train mmn",
)
SEVERAL = replace(PLAN, seeds=2)
WITHOUT = replace(PLAN, logs=LOGS, sources=SOURCES, leave_one_out=True)
SARSA = replace(PLAN, algorithm="sarsa", settings=SarsaSettings(sweeps=2, hidden=2))


def files(plan, folder, **more):
    folder.mkdir()
    train_model(plan, folder / "site.onnx", **more)
    assert len(list(folder.iterdir())) == 3
    return [(folder / f"site{ending}").read_bytes() for ending in (".onnx", ".json", ".md")]


def test_a_fold_has_not_seen_the_log_it_leaves_out(tmp_path):
    _, manifest = train_model(WITHOUT, tmp_path / "all.onnx")
    for out, source in enumerate(SOURCES):
        only = replace(PLAN, logs=[LOGS[1 - out]], sources=[SOURCES[1 - out]])
        other, _ = train_model(only, tmp_path / f"{out}.onnx")
        left = replace(PLAN, logs=[LOGS[out]], sources=[source])
        loads = trainings_loads(left).validation
        expected = mean_objective(other.network, loads, PLAN.settings.weights)
        assert manifest["leave_one_out"][source["log"]]["trained_without"] == expected
    assert json.loads((tmp_path / "all.json").read_text())["leave_one_out"].keys() == {
        "mmn1",
        "mmn2",
    }


def trainings_loads(plan):
    from slurm_rl_plugin.learning.training import _loads_of  # noqa: PLC0415

    return _loads_of(plan)


def test_nothing_can_be_left_out_of_one_log():
    with pytest.raises(ConfigurationError, match="needs two logs at least"):
        replace(PLAN, leave_one_out=True)


def test_site_utilities_are_no_orders_that_a_left_out_log_could_judge():
    with pytest.raises(ConfigurationError, match="site-utility orders none"):
        replace(WITHOUT, algorithm="site-utility", settings=SiteUtilitySettings())


def test_logs_of_one_name_are_told_apart(tmp_path):
    alike = [{**source, "log": "site.swf"} for source in SOURCES]
    _, manifest = train_model(replace(WITHOUT, sources=alike), tmp_path / "all.onnx")
    _, expected = train_model(WITHOUT, tmp_path / "named.onnx")
    assert list(manifest["leave_one_out"]) == ["site.swf", "site.swf (2)"]
    found = list(manifest["leave_one_out"].values())
    assert found == list(expected["leave_one_out"].values())


def test_a_checkpoint_is_not_taken_up_by_other_jobs_or_another_start():
    killed = replace(LOGS[0], log=replace(LOGS[0].log, run_time=LOGS[0].log.run_time / 2))
    first, other = (
        network_from_parameters(
            SITE, np.full(parameter_count(SITE, 1), value), hidden=1, scaler=fixed_scaler(SITE)
        )
        for value in (0.0, 1.0)
    )
    other = replace(other, linear=first.linear)  # that of fitted networks is 0
    plans = [PLAN, replace(PLAN, logs=[killed]), *(replace(PLAN, start=s) for s in (first, other))]
    assert len({_load_key(plan) for plan in plans}) == len(plans)
    assert _load_key(replace(PLAN, start=replace(other))) == _load_key(plans[-1])


def test_a_checkpoint_is_not_taken_up_by_another_machine_other_requests_or_windows():
    log = node_load(1)
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
    plans = [replace(PLAN, logs=[each]) for each in logs]
    seeded = [replace(PLAN, settings=replace(PLAN.settings, seed=seed), seeds=2) for seed in (1, 2)]
    assert len({_load_key(plan) for plan in (*plans, *seeded)}) == len(plans) + len(seeded)
    assert _load_key(replace(PLAN, logs=[node_load(1)])) == _load_key(plans[0])


class Interrupted(Exception):
    """Stands for a power cut."""


@pytest.mark.parametrize("harm", [None, "cut", "of another training"])
def test_steps_of_a_finished_training_are_not_done_again(tmp_path, monkeypatch, harm):
    """What they were is in the checkpoint of each training until all outputs are written."""
    expected = files(SEVERAL, tmp_path / "a")

    def stop(step, _value):
        if step == 3:  # the first one of the second seed
            raise Interrupted

    folder = tmp_path / "b"
    folder.mkdir()
    with pytest.raises(Interrupted):
        train_model(SEVERAL, folder / "site.onnx", progress=stop)
    first, second = sorted(folder.iterdir())
    assert (steps_kept(first), steps_kept(second)) == (2, 1)
    if harm == "cut":
        first.write_bytes(first.read_bytes()[:-9])
    elif harm is not None:
        first.write_bytes(first.read_bytes().replace(b'"seed": 1', b'"seed": 9'))
    searched, side_by_side = [], search.side_by_side

    def counted(task, items):
        searched.append(len(items))
        return side_by_side(task, items)

    monkeypatch.setattr(search, "side_by_side", counted)
    train_model(SEVERAL, folder / "site.onnx")
    assert len(searched) == {None: 1, "cut": 2}.get(harm, 3)
    endings = (".onnx", ".json", ".md")
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


def test_threads_are_no_more_than_the_processors_of_the_job(monkeypatch):
    allowed = len(os.sched_getaffinity(0))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert processors_here() == allowed
    for given, expected in {"1": 1, "4096": allowed, "": allowed, "0": allowed}.items():
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", given)
        assert processors_here() == expected
