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
