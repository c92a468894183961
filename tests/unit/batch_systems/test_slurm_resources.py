"""What jobs ask of nodes, on answers of real Slurm releases and of a fake one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow, parse_queue
from slurm_rl_plugin.batch_systems.slurm.answers.nodes import NodeNow, parse_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.settings import parse_settings
from slurm_rl_plugin.batch_systems.slurm.commands import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.batch_systems.slurm.queue.resources import (
    counted_resources,
    requests_of,
    resources_now,
)
from slurm_rl_plugin.errors import BatchSystemError
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.unit.batch_systems.test_slurm_answers import MARK, RELEASES

NAMES = ("cpus", "memory", "gpus")


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def answers(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def rows_of(answers: Path) -> dict[int, QueueRow]:
    text = answers.joinpath("resources-squeue.txt").read_text()
    return {row.job_id: row for row in whole_jobs(parse_queue(text, MARK))}


def test_memory_and_gpus_that_jobs_ask_for(answers: Path) -> None:
    jobs = json.loads(answers.joinpath("resources-jobs.json").read_text())
    rows = rows_of(answers)
    asked = requests_of([rows[number] for number in jobs.values()], NAMES)
    assert dict(zip(jobs, asked.total.tolist(), strict=True)) == {
        "one gpu": [1, 1000, 1],
        "two gpus": [1, 3072, 2],
        "memory": [1, 7500, 0],
        "gpus of parts": [2, 300, 1],  # both components together
        "tasks": [1, 9216, 0],  # one task of the array
    }
    assert asked.nodes.tolist() == [1, 1, 1, 2, 1]


def test_what_the_machine_has_and_has_free(answers: Path) -> None:
    nodes = parse_nodes(answers.joinpath("resources-sinfo.txt").read_text())
    settings = parse_settings(answers.joinpath("resources-config.txt").read_text())
    assert counted_resources(settings, nodes) == NAMES
    running = [row for row in rows_of(answers).values() if row.state == "RUNNING"]
    now = resources_now(settings, nodes, NAMES, requests_of(running, NAMES))
    assert now.capacity.tolist() == [12, 32000, 2]
    assert now.free.tolist() == [11, 31000, 1]
    draining = [replace(node, allocated=2, idle=0, other=2) for node in nodes]
    assert resources_now(settings, draining, NAMES, None).capacity.tolist() == [6, 16000, 1]


def test_a_cluster_that_gives_processors_alone_has_no_other_resources(answers: Path) -> None:
    nodes = parse_nodes(answers.joinpath("sinfo.txt").read_text())
    settings = parse_settings(answers.joinpath("config.txt").read_text())
    assert counted_resources(settings, nodes) is None


def test_gpus_that_slurm_does_not_track_are_not_counted(answers: Path) -> None:
    nodes = parse_nodes(answers.joinpath("resources-sinfo.txt").read_text())
    settings = parse_settings(answers.joinpath("resources-config.txt").read_text())
    blind = replace(settings, tracked=frozenset({"cpu", "mem"}))
    names = counted_resources(blind, nodes)
    assert names == NAMES
    assert resources_now(blind, nodes, names, None).capacity.tolist() == [12, 32000, 0]


def test_types_of_gpus_and_words_that_nobody_knows() -> None:
    (node,) = parse_nodes(
        "g1|0/4/0/4|all|1|500+|gpu:a100:2(S:0,1),gpu:v100:1(S:0),lustre:no_consume:4G,mps:40\n"
    )
    gres = {"gpus": 3.0, "gres/gpu:a100": 2.0, "gres/gpu:v100": 1.0, "gres/mps": 40.0}
    assert node == NodeNow(0, 4, 0, 4, 500.0, gres)


@pytest.mark.parametrize("line", ["n1|0/4/0/4|all|1", "n1|0/4|all|1|5|x", "n1|0/4/0/4|all|1|x|x"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(BatchSystemError, match="sinfo"):
        parse_nodes(line)


def test_a_snapshot_tells_requests_where_slurm_gives_more_than_processors(
    tmp_path: Path,
) -> None:
    cluster = FakeCluster(tmp_path)
    cluster.add(1, asks="cpu=1,mem=2G,node=1,billing=1,gres/gpu=1")
    system = SlurmCommands(cluster.adapter_settings())
    plain = system.snapshot()
    assert (plain.resources, plain.pending.jobs.requests) == (None, None)
    state = cluster.state
    state["nodes"][0] |= {"memory": 4000, "gres": "gpu:2"}
    state["settings"] |= {
        "SelectTypeParameters": "CR_Core_Memory",
        "AccountingStorageTRES": "cpu,mem,gres/gpu",
    }
    cluster._write(state)
    system.facts()
    snapshot = system.snapshot()
    assert snapshot.resources is not None
    assert snapshot.pending.jobs.requests is not None
    assert snapshot.pending.jobs.requests.total.tolist() == [[1, 2048, 1]]
    assert snapshot.resources.names == NAMES
    np.testing.assert_array_equal(snapshot.resources.capacity, [8, 4001, 2])


def test_runs_of_the_past_and_of_now_tell_what_was_asked_for(tmp_path: Path) -> None:
    """As jobs that wait do, so that the same job is known again."""
    asked, got = "cpu=1,mem=2G,node=1", "cpu=2,mem=4G,node=1"
    cluster = FakeCluster(tmp_path)
    cluster.set(settings={"SelectTypeParameters": "CR_Core_Memory"})
    past = {"JobIDRaw": 7, "User": "bob", "ReqCPUS": 1, "AllocCPUS": 2, "TimelimitRaw": 10}
    times = {"Submit": NOW - 300, "Start": NOW - 200, "End": NOW - 100}
    cluster.set(accounting=[{**past, **times, "State": "COMPLETED", "ReqTRES": asked}])
    cluster.add(1, asks=asked)
    system = SlurmCommands(cluster.adapter_settings())
    ended = system.snapshot().ended.jobs.requests
    assert ended is not None
    assert ended.of("memory").tolist() == [2048]
    cluster.run_job(1)
    cluster.change(1, asks=got, processors=2)
    running = system.snapshot().running
    assert running.jobs.requests is not None
    assert running.jobs.requests.total.tolist() == [[2, 4096, 0]]
    asked_for = running.as_requested
    assert asked_for.requests is not None
    assert asked_for.requests.total.tolist() == [[1, 2048, 0]]
