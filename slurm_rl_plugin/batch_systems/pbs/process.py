"""PBS's commands as children with a time-out: where they are, and what their failures mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.command_process import KillableCommands, first_line
from slurm_rl_plugin.batch_systems.pbs.answers.json_text import Told, read_json
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable
from slurm_rl_plugin.whole_file import read_whole

#: Words of a command that could not reach the server.
UNREACHABLE = (
    "annot connect to",
    "Connection refused",
    "Communication failure",
    "No default server",
    "Unknown Host",
    "auth: error returned",
    "Munge",
    "Premature end of message",
    "End of File",
)
WHAT_TO_DO = "check pbs_server with `qstat -B`"
#: Bytes that a command may print: `qstat -f` shows a job with its users' environment.
LONGEST_ANSWER = 512 << 20
DEFAULT_CONF, DEFAULT_HOME = "/etc/pbs.conf", "/var/spool/pbs"
QSTAT_JOBS = ("qstat", "-f", "-F", "json")
#: Those that are named, by one question (18.1 and later): without -E qstat connects anew for each,
#: and some hundreds would take longer than a call may.
QSTAT_BY_NAME = (*QSTAT_JOBS, "-E")
#: Told by the users' own environments: never wanted, and none of our business.
PRIVATE = ("Variable_List", "Submit_arguments")


class PbsCommands(KillableCommands):
    """Runs PBS's commands; times in their answers are UTC, since each writes them locally.

    Args:
        environment: variables of the children; None takes this process's own.
        timeout: seconds that a call may take.
        on_call: told the command's name and the seconds it took, after every call.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None,
        timeout: float,
        on_call: Callable[[str, float], None] | None,
    ) -> None:
        base = dict(os.environ if environment is None else environment)
        self.conf = read_pbs_conf(base.get("PBS_CONF_FILE") or DEFAULT_CONF)
        folders = [base.get("PATH", "")]
        if "PBS_EXEC" in self.conf:
            folders += [f"{self.conf['PBS_EXEC']}/{name}" for name in ("bin", "sbin")]
        path = os.pathsep.join(folder for folder in folders if folder)
        super().__init__(
            environment={**base, "PATH": path, "TZ": "UTC", "LC_ALL": "C"},
            timeout=timeout,
            on_call=on_call,
            failure=failure,
            without_answer=WHAT_TO_DO,
            without_command="install PBS's client commands or put them on the PATH",
            longest=LONGEST_ANSWER,
        )

    def read_json(self, arguments: Sequence[str], *, or_nothing: bool = False) -> dict[str, Any]:
        """The JSON document that a command prints.

        Args:
            arguments: of the command.
            or_nothing: some of the jobs asked for may be gone: what there is of others is given.

        Raises:
            BatchSystemUnavailable: no answer in time, or the server cannot be reached.
            BatchSystemError: the command failed in another way, or printed another form.
        """
        answer = self.call(arguments)
        if answer.status and (not or_nothing or _unreachable(answer.errors)):
            raise failure(arguments[0], answer.errors or answer.output)
        if answer.status and not answer.output.lstrip().startswith("{"):
            return {}
        return parse_json(arguments[0], answer.output)


def parse_json(command: str, text: str) -> dict[str, Any]:
    """A document of `-F json`, also where a value in it is none; see `read_json`.

    Raises:
        BatchSystemError: the text has another form.
    """
    try:
        document = read_json(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise not_understood(command, text)
    return document


def section(document: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """The named objects of one section, `Jobs` for example; without what is private to users.

    One that is told of twice is left out: up to PBS 23.06 the name of a variable could pretend to
    be another job, and nobody can tell which of the two is meant.
    """
    found = document.get(name)
    if not isinstance(found, dict):
        return {}
    twice = found.twice if isinstance(found, Told) else frozenset()
    return {
        key: {field: each for field, each in value.items() if field not in PRIVATE}
        for key, value in found.items()
        if isinstance(value, dict) and key not in twice
    }


def read_pbs_conf(path: str) -> dict[str, str]:
    """What pbs.conf says; nothing where it cannot be read."""
    try:
        lines = read_whole(Path(path)).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def failure(command: str, words: str) -> BatchSystemError:
    """Make the error for a command that failed with these words."""
    first = first_line(words)
    if _unreachable(words):
        return BatchSystemUnavailable(f"{command} cannot reach PBS: {first}; {WHAT_TO_DO}")
    return BatchSystemError(f"{command} failed: {first}; run it by hand to see more")


def not_understood(command: str, text: str) -> BatchSystemError:
    """Make the error for an answer of another form than this adapter knows."""
    return BatchSystemError(
        f"{command} gave an answer that is not understood: {text[:200]!r}; "
        "run it by hand, and report it if this release of PBS prints another form"
    )


def _unreachable(words: str) -> bool:
    return any(phrase in words for phrase in UNREACHABLE)
