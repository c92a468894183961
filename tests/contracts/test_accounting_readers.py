"""The one contract of every accounting reader, run on each reader and form of input."""

import gzip
import hashlib
import lzma
from dataclasses import dataclass, fields

import numpy as np
import pytest

from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.pbs.reader import PbsReader
from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.accounting.published.reader import PublishedReader
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.accounting.sbatch.reader import SbatchReader
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.errors import AccountingLogError

SWF = """\
; MaxProcs: 64
3 200 10 50 4 -1 -1 4 600 -1 1 7 1 -1 2 -1 -1 -1
1 100 -1 60 2 -1 -1 2 -1 -1 1 8 2 -1 1 -1 -1 -1
4 300 5 0 2 -1 -1 2 60 -1 0 8 2 -1 1 -1 -1 -1
5 300 5 9 0 -1 -1 2 60 -1 0 8 2 -1 1 -1 -1 -1
"""
SACCT = """\
JobID|JobIDRaw|Submit|Eligible|Start|End|Elapsed|State|NCPUS|Timelimit|Account|User|Partition|JobName
3|3|200|200|210|260|00:00:50|COMPLETED|4|00:10:00|physics|ann|main|a
1|1|100|Unknown|110|170|00:01:00|FAILED|2|UNLIMITED|biology|bob|main|b|c
4|4|300|300|305|305|00:00:00|CANCELLED by 0|2|00:01:00|biology|bob|main|d
5|5|300|300|305|314|00:00:09|COMPLETED|0|00:01:00|biology|bob|main|e
"""
XDMOD = """\
3|3|c|main|n|physics|g||ann|7|200|200|210|260|00:00:50||COMPLETED|1|4|4|1|cpu=4|cpu=4|00:10:00|n1|a
1|1|c|main|n|biology|g||bob|8|100|Unknown|110|170|00:01:00||FAILED|1|2|2|1|cpu=2|cpu=2|UNLIMITED|n1|b|c
4|4|c|main|n|biology|g||bob|8|300|300|305|305|00:00:00||CANCELLED by 0|1|2|2|1|cpu=2||00:01:00|n1|d
5|5|c|main|n|biology|g||bob|8|300|300|305|314|00:00:09||COMPLETED|1|0|0|1|cpu=2||00:01:00|n1|e
"""
PBS = """\
01/01/1970 00:04:20;E;3.s;user=ann group=physics queue=main jobname=a ctime=200 \
qtime=200 etime=200 start=210 exec_vnode=(n1:ncpus=4) \
Resource_List.ncpus=4 Resource_List.walltime=00:10:00 end=260
01/01/1970 00:02:50;E;1.s;user=bob group=g account="biology" queue=main jobname=b ctime=100 \
start=110 exec_vnode=(n1:ncpus=2) Resource_List.ncpus=2 end=170
01/01/1970 00:05:05;E;4.s;user=bob group=biology queue=main ctime=300 etime=300 \
exec_vnode=(n1:ncpus=2) Resource_List.ncpus=2 start=0 end=305
01/01/1970 00:05:14;E;5.s;user=bob group=biology queue=main ctime=300 etime=300 start=305 end=314
"""
TORQUE = """\
01/01/1970 00:04:20;E;3.s;user=ann group=physics jobname=a queue=main ctime=200 \
qtime=200 etime=200 start=210 owner=ann@h exec_host=n1/0+n1/1+n2/0-1 \
Resource_List.neednodes=2:ppn=2 \
Resource_List.nodes=2:ppn=2 Resource_List.walltime=00:10:00 session=9 end=260
01/01/1970 00:02:50;E;1.s;user=bob group=biology jobname=b queue=main ctime=100 qtime=100 \
etime=100 start=110 owner=bob@h exec_host=n1/2+n1/3 session=9 end=170
01/01/1970 00:05:05;E;4.s;user=bob group=biology queue=main ctime=300 start=305 end=305 \
exec_host=n/0
01/01/1970 00:05:14;E;5.s;user=bob group=biology queue=main ctime=300 start=305 end=314
"""
SBATCH = """\
-dt 200 -e submit_batch_job | -sim-walltime 50.00 --uid=ann -J jobid_3 -A physics -N 2 -n 4 \
-t 00:10:00 -q normal -p main --mem=4G job.sh
-e submit_batch_job -dt 100 | --uid=bob -sim-walltime 60 -J jobid_1 -A biology -c2 -p main job.sh
-dt 300 -e submit_batch_job | -sim-walltime 0 --uid=bob -J jobid_4 -n 2 -t 1 -p main job.sh
-dt 300 -e submit_batch_job | -sim-walltime 9 --uid=bob -J jobid_5 -n 0 -t 1 -p main job.sh
"""
F_DATA = """\
jid,usr,adt,sdt,duration,cnumr,nnumr,elpl
jid_3,ann,1970-01-01 00:03:20+00,1970-01-01 00:03:30+00,50,4,1,600
jid_1,bob,1970-01-01 00:01:40+00,1970-01-01 00:01:50+00,60,2,1,
jid_4,bob,1970-01-01 00:05:00+00,1970-01-01 00:05:05+00,0,2,1,60
jid_5,bob,1970-01-01 00:05:00+00,1970-01-01 00:05:05+00,9,0,1,60
"""


