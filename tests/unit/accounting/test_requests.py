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
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.accounting.slurm.resources import parse_memory, parse_tres, requested
from slurm_rl_plugin.domain.resources import ResourceRequests

FIRST = "JobIDRaw|Submit|Start|ElapsedRaw|NCPUS"
ROW = "1|100|110|60|8"


def asked(folder: Path, *more: tuple[str, str]) -> ResourceRequests:
    header = "|".join([FIRST, *(name for name, _ in more)])
    row = "|".join([ROW, *(value for _, value in more)])
    (folder / "dump").write_text(f"{header}\n{row}\n")
    requests = SacctReader().read(folder / "dump")[0].requests
    assert requests is not None
    return requests


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


def test_a_dump_without_tres_tells_of_processors_alone(tmp_path):
    (tmp_path / "dump").write_text(f"{FIRST}|NNodes\n{ROW}|2\n")
    assert SacctReader().read(tmp_path / "dump")[0].requests is None


@pytest.mark.parametrize(
    ("more", "total", "nodes"),
    [
        ([("ReqTRES", "cpu=4,mem=8G,node=1"), ("NNodes", "2")], [4, 8192, 0], 2),
        ([("ReqTRES", "cpu=4,mem=8G,node=3")], [4, 8192, 0], 3),
        ([("ReqTRES", "cpu=4"), ("NNodes", "1.5K")], [4, 0, 0], 1500),
        ([("ReqTRES", ""), ("AllocTRES", "cpu=8,mem=1G,gres/gpu=2")], [8, 1024, 2], 0),
        ([("ReqTRES", ""), ("NNodes", "")], [8, 0, 0], 0),
        ([("ReqMem", "4Gn"), ("NNodes", "2")], [8, 8192, 0], 2),
        ([("ReqMem", "2Gc")], [8, 16384, 0], 0),
        ([("ReqTRES", "cpu=4"), ("ReqMem", "2Gc")], [4, 8192, 0], 0),
        ([("ReqTRES", "cpu=4,mem=5G"), ("ReqMem", "2Gc")], [4, 5120, 0], 0),
        ([("ReqMem", "16G")], [8, 16384, 0], 0),
        ([("ReqMem", "?")], [8, 0, 0], 0),
        # up to Slurm 20.02: ReqGRES of each node, AllocGRES of the job
        ([("ReqGRES", "gpu:2"), ("AllocGRES", "gpu:2"), ("NNodes", "1")], [8, 0, 2], 1),
        ([("ReqGRES", "gpu:2"), ("NNodes", "3")], [8, 0, 6], 3),
        ([("ReqGRES", "gpu:1"), ("AllocGRES", "gpu:2(S:0-1)"), ("NNodes", "2")], [8, 0, 2], 2),
        ([("ReqGRES", ""), ("AllocGRES", "7696487:2")], [8, 0, 2], 0),
        ([("ReqGRES", "none"), ("AllocGRES", "(null)")], [8, 0, 0], 0),
        ([("ReqGRES", "gpu:a:b:c"), ("AllocGRES", "gpu:1")], [8, 0, 1], 0),
        ([("ReqTRES", "cpu=4,gres/gpu=3"), ("AllocGRES", "gpu:1")], [4, 0, 3], 0),
        ([("ReqTRES", "cpu=4"), ("ReqMem", "2Gn"), ("ReqGRES", "gpu")], [4, 2048, 1], 0),
        # AccountingStorageTRES without gres/gpu
        (
            [("ReqTRES", "cpu=8,node=2"), ("SubmitLine", "sbatch --gres=gpu:2 'a b' -n1")],
            [8, 0, 4],
            2,
        ),
        ([("ReqTRES", "cpu=8"), ("SubmitLine", "sbatch -c2 --gpus-per-task=1 a")], [8, 0, 4], 0),
        ([("ReqTRES", "cpu=8"), ("SubmitLine", "sbatch a --gres=gpu:2")], [8, 0, 0], 0),
        ([("ReqTRES", "cpu=8,gres/gpu=1"), ("SubmitLine", "sbatch -G 2 a")], [8, 0, 1], 0),
        ([("ReqTRES", "cpu=8"), ("SubmitLine", "sbatch -G 'open a|b")], [8, 0, 0], 0),
    ],
)
def test_what_each_field_tells(tmp_path, more, total, nodes):
    requests = asked(tmp_path, *more)
    np.testing.assert_array_equal(requests.total, [total])
    assert requests.nodes.tolist() == [nodes]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("sbatch -n 2 -c 4 run.sh", (4, False, False)),
        ("/usr/bin/sbatch -p main --cpus-per-task=2 --mem-per-cpu=1G run.sh", (2, True, False)),
        ("srun --cpus-per-task 8 --exclusive=user ./a", (8, False, False)),
        ("sbatch --exclusive run.sh", (1, False, True)),
        ("sbatch -N1 run.sh -c 5", (1, False, False)),
        ("sbatch -c 64 run.sh", (8, False, False)),
        ("", (1, False, False)),
    ],
)
def test_what_the_submit_line_tells(tmp_path, line, found):
    requests = asked(tmp_path, ("ReqTRES", "cpu=8,node=1"), ("SubmitLine", line))
    told_of = (requests.cpus_per_task, requests.memory_per_cpu, requests.exclusive)
    assert tuple(each.item() for each in told_of) == found


