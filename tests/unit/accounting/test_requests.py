"""Nodes, memory and GPUs in dumps of sacct and records of PBS and Torque."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.pbs.records import NOTHING, PbsRequest, request_of, unread_requests
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.accounting.slurm.resources import parse_memory, parse_tres, requested

FIRST = "JobIDRaw|Submit|Start|ElapsedRaw|NCPUS"
ROW = "1|100|110|60|8"


def test_of_long_submit_lines_nothing_is_kept(tmp_path: Path) -> None:
    line = "sbatch " + "x" * 50_000
    rows = "".join(f"{job}|{job}|{job}|60|8|4Gn|{line}{job}\n" for job in range(1, 301))
    (tmp_path / "dump").write_text(f"{FIRST}|ReqMem|SubmitLine\n{rows}")
    tracemalloc.start()
    try:
        batches = SacctReader().jobs(LogFile(tmp_path / "dump", batch=1 << 20))
        assert sum(len(jobs) for jobs in batches) == 300
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(rows) / 3


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("4000", 4000.0),
        ("4000M", 4000.0),
        ("1.50G", 1536.0),
        ("2T", 2097152.0),
        ("512K", 0.5),
        ("16GB", 16384.0),
        ("1P", 1073741824.0),
    ],
)
def test_sizes_are_exact(text, mib):
    assert parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "G", "4X", "1e3", "-4G", "4 5"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ValueError, match="no size"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("tres", "amounts"),
    [
        ("billing=8,cpu=8,energy=5,mem=32G,node=2", {"cpus": 8, "memory": 32768}),
        ("cpu=2,gres/gpu:a100=4,gres/gpu=4", {"cpus": 2, "gpus": 4, "gres/gpu:a100": 4}),
        ("cpu=2,gres/gpu:a=1,gres/gpu:b=2", {"cpus": 2, "gpus": 3, "gres/gpu:a": 1,
                                            "gres/gpu:b": 2}),
        ("cpu=1,license/matlab=3,gres/shard=2,fs/disk=9", {"cpus": 1, "license/matlab": 3,
                                                          "gres/shard": 2}),
        ("cpu=x,mem,=3", {}),
    ],
)  # fmt: skip
def test_what_tres_ask_of_nodes(tres, amounts):
    assert requested(parse_tres(tres)) == amounts


def test_dumps_of_which_one_tells_no_tres_go_together(tmp_path):
    (tmp_path / "old").write_text(f"{FIRST}\n{ROW}\n")
    row = ROW.replace("100", "200").replace("110", "210")
    (tmp_path / "new").write_text(f"{FIRST}|ReqTRES\n{row}|cpu=4,mem=1G,gres/gpu:a=1\n")
    for batch in (10, 1000):
        convert([tmp_path / "old", tmp_path / "new"], tmp_path / "all.parquet", batch=batch, part=1)
        requests = read_log(tmp_path / "all.parquet")[0].requests
        np.testing.assert_array_equal(requests.total, [[8, 0, 0, 0], [4, 1024, 1, 1]])


def asked_of_pbs(text: str, processors: int = 1) -> PbsRequest:
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
    assert asked_of_pbs(text).resources == resources


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
    assert asked_of_pbs("Resource_List.pmem=2gb", 4).resources == "cpus=4,memory=8192"


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
    assert asked_of_pbs(text).nodes == nodes


@pytest.mark.parametrize(
    ("place", "exclusive"),
    [("free", False), ("excl", True), ("scatter:exclhost", True), ("scatter:shared", False)],
)
def test_who_wants_nodes_for_itself(place, exclusive):
    assert asked_of_pbs(f"Resource_List.place={place}").exclusive is exclusive


@pytest.mark.parametrize(("select", "cpus"), [("2:ncpus=8", 8), ("2:ncpus=8+1:ncpus=4", 1)])
def test_cpus_of_a_chunk_stay_together(select, cpus):
    assert asked_of_pbs(f"Resource_List.select={select}").cpus_per_task == cpus


def test_a_record_of_processors_alone_tells_nothing():
    assert asked_of_pbs("Resource_List.ncpus=4 exec_host=a/0*4") == NOTHING