@dataclass(frozen=True)
class Case:
    reader: type[AccountingReader]
    text: str
    starts: list[float]


CASES = {
    "swf": Case(SwfReader, SWF, [np.nan, 210.0]),
    "sacct with a header": Case(SacctReader, SACCT, [110.0, 210.0]),
    "sacct as XDMoD asks": Case(SacctReader, XDMOD, [110.0, 210.0]),
    "sbatch": Case(SbatchReader, SBATCH, [np.nan, np.nan]),
    "pbs": Case(PbsReader, PBS, [110.0, 210.0]),
    "f-data": Case(PublishedReader, F_DATA, [110.0, 210.0]),
    "torque": Case(PbsReader, TORQUE, [110.0, 210.0]),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return request.param


@pytest.fixture
def path(case, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(case.text)
    return path


def told(log: JobLog) -> dict[str, object]:
    """Everything a log holds, by name, what jobs ask of nodes too."""
    values = {f.name: getattr(log, f.name) for f in fields(log)}
    requests = values.pop("requests")
    if requests is not None:
        values |= {f"requests.{f.name}": getattr(requests, f.name) for f in fields(requests)}
    return values


def columns(log: JobLog) -> dict[str, list[object]]:
    values = told(log)
    return {
        name: [str(v) for v in value] for name, value in values.items() if hasattr(value, "__len__")
    }


def test_the_jobs_of_every_log_are_the_same_in_submit_order(case, path):
    log, report = case.reader().read(path)
    assert (report.read, report.kept, len(log)) == (4, 2, 2)
    assert report.dropped == {"never ran": 1, "no processors": 1}
    assert report.noticed["submit going backwards"] == 1
    expected = {
        "job_id": np.array([1, 3]),
        "submit": np.array([100.0, 200.0]),
        "eligible": np.array([100.0, 200.0]),
        "start": np.array(case.starts),
        "run_time": np.array([60.0, 50.0]),
        "time_limit": np.array([np.nan, 600.0]),
        "processors": np.array([2, 4]),
    }
    for name, column in expected.items():
        np.testing.assert_array_equal(getattr(log, name), column, err_msg=name, strict=True)
    for name in ("account", "user", "partition"):
        index, names = getattr(log, name), getattr(log, f"{name}s")
        assert index.dtype == np.int64
        assert len(index) == len(log)
        assert len(set(names)) == len(names)
        assert set(index.tolist()) == set(range(len(names)))
    for f in fields(log):
        if f.name not in {"accounts", "users", "partitions", "processors_available", "kind"}:
            column = getattr(log, f.name)
            assert (column is None and f.name == "requests") or len(column) == len(log), f.name


def test_jobs_of_equal_submit_keep_the_order_of_the_log(case, tmp_path):
    path = tmp_path / "log.txt"
    text = case.text.replace("3 200", "3 100").replace("|200|200|", "|100|100|")
    text = text.replace("ctime=200", "ctime=100").replace("-dt 200", "-dt 100")
    path.write_text(text.replace("00:03:20+00", "00:01:40+00"))
    log, _ = case.reader().read(path)
    assert log.submit.tolist() == [100.0, 100.0]
    assert log.job_id.tolist() == [3, 1]


def test_the_same_bytes_give_the_same_table(case, path, tmp_path):
    copy = tmp_path / "copy.swf"
    copy.write_bytes(path.read_bytes())
    (log, report), (again, report_again) = case.reader().read(path), case.reader().read(copy)
    assert columns(log) == columns(again)
    assert report == report_again


def test_gzip_is_told_by_content_and_the_checksum_is_of_the_stored_bytes(case, path, tmp_path):
    packed = tmp_path / "no-suffix"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    (log, report), (unpacked, plain_report) = case.reader().read(packed), case.reader().read(path)
    assert columns(log) == columns(unpacked)
    assert report.checksum == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert plain_report.checksum == hashlib.sha256(path.read_bytes()).hexdigest()


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(case, path, tmp_path):
    windows = tmp_path / "windows.txt"
    windows.write_bytes(b"\xef\xbb\xbf" + case.text.replace("\n", "\r\n").encode())
    assert columns(case.reader().read(windows)[0]) == columns(case.reader().read(path)[0])


def faulty_file(tmp_path, kind, text):
    path = tmp_path / "faulty"
    packed = gzip.compress(text.encode())
    content = {
        "empty": b"",
        "blank": b" \n\n",
        "truncated gzip": packed[:-12],
        "corrupt gzip": packed[:12] + b"\xff" * 8 + packed[20:],
        "empty gzip": gzip.compress(b""),
        "binary": b"\x7fELF\0\0\1\2" + text.encode(),
        "bzip2": b"BZh91AY",
        "xz": lzma.compress(text.encode()),
    }
    if kind == "directory":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(content[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "no such file"),
        ("directory", "is a directory"),
        ("empty", "is empty"),
        ("blank", "is empty"),
        ("empty gzip", "is empty"),
        ("truncated gzip", "truncated"),
        ("corrupt gzip", "corrupt"),
        ("binary", "is binary"),
        ("bzip2", "bzip2"),
        ("xz", "with xz"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(case, tmp_path, kind, words):
    path = faulty_file(tmp_path, kind, case.text)
    with pytest.raises(AccountingLogError, match=words) as caught:
        case.reader().read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
