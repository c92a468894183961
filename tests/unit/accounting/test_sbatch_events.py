"""Event files of a Slurm simulator: what each line asks for, and what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.slurm.options import asked_of, cut_options


@pytest.mark.parametrize(
    ("words", "processors", "nodes", "amounts"),
    [
        ("", 1, 0, {"cpus": 1}),
        ("-N 1 -n 32 --mem=500G", 32, 1, {"cpus": 32, "memory": 512000}),
        ("-N 2 -n 18 --mem=250G", 18, 2, {"cpus": 18, "memory": 512000}),
        ("-N 2-4 -c 3", 6, 2, {"cpus": 6}),
        ("-N 4 -n 2", 2, 2, {"cpus": 2}),
        ("-n 8 --ntasks-per-node=3", 8, 3, {"cpus": 8}),
        ("-N 2 --ntasks-per-node 5 -c2", 20, 2, {"cpus": 20}),
        ("-n 4 --mem-per-cpu=2000", 4, 0, {"cpus": 4, "memory": 8000}),
        ("-n 4 --mem=512K", 4, 0, {"cpus": 4, "memory": 0.5}),
        ("-N 2 --gres=gpu:2", 2, 2, {"cpus": 2, "gpus": 4}),
        ("--gres=gpu", 1, 0, {"cpus": 1, "gpus": 1}),
        ("--gres gpu:a100:2", 1, 0, {"cpus": 1, "gpus": 2, "gres/gpu:a100": 2}),
        ("--gres=gpu:a100", 1, 0, {"cpus": 1, "gpus": 1, "gres/gpu:a100": 1}),
        ("--gres=gpu:1 --gres=gpu:2", 1, 0, {"cpus": 1, "gpus": 2}),
        ("--gres=shard:3,gpu:1", 1, 0, {"cpus": 1, "gpus": 1, "gres/shard": 3}),
        ("--gpus=h100:6 -n 2", 2, 0, {"cpus": 2, "gpus": 6, "gres/gpu:h100": 6}),
        ("-N 2 --gpus-per-node=3", 2, 2, {"cpus": 2, "gpus": 6}),
        ("-n 4 -c 2 --gpus-per-task=1 --mem-per-gpu=1G", 8, 0,
         {"cpus": 8, "gpus": 4, "memory": 4096}),
        # rates, as slurmctld 22.05.8 counts them
        ("-n 4 --gpus-per-socket=1 --sockets-per-node=2", 4, 0, {"cpus": 4, "gpus": 2}),
        ("-N 2 -n 4 --gpus-per-socket=a100:1 -B 2:8", 4, 2,
         {"cpus": 4, "gpus": 4, "gres/gpu:a100": 4}),
        ("-n 4 --gpus-per-socket=1 -B *:8", 4, 0, {"cpus": 4, "gpus": 1}),
        ("--gpus=3 --cpus-per-gpu=4 --mem-per-cpu=10", 12, 0,
         {"cpus": 12, "gpus": 3, "memory": 120}),
        ("-n 4 --gpus=3 --cpus-per-gpu=1", 4, 0, {"cpus": 4, "gpus": 3}),
        ("-N 2 --gpus-per-node=2 --cpus-per-gpu=4", 16, 2, {"cpus": 16, "gpus": 4}),
        ("--ntasks-per-gpu=2 --gpus=3", 6, 0, {"cpus": 6, "gpus": 3}),
        ("-n 6 --ntasks-per-gpu=2", 6, 0, {"cpus": 6, "gpus": 3}),
        ("--gpus=4 --gpus-per-task=2 -c 3", 6, 0, {"cpus": 6, "gpus": 4}),
        ("-n 2 --tres-per-task=cpu:4,gres/gpu:a100=1,license/x:3", 8, 0,
         {"cpus": 8, "gpus": 2, "gres/gpu:a100": 2, "license/x": 6}),
        ("-L matlab:2,spice", 1, 0, {"cpus": 1, "license/matlab": 2, "license/spice": 1}),
    ],
)  # fmt: skip
def test_what_options_ask_for(words, processors, nodes, amounts):
    asked = asked_of(cut_options(words.split())[0])
    assert (asked.processors, asked.nodes, asked.amounts) == (processors, nodes, amounts)


@pytest.mark.parametrize(
    ("words", "goes"),
    [
        ("-n 4 --mem-per-cpu=1G", True),
        ("-n 4 --gpus=4 --mem-per-gpu=1G", True),  # as slurmctld: where the GPUs are
        ("-N 2 -n 4 --gpus=4 --mem-per-gpu=1G", False),
        ("-n 4 --gpus=4 --mem=4G", False),
    ],
)
def test_whose_memory_is_where_the_cpus_are(words, goes):
    assert asked_of(cut_options(words.split())[0]).memory_per_cpu is goes


@pytest.mark.parametrize(
    ("words", "exclusive"),
    [
        ("--exclusive", True),
        ("--exclusive=user", False),
        ("--mem=0", True),
        ("--mem=1", False),
    ],
)
def test_who_wants_nodes_for_itself(words, exclusive):
    assert asked_of(cut_options([words])[0]).exclusive is exclusive


def test_a_published_week_of_a_university_cluster():
    folder = os.environ.get("SLURM_RL_TRACES")
    path = Path(folder or ".") / "ubhpc" / "workload_week.events.gz"
    if folder is None or not path.exists():
        pytest.skip("SLURM_RL_TRACES names no folder with ubhpc/workload_week.events.gz")
    log, report = read_log(path)
    assert (report.read, report.dropped) == (19579, {"never ran": 27})
    asked = log.requests
    assert asked.total.max(axis=0).tolist() == [256.0, 12_000_000.0, 8.0]
    assert np.count_nonzero(asked.of("gpus")) == 73
    assert np.count_nonzero(asked.of("memory") == 0) == 425
    assert asked.exclusive.sum() == 177
    assert asked.constraints == ("", "CPU-Gold-6130", "CPU-Gold-6230")
    assert np.isnan(log.start).all()
