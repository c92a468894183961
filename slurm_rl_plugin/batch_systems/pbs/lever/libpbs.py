"""libpbs, asked in a child that lives for one question and is killed when its time is over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.command_process import start_python
from slurm_rl_plugin.batch_systems.pbs.process import PbsCommands, failure, parse_json
from slurm_rl_plugin.errors import BatchSystemUnavailable

PROGRAM = Path(__file__).with_name("libpbs_program.py")


class PbsLibrary:
    """Asks the program of the child, `libpbs_program.py`."""

    def __init__(self, commands: PbsCommands, path: Path) -> None:
        self._commands = commands
        self._path = path

    def ask(self, question: Mapping[str, Any], *, extra: float = 0.0) -> dict[str, Any]:
        """The child's answer, which may come `extra` seconds later than a command's.

        Raises:
            BatchSystemUnavailable: no answer in time, or the server was not reached.
            BatchSystemError: the library cannot be used, or the server refused the whole question.
        """
        answer = self._commands.call(
            [str(PROGRAM)],
            stdin=json.dumps({"library": str(self._path), **question}),
            extra=extra,
            name="libpbs",
            start=start_python,
        )
        if answer.status:
            said = answer.errors.strip().splitlines()
            raise failure("libpbs", said[-1] if said else f"exit status {answer.status}")
        told = parse_json("libpbs", answer.output)
        if "failed" not in told:
            return told
        if told.get("reached"):
            raise failure("libpbs", str(told["failed"]))
        raise BatchSystemUnavailable(f"{told['failed']}; check pbs_server with `qstat -B`")


def installed_library(commands: PbsCommands) -> PbsLibrary | None:
    """The libpbs of the installation that pbs.conf names; None where it has none."""
    path = Path(commands.conf.get("PBS_EXEC", "/opt/pbs"), "lib", "libpbs.so")
    return PbsLibrary(commands, path) if path.exists() else None
