"""The one contract of every accounting reader, run on each reader and form of input."""

import gzip
import hashlib
from dataclasses import dataclass, fields, replace
from pathlib import Path

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

LOGS = Path(__file__).parents[1] / "assets" / "accounting_logs"


@dataclass(frozen=True)
class Case:
    reader: type[AccountingReader]
    name: str
    starts: list[float]

    @property
    def text(self) -> str:
        return (LOGS / f"{self.name}.txt").read_text()


CASES = {
    "swf": Case(SwfReader, "swf", [np.nan, 210.0]),
    "sacct with a header": Case(SacctReader, "sacct", [110.0, 210.0]),
    "sacct as XDMoD asks": Case(SacctReader, "xdmod", [110.0, 210.0]),
    "sbatch": Case(SbatchReader, "sbatch", [np.nan, np.nan]),
    "pbs": Case(PbsReader, "pbs", [110.0, 210.0]),
    "f-data": Case(PublishedReader, "f-data", [110.0, 210.0]),
    "torque": Case(PbsReader, "torque", [110.0, 210.0]),
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


FORMS = {
    "a copy": bytes,
    "gzip, known by content": gzip.compress,
    "Windows": lambda content: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_form_of_a_file_changes_no_job(case, path, tmp_path, form):
    other = tmp_path / "no-suffix"
    other.write_bytes(form(path.read_bytes()))
    (log, report), (again, report_again) = case.reader().read(path), case.reader().read(other)
    assert columns(log) == columns(again)
    checksum = hashlib.sha256(other.read_bytes()).hexdigest()
    assert report_again == replace(report, checksum=checksum)


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
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(case, tmp_path, kind, words):
    path = faulty_file(tmp_path, kind, case.text)
    with pytest.raises(AccountingLogError, match=words) as caught:
        case.reader().read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
