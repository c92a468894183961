"""The reader is picked by content."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import AccountingLogError

ROW = "1 100 5 60 2 -1 -1 2 600 -1 1 7 1 -1 2 -1 -1 -1\n"
PBS = (
    "01/01/1970 00:02:45;E;1.host;user=u group=g queue=q ctime=100 start=105 end=165 "
    "exec_vnode=(n:ncpus=2) Resource_List.ncpus=2\n"
)
EVENT = "-dt 100 -e submit_batch_job | -sim-walltime 60 --uid=u -n 2 job.sh\n"
HEADER = "JobIDRaw|Submit|Start|ElapsedRaw|NCPUS\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("; Computer: x\n" + ROW, "swf"),
        (ROW, "swf"),
        ("\n\n" + ROW, "swf"),
        (HEADER + "1|100|105|60|2\n", "sacct"),
        ("\n" + HEADER + "1|100|105|60|2\n", "sacct"),
        (PBS, "pbs"),
        (EVENT, "sbatch"),
        ("\n20150327:" + PBS, "pbs"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_content_picks_the_reader_whatever_the_name_says(tmp_path, text, kind, pack):
    path = tmp_path / "log.csv"
    path.write_bytes(pack(text.encode()))
    log, report = read_log(path)
    assert log.kind == kind
    assert (report.kept, log.submit.tolist(), log.run_time.tolist()) == (1, [100.0], [60.0])


@pytest.mark.parametrize(
    "text",
    [
        "hello\n",
        "a,b,c\n1,2,3\n",
        '{"jobs": []}\n',
        "2024 was a year\n",
    ],
)
def test_an_unknown_format_is_refused_naming_what_is_known(tmp_path, text):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(AccountingLogError, match=r"neither .* SWF, nor .*sacct -P`, nor .* PBS"):
        read_log(path)


@pytest.mark.parametrize("text", [ROW.replace(" 7 ", " x "), ROW[:-4] + "\n"])
def test_a_faulty_first_row_of_swf_is_named_rather_than_unknown(tmp_path, text):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(AccountingLogError, match=r"field 12 \(user\)|17 columns") as caught:
        read_log(path)
    assert caught.value.line == 1


PIECES = st.sampled_from(
    ["|", "\n", " ", ";", "-", ".", "1", "2024-01-01T00:00:00", "Unknown", "COMPLETED", "00:01:00"]
)
NOISE = st.lists(PIECES | st.text(max_size=3), max_size=60).map("".join)
BEGINNINGS = st.sampled_from(
    ["", ROW, HEADER, "; MaxProcs: 4\n", HEADER + "1|100|105|60|2\n", PBS, EVENT]
)


@given(beginning=BEGINNINGS, noise=NOISE)
def test_no_text_crashes_and_every_record_is_accounted_for(tmp_path_factory, beginning, noise):
    path = tmp_path_factory.getbasetemp() / "noise"
    path.write_text(beginning + noise, encoding="utf-8", errors="replace")
    try:
        log, report = read_log(path)
    except AccountingLogError:
        return
    assert report.read == report.kept + sum(report.dropped.values()) > 0
    assert report.kept == len(log)
    assert (log.run_time > 0).all()
    assert (log.processors > 0).all()
    assert not (log.start < log.submit).any()


@given(st.binary(max_size=200))
def test_no_bytes_crash(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content)
    try:
        _, report = read_log(path)
    except AccountingLogError:
        return
    assert report.read > 0


@contextmanager
def piped(content: bytes) -> Iterator[Path]:
    """What a shell gives for `<(cat FILE)`."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    yield Path(f"/dev/fd/{reading}")
    os.close(reading)


LONG_SWF = "".join(f"{n} {n} 5 60 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 -1 -1\n" for n in range(1, 1000))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_nothing_of_a_log_in_a_pipe_is_lost(pack):
    """To look what it is takes the beginning of it away."""
    with piped(pack(LONG_SWF.encode())) as path:
        log, report = read_log(path)
    assert log.job_id.tolist() == list(range(1, 1000))
    assert report.read == 999


def test_what_is_read_more_than_once_is_no_pipe(tmp_path):
    with piped(LONG_SWF.encode()) as path, pytest.raises(AccountingLogError, match="is a pipe;"):
        convert([path], tmp_path / "log.parquet")
    assert list(tmp_path.iterdir()) == []
