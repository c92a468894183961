"""What accounting records of PBS and Torque tell of nodes, memory and GPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.pbs.records import NOTHING, PbsRequest, request_of, unread_requests
from tests.contracts.test_accounting_readers import told


def asked(text: str, processors: int = 1) -> PbsRequest:
    return request_of(dict(word.split("=", 1) for word in text.split()), processors)


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("Resource_List.select=2:ncpus=8:mem=4gb:ngpus=1", "cpus=16,memory=8192,gpus=2"),
        ("Resource_List.select=2:ncpus=8+1:ncpus=4", "cpus=20"),
        ("Resource_List.select=ncpus=3:mem=1024kb", "cpus=3,memory=1"),
        ("Resource_List.select=2:ncpus=8:mem=4gb Resource_List.mem=10gb", "cpus=16,memory=10240"),
        ("Resource_List.select=4", "cpus=4"),
        ("Resource_List.mem=512mw", "cpus=1,memory=4096"),
        ("Resource_List.mem=1048576", "cpus=1,memory=1"),
        ("Resource_List.nodes=2:ppn=8:gpus=2", "cpus=16,gpus=4"),
        ("Resource_List.nodes=n7:ppn=4+2 Resource_List.pmem=100mb", "cpus=6,memory=100"),
        ("Resource_List.ngpus=3 Resource_List.ncpus=2", "cpus=2,gpus=3"),
        ("Resource_List.mem=lots", "cpus=1"),
    ],
)
def test_amounts_of_the_whole_job(text, resources):
    assert asked(text).resources == resources


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Resource_List.select=2:ncpus=8:mem=4gb:ngpus=1:mpiprocs=2", []),
        ("Resource_List.walltime=1 Resource_List.nodect=2 Resource_List.place=excl", []),
        ("Resource_List.vmem=4gb Resource_List.matlab=2", ["vmem", "matlab"]),
        (
            "Resource_List.select=2:gpu_model=a100+host=n7:host=n8",
            ["select gpu_model", "select host"],
        ),
        ("Resource_List.nodes=2:ppn=8:bigmem+n7:ppn=4:gpus=1", ["nodes bigmem"]),
    ],
)
def test_what_runs_ask_for_and_nobody_reads(text: str, names: list[str]):
    values = dict(word.split("=", 1) for word in text.split())
    assert list(unread_requests(values)) == [f"Resource_List.{each} is not read" for each in names]


def test_memory_by_process_counts_for_all():
    assert asked("Resource_List.pmem=2gb", 4).resources == "cpus=4,memory=8192"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("Resource_List.place=free exec_host=a/0*4+b/0*4+a/1*4", 2),
        ("Resource_List.place=free exec_vnode=(a:ncpus=4)+(b:ncpus=4)", 2),
        ("Resource_List.nodes=2:ppn=2 exec_host=a/0+a/1+b/0-1", 2),
        ("Resource_List.place=free", 0),
    ],
)
def test_nodes_are_those_that_a_job_got(text, nodes):
    assert asked(text).nodes == nodes


@pytest.mark.parametrize(
    ("place", "exclusive"),
    [("free", False), ("excl", True), ("scatter:exclhost", True), ("scatter:shared", False)],
)
def test_who_wants_nodes_for_itself(place, exclusive):
    assert asked(f"Resource_List.place={place}").exclusive is exclusive


@pytest.mark.parametrize(("select", "cpus"), [("2:ncpus=8", 8), ("2:ncpus=8+1:ncpus=4", 1)])
def test_cpus_of_a_chunk_stay_together(select, cpus):
    assert asked(f"Resource_List.select={select}").cpus_per_task == cpus


def test_a_record_of_processors_alone_tells_nothing():
    assert asked("Resource_List.ncpus=4 exec_host=a/0*4") == NOTHING


def test_requests_are_read_and_stored(tmp_path: Path):
    line = "11/21/2026 00:21:58;E;{}.host;user=u queue=q ctime=100 start=110 end=170 {}"
    asks = (
        "Resource_List.ncpus=2",
        "Resource_List.select=2:ncpus=4:mem=1gb Resource_List.ncpus=8 exec_host=a/0*4+b/0*4",
    )
    lines = [line.format(number, words) for number, words in enumerate(asks)]
    (tmp_path / "day").write_text("\n".join(lines) + "\n")
    convert([tmp_path / "day"], tmp_path / "day.parquet")
    directly, stored = (read_log(tmp_path / name)[0] for name in ("day", "day.parquet"))
    assert directly.requests is not None
    np.testing.assert_array_equal(directly.requests.total, [[2, 0, 0], [8, 2048, 0]])
    assert directly.requests.nodes.tolist() == [0, 2]
    assert {name: str(value) for name, value in told(directly).items()} == {
        name: str(value) for name, value in told(stored).items()
    }
