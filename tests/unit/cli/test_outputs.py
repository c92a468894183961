"""Where results and logs go."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from slurm_rl_plugin.cli.argument_types import make_folder, result_file
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import replacing, write_whole


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disc").mkdir()
    link = tmp_path / "log.parquet"
    link.symlink_to(tmp_path / "disc" / "log.parquet")
    write_whole(result_file("-o", link), "jobs")
    assert link.is_symlink()
    assert (tmp_path / "disc" / "log.parquet").read_text() == "jobs"


def test_no_pipe_and_no_folder_is_taken_for_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, what in (("pipe", "not a plain file"), ("folder", "a folder")):
        with pytest.raises(ConfigurationError, match=f"-o .*{name}: this is {what}"):
            result_file("-o", tmp_path / name)
        with pytest.raises(OSError, match="not a plain file"):
            write_whole(tmp_path / name, "jobs")
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(ConfigurationError, match=r"nowhere/model.onnx: there is no such folder"):
        result_file("-o", tmp_path / "nowhere" / "model.onnx")


def test_a_folder_that_cannot_be_written_to_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for one who is not root
    with pytest.raises(ConfigurationError, match="cannot write to this folder"):
        make_folder("--plot", tmp_path)
    with pytest.raises(ConfigurationError, match="cannot write to the folder"):
        result_file("-o", tmp_path / "tuned.conf")


def test_a_disc_that_is_full_is_told_of_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    with pytest.raises(OSError, match="No space left") as raised, replacing(path):
        raise OSError(28, "No space left on device")
    assert raised.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as raised, replacing(path):
        (tmp_path / "a log").read_bytes()
    assert raised.value.filename == str(tmp_path / "a log")
    assert list(tmp_path.iterdir()) == []


_PROGRAM = """
import logging
from slurm_rl_plugin.cli.service_process import log_to_standard_error
log_to_standard_error(verbose=False)
logging.getLogger("hook").info("cycle=done")
"""


def logged(*, journal: str | None) -> str:
    """The one line of a process whose standard error is a pipe."""
    reading, writing = os.pipe()
    found = os.fstat(writing)
    environ = {key: value for key, value in os.environ.items() if key != "JOURNAL_STREAM"}
    if journal is not None:
        environ["JOURNAL_STREAM"] = journal.format(found=found)
    with os.fdopen(reading) as said:
        subprocess.run([sys.executable, "-c", _PROGRAM], stderr=writing, env=environ, check=True)
        os.close(writing)
        (line,) = said.read().splitlines()
    return line


@pytest.mark.parametrize("journal", [None, "1:1", "nonsense"])
def test_a_file_or_terminal_gets_the_time(journal: str | None) -> None:
    when, _, rest = logged(journal=journal).partition(" ")
    assert abs((datetime.now() - datetime.fromisoformat(when)).total_seconds()) < 60
    assert rest == "INFO hook cycle=done"


def test_the_journal_notes_it_itself() -> None:
    assert logged(journal="{found.st_dev}:{found.st_ino}") == "INFO hook cycle=done"
