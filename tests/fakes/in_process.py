"""Runs fake commands in the process of the test: nothing starts a Python for each of them.

A hanging fake, and a program of the package, still run as a child process.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from slurm_rl_plugin.batch_systems.command_process import Answer, KillableCommands

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # as the programs in `bin` import them
import fake_pbs  # noqa: E402
import fake_slurm  # noqa: E402

FAKES = (("FAKE_SLURM_STATE", "bin", fake_slurm), ("FAKE_PBS_STATE", "pbs_bin", fake_pbs))
#: Modes in which a command takes its time.
SLOW = frozenset({"hang", "busy"})
_as_child = KillableCommands.call
_one_at_a_time = threading.Lock()


def run_fakes_in_process() -> None:
    """From now on every call of a fake command is made here."""
    KillableCommands.call = call  # type: ignore[method-assign]


def call(self: KillableCommands, arguments: Sequence[str], **more: Any) -> Answer:
    """As `KillableCommands.call`."""
    environment = {**self.environment, **(more.get("variables") or {})}
    fake = _fake_of(arguments[0], environment) if more.get("start") is None else None
    if fake is None:
        return _as_child(self, arguments, **more)
    with self.timed(more.get("name") or arguments[0]), _one_at_a_time:
        return _answer(fake, arguments, environment, more.get("stdin", ""))


def _fake_of(command: str, environment: dict[str, str]) -> ModuleType | None:
    for variable, folder, module in FAKES:
        if variable in environment and command in module.COMMANDS:
            found = shutil.which(command, path=environment["PATH"])
            if found is None or Path(found).parent.resolve() != HERE / folder:
                return None
            modes = json.loads(Path(environment[variable]).read_text())["modes"]
            return module if modes.get(command) not in SLOW else None
    return None


def _answer(
    fake: ModuleType, arguments: Sequence[str], environment: dict[str, str], stdin: str
) -> Answer:
    output, errors = io.StringIO(), io.StringIO()
    seen = SimpleNamespace(
        argv=list(arguments), stdin=io.StringIO(stdin), stdout=output, stderr=errors
    )
    here = SimpleNamespace(**{**vars(os), "environ": environment})
    clock = SimpleNamespace(**{**vars(time), "ctime": lambda at: time.asctime(time.gmtime(at))})
    fake.sys, fake.os, fake.time = seen, here, clock  # type: ignore[attr-defined]
    try:
        status = fake.main(arguments[0])
    except SystemExit as error:
        status = 1
        errors.write(f"{error}\n")
    return Answer(status=status, output=_printed(output), errors=_printed(errors))


def _printed(stream: io.StringIO) -> str:
    return stream.getvalue().encode("utf-8", "surrogateescape").decode(errors="replace")