@pytest.mark.parametrize(
    ("more", "amounts"),
    [
        ([("ReqGRES", "gpu:v100:1"), ("NNodes", "2")], {"gpus": 2, "gres/gpu:v100": 2}),
        ([("Licenses", "matlab:2,ansys")], {"license/matlab": 2, "license/ansys": 1}),
        ([("Licenses", "(null)")], {}),
        ([("ReqTRES", "cpu=8,license/x=1"), ("Licenses", "y:2")], {"license/x": 1}),
        ([("SubmitLine", "sbatch -L x:2 --gres=shard:1 a")], {"license/x": 2, "gres/shard": 1}),
        ([("SubmitLine", "sbatch --tres-per-task=license/x:2 -n4 a")], {"license/x": 8}),
    ],
)
def test_licences_and_types(tmp_path, more, amounts):
    requests = asked(tmp_path, *more)
    told_of = dict(zip(requests.names, requests.total[0].tolist(), strict=True))
    assert {name: n for name, n in told_of.items() if n and name != "cpus"} == amounts


def test_what_jobs_ask_for_and_nobody_reads_is_noticed(tmp_path):
    rows = [f"{ROW}|cpu=8|maint||x", f"{ROW.replace('1|', '2|', 1)}|cpu=8||4|"]
    head = f"{FIRST}|ReqTRES|Reservation|SegmentSize|MCSLabel"
    (tmp_path / "dump").write_text("\n".join([head, *rows]) + "\n")
    noticed = SacctReader().read(tmp_path / "dump")[1].noticed
    assert noticed == {
        "Reservation is not read": 1,
        "MCSLabel is not read": 1,
        "SegmentSize is not read": 1,
    }


@pytest.mark.parametrize("mark", ["", "0123456789abcdef:"])
def test_constraints_hold_separators(tmp_path, mark):
    row = "T100|c|7|ann|physics|main|normal|T100|T110|T170|60|120|8|2|cpu=8,mem=4G||OK|a|b|T100|run"
    row = (row + "|T100|sbatch a").replace("T1", f"{mark}1")
    (tmp_path / "dump").write_text("|".join(SACCT_FIELDS) + "\n" + row + "\n")
    log, _ = SacctReader().read(tmp_path / "dump")
    assert [log.requests.constraints[each] for each in log.requests.constraint] == ["a|b"]
    assert (log.qos, log.job_name) == (("normal",), ("run",))


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


def test_requests_are_read_from_a_log(tmp_path: Path):
    line = "11/21/2026 00:21:58;E;{}.host;user=u queue=q ctime=100 start=110 end=170 {}"
    asks = (
        "Resource_List.ncpus=2",
        "Resource_List.select=2:ncpus=4:mem=1gb Resource_List.ncpus=8 exec_host=a/0*4+b/0*4",
    )
    lines = [line.format(number, words) for number, words in enumerate(asks)]
    (tmp_path / "day").write_text("\n".join(lines) + "\n")
    requests = read_log(tmp_path / "day")[0].requests
    np.testing.assert_array_equal(requests.total, [[2, 0, 0], [8, 2048, 0]])
    assert requests.nodes.tolist() == [0, 2]
