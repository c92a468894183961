"""The log of a service tells the time of each line, but where the journal does."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime

import pytest

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
