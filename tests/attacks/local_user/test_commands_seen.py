"""Attacker: a user of the head node, who sees the arguments of every command that we run.

`squeue` and `sacct` print a job's name as its user wrote it, line breaks included. A mark shows
where a record begins; a user who knows it before Slurm answers renames a job to something that
reads like the record of another.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS
from slurm_rl_plugin.accounting.sacct.reader import SacctReader
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QUEUE_FIELDS
from slurm_rl_plugin.batch_systems.slurm.own_accounting import Stretch, read_accounting_dump
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue
from tests.attacks.another_user import STRANGER, meanwhile, needs_root
from tests.fakes.ended_jobs import ended_job

pytestmark = needs_root
MARK = re.compile(rb"JobID:\|([^|,]+)\|")
#: Of `sacct`: in the variable, or as a delimiter in the arguments.
MARK_OF_TIMES = re.compile(rb"(?:SLURM_TIME_FORMAT=|--delimiter=)([0-9a-f:]{8,})")
#: Of each field but the job's number, the array's and the name; the others say N/A.
PLAIN = {
    "State": "PENDING",
    "Reason": "None",
    "PriorityLong": "100",
    "Nice": "0",
    "NumCPUs": "4",
    "SubmitTime": "1700000000",
    "EligibleTime": "1700000000",
    "TimeLimit": "1:00",
    "Account": "physics",
    "UserName": "alice",
    "Partition": "batch",
    "QOS": "normal",
    "BatchFlag": "1",
    "NodeList": "",
}
#: Of the attacker's own job and of the one that it forges: all but number, mark and name.
REST = "|".join(["{0}", *(PLAIN.get(name, "N/A") for name in QUEUE_FIELDS[2:-1]), ""])
#: A squeue that answers once the job has its new name, as under load, or after two seconds.
SLOW_SQUEUE = """#!/usr/bin/env -S python3 -S -E
import os, re, sys, time
words = sys.argv
form = words[words.index("-O") + 1] if "-O" in words else os.environ["SQUEUE_FORMAT2"]
mark = re.match(r"JobID:\\|([^|,]+)\\|", form)[1]
deadline = time.time() + 2
while not os.path.exists("{name}") and time.time() < deadline:
    time.sleep(0.02)
name = open("{name}").read() if os.path.exists("{name}") else "honest"
sys.stdout.write("5|" + mark + "|{rest}" + name + "\\n")
"""


#: The same for `sacct`; the job of the attacker's name is asked for as Slurm does, once.
SLOW_SACCT = """#!/usr/bin/env -S python3 -S -E
import os, sys, time
form = os.environ["SLURM_TIME_FORMAT"]
deadline = time.time() + 2
while not os.path.exists("{name}") and time.time() < deadline:
    time.sleep(0.02)
name = open("{name}").read() if os.path.exists("{name}") else "honest"
row = "{row}".replace("MARK", form.removesuffix("%s")).replace("NAME", name)
sys.stdout.write("{header}\\n" + row + "\\n")
"""


def record_of_sacct(number: int, mark: str, name: str) -> str:
    job = ended_job(number, 1_700_000_000, JobName=name)
    times = {each: f"{mark}{job[each]}" for each in ("Submit", "Eligible", "Start", "End")}
    return "|".join(str((job | times)[each]) for each in SACCT_FIELDS)


def rename_with_the_mark(name: Path) -> None:
    """What the attacker does: wait for a command, read its mark, give a job a name that forges."""
    for _ in range(150):
        for process in Path("/proc").glob("[0-9]*"):
            for file in ("cmdline", "environ"):
                try:
                    seen = (process / file).read_bytes()
                except OSError:
                    continue
                if found := MARK.search(seen):
                    mark = found[1].decode()
                    name.write_text(f"x\n77|{mark}|{REST.format(77)}forged")
                    return
                if found := MARK_OF_TIMES.search(seen):
                    name.write_text("x\n" + record_of_sacct(77, found[1].decode(), "forged"))
                    return
        time.sleep(0.01)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the attacker may write into, as he may rename his own jobs."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


@contextmanager
def attacked(folder: Path, command: str, script: str, **words: str) -> Iterator[CommandRunner]:
    """Runs the slow command while a process of another user waits for it."""
    path = folder / command
    path.write_text(script.format(name=folder / "name", **words))
    path.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}

    def attack() -> None:
        target = rename_with_the_mark
        threading.Thread(target=target, args=(folder / "name",), daemon=True).start()

    with meanwhile(STRANGER, attack):
        yield CommandRunner(environment=environment, timeout=20.0)


def test_nobody_forges_a_record_with_the_mark_of_a_squeue_that_runs(folder: Path) -> None:
    with attacked(folder, "squeue", SLOW_SQUEUE, rest=REST.format(5)) as runner:
        rows = Squeue(runner).waiting()
    assert [row.job_id for row in rows] == [5]


def test_nobody_forges_a_record_with_the_mark_of_a_sacct_that_runs(folder: Path) -> None:
    row, header = record_of_sacct(5, "MARK", "NAME"), "|".join(SACCT_FIELDS)
    day = Stretch(begin=datetime(2023, 11, 14), end=datetime(2023, 11, 15))
    with attacked(folder, "sacct", SLOW_SACCT, row=row, header=header) as runner:
        dump = read_accounting_dump(runner, [day], lambda _done, _lines: None)
    log, report = SacctReader().read(LogFile(Path("sacct"), dump.text.encode()))
    assert (log.job_id.tolist(), report.noticed) == ([5], {})
