"""The reader is picked by content."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
